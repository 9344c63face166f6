//! Ctrl-C and SIGTERM take a lab down in order.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

/// Somebody asked for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted by {0}")]
pub struct Interrupted(pub &'static str);

/// Runs `work`; Ctrl-C, SIGTERM or SIGHUP drop it where it waits, and with it every lab that it holds. (What is killed
/// outright takes its labs along as well: the kernel sees to it.)
///
/// # Errors
/// [`Interrupted`].
pub async fn guarded<T>(work: impl Future<Output = T>) -> Result<T, Interrupted> {
    tokio::select! {
        result = work => Ok(result),
        by = interrupted() => Err(Interrupted(by)),
    }
}

/// Waits for Ctrl-C, SIGTERM or SIGHUP.
pub async fn interrupted() -> &'static str {
    let [int, term, hup] =
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(|kind| async move {
            match signal(kind) {
                Ok(mut signal) => _ = signal.recv().await,
                // Then the signal does what it always does: it ends the process, and the kernel takes the lab down.
                Err(_) => std::future::pending().await,
            }
        });
    tokio::select! {
        () = int => "Ctrl-C",
        () = term => "SIGTERM",
        () = hup => "SIGHUP",
    }
}
