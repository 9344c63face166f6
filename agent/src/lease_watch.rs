//! Translates watch events and call errors of a Lease for the cores.

use crate::api::{ApiError, Watched};
use crate::core::event::Failure;
use crate::core::lease::LeaseView;

/// What a watch showed.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one lives for a moment")]
pub enum Shown {
    /// The Lease; None: that it does not exist.
    Lease(Option<LeaseView>),
    /// The watch broke.
    WatchLost,
}

/// The part of a failed write that a core needs. `creates`: the Lease did not exist.
pub fn write_failure(error: &ApiError, creates: bool) -> Failure {
    match error {
        // 404 for an object that is to be created is about its namespace.
        ApiError::NotFound { .. } if creates => Failure::NoNamespace,
        error => failure(error, "write"),
    }
}

/// The part of a failed call that a core needs; the rest is logged.
pub fn failure(error: &ApiError, what: &'static str) -> Failure {
    match error {
        ApiError::Conflict { .. } => Failure::Conflict,
        // A write to a Lease that was deleted meanwhile.
        ApiError::NotFound { .. } if what == "write" => Failure::Conflict,
        _ => {
            tracing::debug!(%error, what, "request for the Lease failed; retrying");
            Failure::Away
        }
    }
}

/// Translates watch events of a Lease. A problem of the watch or the Lease is logged when it changes.
#[derive(Debug, Default)]
pub struct LeaseWatchAdapter {
    flawed: String,
    complaint: String,
}

impl LeaseWatchAdapter {
    pub fn translate(&mut self, watched: Watched) -> Option<Shown> {
        match watched {
            Watched::Seen { view, flaws, .. } => {
                let text = flaws.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                if !text.is_empty() && text != self.flawed {
                    tracing::warn!(flaws = text, "Lease has invalid fields; they are ignored");
                }
                self.flawed = text;
                self.complaint.clear();
                Some(Shown::Lease(view))
            }
            // This comes from the API server's cache, whether or not the store answers: it proves nothing about the
            // Lease.
            Watched::Alive { .. } => None,
            Watched::Lost { error, .. } => {
                if self.complaint != error.category() {
                    tracing::warn!(%error, "watch of the Lease failed; retrying");
                    error.category().clone_into(&mut self.complaint);
                }
                Some(Shown::WatchLost)
            }
        }
    }
}
