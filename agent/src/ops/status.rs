//! What the agent is doing: as the agent knows it ([`Report`], with moments on its own clock), and as the agent
//! publishes it ([`Status`], with durations left and durations past, which any reader can use).

mod report;
mod tables;
#[cfg(test)]
pub(super) mod tests;

use std::collections::VecDeque;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::core::echo::State;

pub use report::{LeaseReport, Report, VipReport, WitnessReport};

use super::services::ServicesStatus;

/// The status document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// This node.
    pub node: String,
    /// The agent's version.
    pub version: String,
    /// The interface; empty while there is none.
    pub interface: String,
    /// The state of the agent: `candidate`, `holder`, `provisional holder`.
    pub state: String,
    /// The reasons why the agent is not ready; empty: it is ready.
    pub waits: Vec<String>,
    /// The VIPs.
    pub vips: Vec<Vip>,
    /// The Lease.
    pub lease: Lease,
    /// The segment as witness.
    pub witness: Witness,
    /// The nodes that take part.
    pub candidates: Vec<Candidate>,
    /// The last transitions, oldest first.
    pub transitions: VecDeque<Transition>,
    /// VIPs of Services; None: this agent holds none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<ServicesStatus>,
}

/// A VIP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vip {
    /// The address.
    pub address: IpAddr,
    /// Its prefix length.
    pub prefix: u8,
    /// Whether this node carries it.
    pub carried: bool,
    /// For how long the kernel keeps it, in milliseconds.
    pub fence_left_ms: Option<u64>,
}

/// The Lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// NAMESPACE/NAME.
    pub name: String,
    /// The node that holds it; empty: none.
    pub holder: String,
    /// Whether that is this node.
    pub mine: bool,
    /// When it ends, in milliseconds; 0: it has.
    pub expires_in_ms: Option<u64>,
    /// How often it changed hands.
    pub transitions: u32,
    /// When it was last seen renewed, in milliseconds.
    pub renewed_ago_ms: Option<u64>,
    /// The API.
    pub api: ApiStatus,
}

/// The API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiStatus {
    /// The server that is asked; empty: none yet.
    pub server: String,
    /// Whether it answers.
    pub ok: bool,
    /// The last error.
    pub last_error: Option<String>,
}

/// The segment as witness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// In a word.
    pub state: String,
    /// Misses in a row.
    pub misses: u32,
    /// When the holder last answered, in milliseconds.
    pub answered_ago_ms: Option<u64>,
    /// Whether other hosts answer this node's probes: `unknown`, `not_asked` (it is not known, and the limit of frames
    /// leaves no room to ask), `answered`, `filtered` (only probes that do not come from 0.0.0.0), `nobody`. An agent of a version that does not report it is read as `unknown`.
    #[serde(default)]
    pub probes: State,
}

/// A node that takes part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The node.
    pub node: String,
    /// Its own addresses on the segment.
    pub addresses: Vec<IpAddr>,
    /// Whether its API server is healthy, where that is known.
    pub healthy: Option<bool>,
}

/// A change of state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// When, on the wall clock, as RFC 3339 says.
    pub at: String,
    /// The state before.
    pub from: String,
    /// The state after.
    pub to: String,
    /// Why, for people.
    pub why: String,
}
