//! The actions of the machine.

use std::net::IpAddr;
use std::sync::Arc;

use crate::block::Block;
use crate::names::{ClaimKind, Key, PoolRef, Uid};
use crate::remote::{Call, Note};
use crate::work::{PoolTarget, Target};

use super::objects::{Attempt, Condition, PoolStatus, Reason, Rest};

/// An action. Actions do not wait for each other; an event reports the result of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A write; [`super::Event::Answer`] reports the result.
    Write {
        /// Repeated in the answer.
        id: u64,
        /// The write itself.
        write: Write,
    },
    /// List all addresses of one kind of claims, consistently (no `resourceVersion`), and go on watching from there;
    /// [`super::Event::Addresses`] or [`super::Event::Metal3Addresses`] reports the list. The list is requested again if it
    /// fails.
    ListAddresses {
        /// The kind of claims.
        of: ClaimKind,
        /// Repeated with the list.
        id: u64,
    },
    /// Read a claim consistently; [`super::Event::ClaimRead`] reports the result.
    ReadClaim {
        /// Repeated in the answer.
        id: u64,
        /// The claim's name.
        key: Key,
        /// The owner that an object names. If another claim has the name by now, and is of no pool of ours, then this
        /// owner is gone.
        owner: Uid,
    },
    /// A call to an outside system; [`super::Event::Remote`] reports the answer.
    Remote(Call),
    /// A report to people.
    Report(Report),
}

/// A write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Put our finalizer on a claim, and the annotation that says which address it is given, as far as that is known.
    AddFinalizer(Target, Option<Block>),
    /// Remove our finalizer from a claim.
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
    /// Make an `IPAddress` belong to the claim: owners, finalizer, label, mark. Its spec stays.
    Adopt(Target, Attempt),
    /// Remove our finalizer from an `IPAddress`.
    RemoveAddressFinalizer(Target),
    /// Delete an `IPAddress`.
    DeleteAddress(Target),
    /// Put our finalizer on a pool.
    AddPoolFinalizer(PoolTarget),
    /// Remove our finalizer from a pool.
    RemovePoolFinalizer(PoolTarget),
    /// Set a pool's counts and condition.
    PoolStatus(PoolTarget, PoolStatus),
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
    /// The purpose of the object.
    pub purpose: Purpose,
}

/// The purpose of an `IPAddress`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The object is for a claim, which owns it.
    Claim(Attempt),
    /// A tombstone: it has no claim and no finalizer, and its pool owns it.
    Rest(Rest),
}

/// A report for people; it becomes Events, metrics and log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A claim has its address.
    Allocated {
        /// The claim.
        claim: Key,
        /// The block the claim has.
        block: Block,
    },
    /// A claim gets another address than it had, as its metadata says: that one is somebody else's now, or rests.
    AnotherAddress {
        /// The claim.
        claim: Key,
        /// The block that it had.
        had: Block,
        /// The block that it gets.
        given: Block,
    },
    /// A claim is gone without having been released, and what it had is kept for the next claim of its name.
    KeptForTheNext {
        /// The claim that is gone.
        claim: Key,
        /// The block that it had.
        had: Block,
    },
    /// An address is released.
    Released {
        /// The object's name.
        address: Key,
        /// The object's pool.
        pool: Arc<PoolRef>,
        /// The block the object had.
        block: Option<Block>,
    },
    /// An object was withdrawn before a claim was bound to it: an earlier object had the address.
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
    /// A node heard another host that has the address on the wire.
    Conflict {
        /// The claim.
        claim: Key,
        /// The address.
        block: Block,
        /// The note of the node that heard the other host.
        heard: Box<str>,
        /// Whether the claim asked for this very address and keeps it; otherwise the claim gets another address.
        kept: bool,
    },
    /// An address could not rest before it was released.
    NotRested {
        /// The object's name.
        address: Key,
        /// The block the object had.
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
    /// Something about the outside system of a pool.
    Remote {
        /// The pool.
        pool: Arc<PoolRef>,
        /// What.
        note: Note,
    },
}
