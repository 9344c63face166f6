//! One Lease: its elector, and what this node may carry by it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::node_watch::Campaign;
use super::output::{Batch, Places};
use super::{Assignment, Call};
use super::{LeaseState, Report as OfLease};
use crate::action::{Action as OfElector, Report, Why};
use crate::elector::{Elector, Urgency};
use crate::event::{Event as ForElector, Moment, Node};
use crate::health::Verdict;
use crate::rules::Rules;
use crate::time::Time;
use crate::witness;

/// A Lease, and what this node may carry by it.
#[derive(Debug)]
pub(super) struct LeaseSlot {
    rules: Rules,
    elector: Option<Elector>,
    assignment: Assignment,
    /// The VIPs that the elector has. The elector itself may hold some of them back.
    given: BTreeSet<IpAddr>,
    /// The elector hands over, and then ends.
    leaving: bool,
    /// The current node; None: start nothing new.
    node: Option<Node>,
    /// The probes of a window that opens in this step: they count for the limit of frames already.
    counted: Vec<witness::Probe>,
}

impl LeaseSlot {
    pub(super) fn new(rules: &Rules) -> Self {
        Self {
            rules: Rules { quorum: rules.quorum.of_services(), ..rules.clone() },
            elector: None,
            assignment: Assignment::default(),
            given: BTreeSet::new(),
            leaving: false,
            node: None,
            counted: vec![],
        }
    }

    /// Takes from the elector the VIPs that the assignment no longer has. None: nobody is to have the Lease any more.
    pub(super) fn take_away(&mut self, at: Moment, name: &str, assignment: Option<&Assignment>, batch: &mut Batch) {
        let unwanted = assignment.is_none();
        let assignment = assignment.cloned().unwrap_or_default();
        let stays: BTreeSet<IpAddr> =
            self.given.iter().copied().filter(|address| assignment.vips.contains_key(address)).collect();
        if stays != self.given {
            self.give_these(at, name, stays, batch);
        }
        if !assignment.campaigns || assignment.vips.is_empty() {
            self.assignment = assignment;
            self.node = None;
            self.leave(at, name, unwanted, batch);
        }
    }

    /// Gives the elector its VIPs. `begin`: the node, and the left-overs of an earlier run; None: start nothing new.
    pub(super) fn give(
        &mut self,
        at: Moment,
        name: &str,
        assignment: Assignment,
        begin: Option<(Node, &[IpAddr])>,
        batch: &mut Batch,
    ) {
        let before = std::mem::replace(&mut self.assignment, assignment);
        if !self.assignment.campaigns || self.assignment.vips.is_empty() {
            return;
        }
        let Some((node, left_over)) = begin else { return };
        let changed = self.node.as_ref() != Some(&node);
        self.node = Some(node.clone());
        if self.elector.is_none() {
            self.begin(at, name, left_over, batch);
            return;
        }
        if changed {
            self.step(at, name, ForElector::Node(node), batch);
        }
        if self.leaving {
            // The elector restarts when it has handed over.
            return;
        }
        // Those that this node no longer has were taken away before.
        if self.assignment.vips.len() > self.given.len() {
            self.give_these(at, name, self.assignment.vips.keys().copied().collect(), batch);
        }
        if before.unheard != self.assignment.unheard {
            self.step(at, name, ForElector::Unheard(self.assignment.unheard.clone()), batch);
        }
        if before.up != self.assignment.up {
            self.step(at, name, ForElector::Link { up: self.assignment.up }, batch);
        }
    }

    fn begin(&mut self, at: Moment, name: &str, left_over: &[IpAddr], batch: &mut Batch) {
        let Some(node) = self.node.clone() else { return };
        self.elector = Some(Elector::new(self.rules.clone()).in_turn());
        self.leaving = false;
        self.given.clear();
        self.step(at, name, ForElector::Node(node), batch);
        self.give_these(at, name, self.assignment.vips.keys().copied().collect(), batch);
        self.adopt(at, name, left_over, batch);
        self.step(at, name, ForElector::Unheard(self.assignment.unheard.clone()), batch);
        self.step(at, name, ForElector::Link { up: self.assignment.up }, batch);
        // A kube-vip knows no health of a Service either: who may have it is said by its assignment.
        self.step(at, name, ForElector::Health(Verdict::Healthy), batch);
    }

    /// Tells the elector which of its VIPs an earlier run left. An elector that carries them, or hands over, needs none.
    pub(super) fn adopt(&mut self, at: Moment, name: &str, left_over: &[IpAddr], batch: &mut Batch) {
        if self.leaving || self.is_carrying() {
            return;
        }
        let found: Vec<IpAddr> = left_over.iter().copied().filter(|address| self.given.contains(address)).collect();
        if !found.is_empty() {
            self.step(at, name, ForElector::LeftOver(found), batch);
        }
    }

    fn leave(&mut self, at: Moment, name: &str, unwanted: bool, batch: &mut Batch) {
        if self.elector.is_some() && !std::mem::replace(&mut self.leaving, true) {
            self.step(at, name, ForElector::Withdraw { unwanted }, batch);
        }
    }

    /// Passes an event to the elector.
    pub(super) fn step(&mut self, at: Moment, name: &str, event: ForElector, batch: &mut Batch) {
        match &event {
            ForElector::Node(node) if self.node.is_some() => self.node = Some(node.clone()),
            // The process ends: this applies to all Leases.
            ForElector::Shutdown => {
                self.leaving = true;
                self.node = None;
            }
            _ => {}
        }
        let Some(elector) = &mut self.elector else { return };
        let actions = elector.step(at, event);
        self.act(name, actions, batch);
    }

    fn act(&mut self, name: &str, actions: Vec<OfElector>, batch: &mut Batch) {
        let mut dropped = None;
        for action in actions {
            match action {
                OfElector::Carry { address, deadline } => batch.carry(address, deadline),
                OfElector::Drop { address } => {
                    dropped = Some(address);
                    batch.drop(address);
                }
                OfElector::Announce { address } => batch.announce(address),
                OfElector::Probe { address, to: None, sender } if self.is_carrying() && self.is_given(address) => {
                    batch.ask(address, sender);
                }
                // Whether another node is there.
                OfElector::Probe { address, to, sender }
                    if self.counted.is_empty() && !self.given.contains(&address) && !self.asks_beside(address) =>
                {
                    batch.ask_peer(witness::Probe { address, to, sender });
                }
                OfElector::Probe { address, to, sender } => {
                    let probe = witness::Probe { address, to, sender };
                    let is_counted = self.counted.contains(&probe);
                    if is_counted { batch.probe_counted(probe) } else { batch.probe(probe) }
                }
                // The Lease had no VIP any more.
                OfElector::Report(Report::LetGo(Why::NotWanted)) if dropped.is_none() => {}
                OfElector::Report(what) => {
                    let vips = match &what {
                        Report::LetGo(Why::NotWanted) => dropped.into_iter().collect(),
                        Report::ForeignOwner { address, .. } => vec![*address],
                        _ => self.given().collect(),
                    };
                    batch.report(OfLease { name: name.to_owned(), vips, what });
                }
                OfElector::Exit => {
                    self.elector = None;
                    self.given.clear();
                }
                action @ (OfElector::Read { .. } | OfElector::Write { .. } | OfElector::AskPeers { .. }) => {
                    batch.call(Call { name: name.to_owned(), action });
                }
            }
        }
    }

    /// Sets the elector's VIPs from now on.
    fn give_these(&mut self, at: Moment, name: &str, these: BTreeSet<IpAddr>, batch: &mut Batch) {
        self.given = these;
        let these = self.given.iter().copied().collect();
        self.step(at, name, ForElector::Vips(these), batch);
    }

    /// Does what is due.
    pub(super) fn advance(&mut self, at: Moment, name: &str, batch: &mut Batch) {
        if self.elector.as_ref().and_then(Elector::wake).is_some_and(|wake| wake <= at.now) {
            self.step(at, name, ForElector::Tick, batch);
        }
        if self.elector.is_none() && self.leaving {
            self.begin(at, name, &[], batch);
        }
    }

    /// How much its window matters that waits for its turn, if one does.
    pub(super) fn waits_for_turn(&self) -> Option<Urgency> {
        self.elector.as_ref()?.waits_for_turn()
    }

    /// What its next window asks.
    pub(super) fn window(&self) -> Vec<witness::Probe> {
        self.elector.as_ref().map(Elector::window).unwrap_or_default()
    }

    /// What third parties are to be asked now, whatever its VIPs do: whether they answer.
    pub(super) fn question(&self, now: Time) -> Vec<witness::Probe> {
        self.elector.as_ref().map(|elector| elector.question(now)).unwrap_or_default()
    }

    /// Its window opens. `window`: what leaves, and counts for the limit of frames already.
    pub(super) fn open(&mut self, at: Moment, name: &str, window: Vec<witness::Probe>, batch: &mut Batch) {
        self.counted = window;
        self.step(at, name, ForElector::Turn, batch);
        self.counted.clear();
    }

    pub(super) fn wake(&self) -> Option<Time> {
        self.elector.as_ref().and_then(Elector::wake)
    }

    /// Whether the slot is empty.
    pub(super) fn is_over(&self) -> bool {
        self.elector.is_none() && (self.assignment.vips.is_empty() || self.node.is_none() && !self.assignment.campaigns)
    }

    pub(super) const fn campaigns(&self) -> bool {
        self.elector.is_some()
    }

    pub(super) fn is_carrying(&self) -> bool {
        self.elector.as_ref().is_some_and(Elector::is_carrying)
    }

    pub(super) fn is_holding(&self) -> bool {
        self.elector.as_ref().is_some_and(Elector::is_holding)
    }

    pub(super) fn holder(&self) -> &str {
        self.elector.as_ref().map_or("", Elector::holder)
    }

    /// How many of its VIPs are those of another program (kube-vip) that has the Lease.
    pub(super) fn of_other_program(&self, now: Time) -> usize {
        let is_other = self.elector.as_ref().is_some_and(|elector| elector.is_held_by_other_program(now));
        if is_other { self.given.len() } else { 0 }
    }

    /// The VIPs that the elector has and does not hold back.
    pub(super) fn given(&self) -> impl Iterator<Item = IpAddr> {
        self.given.iter().copied().filter(|address| self.is_given(*address))
    }

    /// The VIPs that are on this node because it holds the Lease.
    pub(super) fn held(&self) -> impl Iterator<Item = IpAddr> {
        self.put().filter(|_| self.is_holding())
    }

    /// The VIPs that are on this node's interfaces, for whatever reason.
    pub(super) fn put(&self) -> impl Iterator<Item = IpAddr> {
        let is_put = |address: &IpAddr| self.elector.as_ref().is_some_and(|elector| elector.is_put(*address));
        self.given().filter(move |address| self.is_carrying() && is_put(address))
    }

    fn is_given(&self, address: IpAddr) -> bool {
        self.given.contains(&address) && !self.elector.as_ref().is_some_and(|elector| elector.is_held_back(address))
    }

    /// What a node that watches holders needs to know; None: this node does not campaign, or the VIPs are on several interfaces.
    pub(super) fn campaign<'a>(&'a self, name: &'a str) -> Option<Campaign<'a>> {
        let lease = self.elector.as_ref()?.lease()?;
        let mut interfaces = self.assignment.vips.values().copied();
        let interface = interfaces.next()?;
        interfaces.all(|other| other == interface).then_some(Campaign { name, lease, interface })
    }

    /// Whether the holder's node was found silent, and the VIPs are probed for that.
    pub(super) fn is_suspecting(&self) -> bool {
        self.elector.as_ref().is_some_and(Elector::is_suspecting)
    }

    /// Whether that address is a third party's, which is asked beside a VIP.
    fn asks_beside(&self, address: IpAddr) -> bool {
        self.elector.as_ref().is_some_and(|elector| elector.asks_beside(address))
    }

    /// The interfaces of its VIPs.
    pub(super) fn interfaces(&self) -> impl Iterator<Item = u32> {
        self.assignment.vips.values().copied()
    }

    /// Whether the VIPs that its elector asks for, or all while it asks for none, have one on that interface.
    pub(super) fn asks_on(&self, places: &Places, interface: u32) -> bool {
        let asked = self.elector.as_ref().map(Elector::asked).unwrap_or_default();
        let mut asked = asked.iter().filter_map(|address| places.of_vip(*address)).peekable();
        if asked.peek().is_some() {
            asked.any(|one| one == interface)
        } else {
            self.interfaces().any(|one| one == interface)
        }
    }

    pub(super) fn waits_for_parties(&self) -> bool {
        self.elector.as_ref().is_some_and(Elector::waits_for_parties)
    }

    pub(super) fn version(&self) -> Option<&str> {
        self.elector.as_ref()?.version()
    }

    pub(super) fn listens_for(&self) -> BTreeSet<IpAddr> {
        self.elector.as_ref().map(Elector::listens_for).unwrap_or_default()
    }

    pub(super) fn state(&self, name: &str) -> LeaseState {
        LeaseState {
            name: name.to_owned(),
            elector: self.elector.as_ref().map(Elector::snapshot),
            held_back: self.elector.iter().flat_map(Elector::held_back).collect(),
        }
    }
}
