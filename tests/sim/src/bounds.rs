//! How long anything may take: what the checks of every core ask for. Each core works them out from the settings of a run.

use crate::clock::Nanos;

/// The bounds of every core; the bounds of a single core are next to that core's checks.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Two carry one VIP, hear each other and can act.
    pub owners: Nanos,
    /// The same, and one of the two has just stood still, with its clocks or without.
    pub owners_after_sleep: Nanos,
    /// The same, and one does not know that the other takes part.
    pub owners_unknown: Nanos,
    /// A hand-over, an API outage, whatever moves nothing: the client notices nothing (but for one probe).
    pub moment: Nanos,
    /// A node falls silent in a settled world.
    pub crash: Nanos,
    /// A stopped agent, or one without an API, for so much less than a Lease keeps its VIPs.
    pub stopped: Nanos,
    /// After any fault: no node serves a VIP, though a node could.
    pub outage: Nanos,
    /// So long after anything, all agents know how things are.
    pub informed: Nanos,
    /// From the end of the last fault until all is settled.
    pub settle: Nanos,
    /// For so long it is watched that it stays so.
    pub stay: Nanos,
    /// Holders of a VIP after one event; an upgrade is one event for each node.
    pub moves: u32,
    /// Requests of one node within ten seconds.
    pub calls: u32,
}
