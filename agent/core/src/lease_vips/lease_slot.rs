//! One Lease: its elector, and the VIPs that the elector does not have yet.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::look::{Found, Look};
use super::output::Batch;
use super::{Assignment, Call};
use super::{LeaseState, Report as OfLease};
use crate::action::{Action as OfElector, Report, Why};
use crate::elector::Elector;
use crate::event::{Event as ForElector, Moment, Node};
use crate::health::Verdict;
use crate::mac::Mac;
use crate::rules::Rules;
use crate::time::Time;

/// A host that goes on answering for this long is a foreign owner, and not a node that is just releasing the VIP.
const GOES_ON: Duration = Duration::from_millis(900);
/// A host that was not heard for this long has released the VIP.
const LET_GO: Duration = Duration::from_secs(3);
/// Answers for several VIPs come within this time.
const TOGETHER: Duration = Duration::from_millis(150);
/// How often a foreign owner is reported.
const TOLD_AGAIN: Duration = Duration::from_secs(10);

/// A Lease, and what this node may carry by it.
#[derive(Debug)]
pub(super) struct LeaseSlot {
    rules: Rules,
    elector: Option<Elector>,
    assignment: Assignment,
    /// The VIPs that the elector has.
    given: BTreeSet<IpAddr>,
    held_back: BTreeMap<IpAddr, Look>,
    /// The hosts heard with VIPs that this node is about to take.
    heard: BTreeMap<IpAddr, Heard>,
    own: Vec<Mac>,
    /// The elector hands over, and then ends.
    leaving: bool,
    /// The current node; None: start nothing new.
    node: Option<Node>,
}

/// Another host answers for a VIP.
#[derive(Debug)]
struct Heard {
    mac: Mac,
    first: Time,
    last: Time,
    /// When the host had answered for too long.
    foreign: Option<Time>,
    told: Option<Time>,
}

impl LeaseSlot {
    pub(super) fn new(rules: &Rules) -> Self {
        Self {
            rules: Rules { quorum: rules.quorum.of_services(), ..rules.clone() },
            elector: None,
            assignment: Assignment::default(),
            given: BTreeSet::new(),
            held_back: BTreeMap::new(),
            heard: BTreeMap::new(),
            own: vec![],
            leaving: false,
            node: None,
        }
    }

    /// Takes from the elector the VIPs that the assignment no longer has.
    pub(super) fn take_away(&mut self, at: Moment, name: &str, assignment: &Assignment, batch: &mut Batch) {
        self.held_back.retain(|address, _| assignment.vips.contains_key(address));
        self.heard.retain(|address, _| assignment.vips.contains_key(address));
        let stays: BTreeSet<IpAddr> =
            self.given.iter().copied().filter(|address| assignment.vips.contains_key(address)).collect();
        if stays != self.given {
            self.give_these(at, name, stays, batch);
        }
        if !assignment.campaigns || assignment.vips.is_empty() {
            self.assignment = assignment.clone();
            self.node = None;
            self.leave(at, name, batch);
        }
    }

    /// Gives the elector its VIPs. `begin`: the node, and the left-overs of an earlier run; None: start nothing new.
    pub(super) fn give(
        &mut self,
        at: Moment,
        name: &str,
        assignment: Assignment,
        begin: Option<(&Node, &[IpAddr])>,
        batch: &mut Batch,
    ) {
        let up = std::mem::replace(&mut self.assignment, assignment).up;
        if !self.assignment.campaigns || self.assignment.vips.is_empty() {
            return;
        }
        let Some((node, left_over)) = begin else { return };
        self.node = Some(node.clone());
        if self.elector.is_none() {
            self.begin(at, name, left_over, batch);
            return;
        }
        if self.leaving {
            // The elector restarts when it has handed over.
            return;
        }
        let known = |address: &IpAddr| self.given.contains(address) || self.held_back.contains_key(address);
        let new: Vec<IpAddr> = self.assignment.vips.keys().copied().filter(|address| !known(address)).collect();
        if self.is_carrying() && self.rules.conflict_probe {
            // A carrying elector would take new VIPs without a probe: hold them back for one.
            self.held_back.extend(new.into_iter().map(|address| (address, Look::new(at.now))));
        } else if !new.is_empty() {
            let all = self.given.iter().copied().chain(new).collect();
            self.give_these(at, name, all, batch);
        }
        if up != self.assignment.up {
            self.step(at, name, ForElector::Link { up: self.assignment.up }, batch);
        }
    }

    fn begin(&mut self, at: Moment, name: &str, left_over: &[IpAddr], batch: &mut Batch) {
        let Some(node) = self.node.clone() else { return };
        self.elector = Some(Elector::new(self.rules.clone()));
        self.leaving = false;
        self.given.clear();
        self.held_back.clear();
        self.step(at, name, ForElector::Node(node), batch);
        self.give_these(at, name, self.assignment.vips.keys().copied().collect(), batch);
        let found: Vec<IpAddr> = left_over.iter().copied().filter(|address| self.given.contains(address)).collect();
        if !found.is_empty() {
            self.step(at, name, ForElector::LeftOver(found), batch);
        }
        self.step(at, name, ForElector::Link { up: self.assignment.up }, batch);
        // A kube-vip knows no health of a Service either: who may have it is said by its assignment.
        self.step(at, name, ForElector::Health(Verdict::Healthy), batch);
    }

    fn leave(&mut self, at: Moment, name: &str, batch: &mut Batch) {
        if self.elector.is_some() && !std::mem::replace(&mut self.leaving, true) {
            self.held_back.clear();
            self.step(at, name, ForElector::Shutdown, batch);
        }
    }

    /// Passes an event to the elector.
    pub(super) fn step(&mut self, at: Moment, name: &str, event: ForElector, batch: &mut Batch) {
        match &event {
            ForElector::Node(node) => {
                self.own.clone_from(&node.macs);
                if self.node.is_some() {
                    self.node = Some(node.clone());
                }
            }
            ForElector::Heard { address, mac } if mac.is_host() && !self.own.contains(mac) => {
                self.was_heard(at.now, name, *address, *mac, batch);
            }
            // The process ends: this applies to all Leases.
            ForElector::Shutdown => {
                self.leaving = true;
                self.node = None;
                self.held_back.clear();
            }
            _ => {}
        }
        let Some(elector) = &mut self.elector else { return };
        let actions = elector.step(at, event);
        self.act(name, actions, batch);
    }

    fn was_heard(&mut self, now: Time, name: &str, address: IpAddr, mac: Mac, batch: &mut Batch) {
        if let Some(look) = self.held_back.get_mut(&address) {
            if look.hear(now, mac) {
                let what = Report::ForeignOwner { address, mac };
                batch.report(OfLease { name: name.to_owned(), vips: vec![address], what });
            }
        } else if self.given.contains(&address) && self.elector.as_ref().is_some_and(Elector::is_searching) {
            let new = || Heard { mac, first: now, last: now, foreign: None, told: None };
            let heard = self.heard.entry(address).or_insert_with(new);
            if heard.mac != mac || now.since(heard.last) > LET_GO {
                *heard = new();
            }
            heard.last = now;
            if now.since(heard.first) >= GOES_ON {
                heard.foreign.get_or_insert(now);
            }
        }
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
                OfElector::Probe { address, to: None } if self.is_carrying() && self.given.contains(&address) => {
                    batch.ask(address);
                }
                OfElector::Probe { address, to } => batch.probe(address, to),
                // The elector reports this for all its VIPs.
                OfElector::Report(Report::ForeignOwner { .. }) => {}
                OfElector::Report(what) => {
                    let one = matches!(what, Report::LetGo(Why::NotWanted));
                    let vips = if one { dropped.into_iter().collect() } else { self.given.iter().copied().collect() };
                    batch.report(OfLease { name: name.to_owned(), vips, what });
                }
                OfElector::Exit => {
                    self.elector = None;
                    self.given.clear();
                    self.held_back.clear();
                }
                action @ (OfElector::Read { .. } | OfElector::Write { .. } | OfElector::AskPeers { .. }) => {
                    batch.call(Call { name: name.to_owned(), action });
                }
            }
        }
    }

    /// Foreign owners of some VIPs do not prevent the others from being taken. Where foreign owners have all VIPs, the
    /// elector waits as for one VIP.
    fn consider_foreign(&mut self, at: Moment, name: &str, batch: &mut Batch) {
        if !self.elector.as_ref().is_some_and(Elector::is_searching) {
            self.heard.clear();
        }
        if self.foreign_due().is_none_or(|due| at.now < due) {
            return;
        }
        let mut foreign = BTreeMap::new();
        for (address, heard) in &mut self.heard {
            if heard.foreign.take().is_none() {
                continue;
            }
            foreign.insert(*address, heard.mac);
            if heard.told.is_none_or(|told| at.now.since(told) >= TOLD_AGAIN) {
                heard.told = Some(at.now);
                let what = Report::ForeignOwner { address: *address, mac: heard.mac };
                batch.report(OfLease { name: name.to_owned(), vips: vec![*address], what });
            }
        }
        let others: BTreeSet<IpAddr> = self.given.iter().copied().filter(|one| !foreign.contains_key(one)).collect();
        if !others.is_empty() {
            self.held_back.extend(foreign.into_iter().map(|(address, mac)| (address, Look::foreign(at.now, mac))));
            self.give_these(at, name, others, batch);
        }
    }

    fn foreign_due(&self) -> Option<Time> {
        self.heard.values().filter_map(|heard| heard.foreign).min().map(|since| since + TOGETHER)
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
        self.consider_foreign(at, name, batch);
        if self.held_back.is_empty() {
            return;
        }
        let mut free: Vec<IpAddr> = Vec::new();
        let others = !self.holder().is_empty() && self.holder() != self.rules.node;
        let carrying = self.is_carrying();
        for (address, look) in &mut self.held_back {
            // Where another has the Lease it is that one's matter; and who carries nothing is asked for all before it takes.
            if !carrying && (others || look.owner().is_none()) {
                free.push(*address);
                continue;
            }
            match look.tick(at.now) {
                Found::Waits => {}
                Found::Ask => batch.probe(*address, None),
                Found::Nobody => free.push(*address),
            }
        }
        if !free.is_empty() {
            self.held_back.retain(|address, _| !free.contains(address));
            let all = self.given.iter().copied().chain(free).collect();
            self.give_these(at, name, all, batch);
        }
    }

    pub(super) fn wake(&self) -> Option<Time> {
        let looks = self.held_back.values().map(Look::next);
        self.elector.as_ref().and_then(Elector::wake).into_iter().chain(looks).chain(self.foreign_due()).min()
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

    pub(super) fn given(&self) -> impl Iterator<Item = IpAddr> {
        self.given.iter().copied()
    }

    pub(super) fn version(&self) -> Option<&str> {
        self.elector.as_ref()?.version()
    }

    pub(super) fn listens_for(&self) -> BTreeSet<IpAddr> {
        let mut all = self.elector.as_ref().map(Elector::listens_for).unwrap_or_default();
        all.extend(self.held_back.keys().copied());
        all
    }

    pub(super) fn state(&self, name: &str) -> LeaseState {
        LeaseState {
            name: name.to_owned(),
            elector: self.elector.as_ref().map(Elector::snapshot),
            held_back: self.held_back.iter().map(|(address, look)| (*address, look.owner())).collect(),
        }
    }
}
