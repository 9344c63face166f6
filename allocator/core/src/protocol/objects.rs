//! The objects of the protocol, as far as the protocol needs them.

use std::net::IpAddr;
use std::sync::Arc;

use crate::block::Block;
use crate::book::Counts;
use crate::names::{ClaimKind, Key, PoolRef, Uid, Version};
use crate::placement_hints::Facts;
use crate::pool::{Plan, SpecError};
use crate::remote::RemoteSpec;
use crate::retained_meta::RetainedMeta;

/// An `IPAddressClaim` as one read or watch event showed it. Only claims of our pools are passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
    /// When the claim was created: seconds since 1970. The claim that waits longer comes first.
    pub created: u64,
    /// `spec.poolRef`.
    pub pool: Arc<PoolRef>,
    /// The claim has a deletion timestamp.
    pub deleting: bool,
    /// The claim has `ipam.cluster.x-k8s.io/ReleaseAddress`.
    pub finalizer: bool,
    /// The claim has other finalizers: its machine is not gone yet.
    pub others: bool,
    /// `status.addressRef.name`.
    pub bound: Option<Arc<str>>,
    /// Our annotation on the claim: how many of its `IPAddress` objects were declared void. No object of a lower number
    /// may be bound.
    pub voided: u32,
    /// The annotation that asks for an address.
    pub requested: Option<Box<str>>,
    /// Our annotation on the claim: what it was given; while it is not bound, perhaps in another cluster.
    pub had: Option<Box<Block>>,
    /// Whether the claim must be left alone.
    pub hold: Hold,
    /// Its `Ready` condition.
    pub condition: Option<Condition>,
    /// The other parts of the claim.
    pub retained: RetainedMeta,
}

/// Whether a claim must be left alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// No.
    #[default]
    None,
    /// The claim or its Cluster is paused.
    Paused,
    /// The claim's Cluster does not exist: only a deletion goes on.
    NoCluster(Box<str>),
}

/// A `Ready` condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// The claim has its address.
    AddressAllocated,
    /// The claim cannot have an address.
    AllocationFailed,
    /// The claim's pool cannot hand out an address yet.
    PoolNotReady,
    /// The claim's pool has no address left.
    PoolExhausted,
    /// Another reason, which another program wrote.
    Other,
}

impl Reason {
    /// The reason as written to the object.
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
    /// Its namespace and name; of an object of metal3's, those of the claim that it names.
    pub key: Key,
    /// The object's own name, where it is another: objects of metal3's are named after their addresses.
    pub object: Option<Arc<str>>,
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
    /// The uid of the claim that owns the object (its controller).
    pub owner: Option<Uid>,
    /// The object has a deletion timestamp.
    pub deleting: bool,
    /// The object has `ipam.cluster.x-k8s.io/ProtectAddress`.
    pub finalizer: bool,
    /// Our annotation on the object.
    pub attempt: Option<Attempt>,
    /// The object belongs to no claim, and keeps an address from being handed out.
    pub rest: Option<Rest>,
    /// The value of the annotation with which a node reports that another host has the address on the wire.
    pub conflict: Option<Box<str>>,
    /// The node that is recorded on the object as its holder.
    pub holder: Option<Arc<str>>,
    /// The input of the placement hints, if agents may advertise the address.
    pub hints: Option<Box<Facts>>,
    /// The object's owner references, besides the uid of its claim.
    pub links: Links,
}

impl Address {
    /// The object's own name.
    #[must_use]
    pub const fn name(&self) -> &Arc<str> {
        match &self.object {
            Some(name) => name,
            None => &self.key.name,
        }
    }

    /// The claim that the object names.
    #[must_use]
    pub fn claim_key(&self) -> Key {
        Key { namespace: self.key.namespace.clone(), name: self.claim.clone() }
    }

    /// The object's own namespace and name, of its kind.
    #[must_use]
    pub fn own_key(&self) -> Key {
        match &self.object {
            Some(name) => Key::of_metal3(&self.key.namespace, name),
            None => self.key.clone(),
        }
    }

    /// The same, for people.
    #[must_use]
    pub fn words(&self) -> String {
        format!("{}/{}", self.key.namespace, self.name())
    }
}

impl Claim {
    /// The key under which the objects are found to which the claim is bound, or could be bound.
    #[must_use]
    pub fn object_key(&self) -> Key {
        match (&self.bound, self.key.claim_kind()) {
            (Some(name), ClaimKind::ClusterApi) => Key { namespace: self.key.namespace.clone(), name: name.clone() },
            _ => self.key.clone(),
        }
    }

    /// Whether the claim is bound to an object of this name.
    #[must_use]
    pub fn is_bound_to(&self, object: &str) -> bool {
        self.bound.as_deref() == Some(object)
    }
}

/// The owner references of an `IPAddress`, besides the uid of its claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// The uid in the reference to the object's pool.
    pub pool: Option<Uid>,
    /// A reference names an older API version than the one that is spoken.
    pub outdated: bool,
}

/// Our annotation on an `IPAddress`: the claim and the attempt that the object belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The claim's uid. After a move the claim has another uid: then this field means nothing.
    pub claim: Uid,
    /// The claim's count of void objects when this object was created or adopted.
    pub number: u32,
    /// Somebody else made the object: it is never withdrawn.
    pub adopted: bool,
}

/// Our annotation on a tombstone: an `IPAddress` without a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The uid of the object whose address rests.
    pub of: Uid,
    /// The end of the rest: seconds since 1970.
    pub until: u64,
}

/// A pool as one read or watch event showed it.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The pool's name.
    pub reference: Arc<PoolRef>,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
    /// `metadata.generation`: changes with the spec.
    pub generation: u64,
    /// The plan of what the pool may hand out, or the error in its spec.
    pub plan: Result<Plan, Vec<SpecError>>,
    /// What a pool of an outside system says about its use. Its plan lists nothing.
    pub remote: Option<RemoteSpec>,
    /// Why the pool must be left alone; None: it need not.
    pub paused: Option<Paused>,
    /// The pool has a deletion timestamp.
    pub deleting: bool,
    /// The pool has `ipam.cluster.x-k8s.io/ProtectPool`.
    pub finalizer: bool,
    /// The parts of the pool's status that this allocator writes.
    pub status: Option<PoolStatus>,
}

/// Why a pool must be left alone. In words, to follow the pool's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Paused {
    /// The pool has the annotation.
    #[error("is paused: its claims wait until the annotation cluster.x-k8s.io/paused is taken off it")]
    Annotation,
    /// The Cluster that the pool names is paused.
    #[error(
        "belongs to Cluster {0}, which is paused: its claims wait until that goes on (spec.paused, or its annotation cluster.x-k8s.io/paused)"
    )]
    Cluster(Arc<str>),
    /// The pool names a Cluster, and Clusters could not be listed yet.
    #[error("belongs to Cluster {0}, and Clusters could not be listed yet: see the allocator's log if it stays so")]
    ClusterUnknown(Arc<str>),
    /// The pool selects namespaces by label, and namespaces could not be listed yet.
    #[error(
        "selects namespaces by label, and namespaces could not be listed yet: see the allocator's log if it stays so"
    )]
    NamespacesUnknown,
    /// The pool is in a namespace that another allocator serves.
    #[error("is in a namespace that this allocator does not serve (--namespaces)")]
    Elsewhere,
}

/// The status of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PoolStatus {
    /// `status.ipAddresses`.
    pub counts: Counts,
    /// The `Ready` condition's status.
    pub ready: bool,
    /// The message of the condition: errors, or oddities.
    pub message: String,
    /// What is wrong in `preAllocations`, which stops the claims that it names; empty: nothing.
    pub misplaced: String,
    /// The pools of its network that have addresses in common with it, and the consequence; empty: none.
    pub overlapping: String,
    /// The addresses that two claims have, which only a human can bring about, and what to do; empty: none.
    pub duplicates: String,
    /// A number that changes with the addresses of the pool's objects, where the status lists them; otherwise 0.
    pub holders: u64,
}
