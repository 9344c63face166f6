//! What must hold of sessions and many VIPs, whatever goes wrong.

mod owners;
mod serving;
mod settle;
mod single;
mod writes;

use std::collections::BTreeMap;
use std::fmt;

use mooring_core::rules::SHORT_FENCE;
use mooring_core::time::Time;
use serde::Serialize;

use super::bounds::Bounds;
use super::fault::Fault;
use super::plan::Plan;
use super::queue::Item;
use super::settings;
use super::world::World;
use crate::clock::{MS, Nanos, SECOND};

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Two nodes that hear each other do not both carry a VIP for long.
    Owners,
    /// Nobody carries it past its fence; no session is ended as expired while its fence holds.
    Fence,
    /// A record is replaced only after the end of its incarnation, or with consent.
    Record,
    /// When faults stop, exactly one node carries each VIP soon, is in its record, and stays.
    Settle,
    /// While somebody could serve, outage stays within the bound of what happened.
    Outage,
    /// No witness ends who answers it.
    Witness,
    /// An agent that came late announces nothing before it has looked around.
    Late,
    /// VIPs do not wander.
    Moves,
    /// Requests to the API stay bounded.
    Calls,
    /// No panic, no loop, no memory that grows.
    Stuck,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", format!("{self:?}").to_lowercase())
    }
}

/// A rule did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// When, in nanoseconds of simulated time.
    pub at: Nanos,
    /// What was seen.
    pub text: String,
}

/// A check looks again at something.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names of the fields say it")]
pub enum Look {
    /// An address should be gone.
    Fence { host: usize, vip: usize, generation: u32 },
    /// Two should no longer carry one VIP.
    Pair { vip: usize, a: usize, b: usize, since: Nanos },
    /// Something is over that was to be waited for.
    Again,
    /// All should be settled.
    Settled,
    /// Perhaps all has been quiet for long enough.
    Quiet,
}

/// What the checks remember.
#[derive(Debug)]
pub struct Checks {
    /// The bounds of the run.
    pub bounds: Bounds,
    /// The first rule that did not hold.
    pub violation: Option<Violation>,
    pairs: BTreeMap<(usize, usize, usize), Nanos>,
    /// Since when each VIP has not answered the client.
    pub silent: Vec<Option<Nanos>>,
    /// Since when each host could serve each VIP.
    able: Vec<Vec<Option<Nanos>>>,
    /// When a fault began or ended last.
    pub last: Nanos,
    single: Option<single::Single>,
    settled: Option<Vec<Option<usize>>>,
    /// When anything last happened that does not go on for ever: who carries what, a record, a session's begin or end.
    stirred: Nanos,
    /// All has been quiet: the run is over then.
    pub over: Nanos,
    moves: Vec<u32>,
    moved: Vec<u32>,
    abandoned: Vec<u32>,
    /// When incarnations ended, and when sessions began.
    ended: BTreeMap<(String, String, u32), Nanos>,
    began: BTreeMap<String, Nanos>,
    /// When a node that was leaving stayed after all.
    withdrawn: BTreeMap<String, Nanos>,
    /// Frames for VIPs that the record has long named the sender for: who, from whom, when.
    heard_held: BTreeMap<(usize, usize), Nanos>,
    /// Since when a record names its holder.
    recorded: Vec<Nanos>,
    planned: bool,
    /// When the store was last restored from a backup.
    pub restored: Option<Nanos>,
}

impl Checks {
    /// At the beginning of a run.
    #[must_use]
    pub fn new(plan: &Plan, most: usize) -> Self {
        let nodes = plan.settings.nodes;
        Self {
            bounds: Bounds::of(&plan.settings),
            violation: None,
            pairs: BTreeMap::new(),
            silent: vec![Some(0); most],
            able: vec![vec![None; most]; nodes],
            last: 0,
            single: None,
            settled: None,
            stirred: 0,
            over: Nanos::MAX,
            moves: vec![0; most],
            moved: vec![0; most],
            abandoned: vec![0; nodes],
            ended: BTreeMap::new(),
            began: BTreeMap::new(),
            withdrawn: BTreeMap::new(),
            heard_held: BTreeMap::new(),
            recorded: vec![0; most],
            planned: true,
            restored: None,
        }
    }
}

/// One run of so many goes on to the end of its time.
const WHOLE: u64 = 8;
/// What was decided by what a store said before it was restored has been written after so long.
const AFTER_RESTORE: Nanos = 10 * SECOND;

impl World<'_> {
    /// The store went back in time: an end that somebody has seen is undone, and he cannot know.
    fn is_restored(&self) -> bool {
        self.checks.restored.is_some_and(|at| self.now < at + AFTER_RESTORE)
    }

    /// When checks look without being called.
    pub fn plan_looks(&mut self) {
        let settled = self.plan.calm() + self.checks.bounds.settle;
        self.queue.put(settled, Item::Look(Look::Settled));
        // A few runs go on to the last moment that anything may take; the others until all has been quiet for long.
        if !self.plan.seed.is_multiple_of(WHOLE) {
            self.queue.put(self.plan.calm() + SECOND, Item::Look(Look::Quiet));
        }
    }

    /// When the run is over.
    #[must_use]
    pub fn end_of_run(&self) -> Nanos {
        self.plan.calm() + self.checks.bounds.settle + self.checks.bounds.stay
    }

    /// A check's time has come.
    pub fn look_again(&mut self, look: Look) {
        match look {
            Look::Fence { host, vip, generation } => self.check_fence(host, vip, generation),
            Look::Pair { vip, a, b, since } => self.check_pair(vip, a, b, since),
            Look::Again => self.touched(),
            Look::Settled => self.check_settled(),
            Look::Quiet => self.check_quiet(),
        }
    }

    /// Something has changed about who can act, or who hears whom.
    pub fn touched(&mut self) {
        for vip in 0..self.most {
            self.touched_vip(vip);
        }
    }

    /// Who carries a VIP has changed.
    pub fn touched_vip(&mut self, vip: usize) {
        self.stirred();
        self.watch_owners(vip);
        self.watch_settled(vip);
        self.touch_client();
    }

    /// Something has happened that does not happen all the time.
    pub fn stirred(&mut self) {
        self.checks.stirred = self.now;
    }

    /// A fault begins or ends.
    pub fn disturbed(&mut self, fault: usize) {
        self.note_single(fault);
        self.checks.last = self.now;
        self.checks.moves.fill(0);
    }

    /// How long after its fence an address may still be there: the datapath's two rounds, each with the kernel's time.
    #[must_use]
    pub fn past_fence(&self, host: usize) -> Nanos {
        3 * MS + 5 * self.hosts[host].kernel
    }

    fn check_fence(&mut self, host: usize, vip: usize, generation: u32) {
        let Some(standing) = self.hosts[host].vips[vip].filter(|s| s.generation == generation) else { return };
        let slept = self.hosts[host].slept;
        // Excused: the kernel's lifetimes stand still with a machine that does; its agent looks at the clock within a second.
        let recent = slept > 0 && slept + 2 * SECOND > self.now;
        let dead = slept > 0 && !self.hosts[host].is_live();
        if self.hosts[host].asleep.is_some() || recent || dead || self.hosts[host].slow_until > self.now {
            if standing.ends + SECOND > self.now || recent {
                self.put(SECOND, Item::Look(Look::Fence { host, vip, generation }));
            }
            return;
        }
        let clock = self.hosts[host].moment(self.now).now;
        if clock < standing.until {
            let due = self.hosts[host].clock.when(standing.until.as_nanos()) + self.past_fence(host);
            self.queue.put(due.max(self.now + MS), Item::Look(Look::Fence { host, vip, generation }));
            return;
        }
        let text =
            format!("{} still has VIP {vip} at {clock}, past its fence at {}", settings::name(host), standing.until);
        self.violated(Rule::Fence, text);
    }

    /// Which fence the core asks for: true, the session's. It must be no longer than that or a short one.
    pub fn check_fence_asked(&mut self, host: usize, now: Time, until: Time) -> bool {
        let lease = self.plan.settings.rules.lease_duration;
        let confirmed = self.hosts[host].agent.as_ref().and_then(|agent| agent.confirmed);
        let end = confirmed.map(|sent| sent + lease);
        let short = until <= now + SHORT_FENCE;
        if end.is_some_and(|end| until <= end) {
            return !short || end == Some(until);
        }
        if !short {
            let text = format!("{} asks for a fence until {until}; its session ends {end:?}", settings::name(host));
            self.violated(Rule::Fence, text);
        }
        false
    }

    /// At the end of a run: the worst ten seconds of any node.
    pub fn check_calls(&mut self) {
        // Each write of a record that another's comes before is one more of its own, and a read.
        let nudged = self.plan.faults.iter().any(|planned| matches!(planned.fault, Fault::Nudge(_)));
        let more = if nudged { u32::try_from(self.most * 6).unwrap_or(u32::MAX) } else { 0 };
        let (most, bound) = (self.counts.most, self.checks.bounds.calls + more);
        if most > bound {
            self.violated(Rule::Calls, format!("a node sent {most} requests within 10 s; the bound is {bound}"));
        }
        if self.queue.len() > 8_000 * (1 + self.hosts.len()) {
            let text = format!("{} things wait to happen", self.queue.len());
            self.violated(Rule::Stuck, text);
        }
    }
}
