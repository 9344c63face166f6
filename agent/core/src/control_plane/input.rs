//! The inputs of the control plane's core alone: its VIPs, the Lease, and the health of API servers.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::event::{Event as ForElector, Failure};
use crate::health::Verdict;
use crate::lease::LeaseView;

/// News from the settings, DNS, the API or the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The VIPs that should exist. They change when a DNS name does.
    Vips(Vec<IpAddr>),
    /// The VIPs that are permanent addresses of this node.
    Own(BTreeSet<IpAddr>),
    /// The addresses at which `default/kubernetes` lists this node's API server: of any interface, at most one a family.
    ApiServers(Vec<IpAddr>),
    /// A watch event showed the Lease; None: the Lease does not exist.
    Seen(Option<LeaseView>),
    /// The watch broke.
    WatchLost,
    /// A read ended.
    Read {
        /// The call's number.
        id: u64,
        /// What the API showed.
        result: Result<Option<LeaseView>, Failure>,
    },
    /// A write ended.
    Wrote {
        /// The call's number.
        id: u64,
        /// The Lease as written.
        result: Result<LeaseView, Failure>,
    },
    /// The verdict on the local API server has changed, or is the first.
    Health(Verdict),
    /// Peers' API servers were asked for their health.
    Peers {
        /// The call's number.
        id: u64,
        /// The addresses of the healthy API servers; the node's own addresses too, if its own server is healthy.
        healthy: Vec<IpAddr>,
    },
}

impl Input {
    /// The Elector's event; None for inputs that this core takes in itself.
    pub(super) fn for_elector(self) -> Option<ForElector> {
        Some(match self {
            Self::Seen(view) => ForElector::Seen(view),
            Self::WatchLost => ForElector::WatchLost,
            Self::Read { id, result } => ForElector::Read { id, result },
            Self::Wrote { id, result } => ForElector::Wrote { id, result },
            Self::Health(verdict) => ForElector::Health(verdict),
            Self::Peers { id, healthy } => ForElector::Peers { id, healthy },
            Self::Vips(_) | Self::Own(_) | Self::ApiServers(_) => return None,
        })
    }
}
