//! What stands behind a pool. The protocol knows this trait only: whether the addresses come from a pool's own list, or
//! from a system outside, is the provider's affair.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::block::Block;
use crate::names::{Key, PoolRef};
use crate::protocol::{Address, Pool, PoolStatus, Reason};

/// What a claim asks for.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// The claim.
    pub claim: &'a Key,
    /// Its slot: what is chosen is reserved for it.
    pub slot: u32,
    /// The pool.
    pub pool: &'a Arc<PoolRef>,
    /// The address that its annotation asks for.
    pub requested: Option<&'a str>,
    /// What it had before: taken again if possible.
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

/// Why a claim gets none now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For the condition.
    pub reason: Reason,
    /// What is wrong and what to do.
    pub message: String,
    /// What may change it.
    pub until: Until,
    /// Who has what the message, which then ends with it, is about.
    pub held_by: Option<HeldBy>,
}

/// Who has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBy {
    /// The object in this slot.
    Object(u32),
    /// The claim in this slot: an object is about to be created for it.
    Claim(u32),
}

/// What ends a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Any unit of the pool comes free.
    AnyFree,
    /// This one does.
    Free(Block),
    /// The pool changes (or, of a system outside, the provider says so by [`Provider::woken`]).
    PoolChanges,
}

/// What the protocol must know of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// It must be left alone.
    pub paused: bool,
    /// It is being deleted: nothing of it rests any more.
    pub deleting: bool,
    /// How long a released address rests.
    pub quarantine: Duration,
    /// How long an address rests that somebody else was heard to have.
    pub conflict_quarantine: Duration,
    /// How many units a claim could get now.
    pub available: u128,
}

/// Somebody may have waited for this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Woken {
    /// The pool.
    pub pool: Arc<PoolRef>,
    /// What came free; None: the pool has changed.
    pub freed: Option<Block>,
}

/// Where addresses come from. No call blocks: what a system outside must be asked for is refused until it has answered.
pub trait Provider {
    /// Chooses an address for a claim and reserves it for its slot; the same again until it is shown or released.
    fn ensure(&mut self, ask: &Ask<'_>) -> Result<Offer, Refusal>;
    /// Reserves for a slot what its claim had, and lost by force: it may be in use. Unless something is reserved for it, or
    /// somebody else has it.
    fn reserve_again(&mut self, slot: u32, pool: &Arc<PoolRef>, block: Block);
    /// Gives up what is reserved for a slot.
    fn release(&mut self, slot: u32);
    /// What is known of a pool. None: it is not there.
    fn describe(&self, pool: &Arc<PoolRef>) -> Option<Description>;
    /// Whether a pool keeps a block for a claim.
    fn keeps(&self, pool: &Arc<PoolRef>, claim: &Key, block: Block) -> bool;
    /// The status of a pool.
    fn status(&self, pool: &Arc<PoolRef>) -> Option<PoolStatus>;

    /// A pool is there, or has changed.
    fn pool(&mut self, pool: &Pool);
    /// A pool is gone.
    fn pool_gone(&mut self, pool: &Arc<PoolRef>);
    /// An object was shown; the block that it has, if its address can be read.
    fn shown(&mut self, slot: u32, address: &Address) -> Option<Block>;
    /// An object is gone.
    fn gone(&mut self, slot: u32);
    /// The objects that have an address in common with this one's.
    fn rivals(&self, slot: u32) -> Vec<u32>;
    /// Whom the calls so far have woken.
    fn woken(&mut self) -> Vec<Woken>;
}
