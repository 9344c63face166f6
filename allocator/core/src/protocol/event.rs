//! What the machine is told.

use std::sync::Arc;
use std::time::Duration;

use crate::names::{Key, PoolRef, Uid};

use super::objects::{Address, Claim, Pool};

/// When something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// On a clock that only goes forward, from any start: for deadlines.
    pub now: Duration,
    /// Seconds since 1970: for what must outlive the process.
    pub wall: u64,
}

/// Something happened. The events of one kind of object come in the watch's order. A list must show nothing older than
/// what was shown before, and the watch goes on from where the list stands.
#[derive(Clone, Debug)]
pub enum Event {
    /// Nothing but time has passed.
    Tick,
    /// This allocator leads, surely until then; None: it does not.
    Leading(Option<Duration>),
    /// All claims: at start, and after a broken watch.
    Claims(Vec<Claim>),
    /// A claim was made or changed.
    Claim(Claim),
    /// A claim is gone.
    ClaimGone(Key, Uid),
    /// All addresses, and the number of the action that asked for them; None: at start, and after a broken watch.
    Addresses(Vec<Address>, Option<u64>),
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
        /// What came of it.
        result: Result<Done, Failure>,
    },
    /// A claim was read: what is there, or that the read failed.
    ClaimRead {
        /// The action's number.
        id: u64,
        /// The claim of that name; `Ok(None)`: there is none.
        result: Result<Option<Claim>, Failure>,
    },
}

/// What a write left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The claim, as it is now.
    Claim(Claim),
    /// The address, as it is now.
    Address(Address),
    /// The object is there, but the edge does not say how.
    Written,
    /// The object is gone.
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
