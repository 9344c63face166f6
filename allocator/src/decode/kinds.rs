//! What differs between the kinds of pools on objects: the group, and the finalizers.

use mooring_allocator_core::names::PoolKind;
use mooring_api::{GROUP, finalizers};
use mooring_names::{metal3, openstack};

use crate::api::POOLS;

/// The finalizers of a pool, and of its claims and addresses. metal3's and those of the provider for
/// OpenStack have names of their own, so that their controllers find what they would have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finalizers {
    /// On claims.
    pub claim: &'static str,
    /// On addresses.
    pub address: &'static str,
    /// On the pool.
    pub pool: &'static str,
}

/// The finalizers of this kind of pool.
#[must_use]
pub const fn finalizers(kind: PoolKind) -> Finalizers {
    match kind {
        PoolKind::Metal3IPPool => {
            Finalizers { claim: metal3::RELEASE_ADDRESS, address: metal3::PROTECT_ADDRESS, pool: metal3::PROTECT_POOL }
        }
        PoolKind::OpenStackFloatingIPPool => Finalizers {
            claim: finalizers::RELEASE_ADDRESS,
            address: openstack::PROTECT_ADDRESS,
            pool: openstack::PROTECT_POOL,
        },
        _ => Finalizers {
            claim: finalizers::RELEASE_ADDRESS,
            address: finalizers::PROTECT_ADDRESS,
            pool: finalizers::PROTECT_POOL,
        },
    }
}

/// The group of this kind of pool.
#[must_use]
pub const fn group(kind: PoolKind) -> &'static str {
    match kind {
        PoolKind::Metal3IPPool => metal3::GROUP,
        PoolKind::OpenStackFloatingIPPool => openstack::GROUP,
        _ => GROUP,
    }
}

/// The kind of pool of this name in this group; None: not a kind of ours.
#[must_use]
pub fn pool_kind(api_group: &str, kind: &str) -> Option<PoolKind> {
    let others = [PoolKind::Metal3IPPool, PoolKind::PHPIPAMIPPool, PoolKind::OpenStackFloatingIPPool];
    POOLS.into_iter().chain(others).find(|one| one.name() == kind && group(*one) == api_group)
}
