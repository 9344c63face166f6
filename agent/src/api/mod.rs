//! Everything that speaks to API servers.
//!
//! A call goes to the preferred API server; when that one refuses, hangs or fails, the next is asked within the same
//! deadline ([`servers`], [`race`]). What an API server answers is an answer, whatever it says ([`error`]).

use std::time::Duration;

use crate::core::time::Time;

pub mod addresses;
mod client;
pub mod codec;
pub mod error;
pub mod events;
pub(crate) mod follow;
pub mod health;
pub mod lease;
pub mod objects;
pub mod race;
pub mod raw;
pub mod servers;
pub mod services;
pub mod sessions;
pub mod slices;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod watch;

pub use codec::Flaw;
pub use error::{ApiError, Away, Failure, Try};
pub use events::{EventNote, Events, Regarding, Severity};
pub use health::{HealthError, Prober};
pub use lease::{LeaseApi, LeaseSettings, Read, Write};
pub use mooring_edge::kubeconfig::{self, ConfigError, Source};
pub use race::Limits;
pub use servers::{Servers, ServersStatus, Settings};
pub use slices::Slices;
pub use watch::{WatchHandle, Watched};

/// What a call does, in Kubernetes' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read several.
    List,
    /// Open a watch; how long the watch then lives is not part of the call.
    Watch,
    /// Create an object.
    Create,
    /// Replace an object.
    Update,
    /// Change some fields of an object.
    Patch,
    /// `/readyz`.
    Probe,
}

impl Verb {
    /// As RBAC writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Probe => "probe",
        }
    }

    /// Whether it changes something.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Patch)
    }
}

/// Is told of each try of a call, for metrics.
pub trait Observe: Send + Sync {
    /// A try of `verb` ended after `latency`: `ok`, or the category of [`ApiError`] or [`Failure`].
    fn on_call(&self, verb: Verb, outcome: &'static str, latency: Duration);
}

/// Counts nothing.
impl Observe for () {
    fn on_call(&self, _: Verb, _: &'static str, _: Duration) {}
}

/// A request that cannot be written down: a name that is no name.
pub(crate) fn unsayable(error: &dyn std::error::Error) -> ApiError {
    ApiError::Rejected { code: 0, message: format!("cannot be asked for: {}", error::cut(&error.to_string(), 200)) }
}

/// Now, on the clock that all deadlines are judged by.
#[must_use]
pub fn boottime() -> Time {
    // The clock exists on every Linux since 2.6.39; should it fail, a moment that makes nothing look old.
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from);
    Time::from_nanos(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

/// `base` with up to a fifth more or less, so that nodes do not act in step.
pub(crate) fn jitter(base: Duration) -> Duration {
    use std::hash::{BuildHasher, Hasher};
    // Each RandomState has keys of its own: enough randomness for this, and no crate.
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    let part = u32::try_from(random % 401).unwrap_or(200);
    base * (800 + part) / 1000
}
