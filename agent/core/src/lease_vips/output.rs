//! Groups the outputs of one step's electors into lists, each VIP with its interface.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use super::turns::{Reason, Turns};
use super::{Assignment, Call, Output, Report};
use crate::core::{Interface, NO_INTERFACE, Probe, Vip};
use crate::event::Node;
use crate::evidence::{Broadcasts, Form, Sender};
use crate::frames::{Frames, Purpose};
use crate::mac::Mac;
use crate::rules::Rules;
use crate::time::Time;
use crate::witness;

/// The time between two rounds of probes for VIPs that this node carries, in case another host has them.
const ROUND: Duration = Duration::from_millis(250);
/// How many VIPs are probed in a round: one round for the few VIPs that most nodes have. With all else that a node with many Leases
/// asks, 200 frames a second do not suffice for more.
const ASKED: usize = 12;
/// A step that comes next.
const SOON: Duration = Duration::from_millis(1);
/// A question whether third parties answer at all waits so long for what else is asked.
const PATIENCE: Duration = Duration::from_secs(1);
/// A look leaves at least so often.
const LOOK: Duration = Duration::from_millis(100);

/// The interfaces, and which of them each VIP belongs on.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) interfaces: Vec<Interface>,
    at: BTreeMap<IpAddr, u32>,
}

impl Places {
    /// Sets the interface of each VIP from these assignments.
    pub(super) fn assign(&mut self, assignments: &BTreeMap<String, Assignment>) {
        self.at = assignments.values().flat_map(|assignment| assignment.vips.clone()).collect();
    }

    /// The VIPs that belong on another interface by these assignments. Nothing is removed from an interface that did not exist.
    pub(super) fn moved(&self, assignments: &BTreeMap<String, Assignment>) -> Vec<IpAddr> {
        let now = assignments.values().flat_map(|assignment| &assignment.vips);
        let mut moved: Vec<IpAddr> = now
            .filter(|(address, index)| {
                self.at.get(*address).is_some_and(|before| before != *index && *before != NO_INTERFACE)
            })
            .map(|(address, _)| *address)
            .collect();
        moved.sort_unstable();
        moved
    }

    /// The interface on which an address belongs, if it is a VIP.
    pub(super) fn of_vip(&self, address: IpAddr) -> Option<u32> {
        self.at.get(&address).copied()
    }

    /// What [`Sender::Own`] amounts to on an interface.
    pub(super) fn own_sender(&self, interface: u32) -> Sender {
        self.interfaces.iter().find(|one| one.index == interface).map_or(Sender::Own, |one| one.link.own_sender())
    }

    /// The node as an elector of VIPs on these interfaces sees it: with the gateways there.
    pub(super) fn seen_from(&self, node: &Node, indices: &BTreeSet<u32>) -> Node {
        let here = || self.interfaces.iter().filter(|one| indices.contains(&one.index));
        let gateways = here().flat_map(|one| one.gateways.iter().copied()).collect();
        let bare = here().any(|one| one.link.own_sender() == Sender::Unspecified);
        Node { gateways, bare, ..node.clone() }
    }

    fn vip(&self, address: IpAddr) -> Option<Vip> {
        let interface = self.of_vip(address).filter(|index| *index != NO_INTERFACE)?;
        Some(Vip { address, interface })
    }

    /// The interface on which to probe for an address: a VIP's own; else the one whose subnet contains the address;
    /// else the first.
    pub(super) fn near(&self, address: IpAddr) -> Option<u32> {
        let first = || self.interfaces.iter().map(|one| one.index).find(|index| *index != NO_INTERFACE);
        match self.of_vip(address) {
            Some(own) => Some(own).filter(|index| *index != NO_INTERFACE),
            None => self.connected(address).or_else(first),
        }
    }

    /// The interface whose subnet contains the address.
    pub(super) fn connected(&self, address: IpAddr) -> Option<u32> {
        self.interfaces.iter().find(|one| one.link.contains(address)).map(|one| one.index)
    }
}

/// The outputs, until they are grouped into lists.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The last request for each VIP: carried until its deadline, or removed.
    wanted: BTreeMap<IpAddr, Option<Time>>,
    announce: Vec<IpAddr>,
    /// Probes that leave in this step.
    probes: Vec<witness::Probe>,
    /// The same, and they count for the limit of frames already.
    counted: Vec<witness::Probe>,
    others: Vec<Output>,
    /// VIPs carried here that wait for a probe, each once with each sender: all get their turn.
    asks: VecDeque<(IpAddr, Sender)>,
    waiting: BTreeSet<(IpAddr, Sender)>,
    next_round: Time,
    /// Other nodes that are asked whether they are there, for any Lease: they wait until there is room.
    peers: VecDeque<witness::Probe>,
    next_peer: Time,
    /// Where frames are not limited: who was asked within the last round.
    peers_asked: BTreeMap<(IpAddr, Sender), Time>,
    rules: Rules,
    frames: Frames,
    /// Whether a window is waiting, and comes before the next probe for a VIP carried here: they take turns.
    looks_wait: bool,
    looks_next: bool,
    /// Where frames are not limited, looks of many Leases are paced all the same, by what has left.
    paced: Frames,
    pace: Rules,
    /// One of them leaves at this time at the latest.
    next_look: Time,
    /// What all electors have asked by broadcast lately.
    broadcasts: Broadcasts,
    in_turn: InTurn,
}

/// A question whether third parties answer that waits for room.
#[derive(Debug, Default)]
struct InTurn {
    /// Since when.
    since: Option<Time>,
    /// It tries again then, or the next one may come.
    next: Time,
}

impl Batch {
    pub(super) fn new(rules: &Rules) -> Self {
        let broadcasts = Broadcasts::with_windows_of(rules.witness_interval);
        Self { rules: rules.clone(), pace: Turns::pace(rules), broadcasts, ..Self::default() }
    }

    /// How a host spoke, by what all electors have asked lately.
    pub(super) fn judge(&mut self, now: Time, on: u32, host: (IpAddr, Mac), form: Form, is_vip: bool) -> Form {
        self.broadcasts.judge(now, on, host, form, is_vip)
    }

    pub(super) fn carry(&mut self, address: IpAddr, deadline: Time) {
        self.wanted.insert(address, Some(deadline));
    }

    pub(super) fn drop(&mut self, address: IpAddr) {
        self.wanted.insert(address, None);
    }

    pub(super) fn announce(&mut self, address: IpAddr) {
        self.announce.push(address);
    }

    pub(super) fn probe(&mut self, probe: witness::Probe) {
        self.probes.push(probe);
    }

    /// A probe that counts for the limit of frames already.
    pub(super) fn probe_counted(&mut self, probe: witness::Probe) {
        self.counted.push(probe);
    }

    /// The window of a Lease opens now, or this answers when it may. Third parties that are asked in this step anyway are asked once.
    pub(super) fn look(
        &mut self,
        now: Time,
        reason: Reason,
        window: &[witness::Probe],
        places: &Places,
    ) -> Result<(), Time> {
        let mut new: BTreeMap<u32, usize> = BTreeMap::new();
        for probe in window.iter().filter(|probe| !self.counted.contains(probe)) {
            if let Some(interface) = places.near(probe.address) {
                *new.entry(interface).or_default() += 1;
            }
        }
        if !new.is_empty()
            && self.shares_turns()
            && !self.looks_next
            && let Some(next) = self.others_next(now)
        {
            return Err(next);
        }
        if let Some(next) = self.makes_room(now) {
            return Err(next);
        }
        for (interface, probes) in new {
            match self.rules.probes_each() {
                // So few frames are not enough for everybody.
                Some(_) if self.rules.watch_shares_room() => self.frames.leave(now, interface, &self.rules, probes),
                Some(each) => self.frames.take(now, interface, &self.rules, Purpose::Other, probes.min(each))?,
                None if reason == Reason::Taking => {}
                None if now < self.next_look => {
                    let each = self.pace.probes_each().unwrap_or(probes);
                    let room = self.paced.take(now, interface, &self.pace, Purpose::Watch, probes.min(each));
                    room.map_err(|later| later.min(self.next_look))?;
                }
                None => {}
            }
        }
        self.looks_next = false;
        self.next_look = now + LOOK;
        Ok(())
    }

    /// When the next probe leaves that comes between two looks, if there is one.
    fn others_next(&self, now: Time) -> Option<Time> {
        let ask = (!self.asks.is_empty()).then_some(self.next_round);
        let peer = (!self.peers.is_empty()).then_some(self.next_peer);
        // Those that are due leave at the end of this step.
        ask.into_iter().chain(peer).min().map(|next| next.max(now + SOON))
    }

    /// Whether a look comes before all other probes, under a limit of frames.
    fn leaves_it_to_looks(&self) -> bool {
        self.looks_wait && self.looks_next && self.shares_turns()
    }

    /// Whether looks and all other probes take turns: frames are limited, and there are enough for that.
    fn shares_turns(&self) -> bool {
        self.rules.frames_per_second.is_some() && !self.rules.watch_shares_room()
    }

    /// Whether the window of a Lease waits for its turn.
    pub(super) fn looks_wait(&mut self, wait: bool) {
        self.looks_wait = wait;
    }

    /// The probes of a window leave now, or this answers when they may.
    pub(super) fn watch(&mut self, now: Time, interface: u32, probes: Vec<witness::Probe>) -> Result<(), Time> {
        self.frames.take(now, interface, &self.rules, Purpose::Watch, probes.len())?;
        self.counted.extend(probes);
        Ok(())
    }

    /// Asks whether another node is there. Nothing waits for its answer.
    pub(super) fn ask_peer(&mut self, probe: witness::Probe) {
        // The last one to ask knows best how.
        let is_same = |one: &witness::Probe| (one.address, one.sender) == (probe.address, probe.sender);
        match self.peers.iter_mut().find(|waiting| is_same(waiting)) {
            Some(waiting) => *waiting = probe,
            None => self.peers.push_back(probe),
        }
    }

    /// Sends the next probes for other nodes, if there is room.
    fn advance_peers(&mut self, now: Time, places: &Places) {
        let limited = self.rules.frames_per_second.is_some();
        let Some(probe) = self.peers.front().copied().filter(|_| !limited || now >= self.next_peer) else { return };
        if !limited {
            // Whoever was not asked just before is asked at once: an elector may be about to find that too few others are there.
            self.peers_asked.retain(|_, at| now.since(*at) < ROUND);
            let (mut later, mut next) = (VecDeque::new(), now + ROUND);
            for probe in std::mem::take(&mut self.peers) {
                let asked = (probe.address, probe.sender);
                if let Some(at) = self.peers_asked.get(&asked) {
                    next = next.min(*at + ROUND);
                    later.push_back(probe);
                } else {
                    self.peers_asked.insert(asked, now);
                    self.counted.push(probe);
                }
            }
            (self.peers, self.next_peer) = (later, next);
            return;
        }
        if self.leaves_it_to_looks() {
            return;
        }
        if let Some(next) = self.makes_room(now) {
            self.next_peer = next;
            return;
        }
        let room = match places.near(probe.address) {
            Some(interface) => self.frames.take(now, interface, &self.rules, Purpose::Other, 1),
            None => Ok(()),
        };
        self.next_peer = room.err().unwrap_or_else(|| now + self.rules.probe_spacing().unwrap_or_default());
        if room.is_ok() {
            self.counted.push(probe);
            self.peers.pop_front();
            self.looks_next = true;
        }
    }

    /// Asks a third party whether it answers, if there is room, and returns what leaves. Whatever else is asked comes before that, but not
    /// for ever.
    pub(super) fn ask_in_turn(&mut self, now: Time, these: &[witness::Probe], places: &Places) -> Vec<witness::Probe> {
        let Some(interface) = these.first().and_then(|probe| places.near(probe.address)) else {
            self.asks_nothing_in_turn();
            return vec![];
        };
        let since = *self.in_turn.since.get_or_insert(now);
        let spacing = self.rules.probe_spacing().unwrap_or_default();
        if now < self.in_turn.next {
            return vec![];
        }
        let others = !self.asks.is_empty() || !self.peers.is_empty() || self.looks_wait;
        if others && now < since + PATIENCE {
            self.in_turn.next = now + spacing;
            return vec![];
        }
        let (frames, rules) = (&mut self.frames, &self.rules);
        let mut takes = |these: &[witness::Probe]| {
            frames.take(now, interface, rules, Purpose::Other, these.len()).map(|()| these.to_vec())
        };
        let mut room = takes(these);
        if let Some((own, [_, ..])) = these.split_last()
            && rules.watch_shares_room()
            && room.is_err()
        {
            // Of so few frames there may never be two. Its own sender tells whether anybody answers.
            room = takes(std::slice::from_ref(own));
        }
        match room {
            Ok(these) => {
                (self.in_turn.since, self.in_turn.next) = (None, now + spacing);
                self.counted.extend(&these);
                these
            }
            Err(later) => {
                self.in_turn.next = later;
                vec![]
            }
        }
    }

    /// Nobody is to be asked whether it answers.
    pub(super) fn asks_nothing_in_turn(&mut self) {
        self.in_turn.since = None;
    }

    /// When others may go on, if a question whether third parties answer has waited for long.
    fn makes_room(&self, now: Time) -> Option<Time> {
        let waits = self.in_turn.since.is_some_and(|since| now >= since + PATIENCE);
        (waits && !self.rules.watch_shares_room()).then(|| self.in_turn.next.max(now + SOON))
    }

    /// Queues a probe for a VIP that is carried here.
    pub(super) fn ask(&mut self, address: IpAddr, sender: Sender) {
        if self.waiting.insert((address, sender)) {
            self.asks.push_back((address, sender));
        }
    }

    pub(super) fn call(&mut self, call: Call) {
        self.others.push(Output::Call(call));
    }

    pub(super) fn report(&mut self, report: Report) {
        self.others.push(Output::Report(report));
    }

    pub(super) fn wake(&self) -> Option<Time> {
        let waits = self.leaves_it_to_looks();
        let ask = (!self.asks.is_empty() && !waits).then_some(self.next_round);
        let peer = (!self.peers.is_empty() && !waits).then_some(self.next_peer);
        let in_turn = self.in_turn.since.map(|_| self.in_turn.next);
        ask.into_iter().chain(peer).chain(in_turn).chain(self.broadcasts.next()).min()
    }

    /// Sends the next probes for VIPs that are carried here.
    fn advance_asks(&mut self, now: Time, places: &Places) {
        let Some((address, _)) = self.asks.front().copied().filter(|_| now >= self.next_round) else { return };
        // Under a limit of frames, probes leave room for announcements, which wait for it.
        let (round, most) = self.rules.probe_spacing().map_or((ROUND, ASKED), |spacing| (spacing, 1));
        let counts = self.shares_turns();
        if counts {
            if self.leaves_it_to_looks() {
                return;
            }
            if let Some(next) = self.makes_room(now) {
                self.next_round = next;
                return;
            }
            let interface = places.near(address);
            let room = interface.map(|interface| self.frames.take(now, interface, &self.rules, Purpose::Other, 1));
            if let Some(Err(later)) = room {
                self.next_round = later;
                return;
            }
        }
        self.next_round = now + round;
        self.looks_next = true;
        let these = self.asks.len().min(most);
        for (address, sender) in self.asks.drain(..these) {
            self.waiting.remove(&(address, sender));
            let probe = witness::Probe { address, to: None, sender };
            if counts {
                self.counted.push(probe);
            } else {
                self.probes.push(probe);
            }
        }
    }

    /// VIPs without an interface on this node are left out.
    pub(super) fn flush(&mut self, now: Time, places: &Places) -> Vec<Output> {
        let mut out = std::mem::take(&mut self.others);
        let mut dropped = Vec::new();
        let mut carried: BTreeMap<Time, Vec<IpAddr>> = BTreeMap::new();
        for (address, deadline) in std::mem::take(&mut self.wanted) {
            match deadline {
                Some(deadline) => carried.entry(deadline).or_default().push(address),
                None => dropped.push(address),
            }
        }
        if !dropped.is_empty() {
            out.push(Output::Remove(dropped));
        }
        for (deadline, addresses) in carried {
            let vips: Vec<Vip> = addresses.into_iter().filter_map(|address| places.vip(address)).collect();
            if !vips.is_empty() {
                out.push(Output::Ensure { vips, deadline });
            }
        }
        let announce: Vec<Vip> =
            std::mem::take(&mut self.announce).into_iter().filter_map(|address| places.vip(address)).collect();
        if !announce.is_empty() {
            out.push(Output::Announce(announce));
        }
        self.advance_asks(now, places);
        // Electors of several Leases ask for the same peers.
        let mut asked = BTreeSet::new();
        self.probes.retain(|probe| asked.insert(*probe));
        for interface in self.probes.iter().filter_map(|probe| places.near(probe.address)) {
            self.frames.leave(now, interface, &self.rules, 1);
        }
        self.advance_peers(now, places);
        self.counted.retain(|probe| asked.insert(*probe));
        let all = std::mem::take(&mut self.probes).into_iter().chain(std::mem::take(&mut self.counted));
        let probe = |witness::Probe { address, to, sender }| {
            Some(Probe { interface: places.near(address)?, address, to, sender })
        };
        for interface in self.broadcasts.late(now) {
            self.frames.leaves_late(now, interface, &self.rules);
        }
        let probes = self.broadcasts.leave(now, all.filter_map(probe).collect());
        if self.rules.frames_per_second.is_none() {
            for probe in &probes {
                self.paced.leave(now, probe.interface, &self.pace, 1);
            }
        }
        if !probes.is_empty() {
            out.push(Output::Probe(probes));
        }
        out
    }
}
