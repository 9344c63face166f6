//! What operators see: metrics, health, status, the log. And the lock that keeps agents apart.

pub mod health;
pub mod lock;
pub mod metrics;
pub mod print;
pub mod server;
pub mod status;
pub mod status_client;
pub mod status_server;
pub mod table;

use std::sync::Arc;

use mooring_edge::readiness::Readiness;
use tokio::sync::watch;

use crate::core::time::Time;
use health::Liveness;
use metrics::Metrics;
use status::Report;

/// How the moment is told: `CLOCK_BOOTTIME`, or a test's own.
pub type Clock = fn() -> Time;

/// What the agent's parts tell, and the servers show. One for the whole agent, behind an `Arc`.
#[derive(Debug)]
pub struct Ops {
    /// The clock on which deadlines are shown.
    pub clock: Clock,
    /// Prometheus metrics.
    pub metrics: Metrics,
    /// Heartbeats.
    pub liveness: Liveness,
    /// What is waited for.
    pub readiness: Readiness,
    /// The last report of what the agent does.
    pub report: watch::Sender<Arc<Report>>,
}

impl Ops {
    /// Nothing told yet; not ready, alive.
    #[must_use]
    pub fn new(clock: Clock, node: &str) -> Arc<Self> {
        let report = Report { node: node.to_owned(), ..Report::default() };
        Arc::new(Self {
            clock,
            metrics: Metrics::new(node),
            liveness: Liveness::new(clock),
            readiness: Readiness::of("agent"),
            report: watch::Sender::new(Arc::new(report)),
        })
    }
}

/// `CLOCK_BOOTTIME`, which goes on while the machine is suspended.
#[must_use]
pub fn boottime() -> Time {
    use nix::time::{ClockId, clock_gettime};
    // It fails for clocks only that the kernel does not know, and this one is older than anything we run on.
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map(std::time::Duration::from).unwrap_or_default();
    Time::default() + now
}
