//! The spec of a pool of addresses, as its object says it. The texts are not yet read.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// In which order free addresses are handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Strategy {
    /// The lowest free address.
    #[default]
    Lowest,
    /// The highest free address.
    Highest,
    /// The next free one from a random place on.
    Random,
    /// One that was not used since the allocator started (the lowest), else the one released longest ago. Of pools
    /// larger than what was ever used, an address is not handed out again before all others were.
    LeastRecentlyUsed,
}

/// Which pools share one view of what is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Network {
    /// All pools that name none.
    #[default]
    Common,
    /// The pools of an isolated network (a VLAN, a VRF) of this name.
    Named(String),
}

/// What Mooring's pools say beyond CAIP's; all of it may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Policy {
    /// In which order.
    pub strategy: Strategy,
    /// Addresses that are kept for claims: claim name, or `namespace/name`, to address.
    pub pre_allocations: BTreeMap<String, String>,
    /// Whose addresses these must not overlap with.
    pub network: Network,
    /// How long a released address rests, in seconds.
    pub quarantine_seconds: i64,
    /// How long an address rests that somebody else was heard to have, in seconds; None: 600.
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
    /// Which of them not, in the same forms.
    pub excluded_addresses: Vec<String>,
    /// The prefix length of the subnet they are in.
    pub prefix: i64,
    /// The subnet's gateway; never handed out.
    pub gateway: Option<String>,
    /// Hand out the subnet's own address (and IPv4's broadcast address) too.
    pub allocate_reserved_ip_addresses: bool,
    /// How long a released address rests, in seconds; the longer of this and `quarantine_seconds` counts.
    pub address_reuse_grace_period_seconds: i64,
    /// Beyond CAIP.
    #[serde(flatten)]
    pub policy: Policy,
}
