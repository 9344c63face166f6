//! What the machine is told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::names::{Key, PoolRef, Uid, Version};

use crate::objects::{Address, Claim, Pool, Reserved, Service};

/// Something happened. The events of one kind of object come in the watch's order.
#[derive(Clone, Debug)]
pub enum Event {
    /// Nothing but time has passed.
    Tick,
    /// This allocator leads, surely until then; None: it does not.
    Leading(Option<Duration>),
    /// All Services: at start, and after a broken watch.
    Services(Vec<Service>),
    /// A Service was made or changed.
    Service(Box<Service>),
    /// A Service is gone.
    ServiceGone(Key, Uid),
    /// All claims with the label [`crate::words::SERVICE_FAMILY`].
    Claims(Vec<Claim>),
    /// Such a claim was made or changed.
    Claim(Box<Claim>),
    /// Such a claim is gone.
    ClaimGone(Key, Uid),
    /// All addresses, whoever has them.
    Addresses(Vec<Address>),
    /// An address was made or changed.
    Address(Address),
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
    /// All addresses that nodes and the control plane have.
    Reserved(BTreeMap<IpAddr, Reserved>),
    /// All Services with ready endpoints, and on which nodes: once the machine wants them, and after a broken watch.
    AllEndpoints(BTreeMap<Key, BTreeSet<Arc<str>>>),
    /// On which nodes a Service has ready endpoints.
    Endpoints(Key, BTreeSet<Arc<str>>),
    /// A write ended.
    Answer {
        /// The action's number.
        id: u64,
        /// What came of it.
        result: Result<Done, Failure>,
    },
}

/// What a write left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The object is there, at this version.
    At(Version),
    /// The object is gone, or going.
    Gone,
}

/// How a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Another write came first, or the object is another (409).
    Conflict,
    /// An object of this name exists (409).
    Exists,
    /// There is no such object (404).
    NotFound,
    /// The server will not have it (403, 422): why.
    Refused(String),
    /// No answer that says anything. It may have taken effect, or may yet.
    Unknown,
}
