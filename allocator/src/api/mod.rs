//! All communication with the API server.

mod client;
mod error;
mod follow;
mod next_page;
mod resource;

pub use client::Client;
pub use error::ApiError;
pub use follow::{Fed, Follow, Turned, What};
pub use mooring_common::api::{Call, Observe, Verb};
pub use mooring_common::backoff::{Backoff, jitter, random};
pub use resource::{CONTROL_PLANES, POOLS, PartKind, Resource};
