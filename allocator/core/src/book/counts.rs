//! The counts of a pool that `kubectl get` prints.

use serde::{Deserialize, Serialize};

/// The columns of a pool, as CAIP counts: `status.ipAddresses`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Hash)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// The number of units the pool may hand out; `i64::MAX` also for larger numbers.
    pub total: i64,
    /// The `IPAddress` objects that refer to the pool; resting objects are counted apart.
    pub used: i64,
    /// Resting addresses: after their release, or because a node heard another host that has them.
    pub resting: i64,
    /// What claims could get now: `total` less `used` and `resting`, and less what claims of overlapping pools have and what is kept
    /// for claims. Where objects lie out of range, CAIP counts as many less in pools of addresses, below zero too; not in pools of
    /// prefixes.
    pub free: i64,
    /// The number of used units that the pool may not hand out.
    pub out_of_range: i64,
    /// The number of units a claim could get now.
    pub available: i64,
}
