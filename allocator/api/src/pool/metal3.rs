//! metal3's pools, claims and addresses. Kinds, fields and version are metal3's, so that its objects are
//! served as they are. Source: `api/v1alpha1` of ip-address-manager.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `kind` of metal3's pools.
pub const METAL3_POOL: &str = "IPPool";

/// What they are called in URLs.
pub const METAL3_POOLS: &str = "ippools";

/// `kind` of metal3's own addresses.
pub const METAL3_ADDRESS: &str = "IPAddress";

/// `kind` of metal3's own claims.
pub const METAL3_CLAIM: &str = "IPClaim";

/// What they are called in URLs.
pub const METAL3_CLAIMS: &str = "ipclaims";

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

    /// Name servers, for the addresses of metal3's own claims. Addresses of Cluster API have no place for them.
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

/// A reference, as metal3 writes it: all that counts is the name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3Reference {
    /// The API version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The namespace: that of the object itself, whatever stands here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub name: String,
    /// A field of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_path: Option<String>,
    /// The version of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// The uid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// Which pool a claim of metal3's wants an address of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3ClaimSpec {
    /// The pool, in the claim's namespace.
    pub pool: Metal3Reference,
}

/// What a claim of metal3's has got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3ClaimStatus {
    /// The address, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Metal3Reference>,
    /// Why there is none, or what is wrong with it: a reason, a colon, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

/// An address that a claim of metal3's has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3AddressSpec {
    /// The claim.
    pub claim: Metal3Reference,
    /// The pool.
    pub pool: Metal3Reference,
    /// The length of the network's prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 128))]
    pub prefix: Option<i64>,
    /// The network's gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 39))]
    pub gateway: Option<String>,
    /// The address.
    #[schemars(length(min = 1, max = 39))]
    pub address: String,
    /// The name servers of its entry, or of its pool.
    #[serde(default, rename = "dnsServers", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 39)))]
    pub dns_servers: Vec<String>,
}
