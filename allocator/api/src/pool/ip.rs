//! Pools of single addresses.

use std::collections::BTreeMap;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AllowedNamespaces, PoolStatus, Quarantine, Strategy};
use crate::kind::kind;
use crate::versions::PoolVersion;

/// Which addresses a pool has, and how it gives them out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpPoolSpec {
    /// The addresses: each entry is one address, a range first-last, or a CIDR. All must lie in one network of the length
    /// prefix, and be of one family.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2048), inner(length(min = 1, max = 79)))]
    pub addresses: Vec<String>,

    /// The length of the network's prefix, 24 for example: what a node configures together with its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 128))]
    pub prefix: Option<i64>,

    /// The network's gateway: handed out with each address, and never given to a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 39))]
    pub gateway: Option<String>,

    /// Whether the addresses that a network reserves may be given too: the first (IPv4: also the last) of the network.
    #[serde(default, rename = "allocateReservedIPAddresses", skip_serializing_if = "Option::is_none")]
    pub allocate_reserved_ip_addresses: Option<bool>,

    /// Addresses that are never given, in the same forms as addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2048), inner(length(min = 1, max = 79)))]
    pub excluded_addresses: Vec<String>,

    /// For how many seconds an address is kept back after its release: the same as quarantine.afterReleaseSeconds, of which
    /// the longer counts. The claim goes at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub address_reuse_grace_period_seconds: Option<i32>,

    /// Which free address a claim gets: `LowestFree` (the default), `Random`, or `LeastRecentlyUsed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,

    /// Addresses kept for certain claims. The key is the claim's name, in a pool without a namespace NAMESPACE/NAME.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 1024), extend("additionalProperties" = {"type": "string", "minLength": 1, "maxLength": 39}))]
    pub pre_allocations: BTreeMap<String, String>,

    /// For how long an address is kept back before the next claim may have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<Quarantine>,

    /// The network that the addresses are in, a name of your choice. Pools of one network share one view of what is used;
    /// pools of different networks may have the same addresses (isolated VLANs, for example).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub network: Option<String>,

    /// Which namespaces may claim from this pool; without it, all may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<AllowedNamespaces>,

    /// Old form of v1alpha1: the network from whose addresses claims are served, as CIDR. Write addresses and prefix instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 43))]
    pub subnet: Option<String>,

    /// Old form of v1alpha1: the first address; without it, the second of subnet. Write addresses instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 39))]
    pub start: Option<String>,

    /// Old form of v1alpha1: the last address; without it, the last but one of subnet. Write addresses instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 39))]
    pub end: Option<String>,
}

kind! {
    /// Addresses for the claims of one namespace.
    InClusterIpPool = "InClusterIPPool", "inclusterippools", crate::GROUP, PoolVersion, NamespaceResourceScope,
    spec: IpPoolSpec, status: PoolStatus
}

kind! {
    /// Addresses for the claims of all namespaces.
    GlobalInClusterIpPool = "GlobalInClusterIPPool", "globalinclusterippools", crate::GROUP, PoolVersion, ClusterResourceScope,
    spec: IpPoolSpec, status: PoolStatus
}
