//! What differs between the kinds of pools on objects: the group, and the finalizers.

use mooring_allocator_core::names::{ClaimKind, PoolKind};
use mooring_api::{GROUP, finalizers};
use mooring_names::{metal3, openstack};

use crate::api::POOLS;

/// The finalizers of claims and addresses. metal3's and those of the provider for OpenStack have names of their own, so that
/// their controllers find what they would have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finalizers {
    /// On claims.
    pub claim: &'static str,
    /// On addresses.
    pub address: &'static str,
}

/// The finalizers of this kind of pool, and of this kind of its claims.
#[must_use]
pub const fn finalizers(kind: PoolKind, claims: ClaimKind) -> Finalizers {
    match (kind, claims) {
        (PoolKind::Metal3IPPool, ClaimKind::Metal3) => {
            Finalizers { claim: metal3::RELEASE_OWN_ADDRESS, address: metal3::PROTECT_OWN_ADDRESS }
        }
        (PoolKind::Metal3IPPool, ClaimKind::ClusterApi) => {
            Finalizers { claim: metal3::RELEASE_ADDRESS, address: metal3::PROTECT_ADDRESS }
        }
        (PoolKind::OpenStackFloatingIPPool, _) => {
            Finalizers { claim: finalizers::RELEASE_ADDRESS, address: openstack::PROTECT_ADDRESS }
        }
        _ => Finalizers { claim: finalizers::RELEASE_ADDRESS, address: finalizers::PROTECT_ADDRESS },
    }
}

/// The finalizer of this kind of pool.
#[must_use]
pub const fn pool_finalizer(kind: PoolKind) -> &'static str {
    match kind {
        PoolKind::Metal3IPPool => metal3::PROTECT_POOL,
        PoolKind::OpenStackFloatingIPPool => openstack::PROTECT_POOL,
        _ => finalizers::PROTECT_POOL,
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
