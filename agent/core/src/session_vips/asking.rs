//! What the segment is asked about VIPs: whether another host has a VIP that is carried here, and whether any host has a VIP
//! that this node wants to take.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::time::Duration;

use super::SessionVips;
use super::vip::{Look, Vip};
use crate::core::{Interface, Probe};
use crate::mac::Mac;
use crate::planted::planted;
use crate::rules::{AWAY, SELF_PROBE};
use crate::time::Time;

/// One round of probes is cut into so many parts.
const PARTS: usize = 5;
/// No part has more probes: 200 a second in all.
const PART: usize = 10;
/// A burst of probes for all VIPs comes no more often.
const BURST: Duration = Duration::from_secs(1);
/// A look that ended so long ago is begun anew.
const STALE: Duration = Duration::from_secs(1);
/// How many third parties are asked beside a VIP.
const THIRD: usize = 4;
/// How many are under a limit of frames.
const THIRD_LIMITED: usize = 2;

/// Which VIPs are asked for, and when.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// VIPs that are carried here and asked for, each for a reason of its own.
    some: BTreeSet<IpAddr>,
    /// VIPs that are held provisionally.
    pub(super) provisional: BTreeSet<IpAddr>,
    last: Option<IpAddr>,
    next: Time,
    burst: Option<Time>,
    /// When the next of these probes may leave on an interface, under a limit of frames.
    turns: BTreeMap<u32, Time>,
    /// When short fences are refreshed next.
    pub(super) refresh: Time,
}

impl Asking {
    pub(super) fn set(&mut self, address: IpAddr, asked: bool) {
        if asked {
            self.some.insert(address);
        } else {
            self.some.remove(&address);
        }
    }

    /// Whether that many probes may leave on an interface now, `spacing` apart on average; if not, when they may.
    fn take_turn(&mut self, now: Time, interface: u32, spacing: Option<Duration>, probes: u32) -> Result<(), Time> {
        let Some(spacing) = spacing else { return Ok(()) };
        let next = self.turns.entry(interface).or_default();
        if now < *next {
            return Err(*next);
        }
        *next = now + spacing * probes;
        Ok(())
    }

    pub(super) fn forget(&mut self, address: IpAddr) {
        self.some.remove(&address);
        self.provisional.remove(&address);
    }
}

/// What a look at the segment gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Not known yet.
    Nothing,
    /// Nobody answered.
    Quiet,
    /// A node with a session has it.
    Peer,
    /// A host has it that is no node with a session.
    Stranger(Mac),
}

impl SessionVips {
    /// The interface for a VIP here, whether or not its link is up.
    pub(super) fn link_for(&self, vip: &Vip) -> Option<&Interface> {
        use crate::placement::Interface as On;
        let demand = vip.demand.as_ref()?;
        match &demand.interface {
            On::First => self.node.interfaces.first(),
            On::Named(name) => self.node.interfaces.iter().find(|i| i.link.name == *name),
            On::Subnet => self.node.interfaces.iter().find(|i| i.link.contains(demand.address)),
        }
    }

    /// Whether this node has doubts about all that it carries: another node may have taken it, and this one would not know.
    fn doubts_all(&mut self) -> bool {
        if self.own.is_lapsed() || self.own.tenure.as_ref().is_some_and(|t| t.in_doubt) || self.api.away.is_some() {
            return true;
        }
        let unanswered = self.own.calls.flight.as_ref().map(|f| f.sent + AWAY);
        unanswered.is_some_and(|at| self.due(at))
    }

    /// Asks for another owner of what is carried here, in rounds of 250 ms, or as long as 200 probes a second take.
    pub(super) fn advance_asking(&mut self) {
        if self.own.has_left() {
            return;
        }
        self.advance_unsure();
        self.advance_short();
        if self.index.carried.is_empty() {
            return;
        }
        let all = self.doubts_all();
        let scope = if all { &self.index.carried } else { &self.asking.some };
        if scope.is_empty() || planted!(NoSessionProbe) {
            return;
        }
        let count = scope.len();
        let next = self.asking.next;
        if !self.due(next) {
            return;
        }
        let spacing = self.rules.probe_spacing();
        let scope = if all { &self.index.carried } else { &self.asking.some };
        let part = if spacing.is_some() { 1 } else { count.div_ceil(PARTS).min(PART) };
        let after = self.asking.last.map_or(Bound::Unbounded, Bound::Excluded);
        let round = scope.range((after, Bound::Unbounded)).chain(scope.iter());
        let these: Vec<IpAddr> = round.take(part.min(count)).copied().collect();
        let on = these.first().and_then(|address| self.vips.get(address)?.hold).map(|hold| hold.interface);
        if let Some(Err(later)) = on.map(|on| self.asking.take_turn(self.step.at.now, on, spacing, 1)) {
            self.asking.next = later;
            self.due(later);
            return;
        }
        self.asking.last = these.last().copied();
        let parts = u32::try_from(PARTS.min(count)).unwrap_or(1).max(1);
        self.asking.next = self.step.at.now + (SELF_PROBE / parts).max(spacing.unwrap_or_default());
        self.due(self.asking.next);
        self.ask_for(&these);
    }

    fn ask_for(&mut self, these: &[IpAddr]) {
        for address in these {
            if let Some(hold) = self.vips.get(address).and_then(|v| v.hold) {
                self.batch.probes.push(Probe { interface: hold.interface, address: *address, to: None });
            }
        }
    }

    /// Asks for all VIPs at once: another node has one of them by now, and may have the others too.
    pub(super) fn burst(&mut self) {
        let now = self.step.at.now;
        if self.asking.burst.is_none_or(|at| now.since(at) >= BURST) && !planted!(NoSessionProbe) {
            self.asking.burst = Some(now);
            if self.rules.frames_per_second.is_some() {
                // The limit leaves room for rounds only: one begins now.
                self.asking.next = now;
                return;
            }
            let all: Vec<IpAddr> = self.index.carried.iter().copied().collect();
            self.ask_for(&all);
        }
    }

    /// Whether any host has a VIP that is not carried here: as many probes as a witness would miss. `sure`: silence counts
    /// only if a third party was heard meanwhile.
    pub(super) fn look(&mut self, vip: &mut Vip, sure: bool) -> Found {
        let now = self.step.at.now;
        let Some(index) = self.link_for(vip).map(|i| i.index) else { return Found::Nothing };
        if planted!(TakesVipWithoutLooking) {
            return Found::Quiet;
        }
        let interval = if self.rules.witness_interval.is_zero() {
            Duration::from_millis(100)
        } else {
            self.rules.witness_interval
        };
        let fresh = Look { since: now, sent: 0, next: now };
        let mut look = vip.taking.look.filter(|l| now <= l.next + STALE).unwrap_or(fresh);
        if let Some((_, mac)) = vip.answered.filter(|(at, _)| *at >= look.since) {
            vip.taking.look = None;
            return if self.sessions.with_mac(mac).is_some() { Found::Peer } else { Found::Stranger(mac) };
        }
        if !self.due(look.next) {
            vip.taking.look = Some(look);
            return Found::Nothing;
        }
        if look.sent >= self.rules.witness_misses.max(1) {
            vip.taking.look = Some(look);
            let heard = self.segment.third_heard.get(&index).is_some_and(|at| *at >= look.since);
            if sure && !heard && !planted!(DeafWatcher) {
                vip.taking.look = None;
                vip.hold_off = now + Duration::from_millis(500);
                return Found::Nothing;
            }
            return Found::Quiet;
        }
        let parties = if sure { self.third_parties(index, None) } else { vec![] };
        let probes = u32::try_from(1 + parties.len()).unwrap_or(u32::MAX);
        if let Err(later) = self.asking.take_turn(now, index, self.rules.probe_spacing(), probes) {
            look.next = later;
            vip.taking.look = Some(look);
            self.due(later);
            return Found::Nothing;
        }
        look.sent += 1;
        look.next = now + interval;
        vip.taking.look = Some(look);
        self.due(look.next);
        self.batch.probes.push(Probe { interface: index, address: vip.address, to: None });
        if sure {
            for address in parties {
                let ask = Probe { interface: index, address, to: None };
                if !self.batch.probes.contains(&ask) {
                    self.batch.probes.push(ask);
                }
            }
        }
        Found::Nothing
    }

    /// Third parties to ask on one interface: all gateways, and a few nodes with a session, other ones each time.
    pub(super) fn third_parties(&self, index: u32, but: Option<&str>) -> Vec<IpAddr> {
        let Some(own) = self.node.interfaces.iter().find(|i| i.index == index) else { return vec![] };
        let me = self.rules.node.as_str();
        let others = self.sessions.live().filter(|(node, _)| *node != me && Some(*node) != but);
        let links = others.flat_map(|(_, peer)| peer.view.links()).filter(|link| link.shares(&own.link));
        let peers: Vec<IpAddr> = links.filter_map(|link| link.addresses.first().copied()).collect();
        let mut all = own.gateways.clone();
        let windows = usize::try_from(self.step.at.now.as_nanos() / 100_000_000).unwrap_or(0);
        // However many gateways there are, one peer is asked too: the gateways may not answer.
        all.extend(a_few(&peers, THIRD.saturating_sub(all.len()).max(1), windows));
        all.dedup();
        if self.rules.frames_per_second.is_some() { a_few(&all, THIRD_LIMITED, windows) } else { all }
    }

    /// How long a round of probes for all VIPs that are carried takes.
    pub(super) fn round(&self) -> Duration {
        let carried = u32::try_from(self.index.carried.len()).unwrap_or(u32::MAX);
        self.rules.probe_spacing().map_or(SELF_PROBE, |spacing| SELF_PROBE.max(spacing.saturating_mul(carried)))
    }
}

/// At most `room` of a list, which may be empty. Another `turn` gives other ones.
fn a_few(list: &[IpAddr], room: usize, turn: usize) -> Vec<IpAddr> {
    if planted!(ManyGateways) && list.len() < room {
        return (0..room).map(|n| list[(turn + n * 7) % list.len()]).collect();
    }
    if list.len() <= room {
        return list.to_vec();
    }
    (0..room).map(|n| list[(turn + n * 7) % list.len()]).collect()
}
