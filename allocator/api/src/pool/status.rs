//! What is left of a pool.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;

/// What is left of a pool. Written for people: what is used is always known from the `IPAddress` objects, never from here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    /// How many addresses (in a prefix pool: prefixes) there are.
    #[serde(default, rename = "ipAddresses", skip_serializing_if = "Option::is_none")]
    pub ip_addresses: Option<Counts>,

    /// `Ready`, and what else there is to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::conditions::schema")]
    pub conditions: Vec<Condition>,
}

/// How many addresses, or prefixes. More than 9223372036854775807 count as that many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// That may be given: without the gateway, what is excluded, and what the network reserves.
    pub total: i64,
    /// That may be given now: neither given, nor resting, nor kept for a claim, nor given by another pool that has them too. Less than
    /// none, where more are used out of range than are free.
    pub free: i64,
    /// That were given: as many as there are `IPAddress` objects of this pool.
    pub used: i64,
    /// That were given and are no longer in the pool.
    pub out_of_range: i64,
    /// That are kept back for a while after their release, or after a conflict: neither free nor used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantined: Option<i64>,
}
