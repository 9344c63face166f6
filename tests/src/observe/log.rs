//! What an observer has seen so far: grows on its thread, read and awaited anywhere.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::Error;

/// A value that one thread fills and others look at or wait for.
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
    /// The value. A writer that panicked leaves it readable: what was seen was seen.
    pub fn read(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the value and wakes those who wait.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let answer = change(&mut self.read());
        self.changed.send_replace(());
        answer
    }

    /// Waits until `find` finds something in the value; looks again after each change.
    ///
    /// # Errors
    /// [`Error::Waited`] with `what` when nothing was found within `limit`.
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
                    // Cannot be: the sender is ours. Then there will be no more changes.
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(limit, search).await.map_err(|_| Error::Waited { what: what.into(), limit })
    }
}
