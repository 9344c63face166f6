//! The inputs of the machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::names::{Key, Uid, Version};
use mooring_allocator_core::work::{self, Failure};

use crate::objects::{Claim, Cluster, ControlPlane, Infrastructure, Reading, Reference};

/// An event. The events of one kind of object come in the watch's order.
#[derive(Clone, Debug)]
pub enum Event {
    /// Only time has passed.
    Tick,
    /// This allocator leads, and surely leads until this moment; None: it does not lead.
    Leading(Option<Duration>),
    /// The list of this kind that [`super::Action::List`] asked for is complete; its objects came before this event. The
    /// number is the action's.
    Listed(Kind, u64),
    /// All Clusters: at start, and after a broken watch.
    Clusters(Vec<Cluster>),
    /// A Cluster was made or changed.
    Cluster(Box<Cluster>),
    /// A Cluster is gone.
    ClusterGone(Key, Uid),
    /// The pools that namespaces name in [`crate::words::POOL`]: all of them.
    Namespaces(BTreeMap<Arc<str>, Box<str>>),
    /// The pool that a namespace names; None: none any more.
    Namespace(Arc<str>, Option<Box<str>>),
    /// All infrastructure clusters of a group and kind.
    Infrastructures(Arc<str>, Arc<str>, Vec<Infrastructure>),
    /// An infrastructure cluster was made or changed.
    Infrastructure(Box<Infrastructure>),
    /// All control planes of a group and kind.
    ControlPlanes(Arc<str>, Arc<str>, Vec<ControlPlane>),
    /// A control plane was made or changed.
    ControlPlane(Box<ControlPlane>),
    /// An infrastructure cluster or a control plane is gone.
    Gone(Reference, Uid),
    /// All claims that are for a Cluster.
    Claims(Vec<Claim>),
    /// A claim of that sort, or the address that it is bound to, was made or changed.
    Claim(Box<Claim>),
    /// A claim is gone.
    ClaimGone(Key, Uid),
    /// A write ended.
    Answer {
        /// The action's number.
        id: u64,
        /// The result of the write.
        result: Result<Done, Failure>,
        /// What the API server said, if it failed: a webhook of it does not answer, say.
        said: Option<String>,
    },
    /// A read ended.
    Read {
        /// The action's number.
        id: u64,
        /// What was read; `Ok(None)`: there is no such object.
        result: Result<Option<Reading>, Failure>,
    },
}

/// A kind of object on which decisions depend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Clusters.
    Clusters,
    /// Namespaces.
    Namespaces,
    /// Claims.
    Claims,
    /// Infrastructure clusters or control planes of a group and kind: the Clusters that name one depend on it.
    Parts(Arc<str>, Arc<str>),
}

impl Kind {
    /// The kinds on which every decision depends.
    pub const NEEDED: [Self; 3] = [Self::Clusters, Self::Namespaces, Self::Claims];
}

/// The object that a write left, at this version; or nothing.
pub type Done = work::Done<Version>;
