//! The inputs, API calls and reports of the core for kube-vip's placements.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::action::{self, Action};
use crate::event::Event as ForElector;

/// What this node may carry by a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// The VIPs, each with the index of the interface that it belongs on.
    pub vips: BTreeMap<IpAddr, u32>,
    /// Whether frames can pass on any of their interfaces, and all of these exist.
    pub up: bool,
    /// The VIPs on whose own interface no frames can pass.
    pub unheard: BTreeSet<IpAddr>,
    /// Whether this node may have the Lease. A holder without this right hands the Lease over.
    pub campaigns: bool,
}

/// An input of this core alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a handful live for a moment")]
pub enum Input {
    /// For each Lease (NAMESPACE/NAME), everything that this node may carry. A Lease without an entry is given up.
    Assignments(BTreeMap<String, Assignment>),
    /// About one Lease: it was seen, read or written, or its watch broke.
    Lease {
        /// The Lease.
        name: String,
        /// The event for its elector.
        event: ForElector,
    },
}

/// Read or write a Lease, or ask the peers for their health. The answer is an [`Input::Lease`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The Lease, NAMESPACE/NAME.
    pub name: String,
    /// The elector's action.
    pub action: Action,
}

/// A report for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The Lease.
    pub name: String,
    /// The VIPs of the Lease that this node has, or might have.
    pub vips: Vec<IpAddr>,
    /// The elector's report.
    pub what: action::Report,
}
