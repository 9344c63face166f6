//! How a call about a Lease fails.

use serde::{Deserialize, Serialize};

/// How a call to the API failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// Another write came first (409).
    Conflict,
    /// No answer about the object: timed out, not allowed, or an error of the server. A write may have taken effect all the same.
    Away,
    /// Not allowed (403), where that matters: a right is missing. The write has not taken effect.
    Refused,
    /// The object cannot be created: its namespace does not exist (404).
    NoNamespace,
}
