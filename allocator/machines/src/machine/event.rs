//! The inputs of the machine.

use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::names::{Key, PoolRef, Uid, Version};
use mooring_allocator_core::work::{self, Failure};

use crate::objects::{Claim, Cluster, Pool, Template, VSphereMachine};

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
    Cluster(Cluster),
    /// A Cluster is gone.
    ClusterGone(Key),
    /// All machines.
    Machines(Vec<VSphereMachine>),
    /// A machine was made or changed.
    Machine(Box<VSphereMachine>),
    /// A machine is gone.
    MachineGone(Key, Uid),
    /// All templates.
    Templates(Vec<Template>),
    /// A template was made or changed.
    Template(Template),
    /// A template is gone.
    TemplateGone(Key),
    /// All pools.
    Pools(Vec<Pool>),
    /// A pool was made or changed.
    Pool(Box<Pool>),
    /// A pool is gone.
    PoolGone(Arc<PoolRef>),
    /// All claims that are for a machine.
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
    },
    /// A read of a machine ended.
    Read {
        /// The action's number.
        id: u64,
        /// The machine's uid; `Ok(None)`: there is no such machine.
        result: Result<Option<Uid>, Failure>,
    },
}

/// A kind of object. Every decision depends on all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Clusters.
    Clusters,
    /// Machines.
    Machines,
    /// Templates of machines.
    Templates,
    /// Pools of the kinds in [`crate::objects::POOL_KINDS`].
    Pools,
    /// Claims.
    Claims,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Clusters, Self::Machines, Self::Templates, Self::Pools, Self::Claims];
}

/// The object that a write left, at this version; or nothing.
pub type Done = work::Done<Version>;
