//! What was seen of a round: plain data, so that rules can be tried on observations that were made up.

use std::time::Duration;

use mooring_agent::core::time::Time;

use super::class::Class;
use crate::observe::probes::Gap;
use crate::observe::timeline::{Interval, Timeline};

/// A fault as it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// What.
    pub class: Class,
    /// To which host; empty where the class has none.
    pub host: String,
    /// The other end of a cut.
    pub peer: Option<String>,
    /// Whether that host held the VIP when the round began.
    pub on_holder: bool,
    /// How long it was to last.
    pub lasts: Duration,
    /// When it began.
    pub from: Time,
    /// When it was healed.
    pub to: Time,
}

/// The kernel was told for how long an address may live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// On which host.
    pub host: String,
    /// When it was heard of.
    pub at: Time,
    /// Seconds; `u32::MAX` is for ever.
    pub valid: u32,
    /// Seconds for which it may be chosen as a source.
    pub preferred: u32,
}

/// A program did what nobody asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unasked {
    /// On which host.
    pub host: String,
    /// When it was noticed.
    pub at: Time,
    /// What.
    pub what: String,
}

/// What was seen of a round.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// When it began: the end of the one before.
    pub from: Time,
    /// When its last fault was healed.
    pub healed: Time,
    /// When every API server was ready again.
    pub ready: Time,
    /// When it ended.
    pub to: Time,
    /// Its faults.
    pub faults: Vec<Happened>,
    /// Who had the VIP when.
    pub holds: Timeline,
    /// How long addresses were to live: those told in the round, and before it the last one of each host.
    pub lifetimes: Vec<Lifetime>,
    /// When the client heard nothing.
    pub gaps: Vec<Gap>,
    /// Since when the Lease names the holder, at the end; `None`: it does not.
    pub named: Option<Time>,
    /// When agents asked something of the API.
    pub requests: Vec<Time>,
    /// What agents did unasked: ended, panicked, did not end.
    pub unasked: Vec<Unasked>,
    /// Resident memory of each agent at the end, in kilobytes.
    pub memory: Vec<(String, u64)>,
    /// The VIP had moved so often before that the witness may not decide.
    pub spent: bool,
    /// When the machine stood still, without overlaps: nobody can be blamed for that time.
    pub stalls: Vec<Interval>,
    /// For how long an agent that was ready to run was not let: the longest of all.
    pub starved: Duration,
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

    /// Every move of the VIP from one host to another: when it came, and whither.
    #[must_use]
    pub fn moves(&self) -> Vec<(Time, &str)> {
        let all = self.holds.holds();
        let moved = all.windows(2).filter(|pair| pair[0].host != pair[1].host);
        moved
            .map(|pair| (pair[1].from, pair[1].host.as_str()))
            .filter(|(at, _)| *at > self.from && *at <= self.to)
            .collect()
    }

    /// For how long the client heard nothing, in all.
    #[must_use]
    pub fn outage(&self) -> Duration {
        self.gaps.iter().map(Gap::length).sum()
    }

    /// From when on one host alone had the VIP and was heard, until the end of the round.
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
