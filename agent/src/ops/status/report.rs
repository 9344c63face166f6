//! What the agent knows of itself, with moments on its own clock.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::{ApiStatus, Candidate, Lease, Status, Transition, Vip, Witness};
use crate::core::echo::State;
use crate::core::time::{Time, WallTime};

/// How many transitions are remembered.
pub(super) const TRANSITIONS: usize = 20;

/// What the agent knows of itself. The event loop sends a new report when something has changed. Durations are computed
/// when a client asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// This node.
    pub node: String,
    /// The interface; empty while there is none.
    pub interface: String,
    /// What the agent is, in a word or two: `candidate`, `holder`, `provisional holder`.
    pub state: String,
    /// The VIPs.
    pub vips: Vec<VipReport>,
    /// The Lease.
    pub lease: LeaseReport,
    /// The segment as witness.
    pub witness: WitnessReport,
    /// The nodes that take part.
    pub candidates: Vec<Candidate>,
    /// The last transitions, oldest first: see [`Report::note`].
    pub transitions: VecDeque<Transition>,
}

/// A VIP, as the agent knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VipReport {
    /// The address.
    pub address: IpAddr,
    /// Its prefix length.
    pub prefix: u8,
    /// Whether this node carries it.
    pub carried: bool,
    /// Until when the kernel keeps it.
    pub fence_until: Option<Time>,
}

/// The Lease, as the agent knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseReport {
    /// NAMESPACE/NAME.
    pub name: String,
    /// The node that holds it; empty: none.
    pub holder: String,
    /// When it ends, if the agent sees no further renewal.
    pub expires: Option<Time>,
    /// How often it changed hands.
    pub transitions: u32,
    /// When it was last seen renewed.
    pub renewed: Option<Time>,
    /// The API.
    pub api: ApiStatus,
}

/// The witness, as the agent knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WitnessReport {
    /// In a word: `off`, `watching`, `deaf`.
    pub state: String,
    /// Misses in a row.
    pub misses: u32,
    /// When the holder last answered.
    pub answered: Option<Time>,
    /// Whether other hosts answer this node's probes.
    pub probes: State,
}

impl Report {
    /// Remembers a transition, and makes `to` the state.
    pub fn note(&mut self, at: WallTime, to: &str, why: impl Into<String>) {
        // A time beyond jiff's year 9999 comes from a broken wall clock.
        let at = Timestamp::from_microsecond(at.0).map_or_else(|_| "unknown".to_owned(), |at| format!("{at:.3}"));
        let from = std::mem::replace(&mut self.state, to.to_owned());
        while self.transitions.len() >= TRANSITIONS {
            self.transitions.pop_front();
        }
        self.transitions.push_back(Transition { at, from, to: to.to_owned(), why: why.into() });
    }

    /// The document at this moment.
    #[must_use]
    pub fn at(&self, now: Time, waits: Vec<String>) -> Status {
        let left = |until: Time| millis(until.since(now));
        let ago = |then: Time| millis(now.since(then));
        let vip = |v: &VipReport| Vip {
            address: v.address,
            prefix: v.prefix,
            carried: v.carried,
            fence_left_ms: v.fence_until.map(left),
        };
        let lease = Lease {
            name: self.lease.name.clone(),
            holder: self.lease.holder.clone(),
            mine: !self.lease.holder.is_empty() && self.lease.holder == self.node,
            expires_in_ms: self.lease.expires.map(left),
            transitions: self.lease.transitions,
            renewed_ago_ms: self.lease.renewed.map(ago),
            api: self.lease.api.clone(),
        };
        let witness = Witness {
            state: self.witness.state.clone(),
            misses: self.witness.misses,
            answered_ago_ms: self.witness.answered.map(ago),
            probes: self.witness.probes,
        };
        Status {
            node: self.node.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            interface: self.interface.clone(),
            state: self.state.clone(),
            waits,
            vips: self.vips.iter().map(vip).collect(),
            lease,
            witness,
            candidates: self.candidates.clone(),
            transitions: self.transitions.clone(),
            services: None,
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
