//! metal3's pools, as far as claims of Cluster API need them. Kind, fields and version are metal3's, so that its objects are
//! served as they are. Source: `api/v1alpha1` of ip-address-manager.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `kind` of metal3's pools.
pub const METAL3_POOL: &str = "IPPool";

/// What they are called in URLs.
pub const METAL3_POOLS: &str = "ippools";

/// What metal3's own addresses are called in URLs.
pub const METAL3_ADDRESSES: &str = "ipaddresses";

/// The one version of metal3's kinds.
pub const METAL3_VERSION: &str = "v1alpha1";

/// Which addresses a pool of metal3's has, and how it gives them out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3PoolSpec {
    /// The Cluster to which the pool belongs: while it is paused, the pool is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub cluster_name: Option<String>,

    /// The addresses. The entries are used up one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub pools: Vec<Metal3PoolEntry>,

    /// Which free address of an entry a claim gets: `sequential`, the lowest, or `random`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["sequential", "random"], "default" = "sequential"))]
    pub allocation_strategy: Option<String>,

    /// Addresses kept for certain claims, by the claim's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 1024), extend("additionalProperties" = {"type": "string", "minLength": 1, "maxLength": 39}))]
    pub pre_allocations: BTreeMap<String, String>,

    /// The length of the network's prefix, for entries that have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 128))]
    pub prefix: Option<i64>,

    /// The network's gateway, for entries of its family that have none. It is never given, unless preAllocations keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 39))]
    pub gateway: Option<String>,

    /// Name servers, for metal3's own claims. Addresses of Cluster API have no place for them.
    #[serde(default, rename = "dnsServers", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 39)))]
    pub dns_servers: Vec<String>,

    /// What the names of metal3's own addresses begin with. Addresses of Cluster API are named as their claims.
    #[serde(default)]
    #[schemars(length(min = 1, max = 253))]
    pub name_prefix: String,
}

/// Addresses of a pool of metal3's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3PoolEntry {
    /// The first address; without it, the one behind the address that subnet is written with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 39))]
    pub start: Option<String>,

    /// The last address; without it, the last of subnet, for IPv4 the one before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 39))]
    pub end: Option<String>,

    /// The network, as CIDR.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 43))]
    pub subnet: Option<String>,

    /// The length of the network's prefix; without it, the pool's, or else that of subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 128))]
    pub prefix: Option<i64>,

    /// The network's gateway; without it, the pool's. It is never given, unless preAllocations keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 39))]
    pub gateway: Option<String>,

    /// Name servers, for metal3's own claims.
    #[serde(default, rename = "dnsServers", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 39)))]
    pub dns_servers: Vec<String>,
}

/// Who has which address. Written for people: what is used is always known from the addresses themselves, never from here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3PoolStatus {
    /// When it was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub last_updated: Option<String>,

    /// The addresses, by the claim's name. Where an `IPClaim` has the same name, `IPAddressClaim/` stands before that of
    /// Cluster API's claim.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("additionalProperties" = {"type": "string"}))]
    pub indexes: BTreeMap<String, String>,
}
