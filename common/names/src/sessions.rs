//! What agents write on Leases: on the control plane's, and on their own sessions.

/// On the Lease of the control plane's VIPs: what its holder declares.
pub const TENURE: &str = "mooring.dev/tenure";
/// On the Lease of the control plane's VIPs: who is to take it next.
pub const HANDOVER: &str = "mooring.dev/handover";
/// On the Lease of the control plane's VIPs: the nodes that take part, by name.
pub const PARTICIPANTS: &str = "mooring.dev/participants";
/// On the Lease of the control plane's VIPs: which node last let go of a hold without the Lease, and when.
pub const LET_GO: &str = "mooring.dev/let-go";

/// The prefix of the names of session Leases; the node's name follows.
pub const PREFIX: &str = "mooring-session.";
/// The label of session Leases.
pub const LABEL: &str = "mooring.dev/session";
/// On a session Lease: what its node declares.
pub const DECLARED: &str = "mooring.dev/session";
/// On a session Lease: who ended it, and why.
pub const ENDED: &str = "mooring.dev/ended";

/// On a Node, `true`: it hands over its VIPs and takes no more.
pub const DRAIN: &str = "mooring.dev/drain";
/// On a Node: another value than before asks it to hand over what belongs elsewhere.
pub const REBALANCE: &str = "mooring.dev/rebalance";
