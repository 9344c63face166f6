//! The inputs of the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::names::{Key, PoolRef, Uid, Version};
use mooring_allocator_core::work::{self, Failure};

use crate::objects::{Address, Claim, Pool, Reserved, Service};

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
    /// All Services: at start, and after a broken watch.
    Services(Vec<Service>),
    /// A Service was made or changed.
    Service(Box<Service>),
    /// A Service is gone.
    ServiceGone(Key, Uid),
    /// All claims with the label [`crate::words::SERVICE_FAMILY`].
    Claims(Vec<Claim>),
    /// A claim with this label was made or changed.
    Claim(Box<Claim>),
    /// A claim with this label is gone.
    ClaimGone(Key, Uid),
    /// All addresses, whoever has them.
    Addresses(Vec<Arc<Address>>),
    /// An address was made or changed.
    Address(Arc<Address>),
    /// An address is gone.
    AddressGone(Uid),
    /// All pools of addresses.
    Pools(Vec<Pool>),
    /// A pool was made or changed.
    Pool(Box<Pool>),
    /// A pool is gone.
    PoolGone(Arc<PoolRef>, Uid),
    /// The `ConfigMap`; None: there is none.
    Config(Option<BTreeMap<String, String>>),
    /// All addresses of nodes and of the control plane.
    Reserved(BTreeMap<IpAddr, Reserved>),
    /// All Services with ready endpoints, and the nodes of these endpoints. Sent once the machine wants endpoints, and
    /// after a broken watch.
    AllEndpoints(BTreeMap<Key, BTreeSet<Arc<str>>>),
    /// The nodes on which a Service has ready endpoints.
    Endpoints(Key, BTreeSet<Arc<str>>),
    /// A write ended.
    Answer {
        /// The action's number.
        id: u64,
        /// The result of the write.
        result: Result<Done, Failure>,
    },
}

/// A kind of object that every decision depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Services.
    Services,
    /// Claims with the label [`crate::words::SERVICE_FAMILY`].
    Claims,
    /// Addresses.
    Addresses,
    /// Pools of addresses.
    Pools,
    /// The `ConfigMap`.
    Config,
    /// The addresses of nodes and of the control plane.
    Reserved,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Services, Self::Claims, Self::Addresses, Self::Pools, Self::Config, Self::Reserved];
}

/// The object that a write left, at this version; or nothing.
pub type Done = work::Done<Version>;
