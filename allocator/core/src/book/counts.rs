//! What `kubectl get` prints of a pool.

use serde::{Deserialize, Serialize};

/// The columns of a pool, as CAIP counts: `status.ipAddresses`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// What the pool may hand out at most; `i64::MAX` for all that is more.
    pub total: i64,
    /// The `IPAddress` objects that refer to the pool; those that only rest are counted apart.
    pub used: i64,
    /// Addresses that rest: after their release, or because somebody else was heard to have them.
    pub resting: i64,
    /// `total` less `used` and `resting`. Below zero in pools of addresses when objects lie out of range; never in pools of prefixes.
    pub free: i64,
    /// How many of the used are not what the pool may hand out.
    pub out_of_range: i64,
    /// What a claim could get now. Less than `free` where overlapping pools have addresses, or some are kept for claims.
    pub available: i64,
}
