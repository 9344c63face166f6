//! The observations of a round: plain data, so that tests can judge invented observations.

use std::time::Duration;

use mooring_agent::core::time::Time;

use super::bounds::Etcd;
use super::class::Class;
use super::floor::Lapse;
use crate::observe::probes::Gap;
use crate::observe::timeline::{Interval, Timeline};

/// A fault as it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// The class of the fault.
    pub class: Class,
    /// The affected host; empty if the class has no host.
    pub host: String,
    /// The other end of a cut.
    pub peer: Option<String>,
    /// Whether this host held the VIP when the round began.
    pub on_holder: bool,
    /// How long it lasted; the lab may need longer than planned to heal it.
    pub lasts: Duration,
    /// When it began.
    pub from: Time,
    /// When it was healed.
    pub to: Time,
}

/// An agent gave the kernel a lifetime for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The host.
    pub host: String,
    /// When the observer heard of it.
    pub at: Time,
    /// Seconds; `u32::MAX` is for ever.
    pub valid: u32,
    /// Seconds for which the kernel may choose the address as a source.
    pub preferred: u32,
}

/// A program did something without cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unasked {
    /// On which host.
    pub host: String,
    /// When it was noticed.
    pub at: Time,
    /// What the program did.
    pub what: String,
}

/// What was seen of a round.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// When the round began: the end of the round before.
    pub from: Time,
    /// When its last fault was healed.
    pub healed: Time,
    /// When every API server was ready again.
    pub ready: Time,
    /// When it ended.
    pub to: Time,
    /// Its faults.
    pub faults: Vec<Happened>,
    /// Which host had the VIP when.
    pub holds: Timeline,
    /// The lifetimes of addresses: those set in the round, and the last one of each host before it.
    pub lifetimes: Vec<Lifetime>,
    /// When the client heard nothing.
    pub gaps: Vec<Gap>,
    /// Since when the Lease names the holder, at the end; `None`: the Lease does not name the holder.
    pub named: Option<Time>,
    /// Where etcd's members are.
    pub etcd: Etcd,
    /// The agents carry VIPs of Services as well.
    pub services: bool,
    /// When agents sent requests to the API.
    pub requests: Vec<Time>,
    /// What agents did without cause: ended, panicked, did not end.
    pub unasked: Vec<Unasked>,
    /// Resident memory of each agent at the end, in kilobytes.
    pub memory: Vec<(String, u64)>,
    /// The outage that the faults of the round before may still cost: until the first fault begins, the time is theirs.
    pub left: Duration,
    /// The VIP had moved so often before the round that the witness may not decide.
    pub spent: bool,
    /// When the machine stood still, without overlaps: the agents are not to blame for this time.
    pub stalls: Vec<Interval>,
    /// The longest time for which an agent was ready to run but got no processor.
    pub starved: Duration,
    /// When the kernel removed addresses of the lab's own whose lifetimes had ended.
    pub floor: Vec<Lapse>,
}

impl Seen {
    /// The times in which both hosts had the VIP.
    #[must_use]
    pub fn both(&self, a: &str, b: &str) -> Vec<Interval> {
        let of = |host: &str| {
            let holds = self.holds.holds().iter().filter(move |hold| hold.host == host);
            holds.map(|hold| Interval { from: hold.from, to: hold.to.unwrap_or(self.to) }).collect::<Vec<_>>()
        };
        let mut both = Vec::new();
        for one in of(a) {
            for other in of(b) {
                let shared =
                    Interval { from: one.from.max(other.from).max(self.from), to: one.to.min(other.to).min(self.to) };
                if shared.from < shared.to {
                    both.push(shared);
                }
            }
        }
        both
    }

    /// For how long the machine stood still between two moments.
    #[must_use]
    pub fn stalled(&self, from: Time, to: Time) -> Duration {
        self.stalls.iter().map(|stall| stall.to.min(to).since(stall.from.max(from))).sum()
    }

    /// The hosts that had the VIP in the round, each once.
    #[must_use]
    pub fn hosts(&self) -> Vec<&str> {
        let mut hosts: Vec<&str> = self.holds.holds().iter().map(|hold| hold.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }

    /// Every move of the VIP from one host to another: when it arrived, and at which host.
    #[must_use]
    pub fn moves(&self) -> Vec<(Time, &str)> {
        let all = self.holds.holds();
        // The host that had the VIP longest of those before: another one may have had it as well for a while.
        let last = |i: usize| all[..i].iter().max_by_key(|hold| (hold.to.is_none(), hold.to)).map(|hold| &hold.host);
        let moved = (1..all.len()).filter(|i| all[i - 1].host != all[*i].host && last(*i) != Some(&all[*i].host));
        moved.map(|i| (all[i].from, all[i].host.as_str())).filter(|(at, _)| *at > self.from && *at <= self.to).collect()
    }

    /// When the first fault began; without a fault, the end of the round.
    #[must_use]
    pub fn begins(&self) -> Time {
        self.faults.iter().map(|fault| fault.from).min().unwrap_or(self.to)
    }

    /// The gaps that were over before the first fault began: they are not its cost.
    #[must_use]
    pub fn before(&self) -> Vec<Gap> {
        let begins = self.begins();
        self.gaps.iter().filter(|gap| gap.to < begins).copied().collect()
    }

    /// The other gaps: what the faults cost.
    #[must_use]
    pub fn cost(&self) -> Vec<Gap> {
        let begins = self.begins();
        self.gaps.iter().filter(|gap| gap.to >= begins).copied().collect()
    }

    /// How long the client heard nothing because of the faults, in total.
    #[must_use]
    pub fn outage(&self) -> Duration {
        self.cost().iter().map(Gap::length).sum()
    }

    /// The moment from which one host alone had the VIP and was heard, until the end of the round.
    #[must_use]
    pub fn settled(&self) -> Option<Time> {
        let holders = self.holds.holders_at(self.to);
        let holder = (holders.len() == 1).then(|| holders.first().copied()).flatten()?;
        let own = self.holds.holds().iter().rfind(|hold| hold.host == holder)?.from;
        let others = self.holds.holds().iter().filter(|hold| hold.host != holder);
        let left = others.filter_map(|hold| hold.to).max().unwrap_or_default();
        let heard = self.gaps.iter().map(|gap| gap.to).max().unwrap_or_default();
        let settled = own.max(left).max(heard).max(self.ready);
        (settled < self.to).then_some(settled)
    }
}
