//! The client of the API servers.
//!
//! A call goes to the preferred API server. When that server refuses, hangs or fails, the next is asked within the same
//! deadline ([`servers`], [`race`], [`ask`]). An answer of an API server is an answer, whatever its content ([`error`]).

pub mod ask;
pub mod call;
pub mod client;
pub mod codec;
pub mod error;
pub mod follow;
pub mod header;
pub mod health;
pub mod lines;
mod quiet;
pub mod race;
pub mod raw;
pub mod returned;
pub mod servers;
pub mod typed;

pub use call::{Call, Observe, Verb};
pub use client::{Client, Refusal};
pub use codec::Flaw;
pub use error::{ApiError, Away, Failure, Try};
pub use health::HealthError;
pub use race::Limits;
pub use servers::{Servers, ServersStatus, Settings};

/// The error of a request that cannot be built because of an invalid name.
#[must_use]
pub fn unsayable(error: &dyn std::error::Error) -> ApiError {
    ApiError::Rejected {
        code: 0,
        message: format!("cannot be asked for: {}", crate::text::cut(&error.to_string(), 200)),
    }
}
