//! What the machine wants done.

use std::net::IpAddr;
use std::sync::Arc;

use crate::block::Block;
use crate::names::{Key, PoolRef, Uid, Version};

use super::objects::{Condition, Mark, PoolStatus, Reason, Rest};

/// Something to do. None of them waits for another; what comes of it is told by an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write; [`super::Event::Answer`] tells.
    Write {
        /// Told again with the answer.
        id: u64,
        /// What.
        write: Write,
    },
    /// List all addresses, consistently (no `resourceVersion`), and go on watching from there;
    /// [`super::Event::Addresses`] tells. It is asked again if it fails.
    ListAddresses {
        /// Told again with the list.
        id: u64,
    },
    /// Read a claim consistently; [`super::Event::ClaimRead`] tells.
    ReadClaim {
        /// Told again with the answer.
        id: u64,
        /// Which.
        key: Key,
        /// Whom an object says to belong to. Should another claim have the name by now, and be of no pool of ours, then this
        /// one is gone.
        owner: Uid,
    },
    /// Tell people.
    Report(Report),
}

/// The object a write is about. It takes effect only on this uid at this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
}

/// A write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Put our finalizer on a claim.
    AddFinalizer(Target),
    /// Take it off.
    RemoveFinalizer(Target),
    /// Set a claim's count of void objects (an annotation).
    Void(Target, u32),
    /// Set a claim's `status.addressRef` and its condition.
    Bind(Target, Arc<str>, Condition),
    /// Clear a claim's `status.addressRef` and set its condition: its object is gone.
    Unbind(Target, Condition),
    /// Set a claim's condition.
    Condition(Target, Condition),
    /// Create an `IPAddress`, with finalizer, labels and owners.
    Create(Box<New>),
    /// Make an `IPAddress` the claim's: owners, finalizer, label, mark. Its spec stays.
    Adopt(Target, Mark),
    /// Take our finalizer off an `IPAddress`.
    RemoveAddressFinalizer(Target),
    /// Delete an `IPAddress`.
    DeleteAddress(Target),
    /// Put our finalizer on a pool.
    AddPoolFinalizer(PoolTarget),
    /// Take it off.
    RemovePoolFinalizer(PoolTarget),
    /// Set a pool's counts and condition.
    PoolStatus(PoolTarget, PoolStatus),
}

/// The pool a write is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolTarget {
    /// Which.
    pub reference: Arc<PoolRef>,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
}

/// An `IPAddress` to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct New {
    /// Its name: the claim's, or a tombstone's own.
    pub key: Key,
    /// `spec.poolRef`.
    pub pool: Arc<PoolRef>,
    /// `spec.address`.
    pub address: IpAddr,
    /// `spec.prefix`.
    pub prefix: u8,
    /// `spec.gateway`.
    pub gateway: Option<IpAddr>,
    /// Whose it is.
    pub purpose: Purpose,
}

/// Whose an `IPAddress` is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A claim's, which owns it.
    Claim(Mark),
    /// Nobody's: a tombstone, without finalizer, owned by its pool.
    Rest(Rest),
}

/// What people may want to know; it becomes Events, metrics and log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A claim has its address.
    Allocated {
        /// The claim.
        claim: Key,
        /// What it has.
        block: Block,
    },
    /// An address is released.
    Released {
        /// The object's name.
        address: Key,
        /// What it had.
        block: Option<Block>,
    },
    /// An object was withdrawn before it was bound: another one had its address earlier.
    Withdrawn {
        /// The claim.
        claim: Key,
        /// The address.
        block: Option<Block>,
    },
    /// A claim cannot have an address.
    Failed {
        /// The claim.
        claim: Key,
        /// Why.
        reason: Reason,
    },
    /// Somebody else was heard to have the address on the wire.
    Conflict {
        /// The claim.
        claim: Key,
        /// The address.
        block: Block,
        /// What the node that heard it says.
        heard: Box<str>,
        /// The claim asked for this very address and keeps it; else it gets another.
        kept: bool,
    },
    /// An address could not rest before it was released.
    NotRested {
        /// The object's name.
        address: Key,
        /// What it had.
        block: Option<Block>,
        /// Why not.
        why: String,
    },
    /// Two bound objects have an address in common: somebody made one by hand, or before this allocator came.
    Duplicate {
        /// One object.
        address: Key,
        /// The other.
        other: Key,
    },
}
