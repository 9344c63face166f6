//! A bounded number of connections that always lets a new one in.

use std::collections::VecDeque;
use std::future::Future;

use tokio::task::AbortHandle;

/// A bounded number of tasks. When all slots are taken, the oldest task ends. So a client that opens connections and keeps them
/// cannot keep a liveness probe out: a probe is served within a millisecond.
#[derive(Debug)]
pub struct Slots {
    tasks: VecDeque<AbortHandle>,
    most: usize,
}

impl Slots {
    /// All slots are free.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { tasks: VecDeque::with_capacity(most), most }
    }

    /// Runs a task in a slot, the oldest one's if none is free. Needs a runtime.
    pub fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.retain(|task| !task.is_finished());
        while self.tasks.len() >= self.most {
            if let Some(oldest) = self.tasks.pop_front() {
                oldest.abort();
            }
        }
        self.tasks.push_back(tokio::spawn(task).abort_handle());
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}
