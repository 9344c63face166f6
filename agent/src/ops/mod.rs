//! What operators see: metrics, health, status, the log. Also the lock that keeps two agents apart.

pub mod descriptors;
pub mod health;
pub mod lock;
pub mod metrics;
pub mod repeat;
pub mod server;
pub mod services;
pub mod status;
pub mod status_client;
pub mod status_server;
pub mod table;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use mooring_common::clock::boottime;
use mooring_common::readiness::Readiness;
use tokio::sync::{mpsc, oneshot, watch};

use crate::core::time::Time;
use health::Liveness;
use metrics::Metrics;
use services::ServicesStatus;
use status::Report;

/// The source of the current time: `CLOCK_BOOTTIME`, or a test's clock.
pub type Clock = fn() -> Time;

/// The reports of the agent's parts, which the servers show. The whole agent shares one, behind an `Arc`.
#[derive(Debug)]
pub struct Ops {
    /// The clock on which deadlines are shown.
    pub clock: Clock,
    /// Prometheus metrics.
    pub metrics: Metrics,
    /// Heartbeats.
    pub liveness: Liveness,
    /// What the agent waits for before it is ready.
    pub readiness: Readiness,
    /// The last report of what the agent does.
    pub report: watch::Sender<Arc<Report>>,
    /// The receiver of questions about VIPs of Services.
    services: OnceLock<mpsc::Sender<oneshot::Sender<ServicesStatus>>>,
}

/// How long an answer about VIPs of Services may take.
const ANSWERED: Duration = Duration::from_secs(1);

impl Ops {
    /// No reports yet; not ready, alive.
    #[must_use]
    pub fn new(clock: Clock, node: &str) -> Arc<Self> {
        let report = Report { node: node.to_owned(), ..Report::default() };
        Arc::new(Self {
            clock,
            metrics: Metrics::new(node),
            liveness: Liveness::new(clock),
            readiness: Readiness::of("agent"),
            report: watch::Sender::new(Arc::new(report)),
            services: OnceLock::new(),
        })
    }

    /// Sets where questions about VIPs of Services go.
    pub fn ask_services(&self, ask: mpsc::Sender<oneshot::Sender<ServicesStatus>>) {
        // A process has one event loop for Services.
        let _ = self.services.set(ask);
    }

    /// The status of the VIPs of Services; None: this agent holds none, or does not answer.
    pub async fn services(&self) -> Option<ServicesStatus> {
        let (answer, answered) = oneshot::channel();
        self.services.get()?.try_send(answer).ok()?;
        tokio::time::timeout(ANSWERED, answered).await.ok()?.ok()
    }
}
