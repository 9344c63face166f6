//! One Lease: its keeper, and the VIPs that are not given to that yet.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::LeaseState;
use super::batch::Batch;
use super::event::{Action, Lot};
use super::look::{Found, Look};
use crate::action::{Action as OfKeeper, Report, Why};
use crate::event::{Event as ForKeeper, Moment, Node};
use crate::keeper::Keeper;
use crate::mac::Mac;
use crate::rules::Rules;
use crate::time::Time;

/// A host that goes on answering for so long is a foreign owner, and no node that is just letting go.
const GOES_ON: Duration = Duration::from_millis(900);
/// One that was not heard for so long has let go.
const LET_GO: Duration = Duration::from_secs(3);
/// Answers for several VIPs come within this time.
const TOGETHER: Duration = Duration::from_millis(150);
/// A foreign owner is told of this often.
const TOLD_AGAIN: Duration = Duration::from_secs(10);

/// See the module's text.
#[derive(Debug)]
pub(super) struct Tenant {
    rules: Rules,
    keeper: Option<Keeper>,
    lot: Lot,
    /// What the keeper has.
    given: BTreeSet<IpAddr>,
    held_back: BTreeMap<IpAddr, Look>,
    /// Who was heard to have VIPs that are to be taken.
    heard: BTreeMap<IpAddr, Heard>,
    own: Vec<Mac>,
    /// It hands over, and ends then.
    leaving: bool,
    /// The node as it is; None: nothing new is begun.
    node: Option<Node>,
}

/// Another host answers for a VIP.
#[derive(Debug)]
struct Heard {
    mac: Mac,
    first: Time,
    last: Time,
    /// When it had gone on for too long.
    foreign: Option<Time>,
    told: Option<Time>,
}

impl Tenant {
    pub(super) fn new(rules: &Rules) -> Self {
        Self {
            rules: rules.clone(),
            keeper: None,
            lot: Lot::default(),
            given: BTreeSet::new(),
            held_back: BTreeMap::new(),
            heard: BTreeMap::new(),
            own: vec![],
            leaving: false,
            node: None,
        }
    }

    /// What it has no more is taken from it.
    pub(super) fn take_away(&mut self, at: Moment, name: &str, lot: &Lot, batch: &mut Batch) {
        self.held_back.retain(|address, _| lot.vips.contains(address));
        self.heard.retain(|address, _| lot.vips.contains(address));
        let stays: BTreeSet<IpAddr> = self.given.intersection(&lot.vips).copied().collect();
        if stays != self.given {
            self.give_these(at, name, stays, batch);
        }
        if !lot.campaigns || lot.vips.is_empty() {
            self.lot = lot.clone();
            self.node = None;
            self.leave(at, name, batch);
        }
    }

    /// What it has from now on. `begin`: the node, and what an earlier run left behind; None: nothing is begun any more.
    pub(super) fn give(
        &mut self,
        at: Moment,
        name: &str,
        lot: Lot,
        begin: Option<(&Node, &[IpAddr])>,
        batch: &mut Batch,
    ) {
        let up = std::mem::replace(&mut self.lot, lot).up;
        if !self.lot.campaigns || self.lot.vips.is_empty() {
            return;
        }
        let Some((node, left_over)) = begin else { return };
        self.node = Some(node.clone());
        if self.keeper.is_none() {
            self.begin(at, name, left_over, batch);
            return;
        }
        if self.leaving {
            // Begun anew when it has handed over.
            return;
        }
        let known = |address: &IpAddr| self.given.contains(address) || self.held_back.contains_key(address);
        let new: Vec<IpAddr> = self.lot.vips.iter().copied().filter(|address| !known(address)).collect();
        if self.is_carrying() && self.rules.conflict_probe {
            // What is carried is not looked for by the keeper first.
            self.held_back.extend(new.into_iter().map(|address| (address, Look::new(at.now))));
        } else if !new.is_empty() {
            let all = self.given.iter().copied().chain(new).collect();
            self.give_these(at, name, all, batch);
        }
        if up != self.lot.up {
            self.step(at, name, ForKeeper::Link { up: self.lot.up }, batch);
        }
    }

    fn begin(&mut self, at: Moment, name: &str, left_over: &[IpAddr], batch: &mut Batch) {
        let Some(node) = self.node.clone() else { return };
        self.keeper = Some(Keeper::new(self.rules.clone()));
        self.leaving = false;
        self.given.clear();
        self.held_back.clear();
        self.step(at, name, ForKeeper::Node(node), batch);
        self.give_these(at, name, self.lot.vips.clone(), batch);
        let found: Vec<IpAddr> = left_over.iter().copied().filter(|address| self.given.contains(address)).collect();
        if !found.is_empty() {
            self.step(at, name, ForKeeper::LeftOver(found), batch);
        }
        self.step(at, name, ForKeeper::Link { up: self.lot.up }, batch);
        // A kube-vip knows no health of a Service either: who may have it is said by its lot.
        self.step(at, name, ForKeeper::Health(true), batch);
    }

    fn leave(&mut self, at: Moment, name: &str, batch: &mut Batch) {
        if self.keeper.is_some() && !std::mem::replace(&mut self.leaving, true) {
            self.held_back.clear();
            self.step(at, name, ForKeeper::Shutdown, batch);
        }
    }

    /// The keeper is told something.
    pub(super) fn step(&mut self, at: Moment, name: &str, event: ForKeeper, batch: &mut Batch) {
        match &event {
            ForKeeper::Node(node) => {
                self.own.clone_from(&node.macs);
                if self.node.is_some() {
                    self.node = Some(node.clone());
                }
            }
            ForKeeper::Heard { address, mac } if mac.is_host() && !self.own.contains(mac) => {
                self.was_heard(at.now, name, *address, *mac, batch);
            }
            // The process ends: so it is for all.
            ForKeeper::Shutdown => {
                self.leaving = true;
                self.node = None;
                self.held_back.clear();
            }
            _ => {}
        }
        let Some(keeper) = &mut self.keeper else { return };
        let actions = keeper.step(at, event);
        self.act(name, actions, batch);
    }

    fn was_heard(&mut self, now: Time, name: &str, address: IpAddr, mac: Mac, batch: &mut Batch) {
        if let Some(look) = self.held_back.get_mut(&address) {
            if look.hear(now, mac) {
                let report = Report::ForeignOwner { address, mac };
                batch.push(Action::Report { name: name.to_owned(), vips: vec![address], report });
            }
        } else if self.given.contains(&address) && self.keeper.as_ref().is_some_and(Keeper::is_searching) {
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

    fn act(&mut self, name: &str, actions: Vec<OfKeeper>, batch: &mut Batch) {
        let mut dropped = None;
        for action in actions {
            match action {
                OfKeeper::Carry { address, until } => batch.carry(address, until),
                OfKeeper::Drop { address } => {
                    dropped = Some(address);
                    batch.drop(address);
                }
                OfKeeper::Announce { address } => batch.announce(address),
                OfKeeper::Probe { address, to: None } if self.is_carrying() && self.given.contains(&address) => {
                    batch.ask(address);
                }
                OfKeeper::Probe { address, to } => batch.probe(address, to),
                // It says so of all of them.
                OfKeeper::Report(Report::ForeignOwner { .. }) => {}
                OfKeeper::Report(report) => {
                    let one = matches!(report, Report::LetGo(Why::NotWanted));
                    let vips = if one { dropped.into_iter().collect() } else { self.given.iter().copied().collect() };
                    batch.push(Action::Report { name: name.to_owned(), vips, report });
                }
                OfKeeper::Exit => {
                    self.keeper = None;
                    self.given.clear();
                    self.held_back.clear();
                }
                action @ (OfKeeper::Read { .. } | OfKeeper::Write { .. } | OfKeeper::AskPeers { .. }) => {
                    batch.push(Action::Lease { name: name.to_owned(), action });
                }
            }
        }
    }

    /// Foreign owners of some VIPs keep none of the others. Where they have all, the keeper waits as for one VIP.
    fn consider_foreign(&mut self, at: Moment, name: &str, batch: &mut Batch) {
        if !self.keeper.as_ref().is_some_and(Keeper::is_searching) {
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
                let report = Report::ForeignOwner { address: *address, mac: heard.mac };
                batch.push(Action::Report { name: name.to_owned(), vips: vec![*address], report });
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

    /// The keeper has these from now on.
    fn give_these(&mut self, at: Moment, name: &str, these: BTreeSet<IpAddr>, batch: &mut Batch) {
        self.given = these;
        let these = self.given.iter().copied().collect();
        self.step(at, name, ForKeeper::Vips(these), batch);
    }

    /// Does what is due.
    pub(super) fn advance(&mut self, at: Moment, name: &str, batch: &mut Batch) {
        if self.keeper.as_ref().and_then(Keeper::wake).is_some_and(|wake| wake <= at.now) {
            self.step(at, name, ForKeeper::Tick, batch);
        }
        if self.keeper.is_none() && self.leaving {
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
        self.keeper.as_ref().and_then(Keeper::wake).into_iter().chain(looks).chain(self.foreign_due()).min()
    }

    /// Whether nothing is left of it.
    pub(super) fn is_over(&self) -> bool {
        self.keeper.is_none() && (self.lot.vips.is_empty() || self.node.is_none() && !self.lot.campaigns)
    }

    pub(super) const fn campaigns(&self) -> bool {
        self.keeper.is_some()
    }

    pub(super) fn is_carrying(&self) -> bool {
        self.keeper.as_ref().is_some_and(Keeper::is_carrying)
    }

    pub(super) fn is_holding(&self) -> bool {
        self.keeper.as_ref().is_some_and(Keeper::is_holding)
    }

    pub(super) fn holder(&self) -> &str {
        self.keeper.as_ref().map_or("", Keeper::holder)
    }

    pub(super) fn given(&self) -> impl Iterator<Item = IpAddr> {
        self.given.iter().copied()
    }

    pub(super) fn version(&self) -> Option<&str> {
        self.keeper.as_ref()?.version()
    }

    pub(super) fn listens_for(&self) -> BTreeSet<IpAddr> {
        let mut all = self.keeper.as_ref().map(Keeper::listens_for).unwrap_or_default();
        all.extend(self.held_back.keys().copied());
        all
    }

    pub(super) fn state(&self, name: &str) -> LeaseState {
        LeaseState {
            name: name.to_owned(),
            keeper: self.keeper.as_ref().map(Keeper::snapshot),
            held_back: self.held_back.iter().map(|(address, look)| (*address, look.owner())).collect(),
        }
    }
}
