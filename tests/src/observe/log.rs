//! What an observer has seen so far: its thread adds to the log; other threads read it or wait for changes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::Error;

/// A value that one thread fills and other threads read or wait for.
#[derive(Debug)]
pub struct Log<T> {
    value: Mutex<T>,
    changed: watch::Sender<()>,
}

impl<T: Default> Default for Log<T> {
    fn default() -> Self {
        Self { value: Mutex::default(), changed: watch::Sender::new(()) }
    }
}

impl<T> Log<T> {
    /// The value. The value stays readable after a writer has panicked: earlier observations remain valid.
    pub fn read(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the value and wakes the waiting tasks.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let answer = change(&mut self.read());
        self.changed.send_replace(());
        answer
    }

    /// Waits until `find` returns something for the value; calls `find` after each change.
    ///
    /// # Errors
    /// [`Error::Waited`] with `what` if `find` returned nothing within `limit`.
    pub async fn wait<R>(
        &self,
        what: &str,
        limit: Duration,
        mut find: impl FnMut(&T) -> Option<R>,
    ) -> Result<R, Error> {
        let mut changed = self.changed.subscribe();
        let search = async {
            loop {
                changed.mark_unchanged();
                if let Some(found) = find(&self.read()) {
                    return found;
                }
                if changed.changed().await.is_err() {
                    // Cannot happen: the sender is ours. If it did, there would be no more changes.
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(limit, search).await.map_err(|_| Error::Waited { what: what.into(), limit })
    }
}
