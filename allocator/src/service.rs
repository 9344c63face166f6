//! The whole program: connection, election, driver, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use mooring_common::kubeconfig::{ConfigError, Loaded};
use mooring_common::server;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::api::Client;
use crate::decode::surroundings::host;
use crate::driver::{self, DriverError};
use crate::election;
use crate::events::Events;
use crate::ops::Ops;
use crate::settings::Settings;

/// Interval of checks for a kubeconfig that does not exist yet.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time allowed to release the Lease at the end.
const RELEASE: Duration = Duration::from_secs(3);

/// Why the program cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Signals cannot be heard.
    #[error("cannot hear signals: {0}")]
    Signals(#[from] std::io::Error),
    /// The driver ended.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// Runs until it is told to end.
pub async fn run(settings: Settings) -> Result<(), ServiceError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let ops = Arc::new(Ops::default());
    if let Some(listen) = settings.metrics {
        let ops = ops.clone();
        tokio::spawn(async move { server::serve(listen, ops).await });
    }
    let (stop, stopped) = oneshot::channel();
    let mut elector: Option<JoinHandle<()>> = None;
    let result = tokio::select! {
        biased;
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        result = work(settings, &ops, stopped, &mut elector) => result,
    };
    tracing::info!("shutting down");
    // Nothing is written any more; once released, the Lease is free for another allocator. A second signal does not
    // wait.
    drop(stop);
    if let Some(elector) = elector {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            ended = timeout(RELEASE, elector) => {
                if ended.is_err() {
                    tracing::warn!("Lease could not be released; it expires");
                }
            }
        }
    }
    result
}

async fn work(
    settings: Settings,
    ops: &Arc<Ops>,
    stopped: oneshot::Receiver<()>,
    elector: &mut Option<JoinHandle<()>>,
) -> Result<(), ServiceError> {
    let (client, loaded) = connect(&settings, ops).await;
    let server = host(&loaded.config.cluster_url.to_string());
    tokio::spawn(client.clone().keep_current(settings.source.clone(), loaded));
    let (leads, until) = watch::channel(None);
    // Without an election, this value never changes again.
    let mut kept = None;
    if let Some(election) = settings.election.clone() {
        *elector = Some(tokio::spawn(election::run(
            election,
            settings.identity.clone(),
            client.clone(),
            ops.clone(),
            leads,
            stopped,
        )));
    } else {
        ops.metrics.leads.set(1);
        leads.send_replace(Some(Duration::MAX));
        kept = Some(leads);
    }
    let identity = settings.identity.clone();
    let events = if settings.events { Events::start(client.clone(), ops.clone(), identity) } else { Events::off() };
    let ended = driver::run(settings, client, ops.clone(), events, server, until).await;
    drop(kept);
    match ended? {}
}

/// Waits until the program has a cluster to connect to.
async fn connect(settings: &Settings, ops: &Ops) -> (Client, Loaded) {
    let mut told: Option<ConfigError> = None;
    loop {
        match Client::load(&settings.source, settings.writes + 16).await {
            Ok(connected) => {
                ops.readiness.set("connection", None);
                return connected;
            }
            Err(error) => {
                if told.as_ref() != Some(&error) {
                    tracing::warn!(%error, "no usable kubeconfig or service account; retrying");
                }
                ops.readiness.set("connection", Some(error.to_string()));
                told = Some(error);
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
