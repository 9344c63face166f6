//! The source of a pool's addresses. The protocol knows only this trait: the provider decides whether the addresses
//! come from a pool's own list or from an outside system.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::block::Block;
use crate::names::{Key, PoolRef, Uid};
use crate::protocol::{Address, Pool, PoolStatus, Reason};
use crate::remote::{Answer, Call, Doubt, Failure, Note, Waiter};

/// The request of a claim.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// The claim.
    pub claim: &'a Key,
    /// The claim's uid.
    pub uid: &'a Uid,
    /// Nobody can have asked an outside system for this claim before: this process has put the finalizer on it since it leads,
    /// and has not asked since.
    pub fresh: bool,
    /// The claim's slot: the chosen address is reserved for this slot.
    pub slot: u32,
    /// The pool.
    pub pool: &'a Arc<PoolRef>,
    /// The address that the claim's annotation asks for.
    pub requested: Option<&'a str>,
    /// The block that the claim had before: taken again if possible.
    pub before: Option<Before>,
    /// Any number.
    pub seed: u64,
}

/// The block that a claim had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// The block.
    pub block: Block,
    /// What tells of it.
    pub told: Told,
    /// The claim's annotation names it: the claim waits while its pool does not have it and nobody else does.
    pub recorded: bool,
}

/// An address for a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// `spec.address`.
    pub address: IpAddr,
    /// `spec.prefix`.
    pub prefix: u8,
    /// `spec.gateway`.
    pub gateway: Option<IpAddr>,
}

/// Why a claim gets no address now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason for the condition.
    pub reason: Reason,
    /// What is wrong and what to do.
    pub message: String,
    /// The change that may end the refusal.
    pub until: Until,
    /// The holder that the message is about; the caller appends the holder to the message.
    pub held_by: Option<HeldBy>,
}

/// The holder of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBy {
    /// The object in this slot.
    Object(u32),
    /// The claim in this slot: its object is about to be created.
    Claim(u32),
}

/// The change that ends a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Any unit of the pool becomes free.
    AnyFree,
    /// This unit becomes free.
    Free(Block),
    /// The pool changes (or, for an outside system, the provider reports a change by [`Provider::woken`]).
    PoolChanges,
    /// An outside system answers, which has been awaited since this time: [`Provider::woken`] reports the answer. Most answers
    /// come too soon for the wait to be told.
    Answered(Duration),
}

/// What is about to be let go: a claim, or an `IPAddress` that is released.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'a> {
    /// Whom an answer wakes.
    pub waiter: Waiter,
    /// The pool.
    pub pool: &'a Arc<PoolRef>,
    /// The uid of the claim. For an object that was never a claim's: the object's own uid.
    pub claim: &'a Uid,
    /// The claim's name.
    pub name: &'a Key,
    /// The address of the object.
    pub address: Option<IpAddr>,
}

/// The facts about a pool that the protocol needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// The pool must be left alone.
    pub paused: bool,
    /// The pool is being deleted: its addresses no longer rest.
    pub deleting: bool,
    /// How long a released address rests.
    pub quarantine: Duration,
    /// How long an address rests after a node heard another host that has the address.
    pub conflict_quarantine: Duration,
    /// The number of units that a claim could get now.
    pub available: u128,
}

/// A change that somebody may have waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Woken {
    /// A pool has changed.
    Pool(Arc<PoolRef>),
    /// A block of a pool became free.
    Freed(Arc<PoolRef>, Block),
    /// A claim may go on.
    Claim(u32),
    /// An `IPAddress` may go on.
    Address(u32),
    /// What a pool's status says has changed.
    Status(Arc<PoolRef>),
}

/// What tells that a claim had a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// An object, which was shown and is gone.
    ByObject,
    /// The claim's status alone: whoever may write it can write any block.
    ByStatus,
    /// The claim's annotation alone. The same holds.
    ByAnnotation,
}

/// The source of addresses. No call blocks: if an outside system must be asked first, the request is refused until the
/// system has answered.
pub trait Provider {
    /// Chooses an address for a claim and reserves it for its slot. Repeated calls give the same address until it is
    /// shown or released.
    fn ensure(&mut self, ask: &Ask<'_>) -> Result<Offer, Refusal>;
    /// Reserves for a slot the block that its claim had and lost by force, because the block may be in use. Does
    /// nothing if the slot has a reservation, if somebody else has the block, or if only the claim itself tells of a block that is
    /// no unit of the pool, or of a pool that does not serve the claim's namespace.
    fn reserve_again(&mut self, slot: u32, claim: &Key, pool: &Arc<PoolRef>, block: Block, told: Told);
    /// Releases the reservation of a slot.
    fn release(&mut self, slot: u32);
    /// The facts about a pool. None: the pool does not exist.
    fn describe(&self, pool: &Arc<PoolRef>) -> Option<Description>;
    /// Whether a pool keeps a block for a claim.
    fn keeps(&self, pool: &Arc<PoolRef>, claim: &Key, block: Block) -> bool;
    /// The status of a pool.
    fn status(&self, pool: &Arc<PoolRef>) -> Option<PoolStatus>;

    /// Adds or updates a pool.
    fn pool(&mut self, pool: &Pool);
    /// Removes a pool.
    fn pool_gone(&mut self, pool: &Arc<PoolRef>);
    /// An object was shown. Returns the object's block, if its address can be read.
    fn shown(&mut self, slot: u32, address: &Address) -> Option<Block>;
    /// An object is gone.
    fn gone(&mut self, slot: u32);
    /// The objects that have an address in common with this object.
    fn rivals(&self, slot: u32) -> Vec<u32>;
    /// Whether an object has a block that its pool cannot have handed out: no claim is bound to it.
    fn is_implausible(&self, slot: u32) -> bool;
    /// The claims woken by the calls so far.
    fn woken(&mut self) -> Vec<Woken>;

    /// An object was shown changed, though not its address.
    fn changed(&mut self, _slot: u32, _address: &Address) {}
    /// A step begins.
    fn begin(&mut self, _now: Duration, _leading: bool) {}
    /// The latest time for the next step; None: nothing waits for a time.
    fn next_tick(&self) -> Option<Duration> {
        None
    }
    /// Whether a claim may lose its finalizer, or an object its own: nothing of it is left in an outside system. The claim is
    /// gone, or is being deleted and has no other finalizer.
    ///
    /// # Errors
    /// Why not yet; [`Provider::woken`] says when to ask again.
    fn let_go(&mut self, _leaving: &Leaving<'_>) -> Result<(), Refusal> {
        Ok(())
    }
    /// Whether a pool may lose its finalizer: nothing of it is wanted or under way.
    fn pool_may_go(&mut self, _pool: &Arc<PoolRef>) -> bool {
        true
    }
    /// The calls to outside systems that are to be made. The step ends.
    fn calls(&mut self) -> Vec<Call> {
        Vec::new()
    }
    /// A call to an outside system has ended. `claims`: the uids of all claims.
    fn answered(&mut self, _id: u64, _result: Result<Answer, Failure>, _claims: &dyn Fn() -> HashSet<Uid>) {}
    /// What is to be told to people about outside systems.
    fn notes(&mut self) -> Vec<(Arc<PoolRef>, Note)> {
        Vec::new()
    }
    /// The claims of which must be read whether they are gone.
    fn doubts(&mut self) -> Vec<Doubt> {
        Vec::new()
    }
    /// The API server has said that a claim is gone.
    fn claim_is_gone(&mut self, _doubt: Doubt) {}
}
