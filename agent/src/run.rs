//! Starts the agent, and runs it until it is asked to end.

use std::sync::Arc;

use tokio::sync::watch;

use crate::cluster::Cluster;
use crate::datapath;
use crate::event_loop::Signals;
use crate::ops::descriptors;
use crate::ops::lock::{Lock, LockError};
use crate::ops::status_server::StatusServer;
use crate::ops::{self, Ops};
pub use crate::run_error::RunError;
use crate::settings::{Placement, Settings};
use crate::{control_plane, lease_vips, session_vips};

/// Runs the agent until it is asked to end.
///
/// # Errors
/// What prevents the start. Once the agent runs, only a signal ends it.
pub async fn run(settings: Settings) -> Result<(), RunError> {
    let missing = datapath::missing_capabilities()?;
    if !missing.is_empty() {
        return Err(RunError::Capabilities(missing));
    }
    descriptors::raise();
    let settings = Arc::new(settings);
    let ops = Ops::new(ops::boottime, &settings.node_name);
    if let Some(listen) = settings.metrics {
        tokio::spawn(ops::server::serve(listen, ops.clone()));
    }
    let mut signals = Signals::catch()?;
    let waits = |taken: &LockError| {
        tracing::warn!("waiting: {taken}");
        ops.readiness.set("lock", Some(taken.to_string()));
    };
    let _lock = tokio::select! {
        lock = Lock::wait(waits) => lock?,
        () = signals.next() => return Ok(()),
    };
    ops.readiness.set("lock", None);
    serve_status(&settings, &ops);
    let cluster = Cluster::start(&settings, &ops);
    // No VIP of a Service is one of the control plane's.
    let (vips, reserved) = watch::channel(control_plane::vips_at_start(&settings));
    // Each runs on whatever happens to the other, and the same signal ends both.
    let control_plane = async {
        if settings.control_plane() {
            control_plane::run(settings.clone(), cluster.clone(), ops.clone(), vips).await
        } else {
            Ok(())
        }
    };
    let services = async {
        let Some(services) = settings.services.clone() else { return Ok(()) };
        match services.placement.clone() {
            Placement::Sessions => {
                session_vips::run(settings.clone(), services, cluster.clone(), ops.clone(), reserved).await
            }
            Placement::Leases(leases) => {
                lease_vips::run(settings.clone(), services, leases, cluster.clone(), ops.clone(), reserved).await
            }
        }
    };
    tokio::try_join!(control_plane, services).map(drop)
}

/// Serves the status socket. A failure here does not stop the agent from carrying VIPs.
fn serve_status(settings: &Settings, ops: &Arc<Ops>) {
    match StatusServer::bind(&settings.status_socket) {
        Ok(server) => drop(tokio::spawn(server.serve(ops.clone()))),
        Err(error) => tracing::warn!(%error, "status socket cannot be opened: `mooring-agent status` does not work"),
    }
}
