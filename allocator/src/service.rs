//! The whole program: connection, election, driver, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use mooring_edge::kubeconfig::{ConfigError, Loaded};
use mooring_edge::server;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::api::Client;
use crate::driver::{self, DriverError};
use crate::ops::Ops;
use crate::settings::Settings;

/// A kubeconfig that is not there yet is looked for so often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

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
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        result = work(settings, &ops) => return result,
    }
    tracing::info!("told to end");
    Ok(())
}

async fn work(settings: Settings, ops: &Arc<Ops>) -> Result<(), ServiceError> {
    let (client, loaded) = connect(&settings, ops).await;
    tokio::spawn(client.clone().keep_current(settings.source.clone(), loaded));
    let (_leads, until) = watch::channel(Some(Duration::MAX));
    match driver::run(settings, client, ops.clone(), until).await? {}
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
