//! The inputs of the machine.

use std::sync::Arc;
use std::time::Duration;

use crate::names::{Key, PoolKind, PoolRef, Uid};
use crate::remote;
use crate::work::{self, Failure};

use super::objects::{Address, Claim, Pool};

/// An event. The events of one kind of object come in the watch's order. A list must show nothing older than what was
/// shown before, and the watch continues from the version of the list.
#[derive(Clone, Debug)]
pub enum Event {
    /// Only time has passed.
    Tick,
    /// This allocator leads, surely until this time; None: it does not lead.
    Leading(Option<Duration>),
    /// All claims: at start, and after a broken watch.
    Claims(Vec<Claim>),
    /// A claim was made or changed.
    Claim(Claim),
    /// A claim is gone.
    ClaimGone(Key, Uid),
    /// Whether the Cluster of a claim that is gone is paused ([`super::Machine::vanished`]).
    VanishedPaused(Key, bool),
    /// All addresses, and the number of the action that asked for them; None: at start, and after a broken watch.
    Addresses(Vec<Address>, Option<u64>),
    /// All claims of metal3's.
    Metal3Claims(Vec<Claim>),
    /// All addresses of metal3's claims, and the number of the action that asked for them.
    Metal3Addresses(Vec<Address>, Option<u64>),
    /// metal3's claims, addresses and pools were listed, each at least once. Nothing is done for a claim of a pool of metal3's
    /// before.
    Metal3Listed,
    /// Whether the pools of a kind may be listed; if not, why. Until they may, nothing is done for what is of such a pool, but that
    /// its claims are told.
    PoolsRefused(PoolKind, Option<String>),
    /// An address was made or changed.
    Address(Address),
    /// An address is gone.
    AddressGone(Uid),
    /// All pools.
    Pools(Vec<Pool>),
    /// A pool was made or changed.
    Pool(Box<Pool>),
    /// A pool is gone.
    PoolGone(Arc<PoolRef>, Uid),
    /// A write ended.
    Answer {
        /// The action's number.
        id: u64,
        /// The result of the write.
        result: Result<Done, Failure>,
    },
    /// A claim was read: the claim found, or a failed read.
    ClaimRead {
        /// The action's number.
        id: u64,
        /// The claim of that name; `Ok(None)`: there is none; [`Failure::Exists`]: there is one, of another provider's pool.
        result: Result<Option<Claim>, Failure>,
    },
    /// A call to an outside system ended.
    Remote {
        /// The call's number.
        id: u64,
        /// Its answer.
        result: Result<remote::Answer, remote::Failure>,
    },
}

/// The known state of an object after a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// The claim, as it is now.
    Claim(Claim),
    /// The address, as it is now.
    Address(Address),
    /// The answer does not show the state: the watch will.
    NotShown,
}

/// The object that a write left.
pub type Done = work::Done<Object>;
