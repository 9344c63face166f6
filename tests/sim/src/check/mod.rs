//! What must hold, whatever goes wrong. Each rule is a file; its bound comes from [`crate::bounds`].

mod able;
mod calls;
mod fence;
mod outage;
mod owners;
mod settle;
mod single;
mod witness;

use std::fmt;

use serde::Serialize;

use crate::bounds::Bounds;
use crate::clock::Nanos;
use crate::plan::Plan;
use crate::world::World;

pub use single::Single;

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Two nodes that hear each other do not both carry the VIP for long.
    Owners,
    /// Nobody carries it past its fence, or takes a Lease by its end while that of the last holder is still fenced.
    Fence,
    /// When faults stop, exactly one node carries it soon, and stays.
    Settle,
    /// While somebody could serve, outage stays within the bound of what happened.
    Outage,
    /// The witness takes from nobody who answers.
    Witness,
    /// An agent that came late announces nothing before it has looked around.
    Late,
    /// The VIP does not wander.
    Moves,
    /// Requests to the API stay bounded.
    Calls,
    /// No panic, no loop, no memory that grows.
    Stuck,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Owners => "owners",
            Self::Fence => "fence",
            Self::Settle => "settle",
            Self::Outage => "outage",
            Self::Witness => "witness",
            Self::Late => "late",
            Self::Moves => "moves",
            Self::Calls => "calls",
            Self::Stuck => "stuck",
        })
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
pub enum Look {
    /// An address should be gone.
    Fence {
        /// Where.
        host: usize,
        /// Which.
        vip: usize,
        /// Of that lifetime.
        generation: u32,
    },
    /// Two carry one VIP.
    Pair {
        /// Which two.
        pair: usize,
        /// Since then.
        since: Nanos,
    },
    /// Something is over that was to be waited for: etcd has a leader again, a kernel has caught up.
    Again,
    /// All should be settled.
    Settled,
}

/// What the checks remember.
#[derive(Debug)]
pub struct Checks {
    /// The bounds of the run.
    pub bounds: Bounds,
    /// The first rule that did not hold.
    pub violation: Option<Violation>,
    owners: owners::Owners,
    settle: settle::Settle,
    outage: outage::Outages,
    witness: witness::Moves,
    slept: Vec<Nanos>,
}

impl Checks {
    /// At the beginning of a run.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let (nodes, vips) = (plan.settings.nodes, plan.settings.vips.len());
        Self {
            bounds: Bounds::of(&plan.settings),
            violation: None,
            owners: owners::Owners::new(nodes, vips),
            settle: settle::Settle::default(),
            outage: outage::Outages::default(),
            witness: witness::Moves::default(),
            slept: vec![0; nodes],
        }
    }

    /// Somebody stripped the Lease's annotations.
    pub fn stripped(&mut self, now: Nanos) {
        self.witness.stripped = now;
    }

    /// A host has stood still until now.
    pub fn slept(&mut self, host: usize, now: Nanos) {
        self.slept[host] = now;
    }
}

impl World<'_> {
    /// When checks look without being called.
    pub fn plan_looks(&mut self) {
        let settled = self.plan.calm() + self.checks.bounds.settle;
        self.queue.put(settled, crate::queue::Item::Look(Look::Settled));
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
            Look::Pair { pair, since } => self.check_pair(pair, since),
            Look::Again => {
                self.wake_probers();
                self.touched();
            }
            Look::Settled => self.check_settled(),
        }
    }

    /// Something has changed about who carries, who hears whom, who can act.
    pub fn touched(&mut self) {
        self.watch_owners();
        self.watch_able();
        self.watch_settled();
        self.touch_client();
    }

    /// A fault begins or ends.
    pub fn disturbed(&mut self, fault: usize) {
        self.note_disturbance(fault);
        self.checks.witness.disturbed();
    }
}
