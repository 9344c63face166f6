//! The objects of the protocol, as far as it needs them.

use std::net::IpAddr;
use std::sync::Arc;

use crate::book::Counts;
use crate::names::{Key, PoolRef, Uid, Version};
use crate::pool::{Plan, SpecError};

/// An `IPAddressClaim` as one read or watch event showed it. Only claims of our pools are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
    /// When it was created: seconds since 1970. Who waits longer comes first.
    pub created: u64,
    /// `spec.poolRef`.
    pub pool: Arc<PoolRef>,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// It has `ipam.cluster.x-k8s.io/ReleaseAddress`.
    pub finalizer: bool,
    /// It has other finalizers: its machine is not gone yet.
    pub others: bool,
    /// `status.addressRef.name`.
    pub bound: Option<Arc<str>>,
    /// Our annotation on it: how many of its `IPAddress` objects were declared void. None of a lower number may be bound.
    pub voided: u32,
    /// The annotation that asks for an address.
    pub requested: Option<Box<str>>,
    /// Whether it must be left alone.
    pub hold: Hold,
    /// Its `Ready` condition.
    pub condition: Option<Condition>,
}

/// Whether a claim must be left alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// No.
    #[default]
    None,
    /// It, or its Cluster, is paused.
    Paused,
    /// Its Cluster does not exist: only a deletion goes on.
    NoCluster(Box<str>),
}

/// A `Ready` condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `status`: True or False.
    pub ready: bool,
    /// `reason`: never empty.
    pub reason: Reason,
    /// `message`.
    pub message: String,
}

/// The reasons of a claim's condition: Cluster API's own, and one for success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It has its address.
    AddressAllocated,
    /// It cannot have one.
    AllocationFailed,
    /// Its pool cannot hand one out yet.
    PoolNotReady,
    /// Its pool has none left.
    PoolExhausted,
    /// Another reason, which another program wrote.
    Other,
}

impl Reason {
    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AddressAllocated => "AddressAllocated",
            Self::AllocationFailed => "AllocationFailed",
            Self::PoolNotReady => "PoolNotReady",
            Self::PoolExhausted => "PoolExhausted",
            Self::Other => "Other",
        }
    }
}

/// An `IPAddress` as one read or watch event showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
    /// `spec.poolRef`.
    pub pool: Arc<PoolRef>,
    /// `spec.address`, as far as it can be read.
    pub address: Option<IpAddr>,
    /// `spec.prefix`.
    pub prefix: u8,
    /// `spec.claimRef.name`.
    pub claim: Arc<str>,
    /// The uid of the claim that owns it (its controller).
    pub owner: Option<Uid>,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// It has `ipam.cluster.x-k8s.io/ProtectAddress`.
    pub finalizer: bool,
    /// Our annotation on it.
    pub mark: Option<Mark>,
    /// It belongs to no claim, and keeps an address from being handed out.
    pub rest: Option<Rest>,
    /// The annotation with which a node says that somebody else has the address on the wire: its value.
    pub conflict: Option<Box<str>>,
}

/// Our annotation on an `IPAddress`: which attempt of which claim it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The claim's uid. After a move the claim has another one: then this says nothing.
    pub claim: Uid,
    /// The claim's count of void objects when this one was created or adopted.
    pub number: u32,
    /// Somebody else made it: it is never withdrawn.
    pub adopted: bool,
}

/// Our annotation on a tombstone: an `IPAddress` without a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The uid of the object whose address rests.
    pub of: Uid,
    /// Until when: seconds since 1970.
    pub until: u64,
}

/// A pool as one read or watch event showed it.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Which.
    pub reference: Arc<PoolRef>,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
    /// `metadata.generation`: another one when its spec has changed.
    pub generation: u64,
    /// What it may hand out, or what is wrong with it.
    pub plan: Result<Plan, Vec<SpecError>>,
    /// It is paused.
    pub paused: bool,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// It has `ipam.cluster.x-k8s.io/ProtectPool`.
    pub finalizer: bool,
    /// Its status as far as it is ours.
    pub status: Option<PoolStatus>,
}

/// What a pool's status says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStatus {
    /// `status.ipAddresses`.
    pub counts: Counts,
    /// The `Ready` condition's status.
    pub ready: bool,
    /// Its message: what is wrong, or odd.
    pub message: String,
    /// Which pools of its network have addresses in common with it, and what that means; empty: none.
    pub overlapping: String,
    /// Which addresses two claims have, which only a human can bring about, and what to do; empty: none.
    pub duplicates: String,
}
