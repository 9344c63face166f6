//! What the keepers of one step want, as lists.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use super::event::Action;
use crate::mac::Mac;
use crate::time::Time;

/// A round of probes for VIPs that this node carries itself, should another have them.
const ROUND: Duration = Duration::from_millis(250);
/// So many of them are asked for in a round: what a segment with ARP inspection bears, and one round for those few that most
/// nodes have.
const ASKED: usize = 50;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// For each VIP what was wanted last: carried until then, or not at all.
    wanted: BTreeMap<IpAddr, Option<Time>>,
    announce: Vec<IpAddr>,
    probes: Vec<(IpAddr, Option<Mac>)>,
    others: Vec<Action>,
    /// VIPs carried here that are to be asked for, none of them twice: all have their turn.
    asks: VecDeque<IpAddr>,
    waiting: BTreeSet<IpAddr>,
    next_round: Time,
}

impl Batch {
    pub(super) fn carry(&mut self, address: IpAddr, until: Time) {
        self.wanted.insert(address, Some(until));
    }

    pub(super) fn drop(&mut self, address: IpAddr) {
        self.wanted.insert(address, None);
    }

    pub(super) fn announce(&mut self, address: IpAddr) {
        self.announce.push(address);
    }

    pub(super) fn probe(&mut self, address: IpAddr, to: Option<Mac>) {
        self.probes.push((address, to));
    }

    /// Asks for a VIP that is carried here, when its turn comes.
    pub(super) fn ask(&mut self, address: IpAddr) {
        if self.waiting.insert(address) {
            self.asks.push_back(address);
        }
    }

    pub(super) fn push(&mut self, action: Action) {
        self.others.push(action);
    }

    pub(super) fn wake(&self) -> Option<Time> {
        (!self.asks.is_empty()).then_some(self.next_round)
    }

    pub(super) fn flush(&mut self, now: Time) -> Vec<Action> {
        let mut out = std::mem::take(&mut self.others);
        let mut dropped = Vec::new();
        let mut carried: BTreeMap<Time, Vec<IpAddr>> = BTreeMap::new();
        for (address, until) in std::mem::take(&mut self.wanted) {
            match until {
                Some(until) => carried.entry(until).or_default().push(address),
                None => dropped.push(address),
            }
        }
        if !dropped.is_empty() {
            out.push(Action::Drop(dropped));
        }
        out.extend(carried.into_iter().map(|(until, addresses)| Action::Carry { addresses, until }));
        if !self.announce.is_empty() {
            out.push(Action::Announce(std::mem::take(&mut self.announce)));
        }
        if !self.asks.is_empty() && now >= self.next_round {
            self.next_round = now + ROUND;
            let these = self.asks.len().min(ASKED);
            for address in self.asks.drain(..these) {
                self.waiting.remove(&address);
                self.probes.push((address, None));
            }
        }
        if !self.probes.is_empty() {
            out.push(Action::Probe(std::mem::take(&mut self.probes)));
        }
        out
    }
}
