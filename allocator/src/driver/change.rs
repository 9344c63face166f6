//! Changes in the index: Services and placement hints follow the allocation protocol.

use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::names::{ClaimKind, Key, PoolRef, Uid};
use mooring_allocator_core::protocol::{Address, Claim, Event};

/// A change. The objects themselves are in the [`super::index::Index`].
#[derive(Clone, Debug)]
pub enum Change {
    /// Only time has passed.
    Tick,
    /// This allocator leads, surely until this time; None: it does not lead.
    Leading(Option<Duration>),
    /// These are all claims.
    Claims(Vec<Key>),
    /// A claim was made or changed.
    Claim(Key, Uid),
    /// A claim is gone.
    ClaimGone(Key, Uid),
    /// These are all addresses.
    Addresses(Vec<Uid>),
    /// An address was made or changed.
    Address(Uid),
    /// An address is gone.
    AddressGone(Uid),
    /// These are all pools.
    Pools(Vec<Arc<PoolRef>>),
    /// A pool was made or changed.
    Pool(Arc<PoolRef>),
    /// A pool is gone.
    PoolGone(Arc<PoolRef>, Uid),
}

impl Change {
    /// The change that an event of the allocation protocol means for the other controllers; None: none.
    pub fn of(event: &Event) -> Option<Self> {
        Some(match event {
            Event::Tick => Self::Tick,
            Event::Leading(until) => Self::Leading(*until),
            Event::Claims(all) => Self::Claims(all.iter().map(|claim| claim.key.clone()).collect()),
            // metal3's claims are of no Service, endpoint or machine, and agents advertise no address of theirs.
            Event::Claim(Claim { key, .. }) | Event::ClaimGone(key, _) | Event::Address(Address { key, .. })
                if key.claim_kind() == ClaimKind::Metal3 =>
            {
                return None;
            }
            Event::Claim(claim) => Self::Claim(claim.key.clone(), claim.uid.clone()),
            Event::ClaimGone(key, uid) => Self::ClaimGone(key.clone(), uid.clone()),
            Event::Addresses(all, _) => Self::Addresses(all.iter().map(|address| address.uid.clone()).collect()),
            Event::Address(address) => Self::Address(address.uid.clone()),
            Event::AddressGone(uid) => Self::AddressGone(uid.clone()),
            Event::Pools(all) => Self::Pools(all.iter().map(|pool| pool.reference.clone()).collect()),
            Event::Pool(pool) => Self::Pool(pool.reference.clone()),
            Event::PoolGone(reference, uid) => Self::PoolGone(reference.clone(), uid.clone()),
            Event::Metal3Claims(_)
            | Event::Metal3Addresses(..)
            | Event::Metal3Listed
            | Event::PoolsRefused(..)
            | Event::VanishedPaused(..)
            | Event::Answer { .. }
            | Event::ClaimRead { .. }
            | Event::Remote { .. } => return None,
        })
    }
}
