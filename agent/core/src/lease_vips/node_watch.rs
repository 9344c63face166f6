//! Which holders' nodes are silent, where each Service has a Lease of its own.
//!
//! To probe the VIPs of all Leases all the time would fill the segment. So a few nodes watch each holder's node by its own address, and
//! all nodes compute the same few by a hash of the names that the Leases show. When a node is silent, the electors of its Leases are
//! told, and look at their VIPs. Only nodes that take part are watched: a kube-vip is judged by its Lease alone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use crate::event::Node;
use crate::lease::{Declaration, LeaseView, Participant};
use crate::mac::Mac;
use crate::placement::{mix, seed};
use crate::rules::Rules;
use crate::time::Time;
use crate::witness::{Probe, Target, Witness};

/// How many nodes watch a node.
const WATCHERS: usize = 3;
/// How often it is chosen anew whom this node watches: the Leases change all the time, who takes part does not.
const CHOSEN_EVERY: Duration = Duration::from_secs(1);
/// As long as a node is silent, its electors are told so often.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// How many third parties are asked beside a node.
const PARTIES: usize = 4;

/// The nodes that this one watches.
#[derive(Debug)]
pub(super) struct NodeWatch {
    rules: Rules,
    watched: BTreeMap<String, Watched>,
    /// The own addresses of all nodes that take part, by the Leases.
    addresses: BTreeMap<String, Vec<IpAddr>>,
    /// The Leases have changed since.
    stale: bool,
    choose_at: Time,
    turn: usize,
}

/// A node that is watched.
#[derive(Debug)]
struct Watched {
    /// What it answers with, in the form that a witness looks for.
    target: Declaration,
    address: IpAddr,
    witness: Witness,
    tell_at: Time,
}

impl NodeWatch {
    /// `rules`: with the interval between two probes of one node, and how many misses make silence. Without an interval nobody is
    /// watched.
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            watched: BTreeMap::new(),
            addresses: BTreeMap::new(),
            stale: true,
            choose_at: Time::default(),
            turn: 0,
        }
    }

    fn is_on(&self) -> bool {
        !self.rules.witness_interval.is_zero()
    }

    /// A step begins: a node that was late judges nothing by what it missed before.
    pub(super) fn begin(&mut self, now: Time) {
        for watched in self.watched.values_mut() {
            watched.witness.begin(now);
        }
    }

    /// The Leases, or this node, have changed.
    pub(super) fn changed(&mut self) {
        self.stale = true;
    }

    /// Silence says nothing: the link was down, or the clocks disagree.
    pub(super) fn forget(&mut self, now: Time) {
        for watched in self.watched.values_mut() {
            watched.witness.forget(now);
        }
    }

    /// A host spoke for an address.
    pub(super) fn heard(&mut self, now: Time, address: IpAddr, mac: Mac) {
        for watched in self.watched.values_mut() {
            watched.witness.heard(now, address, mac);
            watched.witness.heard_for_another(mac);
        }
    }

    /// Whether it is time to look at the Leases again.
    pub(super) fn is_to_choose(&self, now: Time) -> bool {
        self.is_on() && self.stale && now >= self.choose_at
    }

    /// Chooses whom this node watches, by the Leases that it campaigns for.
    pub(super) fn choose<'a>(&mut self, now: Time, me: &str, leases: impl Iterator<Item = &'a LeaseView> + Clone) {
        (self.stale, self.choose_at) = (false, now + CHOSEN_EVERY);
        let mut nodes: BTreeMap<&str, &Participant> = BTreeMap::new();
        for (name, participant) in leases.clone().flat_map(|lease| &lease.notes.participants) {
            nodes.insert(name, participant);
        }
        self.addresses = nodes.iter().map(|(name, node)| ((*name).to_owned(), node.addresses.clone())).collect();
        let holders: BTreeMap<&str, &Declaration> =
            leases.filter_map(LeaseView::declaration).map(|declared| (declared.holder.as_str(), declared)).collect();
        let mut chosen = BTreeSet::new();
        for (holder, declared) in holders.into_iter().filter(|(holder, _)| *holder != me) {
            let Some(address) = nodes.get(holder).and_then(|node| node.addresses.first().copied()) else { continue };
            if !is_watcher(me, holder, nodes.keys().copied()) {
                continue;
            }
            chosen.insert(holder.to_owned());
            let target =
                Declaration { holder: holder.to_owned(), transitions: 0, acquired: None, macs: declared.macs.clone(), vips: vec![] };
            let known = self.watched.get(holder);
            if known.is_some_and(|known| known.target == target && known.address == address) {
                continue;
            }
            let mut witness = Witness::new(self.rules.witness_interval, self.rules.witness_misses);
            witness.aim(now, Target::Holder(&target), std::iter::once(address));
            self.watched.insert(holder.to_owned(), Watched { target, address, witness, tell_at: Time::default() });
        }
        self.watched.retain(|node, _| chosen.contains(node));
        let interval = self.rules.witness_interval_for(self.watched.len());
        for watched in self.watched.values_mut() {
            watched.witness.set_interval(interval);
        }
    }

    /// Does what is due: returns the probes to send, and the nodes that are silent.
    pub(super) fn advance(&mut self, now: Time, node: &Node) -> (Vec<Probe>, Vec<String>) {
        let (mut probes, mut silent) = (Vec::new(), Vec::new());
        for (name, watched) in &mut self.watched {
            if watched.witness.asks_parties() && watched.witness.next().is_some_and(|next| next <= now) {
                self.turn = self.turn.wrapping_add(1);
                watched.witness.set_parties(parties(&self.addresses, name, node, self.turn));
            }
            probes.extend(watched.witness.tick(now).0);
            if watched.witness.is_silent() && now >= watched.tell_at {
                watched.tell_at = now + TOLD_EVERY;
                silent.push(name.clone());
            }
        }
        (probes, silent)
    }

    /// When there is something to do.
    pub(super) fn wake(&self) -> Option<Time> {
        let choose = (self.is_on() && self.stale).then_some(self.choose_at);
        self.watched.values().filter_map(|watched| watched.witness.next()).chain(choose).min()
    }

    /// The addresses whose frames mean something here.
    pub(super) fn listens_for(&self) -> impl Iterator<Item = IpAddr> {
        self.watched.values().map(|watched| watched.address)
    }
}

/// Whether `me` is one of the few nodes that watch a node.
fn is_watcher<'a>(me: &str, holder: &str, nodes: impl Iterator<Item = &'a str>) -> bool {
    let of = seed(holder);
    let rank = |node: &str| (mix(of, seed(node)), Reverse(node.to_owned()));
    let mine = rank(me);
    nodes.filter(|node| *node != holder && *node != me && rank(node) > mine).take(WATCHERS).count() < WATCHERS
}

/// Third parties: a gateway first, then nodes in turn.
fn parties(addresses: &BTreeMap<String, Vec<IpAddr>>, watched: &str, node: &Node, turn: usize) -> Vec<IpAddr> {
    let own = &node.participant.addresses;
    let others = addresses.iter().filter(|(name, _)| *name != watched).filter_map(|(_, all)| all.first());
    let others: Vec<IpAddr> = others.filter(|address| !own.contains(address)).copied().collect();
    let first = node.gateways.iter().copied().take(1);
    let room = PARTIES - node.gateways.len().min(1);
    let next = (0..room.min(others.len())).filter_map(|n| others.get(turn.wrapping_add(n).checked_rem(others.len())?));
    first.chain(next.copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_as_many_watchers_as_there_should_be() {
        let nodes: Vec<String> = (0..20).map(|n| format!("w{n}")).collect();
        let names = || nodes.iter().map(String::as_str);
        for holder in names() {
            let watchers = names().filter(|me| *me != holder && is_watcher(me, holder, names())).count();
            assert_eq!(watchers, WATCHERS, "of {holder}");
        }
        assert!(is_watcher("w1", "w2", ["w1", "w2"].into_iter()));
    }

    #[test]
    fn third_parties_are_others_and_change() {
        let addresses: BTreeMap<String, Vec<IpAddr>> =
            (1..=9).map(|n| (format!("w{n}"), vec![IpAddr::from([192, 0, 2, n])])).collect();
        let gateway = IpAddr::from([192, 0, 2, 254]);
        let own = Participant { addresses: vec![IpAddr::from([192, 0, 2, 1])], ..Participant::default() };
        let node = Node { participant: own, macs: vec![], gateways: vec![gateway] };
        let mut asked = BTreeSet::new();
        for turn in 0..10 {
            let these = parties(&addresses, "w2", &node, turn);
            assert_eq!((these.len(), these.first()), (PARTIES, Some(&gateway)));
            asked.extend(these);
        }
        assert_eq!(asked.len(), 8, "all but the watched node and this one: {asked:?}");
        assert!(parties(&BTreeMap::new(), "w2", &Node::default(), 3).is_empty());
    }
}
