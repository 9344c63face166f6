//! Pools of IPv6 prefixes: a claim gets a whole network.

use std::collections::BTreeMap;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AllowedNamespaces, PoolStatus, Quarantine, Strategy};
use crate::kind::kind;
use crate::versions::PoolVersion;

/// The length of what a claim gets where the pool does not say.
pub const DEFAULT_PREFIX_LENGTH: u8 = 64;

/// Which prefixes a pool has, and how it gives parts of them out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrefixPoolSpec {
    /// The IPv6 prefixes, as CIDR, of which claims get parts.
    #[serde(default)]
    #[schemars(length(min = 1, max = 1024), inner(length(min = 1, max = 43)))]
    pub prefixes: Vec<String>,

    /// The length of the prefix that a claim gets. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 128), extend("default" = 64))]
    pub allocation_prefix_length: Option<i64>,

    /// Handed out with each prefix, for information: it blocks none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 39))]
    pub gateway: Option<String>,

    /// Addresses, ranges first-last, and CIDRs; prefixes that have an address of these are never given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(min = 1, max = 79)))]
    pub excluded_prefixes: Vec<String>,

    /// Which free prefix a claim gets: `LowestFree` (the default), `HighestFree`, `Random`, or `LeastRecentlyUsed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,

    /// Prefixes kept for certain claims, each by its first address. The key is the claim's name, in a pool without a namespace
    /// NAMESPACE/NAME.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 1024), extend("additionalProperties" = {"type": "string", "minLength": 1, "maxLength": 39}))]
    pub pre_allocations: BTreeMap<String, String>,

    /// For how long a prefix is kept back before the next claim may have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<Quarantine>,

    /// The network that the prefixes are in, a name of your choice. Pools of one network share one view of what is used;
    /// pools of different networks may have the same prefixes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub network: Option<String>,

    /// Which namespaces may claim from this pool; without it, all may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<AllowedNamespaces>,
}

kind! {
    /// IPv6 prefixes for the claims of one namespace.
    InClusterPrefixPool = "InClusterPrefixPool", "inclusterprefixpools", crate::GROUP, PoolVersion, NamespaceResourceScope,
    spec: PrefixPoolSpec, status: PoolStatus
}

kind! {
    /// IPv6 prefixes for the claims of all namespaces.
    GlobalInClusterPrefixPool = "GlobalInClusterPrefixPool", "globalinclusterprefixpools", crate::GROUP, PoolVersion,
    ClusterResourceScope, spec: PrefixPoolSpec, status: PoolStatus
}
