//! Why the agent did not start.

use crate::datapath;
use crate::ops::lock::LockError;

/// What keeps the agent from running.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Capabilities are missing.
    #[error("missing {}: give the container these capabilities (securityContext.capabilities.add), or run as root", .0.join(" and "))]
    Capabilities(Vec<&'static str>),
    /// The kernel's side could not be opened.
    #[error(transparent)]
    Datapath(#[from] datapath::Error),
    /// Another agent runs here.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Signals cannot be caught, or the trace cannot be written.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it did not work.
        source: std::io::Error,
    },
}
