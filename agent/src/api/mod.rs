//! The objects that the agent reads and writes. The API client is [`mooring_common::api`].

pub mod addresses;
pub mod events;
#[cfg(test)]
mod follow_tests;
pub mod lease;
#[cfg(test)]
mod lying_servers;
#[cfg(test)]
mod lying_watches;
pub mod members;
pub mod objects;
pub mod services;
pub mod sessions;
pub mod slices;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod watch;

pub use events::{EventNote, Events, Regarding, Severity};
pub use lease::{LeaseApi, LeaseSettings, Read, Write};
pub use mooring_common::api::{
    ApiError, Away, Call, Failure, Flaw, HealthError, Limits, Observe, Servers, ServersStatus, Settings, Try, Verb,
    ask, codec, header, race, raw, servers, typed, unsayable,
};
pub use mooring_common::backoff::jitter;
pub use mooring_common::kubeconfig::{self, ConfigError, Source};
pub use slices::Slices;
pub use watch::{WatchHandle, Watched};
