//! Everything that speaks to the API server.

mod backoff;
mod call;
mod client;
mod error;
mod follow;
mod resource;

pub use backoff::{Backoff, jitter, random};
pub use call::{Call, Observe, Verb};
pub use client::Client;
pub use error::ApiError;
pub use follow::{Fed, Follow, Turned, What};
pub use resource::{POOLS, Resource};
