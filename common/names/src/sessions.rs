//! What agents write on Leases: on the control plane's, and on their own sessions. And what they read on Nodes.

/// The prefix of the names of session Leases; the node's name follows.
pub const PREFIX: &str = "mooring-session.";
/// The prefix of the names of member objects; the node's name follows.
pub const MEMBER_PREFIX: &str = "mooring-member.";
/// The value of [`LABEL`] where the node's agent publishes a member object.
pub const PUBLISHED: &str = "published";

crate::mark::marks! {
    /// What the holder of the control plane's VIPs declares.
    Annotation TENURE = "mooring.dev/tenure" {
        on: "Lease of the control plane's VIPs", value: "JSON", "agents" => "agents"
    }

    /// Who is to take the control plane's VIPs next.
    Annotation HANDOVER = "mooring.dev/handover" {
        on: "Lease of the control plane's VIPs", value: "JSON", "agents" => "agents"
    }

    /// The nodes that take part in holding the control plane's VIPs.
    Annotation PARTICIPANTS = "mooring.dev/participants" {
        on: "Lease of the control plane's VIPs", value: "JSON", "agents" => "agents"
    }

    /// Which node last let go of a hold without the Lease, and when.
    Annotation LET_GO = "mooring.dev/let-go" {
        on: "Lease of the control plane's VIPs", value: "JSON", "agents" => "agents"
    }

    /// The Lease is the session of a node.
    Label LABEL = "mooring.dev/session" {
        on: "Leases of sessions", value: "`published`: the node has a member object; empty: its agent publishes none", "agents" => "agents"
    }

    /// The object repeats what the session of a node says, without its renewals.
    Label MEMBER = "mooring.dev/member" {
        on: "ConfigMaps of sessions", value: "empty", "agents" => "agents"
    }

    /// What the session's node declares.
    Annotation DECLARED = "mooring.dev/session" {
        on: "Leases of sessions", value: "JSON", "agents" => "agents"
    }

    /// Who ended the session, and why.
    Annotation ENDED = "mooring.dev/ended" {
        on: "Leases of sessions", value: "JSON", "agents" => "agents"
    }

    /// The node hands over its VIPs and takes no more.
    Annotation DRAIN = "mooring.dev/drain" {
        on: "Node", value: "`true`", "people" => "the node's agent"
    }

    /// Another value than before asks the node to hand over what belongs elsewhere.
    Annotation REBALANCE = "mooring.dev/rebalance" {
        on: "Node", value: "any", "people" => "the node's agent"
    }
}
