//! Pools: addresses ([`InClusterIpPool`], [`GlobalInClusterIpPool`]) and IPv6 prefixes ([`InClusterPrefixPool`],
//! [`GlobalInClusterPrefixPool`]). Global ones have no namespace, and serve claims of all.
//!
//! Kinds, fields, columns and versions are those of Cluster API's in-cluster provider, whose objects are taken over as they
//! are. What Mooring adds is optional.
//!
//! Both versions have one schema, in which the old form's `subnet`, `start` and `end` stand beside `addresses`: there is no
//! conversion webhook, the API server only changes `apiVersion`, and what one version lacks it would cut off whenever an
//! object is read or written in that version. [`IpPoolSpec::listed`] makes one of both forms.

mod floating_ip;
mod ip;
mod legacy;
mod metal3;
mod namespaces;
mod phpipam;
mod prefix;
mod quarantine;
mod status;
mod strategy;

pub use floating_ip::{
    FLOATING_IP_POOL, FLOATING_IP_POOL_VERSION, FLOATING_IP_POOLS, FloatingIpNetwork, FloatingIpPoolSpec,
    FloatingIpPoolStatus, IdentityRef, NetworkFilter, NetworkParam, ReclaimPolicy,
};
pub use ip::{GlobalInClusterIpPool, InClusterIpPool, IpPoolSpec};
pub use legacy::{LegacyError, Listed};
pub use metal3::{
    METAL3_ADDRESS, METAL3_ADDRESSES, METAL3_CLAIM, METAL3_CLAIMS, METAL3_POOL, METAL3_POOLS, METAL3_VERSION,
    Metal3AddressSpec, Metal3ClaimSpec, Metal3ClaimStatus, Metal3PoolEntry, Metal3PoolSpec, Metal3PoolStatus,
    Metal3Reference,
};
pub use namespaces::{AllowedNamespaces, SelectorError};
pub use phpipam::{
    DriftPolicy, InlineCredentials, NO_APP_ID, OrphanPolicy, PhpIpamIpPool, PhpIpamIpPoolSpec, SecretRef, is_app_id,
};
pub use prefix::{DEFAULT_PREFIX_LENGTH, GlobalInClusterPrefixPool, InClusterPrefixPool, PrefixPoolSpec};
pub use quarantine::Quarantine;
pub use status::{Counts, PoolStatus};
pub use strategy::Strategy;

use crate::GROUP;
use crate::claim::PoolRef;

/// The kinds of pools that are Mooring's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolKind {
    /// [`InClusterIpPool`]
    Ip,
    /// [`GlobalInClusterIpPool`]
    GlobalIp,
    /// [`InClusterPrefixPool`]
    Prefix,
    /// [`GlobalInClusterPrefixPool`]
    GlobalPrefix,
}

impl PoolKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ip, Self::GlobalIp, Self::Prefix, Self::GlobalPrefix];

    /// `kind` of its objects.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ip => InClusterIpPool::KIND,
            Self::GlobalIp => GlobalInClusterIpPool::KIND,
            Self::Prefix => InClusterPrefixPool::KIND,
            Self::GlobalPrefix => GlobalInClusterPrefixPool::KIND,
        }
    }

    /// Whether its objects have no namespace.
    #[must_use]
    pub fn is_global(self) -> bool {
        matches!(self, Self::GlobalIp | Self::GlobalPrefix)
    }

    /// Which kind a claim or an address means; `None` when it is none of ours.
    #[must_use]
    pub fn of(pool: &PoolRef) -> Option<Self> {
        let ours = pool.api_group.as_deref() == Some(GROUP);
        Self::ALL.into_iter().find(|kind| ours && kind.name() == pool.kind)
    }

    /// A reference to one of that name.
    #[must_use]
    pub fn reference(self, name: &str) -> PoolRef {
        PoolRef { api_group: Some(GROUP.to_owned()), kind: self.name().to_owned(), name: name.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::{PoolKind, PoolRef};

    #[test]
    fn only_our_group_is_ours() {
        let mut pool = PoolKind::GlobalIp.reference("p");
        assert_eq!(PoolKind::of(&pool), Some(PoolKind::GlobalIp));
        pool.api_group = Some("ipam.metal3.io".to_owned());
        assert_eq!(PoolKind::of(&pool), None);
        pool.api_group = None;
        assert_eq!(PoolKind::of(&pool), None);
        let foreign = PoolRef { kind: "PHPIPAMIPPool".to_owned(), ..PoolKind::Ip.reference("p") };
        assert_eq!(PoolKind::of(&foreign), None);
    }
}
