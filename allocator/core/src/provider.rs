//! The source of a pool's addresses. The protocol knows only this trait: the provider decides whether the addresses
//! come from a pool's own list or from an outside system.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::block::Block;
use crate::names::{Key, PoolRef};
use crate::protocol::{Address, Pool, PoolStatus, Reason};

/// The request of a claim.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// The claim.
    pub claim: &'a Key,
    /// The claim's slot: the chosen address is reserved for this slot.
    pub slot: u32,
    /// The pool.
    pub pool: &'a Arc<PoolRef>,
    /// The address that the claim's annotation asks for.
    pub requested: Option<&'a str>,
    /// The block that the claim had before: taken again if possible.
    pub before: Option<Block>,
    /// Any number.
    pub seed: u64,
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

/// A change that claims may have waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Woken {
    /// The pool.
    pub pool: Arc<PoolRef>,
    /// The block that became free; None: the pool has changed.
    pub freed: Option<Block>,
}

/// The source of addresses. No call blocks: if an outside system must be asked first, the request is refused until the
/// system has answered.
pub trait Provider {
    /// Chooses an address for a claim and reserves it for its slot. Repeated calls give the same address until it is
    /// shown or released.
    fn ensure(&mut self, ask: &Ask<'_>) -> Result<Offer, Refusal>;
    /// Reserves for a slot the block that its claim had and lost by force, because the block may be in use. Does
    /// nothing if the slot has a reservation, or if somebody else has the block.
    fn reserve_again(&mut self, slot: u32, pool: &Arc<PoolRef>, block: Block);
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
}
