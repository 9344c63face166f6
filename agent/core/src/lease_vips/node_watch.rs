//! Which holders' nodes are silent, where each Service has a Lease of its own.
//!
//! To probe the VIPs of all Leases all the time would fill the segment. So nodes watch each holder's node by its own address. Those
//! that take part in a Lease have an order, by a hash of their names, so all nodes find the same. The first few watch closely, and the
//! others seldom: who takes part may have no agent any more, or no endpoint of the Service, and nobody can tell. When the node is
//! silent, the electors of its Leases probe their VIPs: the first watcher's at once, those of the others one after the other. A node
//! is watched only on the interface of the VIPs: what another interface shows says nothing about them. A kube-vip declares nothing,
//! and is judged by its Lease alone.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Bound;
use std::time::Duration;

use super::output::Places;
use super::parties::parties;
use crate::elector::WITNESSED;
use crate::evidence::Form;
use crate::lease::{Declaration, LeaseView, Participant};
use crate::mac::Mac;
use crate::parties::{PARTIES, Party};
use crate::peers::KNOWN;
use crate::placement::{mix, seed};
use crate::rules::Rules;
use crate::time::Time;
use crate::windows::{Windowed, open_in_turn};
use crate::witness::{Looks, Probe, Target, Witness};

/// How many nodes watch the holder of a Lease closely.
const WATCHERS: u32 = 3;
/// How often the others look at it.
const SELDOM: Duration = Duration::from_secs(1);
/// Each watcher leaves those before it so much time; but the seventh is as late as any after it.
const APART: Duration = Duration::from_millis(500);
const LATEST: u32 = 6;
/// How often it is chosen anew whom this node watches: the Leases change all the time, who takes part does not.
const CHOSEN_EVERY: Duration = Duration::from_secs(1);
/// As long as a node is silent, its Leases are looked through so often.
const ROUND: Duration = Duration::from_millis(100);
/// A node that was silent and answers after all is not suspected again so soon: its own address may have changed.
const REST: Duration = Duration::from_secs(5);
/// How often an answer of another host is passed on to electors that do not wait for it.
const PASSED_EVERY: Duration = Duration::from_millis(500);
/// How often what other hosts say unasked is passed on, whoever says it.
const CLAIMS_EVERY: Duration = Duration::from_millis(100);
/// The VIPs of so many Leases are probed at a time at most because their holder's node is silent.
const SUSPECTED_AT_ONCE: usize = 128;

/// A Lease that this node campaigns for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Campaign<'a> {
    pub(super) name: &'a str,
    pub(super) lease: &'a LeaseView,
    /// The interface of its VIPs.
    pub(super) interface: u32,
}

/// The nodes that this one watches.
#[derive(Debug)]
pub(super) struct NodeWatch {
    rules: Rules,
    /// All other nodes that take part in any Lease, as far as they have an address on a subnet of this node.
    peers: BTreeMap<String, Peer>,
    /// The MAC address that each gateway answered from last.
    gateways: BTreeMap<IpAddr, Mac>,
    watched: BTreeMap<String, Watched>,
    /// The Leases whose holder this node watches, and its place among their watchers.
    ranks: BTreeMap<String, Rank>,
    /// The Leases, or this node, have changed since the watched nodes were chosen.
    stale: bool,
    choose_at: Time,
    /// Whose answers were passed on to all electors lately, and when: to each kind of question, for one says nothing about another.
    passed: Vec<((IpAddr, Form), Time)>,
    /// What other hosts say unasked is passed on from then.
    claims_from: Time,
    /// The Lease that was suspected last: the next ones come after it.
    last: String,
    round_at: Time,
}

/// Another node that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) address: IpAddr,
    /// The MAC address that it answered from last, or declares.
    pub(super) mac: Option<Mac>,
    pub(super) interface: u32,
    /// When it last answered. At first, when this node first knew of it.
    pub(super) heard: Time,
}

impl Peer {
    pub(super) const fn party(&self) -> Party {
        Party { address: self.address, mac: self.mac }
    }

    fn is_heard_lately(&self, now: Time) -> bool {
        now.since(self.heard) <= KNOWN
    }
}

/// A node that holds Leases.
#[derive(Clone, Copy, Debug)]
struct Holder<'a> {
    declared: &'a Declaration,
    closely: bool,
}

/// A node that is watched.
#[derive(Debug)]
struct Watched {
    /// What it answers with, in the form that a witness looks for.
    target: Declaration,
    peer: Peer,
    witness: Witness,
    /// Whether this node is among the first watchers for any Lease.
    closely: bool,
    silent_since: Option<Time>,
    /// It is not suspected before.
    rests_until: Time,
    /// Since when its next window could open, if there is no room for the probes yet.
    waits_since: Option<Time>,
    /// How often no third party was heard: others are asked then.
    turn: usize,
}

impl Windowed for (&String, &mut Watched) {
    fn interface(&self) -> u32 {
        self.1.peer.interface
    }

    fn witness(&mut self) -> &mut Witness {
        &mut self.1.witness
    }

    fn waits_since(&mut self) -> &mut Option<Time> {
        &mut self.1.waits_since
    }
}

impl Watched {
    fn is_heard_by(&self, address: IpAddr, mac: Mac) -> bool {
        address == self.peer.address || self.target.macs.contains(&mac)
    }
}

#[derive(Debug)]
struct Rank {
    holder: String,
    /// How long this node leaves the Lease to other watchers.
    after: Duration,
}

impl NodeWatch {
    /// `rules`: with the interval between two probes of one node, and how many misses make silence. Without an interval nobody is
    /// watched.
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            peers: BTreeMap::new(),
            gateways: BTreeMap::new(),
            watched: BTreeMap::new(),
            ranks: BTreeMap::new(),
            stale: true,
            choose_at: Time::default(),
            passed: vec![],
            claims_from: Time::default(),
            last: String::new(),
            round_at: Time::default(),
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

    /// Silence says nothing: the clocks disagree, or the link of this interface (None: of any) was down. Returns the nodes that were
    /// silent.
    pub(super) fn forget(&mut self, now: Time, interface: Option<u32>) -> Vec<String> {
        let mut forgotten = Vec::new();
        for (name, watched) in &mut self.watched {
            if interface.is_none_or(|index| index == watched.peer.interface) {
                watched.witness.forget(now);
                forgotten.extend(watched.silent_since.take().map(|_| name.clone()));
            }
        }
        forgotten
    }

    /// A host spoke for an address. Returns the nodes that were silent and are not: a node is there if any frame of it arrives.
    pub(super) fn heard(
        &mut self,
        now: Time,
        interface: u32,
        address: IpAddr,
        mac: Mac,
        form: Form,
        is_gateway: bool,
    ) -> Vec<String> {
        if form.is_answer() {
            for peer in self.peers.values_mut().filter(|peer| peer.address == address) {
                (peer.heard, peer.mac) = (now, Some(mac));
            }
            if is_gateway {
                self.gateways.insert(address, mac);
            }
        }
        let mut answering = Vec::new();
        for (name, watched) in &mut self.watched {
            if watched.peer.interface == interface {
                watched.witness.heard(now, address, mac, form);
            }
            watched.witness.heard_for_another(mac, form);
            let is_there = watched.is_heard_by(address, mac) && watched.witness.state().0 == 0;
            if is_there && watched.silent_since.take().is_some() {
                watched.rests_until = now + REST;
                answering.push(name.clone());
            }
        }
        answering
    }

    /// Whether a frame for that address is passed on to all electors. A watched node answers several times a second, and a gateway
    /// may speak hundreds of times; electors that do not wait for its answer need not know each time.
    pub(super) fn is_passed_on(&mut self, now: Time, address: IpAddr, form: Form) -> bool {
        if !form.is_answer() {
            // What a watched node says unasked, the watch knows.
            let is_watched = self.watched.values().any(|watched| watched.peer.address == address);
            let passes = !is_watched && now >= self.claims_from;
            if passes {
                self.claims_from = now + CLAIMS_EVERY;
            }
            return passes;
        }
        let this = (address, form);
        let heard = self.passed.iter().position(|(one, _)| *one == this);
        if let Some((_, at)) = heard.and_then(|nth| self.passed.get(nth)).filter(|(_, at)| now < *at + PASSED_EVERY) {
            return *at == now;
        }
        self.passed.retain(|(one, at)| *one != this && now < *at + PASSED_EVERY);
        self.passed.push((this, now));
        true
    }

    /// Whether it is time to look at the Leases again.
    pub(super) fn is_to_choose(&self, now: Time) -> bool {
        self.is_on() && self.stale && now >= self.choose_at
    }

    /// Chooses whom this node watches, by the Leases that it campaigns for. Returns the nodes that were silent and are watched no
    /// more.
    pub(super) fn choose<'a>(
        &mut self,
        now: Time,
        me: &str,
        campaigns: impl Iterator<Item = Campaign<'a>> + Clone,
        places: &Places,
    ) -> Vec<String> {
        (self.stale, self.choose_at) = (false, now + CHOSEN_EVERY);
        self.know_peers(now, me, campaigns.clone(), places);
        self.ranks.clear();
        let mut holders: BTreeMap<&str, Holder<'_>> = BTreeMap::new();
        for campaign in campaigns {
            let Some(declared) = campaign.lease.declaration().filter(|declared| declared.holder != me) else {
                continue;
            };
            let holder = declared.holder.as_str();
            let Some(peer) = self.peers.get(holder).filter(|peer| peer.interface == campaign.interface) else {
                continue;
            };
            // A node whose own address is never heard, as where ports are isolated, is not probed for nothing.
            let is_silent = self.watched.get(holder).is_some_and(|watched| watched.silent_since.is_some());
            if !is_silent && !peer.is_heard_lately(now) {
                continue;
            }
            let others = campaign.lease.notes.participants.keys().map(String::as_str);
            let others = others.filter(|name| self.peers.get(*name).is_some_and(|peer| peer.is_heard_lately(now)));
            let rank = rank(me, holder, others);
            let holding = holders.entry(holder).or_insert(Holder { declared, closely: false });
            holding.declared = declared;
            holding.closely |= rank < WATCHERS;
            let after = APART * rank.min(LATEST);
            self.ranks.insert(campaign.name.to_owned(), Rank { holder: holder.to_owned(), after });
        }
        self.watch(now, &holders)
    }

    /// Notes who takes part. What a holder's own Lease says of it is the newest.
    fn know_peers<'a>(
        &mut self,
        now: Time,
        me: &str,
        campaigns: impl Iterator<Item = Campaign<'a>> + Clone,
        places: &Places,
    ) {
        let of_all = campaigns.clone().flat_map(|campaign| &campaign.lease.notes.participants);
        let of_holders = campaigns.filter_map(|campaign| {
            let holder = &campaign.lease.declaration()?.holder;
            campaign.lease.notes.participants.get_key_value(holder)
        });
        let mut all: BTreeMap<&String, &Participant> = BTreeMap::new();
        all.extend(of_all.chain(of_holders).filter(|(name, _)| *name != me));
        let before = std::mem::take(&mut self.peers);
        for (name, participant) in all {
            let near = participant.addresses.iter().find_map(|address| Some((*address, places.connected(*address)?)));
            let Some((address, interface)) = near else { continue };
            let known = before.get(name).filter(|peer| peer.address == address);
            let heard = before.get(name).map_or(now, |peer| peer.heard);
            let mac = known.and_then(|peer| peer.mac).or_else(|| participant.macs.first().copied());
            self.peers.insert(name.clone(), Peer { address, mac, interface, heard });
        }
    }

    fn watch(&mut self, now: Time, holders: &BTreeMap<&str, Holder<'_>>) -> Vec<String> {
        let mut before = std::mem::take(&mut self.watched);
        for (&holder, Holder { declared, closely }) in holders {
            let Some(peer) = self.peers.get(holder).copied() else { continue };
            let target = Declaration {
                holder: holder.to_owned(),
                transitions: 0,
                acquired: None,
                macs: declared.macs.clone(),
                vips: vec![],
            };
            let same = |known: &Watched| known.target == target && known.peer.address == peer.address;
            let known = if before.get(holder).is_some_and(same) { before.remove(holder) } else { None };
            let watched = known.map_or_else(|| self.new_watch(now, target, peer), |known| Watched { peer, ..known });
            self.watched.insert(holder.to_owned(), Watched { closely: *closely, ..watched });
        }
        let interval = self.rules.witness_interval_for(self.watched.len());
        for watched in self.watched.values_mut() {
            watched.witness.set_interval(if watched.closely { interval } else { interval.max(SELDOM) });
        }
        before.into_iter().filter(|(_, watched)| watched.silent_since.is_some()).map(|(name, _)| name).collect()
    }

    fn new_watch(&self, now: Time, target: Declaration, peer: Peer) -> Watched {
        let mut witness = Witness::new(self.rules.witness_interval, self.rules.witness_misses);
        witness.aim(now, Target::Holder(&target), std::iter::once(peer.address));
        Watched {
            target,
            peer,
            witness,
            closely: false,
            silent_since: None,
            rests_until: Time::default(),
            waits_since: None,
            turn: 0,
        }
    }

    /// Does what is due. `send`: sends the probes of a window on an interface, or answers when they may leave.
    pub(super) fn advance(
        &mut self,
        now: Time,
        places: &Places,
        mut send: impl FnMut(u32, Vec<Probe>) -> Result<(), Time>,
    ) {
        for watched in self.watched.values_mut() {
            watched.witness.end_window(now);
        }
        let (peers, gateways, most) = (&self.peers, &self.gateways, self.most_parties());
        open_in_turn(now, self.watched.iter_mut(), |(name, watched)| {
            watched.witness.set_senders(places.own_sender(watched.peer.interface), Looks::default());
            // Who does not answer may be gone for long.
            let turn = watched.turn.wrapping_add(usize::from(watched.witness.was_deaf()));
            watched.witness.set_parties(parties(peers, gateways, name, watched.peer.interface, places, most, turn));
            send(watched.peer.interface, watched.witness.probes())?;
            watched.turn = turn;
            watched.witness.open(now);
            Ok(())
        });
        for watched in self.watched.values_mut() {
            if watched.witness.is_silent() && now >= watched.rests_until {
                watched.silent_since.get_or_insert(now);
            }
            // This node was late, or deaf: it is found out anew whether the other is silent.
            if watched.witness.state().0 == 0 {
                watched.silent_since = None;
            }
        }
    }

    /// How many third parties are asked beside a silent node. Under a limit of frames one, if there is room for any.
    fn most_parties(&self) -> usize {
        self.rules.probes_each().map_or(PARTIES, |each| each.saturating_sub(1).min(1))
    }

    /// The Leases whose holder's node is silent, each with that node: at most `room` of those for which `is_new` holds.
    pub(super) fn suspects(&mut self, now: Time, room: usize, is_new: impl Fn(&str) -> bool) -> Vec<(String, String)> {
        if !self.has_silent() || now < self.round_at {
            return vec![];
        }
        self.round_at = now + ROUND;
        let after = (Bound::Excluded(self.last.as_str()), Bound::Unbounded);
        let until = (Bound::Unbounded, Bound::Included(self.last.as_str()));
        let turns = self.ranks.range::<str, _>(after).chain(self.ranks.range::<str, _>(until));
        let due = turns.filter(|(_, rank)| {
            let since = self.watched.get(&rank.holder).and_then(|watched| watched.silent_since);
            since.is_some_and(|since| now >= since + rank.after)
        });
        let these: Vec<(String, String)> = due
            .filter(|(lease, _)| is_new(lease))
            .take(room)
            .map(|(lease, rank)| (lease.clone(), rank.holder.clone()))
            .collect();
        if let Some((last, _)) = these.last() {
            self.last.clone_from(last);
        }
        these
    }

    /// The VIPs of so many Leases may be probed at a time because their holder's node is silent. Under a limit of frames, as many as
    /// there is room for in one interval, each with its third parties.
    pub(super) fn most_suspects(&self) -> usize {
        let Some(each) = self.rules.probes_each() else { return SUSPECTED_AT_ONCE };
        let interval = usize::try_from(self.rules.witness_interval_for(WITNESSED).as_millis()).unwrap_or(usize::MAX);
        let in_an_interval = each.saturating_mul(interval) / 1_000;
        (in_an_interval / (WITNESSED + self.most_parties())).clamp(1, SUSPECTED_AT_ONCE)
    }

    /// Whether this node watches the holder of a Lease, and the holder's node answers.
    pub(super) fn answers_for(&self, lease: &str) -> bool {
        let watched = self.ranks.get(lease).and_then(|rank| self.watched.get(&rank.holder));
        watched.is_some_and(|watched| watched.witness.state().0 == 0 && watched.witness.state().1.is_some())
    }

    /// Whether any watched node is silent.
    pub(super) fn has_silent(&self) -> bool {
        self.watched.values().any(|watched| watched.silent_since.is_some())
    }

    /// When there is something to do.
    pub(super) fn wake(&self) -> Option<Time> {
        let choose = (self.is_on() && self.stale).then_some(self.choose_at);
        let round = self.has_silent().then_some(self.round_at);
        self.watched.values().filter_map(|watched| watched.witness.next()).chain(choose).chain(round).min()
    }

    /// The addresses whose frames mean something here.
    pub(super) fn listens_for(&self) -> impl Iterator<Item = IpAddr> {
        // The watched nodes are among them.
        self.peers.values().map(|peer| peer.address)
    }
}

/// The place of `me` among those that may watch a holder: 0 is the first.
fn rank<'a>(me: &str, holder: &str, others: impl Iterator<Item = &'a str>) -> u32 {
    let of = seed(holder);
    let key = |node: &str| (mix(of, seed(node)), Reverse(node.to_owned()));
    let mine = key(me);
    let before = others.filter(|node| *node != holder && *node != me && key(node) > mine).count();
    u32::try_from(before).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Sender;

    #[test]
    fn those_who_take_part_have_an_order() {
        let nodes: Vec<String> = (0..20).map(|n| format!("w{n}")).collect();
        let names = || nodes.iter().map(String::as_str);
        for holder in names() {
            let mut ranks: Vec<u32> = names().filter(|me| *me != holder).map(|me| rank(me, holder, names())).collect();
            ranks.sort_unstable();
            assert!(ranks.into_iter().eq(0..19), "of {holder}");
        }
        assert_eq!(rank("w1", "w2", ["w1", "w2"].into_iter()), 0);
    }

    #[test]
    fn a_gateway_that_speaks_all_the_time_is_passed_on_a_few_times_a_second() {
        let gateways = [1, 2].map(|n| IpAddr::from([192, 0, 2, n]));
        let passed = |form, of: usize| {
            let (mut watch, mut passed) = (NodeWatch::new(Rules::default()), 0);
            for tick in 0..2_000 {
                let now = Time::default() + Duration::from_millis(500) * tick / 1_000;
                let address = gateways.get(usize::try_from(tick).unwrap_or(0) % of);
                passed += usize::from(address.is_some_and(|address| watch.is_passed_on(now, *address, form)));
            }
            passed
        };
        assert_eq!(passed(Form::Claim, 2), 10, "in a second, of two thousand frames of both");
        assert_eq!([passed(Form::Answer(Sender::Own), 1), passed(Form::Answer(Sender::Own), 2)], [2, 4]);
    }

    #[test]
    fn under_a_limit_no_more_is_probed_at_a_time_than_there_is_room_for() {
        let watch = |limit| {
            let mut watch = NodeWatch::new(Rules { frames_per_second: limit, ..Rules::default() });
            for n in 1..=30 {
                let target = Declaration {
                    holder: format!("w{n}"),
                    transitions: 0,
                    acquired: None,
                    macs: vec![Mac([2, 0, 0, 0, 0, n])],
                    vips: vec![],
                };
                let peer =
                    Peer { address: IpAddr::from([192, 0, 2, n]), mac: None, interface: 2, heard: Time::default() };
                watch.peers.insert(target.holder.clone(), peer);
                let new = watch.new_watch(Time::default(), target, peer);
                watch.watched.insert(format!("w{n}"), new);
            }
            watch
        };
        // A window is as long without a limit as under one of very many frames.
        assert_eq!(watch(None).rules.witness_interval_for(WITNESSED), Duration::from_millis(100));
        let off = Rules { witness_interval: Duration::ZERO, ..watch(Some(1_000)).rules };
        assert_eq!(off.witness_interval_for(WITNESSED), Duration::from_millis(100));
        // Of two hundred frames, 66 are for these probes: six in a window, of three for each Lease.
        assert_eq!([None, Some(1_000), Some(200), Some(15)].map(|limit| watch(limit).most_suspects()), [128, 11, 2, 1]);
        // A silent node is asked for beside one third party.
        for (limit, parties) in [(None, PARTIES), (Some(1_000), 1), (Some(15), 1), (Some(1), 0)] {
            let mut watch = watch(limit);
            let mut sent = vec![];
            for tick in 0..4 {
                let now = Time::default() + Duration::from_millis(100) * tick;
                watch.advance(now, &Places::default(), |_, probes| {
                    sent.push(probes.len());
                    Ok(())
                });
            }
            assert_eq!(sent.iter().max(), Some(&(1 + parties)), "under a limit of {limit:?}");
        }
    }
}
