//! What operators see: metrics, health, the log.

mod health;
mod metrics;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use mooring_allocator_core::protocol::{Report, Write};
use mooring_edge::readiness::Readiness;
use mooring_edge::server::{Page, Pages};

use crate::api::ApiError;
use crate::clock;
pub use health::Liveness;
pub use metrics::Metrics;

/// Failed writes are logged so often at most.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// What the allocator's parts tell, and the server shows. One for the whole program, behind an `Arc`.
#[derive(Debug)]
pub struct Ops {
    /// Prometheus metrics.
    pub metrics: Arc<Metrics>,
    /// Whether the loop goes round.
    pub liveness: Liveness,
    /// What is waited for.
    pub readiness: Readiness,
    /// When a failed write was last logged, and how many were not since.
    told: Mutex<(Duration, u64)>,
}

impl Default for Ops {
    fn default() -> Self {
        Self {
            metrics: Arc::default(),
            liveness: Liveness::default(),
            readiness: Readiness::of("allocator"),
            told: Mutex::default(),
        }
    }
}

impl Ops {
    /// Counts and logs what the protocol reports.
    pub fn report(&self, report: &Report) {
        match report {
            Report::Allocated { claim, block } => {
                self.metrics.allocations.inc();
                tracing::debug!(%claim, address = %block, "allocated");
            }
            Report::Released { address, block } => {
                self.metrics.releases.inc();
                tracing::debug!(object = %address, address = block.map(|one| one.to_string()), "released");
            }
            Report::Withdrawn { claim, block } => {
                self.metrics.withdrawn.inc();
                let address = block.map(|one| one.to_string());
                tracing::info!(%claim, address, "withdrawn: another IPAddress had the address earlier");
            }
            Report::Failed { claim, reason } => {
                self.metrics.failed(*reason);
                tracing::debug!(%claim, reason = reason.name(), "no address");
            }
            Report::Conflict { claim, block, heard, kept } => {
                self.metrics.conflicts.inc();
                tracing::warn!(%claim, address = %block, heard, kept, "somebody else was heard to have the address");
            }
            Report::NotRested { address, block, why } => {
                let block = block.map(|one| one.to_string());
                tracing::warn!(object = %address, address = block, why, "released without its rest");
            }
            Report::Duplicate { address, other } => {
                self.metrics.duplicates.inc();
                tracing::error!(object = %address, %other, "two bound IPAddress objects have an address in common: somebody made one by hand; delete one claim");
            }
        }
    }

    /// Logs a write that failed. Conflicts are no failures: they are what the preconditions are for.
    pub fn write_failed(&self, write: &Write, error: &ApiError) {
        self.write_not_done(name(write), write, error);
    }

    /// As [`Ops::write_failed`], of any write; `name`: what people call it.
    pub fn write_not_done(&self, name: &str, write: &impl std::fmt::Debug, error: &ApiError) {
        if let ApiError::Status { code: 404 | 409, .. } = error {
            return tracing::debug!(?write, %error, "not written");
        }
        // An outage fails many at once: one of them says it.
        let now = clock::now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if now < told.0 + TELL_EVERY && told.0 > Duration::ZERO {
            told.1 += 1;
            return;
        }
        let more = std::mem::take(&mut told.1);
        told.0 = now;
        drop(told);
        tracing::warn!(write = name, %error, more, "not written; tried again");
    }
}

/// A short name.
const fn name(write: &Write) -> &'static str {
    match write {
        Write::AddFinalizer(_) => "the finalizer of a claim",
        Write::RemoveFinalizer(_) => "the end of a claim",
        Write::Void(..) => "the count of a claim",
        Write::Bind(..) | Write::Unbind(..) => "the binding of a claim",
        Write::Condition(..) => "the condition of a claim",
        Write::Create(_) => "a new IPAddress",
        Write::Adopt(..) => "the adoption of an IPAddress",
        Write::RemoveAddressFinalizer(_) | Write::DeleteAddress(_) => "the end of an IPAddress",
        Write::AddPoolFinalizer(_) | Write::RemovePoolFinalizer(_) => "the finalizer of a pool",
        Write::PoolStatus(..) => "the status of a pool",
    }
}

impl Pages for Ops {
    fn page(&self, path: &str) -> Page {
        match path {
            "/healthz" | "/livez" => Page::check(&self.liveness.failures()),
            "/readyz" => Page::check(&self.readiness.waits()),
            "/metrics" => Page::metrics(self.metrics.page()),
            "/" => Page::text(StatusCode::OK, "mooring-allocator: /metrics /healthz /readyz\n"),
            _ => Page::text(StatusCode::NOT_FOUND, "there is /metrics, /healthz and /readyz\n"),
        }
    }
}
