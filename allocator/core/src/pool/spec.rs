//! The spec of a pool of addresses, as in the object: the texts are not parsed yet.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::names::PoolKind;

/// The order in which free addresses are handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Strategy {
    /// The lowest free address.
    #[default]
    Lowest,
    /// The highest free address.
    Highest,
    /// The first free address after a random place.
    Random,
    /// The lowest address that was not used since the allocator started; if there is none, the address that was
    /// released longest ago.
    LeastRecentlyUsed,
}

/// The pools that share one view of what is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Network {
    /// The network of the cluster-wide pools without a network name. Pools of [`Network::Namespace`] share it.
    #[default]
    Common,
    /// The pools of this namespace without a network name. They share one view with each other and with the cluster-wide
    /// pools of [`Network::Common`], and not with the pools of other namespaces.
    Namespace(String),
    /// The pools of the isolated network (a VLAN, a VRF) with this name.
    Named(String),
}

impl Network {
    /// Whether pools of the two networks may not hand out the same address.
    #[must_use]
    pub fn sees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Named(_), _) | (_, Self::Named(_)) | (Self::Namespace(_), Self::Namespace(_)) => self == other,
            (Self::Common, _) | (_, Self::Common) => true,
        }
    }

    /// Whether a pool of this kind and network may serve Services, which share the cluster's nodes: whoever may make pools in one namespace
    /// must not give its Services, by a network of their own, what those of another have.
    #[must_use]
    pub const fn serves_services(&self, kind: PoolKind) -> bool {
        kind.global() || !matches!(self, Self::Named(_))
    }
}

/// The fields of Mooring's pools that the in-cluster provider's pools do not have. All may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Policy {
    /// The order in which free addresses are handed out.
    pub strategy: Strategy,
    /// Addresses kept for claims: claim name, or `namespace/name`, to address.
    pub pre_allocations: BTreeMap<String, String>,
    /// The pools with which this pool shares one view of what is used.
    pub network: Network,
    /// How long a released address rests, in seconds.
    pub quarantine_seconds: i64,
    /// How long an address rests after another host was heard to have it, in seconds; None: 600.
    pub conflict_quarantine_seconds: Option<i64>,
    /// Only claims of these namespaces; None: all.
    pub allowed_namespaces: Option<BTreeSet<String>>,
}

/// `InClusterIPPool` and `GlobalInClusterIPPool`, v1alpha2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PoolSpec {
    /// Single addresses, ranges and prefixes.
    pub addresses: Vec<String>,
    /// Addresses of the pool that are not handed out, in the same forms.
    pub excluded_addresses: Vec<String>,
    /// The prefix length of the addresses' subnet.
    pub prefix: i64,
    /// The subnet's gateway, which is never handed out.
    pub gateway: Option<String>,
    /// Whether the subnet's own address (and IPv4's broadcast address) may be handed out.
    pub allocate_reserved_ip_addresses: bool,
    /// How long a released address rests, in seconds; the longer of this and `quarantine_seconds` counts.
    pub address_reuse_grace_period_seconds: i64,
    /// Fields that the in-cluster provider does not have.
    #[serde(flatten)]
    pub policy: Policy,
}
