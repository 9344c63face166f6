//! What must hold, whatever goes wrong, of every core. What only one core promises is beside that core's world.

mod alone;
mod fence;
mod owners;
mod stuck;

use std::fmt;

use serde::Serialize;

use crate::clock::Nanos;
use crate::subject::Subject;
use crate::world::World;

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Two nodes that hear each other do not both carry a VIP for long.
    Owners,
    /// Nobody carries a VIP past its fence, or takes by the end of a Lease while the last holder is still fenced by it.
    Fence,
    /// A record is replaced only after the end of its incarnation, or with consent.
    Record,
    /// When faults stop, exactly one node carries each VIP soon, is named for it, and stays.
    Settle,
    /// While somebody could serve, outage stays within the bound of what happened.
    Outage,
    /// A VIP follows a healthy API server.
    Health,
    /// The witness never takes a VIP from a node that answers.
    Witness,
    /// An agent that came late, or whose link was down, announces or takes nothing before it has looked around.
    Late,
    /// Without the API a node answers and does not call, and goes on only while it hears enough of the others.
    Alone,
    /// VIPs do not wander.
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
            Self::Record => "record",
            Self::Settle => "settle",
            Self::Outage => "outage",
            Self::Health => "health",
            Self::Witness => "witness",
            Self::Late => "late",
            Self::Alone => "alone",
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
    /// Two should no longer carry one VIP.
    Pair {
        /// The VIP.
        vip: usize,
        /// One host.
        a: usize,
        /// The other one.
        b: usize,
        /// Since then.
        since: Nanos,
    },
    /// Nodes that were cut off should carry nothing any more.
    CutOff {
        /// By which fault of the plan.
        fault: usize,
        /// When it began.
        since: Nanos,
    },
    /// Nodes without the API should carry nothing any more: the settings say `release`.
    Released {
        /// By which fault of the plan.
        fault: usize,
        /// When it began.
        since: Nanos,
    },
    /// Something is over that was to be waited for: etcd has a leader again, a kernel has caught up.
    Again,
    /// All should be settled.
    Settled,
    /// Perhaps all has been quiet for long enough.
    Quiet,
}

/// Beyond these, an agent or the world is stuck.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Steps of one agent in a second.
    pub steps: u32,
    /// Outputs of one step.
    pub outputs: usize,
    /// Things that wait to happen.
    pub waiting: usize,
}

/// The one fault that hit a settled world: the bounds are tight then.
#[derive(Clone, Copy, Debug)]
pub struct Single {
    /// Which of the plan's.
    pub fault: usize,
    /// When.
    pub at: Nanos,
    /// How long a VIP may be silent for it.
    pub bound: Nanos,
    /// VIPs must stay where they are.
    pub stays: bool,
}

impl<S: Subject> World<'_, S> {
    /// A check's time has come.
    pub fn look(&mut self, look: Look) {
        match look {
            Look::Fence { host, vip, generation } => self.check_fence(host, vip, generation),
            Look::Pair { vip, a, b, since } => self.check_pair(vip, a, b, since),
            Look::CutOff { fault, since } => self.check_cut_off(fault, since),
            Look::Released { fault, since } => self.check_release_setting(fault, since),
            Look::Again | Look::Settled | Look::Quiet => S::look(self, look),
        }
    }
}
