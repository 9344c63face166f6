//! A thread that ends when its handle is dropped.

use std::io::{PipeReader, PipeWriter, pipe};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::setpriority_process;

use super::Error;

/// The nice value of an observer's thread (`setpriority(2)`: -20 is first, 19 last, 0 is what everything else has).
const BEFORE_OTHERS: i32 = -10;

/// The handle of a thread; dropping it ends the thread and waits for it.
#[derive(Debug)]
pub struct Worker {
    /// Closing it tells the thread to end: no polling of a flag, and it also happens on a panic.
    open: Option<PipeWriter>,
    thread: Option<JoinHandle<Result<(), Error>>>,
    name: &'static str,
}

/// The thread's side: tells the thread when to end.
#[derive(Debug)]
pub struct Until(PipeReader);

impl Until {
    /// Waits until `fd` can be read (true) or the worker must end (false).
    pub fn readable(&self, fd: BorrowedFd<'_>) -> Result<bool, Error> {
        let mut fds = [PollFd::new(fd, PollFlags::POLLIN), PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        loop {
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) => break,
                Err(Errno::EINTR) => {}
                Err(errno) => {
                    return Err(Error::System { what: "poll".into(), errno });
                }
            }
        }
        Ok(!fds[1].any().unwrap_or(true))
    }

    /// Whether the worker must end; does not wait.
    pub fn over(&self) -> bool {
        self.over_within(Duration::ZERO)
    }

    /// Waits so long, or until the worker must end: whether it must.
    pub fn over_within(&self, pause: Duration) -> bool {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX)).is_ok_and(|n| n > 0)
    }
}

/// Puts this thread before the programs that it watches: on a busy machine an event would otherwise be noted tens of milliseconds
/// after it happened, and a hand-over would look like a moment in which nobody had the VIP. A user namespace may not do this, and
/// the lab works without.
fn hurry(name: &str) {
    if let Err(error) = setpriority_process(None, BEFORE_OTHERS) {
        tracing::debug!(%error, thread = name, "an observer keeps the usual priority");
    }
}

impl Worker {
    /// Starts `work` on a thread; `work` must return soon after [`Until`] signals the end.
    pub fn start(
        name: &'static str,
        work: impl FnOnce(Until) -> Result<(), Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let (reader, writer) = pipe().map_err(Error::io("pipe"))?;
        let thread = thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                hurry(name);
                work(Until(reader))
            })
            .map_err(Error::io("start a thread"))?;
        Ok(Self { open: Some(writer), thread: Some(thread), name })
    }

    /// Ends the thread and returns its result.
    pub fn finish(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        self.open = None;
        self.thread.take().map_or(Ok(()), |thread| thread.join().map_err(|_| Error::Panicked(self.name))?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, thread = self.name, "an observer failed");
        }
    }
}
