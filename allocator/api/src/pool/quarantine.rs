//! Keeping an address back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// For how long an address is kept back. Neighbours' ARP caches and people's firewalls remember it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quarantine {
    /// Seconds after it was given back. The claim is gone by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub after_release_seconds: Option<i32>,

    /// Seconds after somebody else was heard to have it on the wire; at least 4. Without this, 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub after_conflict_seconds: Option<i32>,
}
