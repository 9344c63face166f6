//! The rules that every round must satisfy: pure functions of the observations.

mod fence;

use std::time::Duration;

use mooring_agent::core::time::Time;
use serde::Serialize;

use super::bounds::{
    self, BURST, HARMLESS, MEMORY, RATE, SERVICES_BURST, SERVICES_RATE, SETTLED, SHARED, STANDS, STARVED,
};
use super::class::Class;
use super::hearing::{deaf, without};
use super::seen::Seen;
use crate::observe::probes::Gap;
use crate::observe::timeline::Interval;
pub use fence::allowances;
use fence::fence;

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Two owners that can hear each other: never for longer than one frame takes.
    TwoOwners,
    /// No host keeps the VIP past its fence, and every hold has a fence.
    Fence,
    /// After the faults there is soon one holder, and it stays the holder.
    OneHolder,
    /// The client misses the VIP for no longer than the class of the fault allows.
    Outage,
    /// No ping-pong.
    Moves,
    /// The agents do not flood the API with requests.
    Requests,
    /// No agent ends, panics, grows or gets stuck.
    Agents,
    /// The lab did not carry out a fault: then the round says nothing about the agents.
    Lab,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 8] = [
        Self::TwoOwners,
        Self::Fence,
        Self::OneHolder,
        Self::Outage,
        Self::Moves,
        Self::Requests,
        Self::Agents,
        Self::Lab,
    ];

    /// The rule in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::TwoOwners => "two owners that can hear each other",
            Self::Fence => "carried past its fence",
            Self::OneHolder => "not one holder after the faults",
            Self::Outage => "outage longer than allowed",
            Self::Moves => "more moves than allowed",
            Self::Requests => "too many requests",
            Self::Agents => "an agent ended, panicked, grew or got stuck",
            Self::Lab => "the lab did not do what it was told",
        }
    }
}

/// A rule was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which one.
    pub rule: Rule,
    /// When.
    pub at: Time,
    /// How.
    pub detail: String,
}

/// Judges a round by every rule.
#[must_use]
pub fn judge(seen: &Seen) -> Vec<Breach> {
    [two_owners, fence, one_holder, outage, moves, requests, agents].into_iter().flat_map(|rule| rule(seen)).collect()
}

impl Rule {
    /// Whether the rule cannot be judged in a round in which the machine gave the agents no time.
    #[must_use]
    pub const fn needs_time(self) -> bool {
        matches!(self, Self::TwoOwners | Self::OneHolder | Self::Outage | Self::Moves)
    }
}

/// Whether the machine gave the agents no time.
#[must_use]
pub fn is_starved(seen: &Seen) -> bool {
    seen.starved.max(seen.stalled(seen.from, seen.to)) > STARVED
}

fn breach(rule: Rule, at: Time, detail: String) -> Breach {
    Breach { rule, at, detail }
}

fn two_owners(seen: &Seen) -> Vec<Breach> {
    let hosts = seen.hosts();
    let mut found = Vec::new();
    for (i, a) in hosts.iter().enumerate() {
        for b in &hosts[i + 1..] {
            let heard = without(seen.both(a, b), &deaf(seen, a, b));
            let starved =
                |both: &Interval| if is_agent_starved(seen, &[a, b], both) { 2 * STANDS } else { Duration::ZERO };
            let allowed = |both: &Interval| SHARED + starved(both);
            let is_long = |both: &&Interval| both.length() > allowed(both) + seen.stalled(both.from, both.to);
            found.extend(heard.iter().filter(is_long).map(|both| {
                let (took, allowed) = (both.length().as_millis(), allowed(both).as_millis());
                let detail = format!("{a} and {b} for {took} ms, allowed {allowed}");
                breach(Rule::TwoOwners, both.from, detail)
            }));
        }
    }
    found
}

/// Whether a fault starved the agent of one of these hosts in that time.
fn is_agent_starved(seen: &Seen, hosts: &[&str], then: &Interval) -> bool {
    let mut starved = seen.faults.iter().filter(|fault| fault.class == Class::AgentStarved);
    starved.any(|fault| hosts.contains(&fault.host.as_str()) && fault.from < then.to && then.from < fault.to)
}

fn one_holder(seen: &Seen) -> Vec<Breach> {
    let Some(settled) = seen.settled() else {
        let at_end = seen.holds.holders_at(seen.to);
        let took = seen.to.since(seen.ready).as_secs_f64();
        let detail =
            format!("{took:.1} s after all was healed the VIP is with {at_end:?}, or the client hears nothing");
        return vec![breach(Rule::OneHolder, seen.ready, detail)];
    };
    let took = settled.since(seen.ready);
    if took > SETTLED + seen.stalled(seen.ready, settled) {
        let detail =
            format!("settled only {:.1} s after all was healed, allowed {}", took.as_secs_f64(), SETTLED.as_secs());
        return vec![breach(Rule::OneHolder, seen.ready + SETTLED, detail)];
    }
    if seen.named.is_none() {
        let detail = "the Lease does not name who has the VIP".to_owned();
        return vec![breach(Rule::OneHolder, seen.to, detail)];
    }
    Vec::new()
}

fn allowed(seen: &Seen) -> bounds::Bound {
    let faults: Vec<_> = seen.faults.iter().map(|one| (one.class, one.on_holder, one.lasts)).collect();
    bounds::of_round(&faults, seen.spent, seen.etcd)
}

fn outage(seen: &Seen) -> Vec<Breach> {
    let begins = seen.begins();
    let quiet = HARMLESS.max(seen.left);
    [
        silence(&seen.before(), quiet, seen.stalled(seen.from, begins), " before the first fault"),
        silence(&seen.cost(), allowed(seen).outage, seen.stalled(seen.from, seen.to), ""),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The gaps together may be no longer than allowed.
fn silence(gaps: &[Gap], bound: Duration, stalled: Duration, when: &str) -> Option<Breach> {
    let (outage, allowed) = (gaps.iter().map(Gap::length).sum::<Duration>(), bound + stalled);
    let longest = gaps.iter().max_by_key(|gap| gap.length()).filter(|_| outage > allowed)?;
    let detail = format!(
        "the client heard nothing for {} ms{when} in {} gaps, the longest {} ms; allowed {} ms ({} of them because the machine stood still)",
        outage.as_millis(),
        gaps.len(),
        longest.length().as_millis(),
        allowed.as_millis(),
        stalled.as_millis()
    );
    Some(breach(Rule::Outage, longest.from, detail))
}

/// The outage that the faults of this round may still cost after it.
#[must_use]
pub fn left(seen: &Seen) -> Duration {
    allowed(seen).outage.saturating_sub(seen.outage())
}

fn moves(seen: &Seen) -> Vec<Breach> {
    let (moves, allowed) = (seen.moves(), allowed(seen).moves);
    let Some((at, _)) = moves.get(allowed) else {
        return Vec::new();
    };
    let to: Vec<&str> = moves.iter().map(|(_, host)| *host).collect();
    vec![breach(Rule::Moves, *at, format!("{} moves (to {}), allowed {allowed}", moves.len(), to.join(", ")))]
}

fn requests(seen: &Seen) -> Vec<Breach> {
    let mut times = seen.requests.clone();
    times.sort_unstable();
    let second = Duration::from_secs(1);
    let (most, most_rate) = if seen.services { (BURST + SERVICES_BURST, RATE + SERVICES_RATE) } else { (BURST, RATE) };
    let burst = times.iter().enumerate().find_map(|(i, at)| {
        let end = times.partition_point(|other| *other < *at + second);
        (end - i > most).then(|| (*at, end - i))
    });
    if let Some((at, count)) = burst {
        return vec![breach(Rule::Requests, at, format!("{count} requests in one second, allowed {most}"))];
    }
    let whole = Interval { from: seen.from, to: seen.to }.length().as_secs_f64().max(1.0);
    let rate = f64::from(u32::try_from(times.len()).unwrap_or(u32::MAX)) / whole;
    if rate > most_rate {
        return vec![breach(Rule::Requests, seen.from, format!("{rate:.1} requests a second, allowed {most_rate}"))];
    }
    Vec::new()
}

fn agents(seen: &Seen) -> Vec<Breach> {
    let unasked = seen.unasked.iter().map(|one| breach(Rule::Agents, one.at, format!("{}: {}", one.host, one.what)));
    let grown = seen.memory.iter().filter(|(_, kb)| *kb > MEMORY);
    let grown =
        grown.map(|(host, kb)| breach(Rule::Agents, seen.to, format!("{host}: {kb} kB resident, allowed {MEMORY}")));
    unasked.chain(grown).collect()
}

#[cfg(test)]
mod tests;
