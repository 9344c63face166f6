//! The operators' view: metrics, health, the log.

mod health;
pub mod metrics;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use mooring_allocator_core::names::PoolRef;
use mooring_allocator_core::protocol::{Report, Write};
use mooring_allocator_core::remote::{Drift, Note};
use mooring_common::readiness::Readiness;
use mooring_common::server::{Page, Pages};

use crate::api::ApiError;
use crate::clock;
pub use health::Liveness;
pub use metrics::Metrics;

/// Shortest time between two logged write failures.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// The state that the allocator's parts report, and that the server shows. There is one for the whole program, behind
/// an `Arc`.
#[derive(Debug)]
pub struct Ops {
    /// Prometheus metrics.
    pub metrics: Arc<Metrics>,
    /// Whether the loop goes round.
    pub liveness: Liveness,
    /// What is waited for.
    pub readiness: Readiness,
    /// When a failed write was last logged, and how many failures were not logged since.
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
    /// Counts and logs the protocol's reports.
    pub fn report(&self, report: &Report) {
        match report {
            Report::Allocated { claim, block } => {
                self.metrics.allocations.inc();
                tracing::debug!(%claim, address = %block, "address allocated");
            }
            Report::AnotherAddress { claim, had, given } => {
                tracing::warn!(%claim, %had, address = %given, "the claim gets another address than it had");
            }
            Report::KeptForTheNext { claim, had } => {
                tracing::info!(%claim, address = %had, "the claim is gone, and what it had may be in use: it is kept for the next claim of that name, for 5 minutes, or an hour while its Cluster is paused");
            }
            Report::Released { address, block, .. } => {
                self.metrics.releases.inc();
                tracing::debug!(object = %address, address = block.map(|one| one.to_string()), "address released");
            }
            Report::Withdrawn { claim, block } => {
                self.metrics.withdrawn.inc();
                let address = block.map(|one| one.to_string());
                tracing::info!(%claim, address, "IPAddress withdrawn: another one had the address earlier");
            }
            Report::Failed { claim, reason } => {
                self.metrics.failed(*reason);
                tracing::debug!(%claim, reason = reason.name(), "no address for the claim");
            }
            Report::Conflict { claim, block, heard, kept } => {
                self.metrics.conflicts.inc();
                tracing::warn!(%claim, address = %block, heard, kept, "another host on the segment has the address");
            }
            Report::NotRested { address, block, why } => {
                let block = block.map(|one| one.to_string());
                tracing::warn!(object = %address, address = block, why, "address released without its quarantine");
            }
            Report::Remote { pool, note } => self.outside(pool, note),
            Report::Duplicate { address, other } => {
                self.metrics.duplicates.inc();
                tracing::error!(object = %address, %other, "duplicate address: two bound IPAddress objects have it; delete one of their claims");
            }
        }
    }

    fn outside(&self, pool: &PoolRef, note: &Note) {
        self.metrics.outside_note(note);
        match note {
            Note::Orphan(entry) => {
                tracing::warn!(%pool, address = %entry.address, host = %entry.host, "outside system has an entry of ours whose claim is not here");
            }
            Note::OrphanReleased(entry) => {
                tracing::info!(%pool, address = %entry.address, host = %entry.host, "entry of a claim that is gone deleted in the outside system");
            }
            Note::Missing(claim, address, drift) => {
                let put_back = *drift == Drift::PutBack;
                tracing::warn!(%pool, %claim, %address, put_back, "entry of a claim's address is gone or changed in the outside system");
            }
            Note::PutBack(claim, address) => {
                tracing::info!(%pool, %claim, %address, "entry of a claim's address put back in the outside system");
            }
            Note::NotPutBack(claim, address, why) => {
                tracing::error!(%pool, %claim, %address, why, "entry of a claim's address cannot be put back: somebody else may get the address");
            }
            Note::NotAsked(claim, address) => {
                let address = address.map(|one| one.to_string());
                tracing::error!(%pool, %claim, address, "address let go without its outside system: the pool was removed by force; delete the entry there");
            }
        }
    }

    /// Logs a failed write. Conflicts are no failures: the preconditions exist to produce them.
    pub fn write_failed(&self, write: &Write, error: &ApiError) {
        self.write_not_done(name(write), write, error);
    }

    /// [`Ops::write_failed`] for any write; `name`: what people call the write.
    pub fn write_not_done(&self, name: &str, write: &impl std::fmt::Debug, error: &ApiError) {
        if let ApiError::Status { code: 404 | 409, .. } = error {
            return tracing::debug!(?write, %error, "write rejected: the object changed or is gone");
        }
        // An outage fails many writes at once: one log line is enough.
        let now = clock::now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if now < told.0 + TELL_EVERY && told.0 > Duration::ZERO {
            told.1 += 1;
            return;
        }
        let more = std::mem::take(&mut told.1);
        told.0 = now;
        drop(told);
        tracing::warn!(write = name, %error, more, "write failed; retrying");
    }
}

/// A short name.
const fn name(write: &Write) -> &'static str {
    match write {
        Write::AddFinalizer(..) => "the finalizer of a claim",
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
