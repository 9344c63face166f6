//! Groups the outputs of one step's electors into lists, each VIP with its interface.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use super::{Assignment, Call, Output, Report};
use crate::core::{Interface, NO_INTERFACE, Probe, Vip};
use crate::event::Node;
use crate::evidence::{Broadcasts, Form, Sender};
use crate::frames::{Frames, Purpose};
use crate::rules::Rules;
use crate::time::Time;
use crate::witness;

/// The time between two rounds of probes for VIPs that this node carries, in case another host has them.
const ROUND: Duration = Duration::from_millis(250);
/// How many VIPs are probed in a round: as many as a segment with ARP inspection tolerates, and one round for the few
/// VIPs that most nodes have.
const ASKED: usize = 50;

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
    /// Other nodes that are asked whether they are there, while frames are limited: they wait until there is room.
    peers: VecDeque<witness::Probe>,
    next_peer: Time,
    rules: Rules,
    frames: Frames,
    /// What all electors have asked by broadcast lately.
    broadcasts: Broadcasts,
}

impl Batch {
    pub(super) fn new(rules: &Rules) -> Self {
        let broadcasts = Broadcasts::with_windows_of(rules.witness_interval);
        Self { rules: rules.clone(), broadcasts, ..Self::default() }
    }

    /// How a host spoke, by what all electors have asked lately.
    pub(super) fn judge(&self, now: Time, interface: u32, address: IpAddr, form: Form) -> Form {
        self.broadcasts.judge(now, interface, address, form)
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

    /// The probes of a window leave now, or this answers when they may.
    pub(super) fn watch(&mut self, now: Time, interface: u32, probes: Vec<witness::Probe>) -> Result<(), Time> {
        self.frames.take(now, interface, &self.rules, Purpose::Watch, probes.len())?;
        self.counted.extend(probes);
        Ok(())
    }

    /// Asks whether another node is there. Nothing waits for its answer.
    pub(super) fn ask_peer(&mut self, probe: witness::Probe) {
        if self.rules.frames_per_second.is_none() {
            self.probe(probe);
        } else if self.peers.iter().all(|waiting| waiting.address != probe.address) {
            self.peers.push_back(probe);
        }
    }

    /// Sends the next probe for another node, if there is room.
    fn advance_peers(&mut self, now: Time, places: &Places) {
        let Some(probe) = self.peers.front().copied().filter(|_| now >= self.next_peer) else { return };
        let room = match places.near(probe.address) {
            Some(interface) => self.frames.take(now, interface, &self.rules, Purpose::Other, 1),
            None => Ok(()),
        };
        self.next_peer = room.err().unwrap_or_else(|| now + self.rules.probe_spacing().unwrap_or_default());
        if room.is_ok() {
            self.counted.push(probe);
            self.peers.pop_front();
        }
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
        let ask = (!self.asks.is_empty()).then_some(self.next_round);
        let peer = (!self.peers.is_empty()).then_some(self.next_peer);
        ask.into_iter().chain(peer).chain(self.broadcasts.next()).min()
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
        if !self.asks.is_empty() && now >= self.next_round {
            // Under a limit of frames, probes leave room for announcements, which wait for it.
            let (round, most) = self.rules.probe_spacing().map_or((ROUND, ASKED), |spacing| (spacing, 1));
            self.next_round = now + round;
            let these = self.asks.len().min(most);
            for (address, sender) in self.asks.drain(..these) {
                self.waiting.remove(&(address, sender));
                self.probes.push(witness::Probe { address, to: None, sender });
            }
        }
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
        let probes = self.broadcasts.leave(now, all.filter_map(probe).collect());
        if !probes.is_empty() {
            out.push(Output::Probe(probes));
        }
        out
    }
}
