//! The whole program: connection, election, driver, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use mooring_edge::kubeconfig::{ConfigError, Loaded};
use mooring_edge::server;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::api::Client;
use crate::driver::{self, DriverError};
use crate::election;
use crate::ops::Ops;
use crate::people::Events;
use crate::settings::Settings;
use crate::wire::surroundings::host;

/// A kubeconfig that is not there yet is looked for so often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// For the Lease to be released at the end.
const RELEASE: Duration = Duration::from_secs(3);

/// The program cannot go on.
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
///
/// # Errors
/// See [`ServiceError`].
pub async fn run(settings: Settings) -> Result<(), ServiceError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let ops = Arc::new(Ops::default());
    if let Some(listen) = settings.metrics {
        let ops = ops.clone();
        tokio::spawn(async move { server::serve(listen, ops).await });
    }
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "mooring-allocator begins");
    let (stop, stopped) = oneshot::channel();
    let mut elector: Option<JoinHandle<()>> = None;
    let result = tokio::select! {
        biased;
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        result = work(settings, &ops, stopped, &mut elector) => result,
    };
    tracing::info!("told to end");
    // Nothing is written any more; the Lease is another's as soon as it is released. A second signal does not wait.
    drop(stop);
    if let Some(elector) = elector {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            ended = timeout(RELEASE, elector) => {
                if ended.is_err() {
                    tracing::warn!("the Lease could not be released; it expires");
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
    // Without an election nobody changes this any more.
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

/// Waits until there is something to connect with.
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
                    tracing::warn!(%error, "nothing to connect with yet");
                }
                ops.readiness.set("connection", Some(error.to_string()));
                told = Some(error);
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
