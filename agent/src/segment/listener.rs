//! The thread that waits for frames, and for the time to send queued frames.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv};
use socket2::Socket;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::announcer::Announcer;
use super::hear::{Heard, decode};
use super::socket::SNAP;
use crate::core::time::Time;
use crate::datapath::clock;
use crate::datapath::link::current_name;

/// How often the listener checks, after the interface went down, whether the interface is gone for good.
const LOOK: Duration = Duration::from_millis(500);

/// How many frames of one socket are read before the other has its turn.
const TURN: usize = 64;

/// The addresses that the agent listens for.
pub(super) type Wanted = Arc<Mutex<BTreeSet<IpAddr>>>;

/// The state of the thread. The thread ends when the other end of `wake` is closed, the receiver is dropped, the
/// interface is gone, or a socket breaks; the channel is then closed.
pub(super) struct Listener {
    pub name: String,
    pub index: u32,
    pub sockets: Vec<Socket>,
    pub wake: UnixStream,
    pub wanted: Wanted,
    pub announcer: Arc<Announcer>,
    pub events: mpsc::Sender<(Time, Heard)>,
}

/// Whether to go on.
#[derive(PartialEq)]
enum Next {
    Go,
    Stop,
}

impl Listener {
    pub(super) fn run(mut self) {
        // When the interface went down. Its sockets work again when it comes back, but report nothing when it is
        // removed.
        let mut down = None;
        loop {
            if let Err(error) = self.announcer.send_queued() {
                tracing::debug!(%error, "a queued announcement was not sent");
            }
            let wait = [self.announcer.wait(), down.map(|_| LOOK)].into_iter().flatten().min();
            let Some(ready) = self.wait(wait) else { return };
            if down.is_some() && ready.is_empty() && current_name(self.index).is_none() {
                tracing::debug!(interface = self.name, "interface is gone; its sockets are closed");
                return;
            }
            for nth in ready {
                let next = match self.sockets.get(nth) {
                    Some(socket) => self.read(socket, &mut down),
                    None => self.woken(&mut down),
                };
                if next == Next::Stop {
                    return;
                }
            }
        }
    }

    /// The numbers of the sockets that are ready; the number after them is `wake`.
    fn wait(&self, wait: Option<Duration>) -> Option<Vec<usize>> {
        let fds = self.sockets.iter().map(AsFd::as_fd).chain([self.wake.as_fd()]);
        let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // Up to the next millisecond: too early would be a busy loop.
        let timeout = wait.map_or(PollTimeout::NONE, |wait| {
            PollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut fds, timeout) {
            Ok(_) => Some((0..fds.len()).filter(|&nth| fds[nth].any() == Some(true)).collect()),
            Err(Errno::EINTR) => Some(Vec::new()),
            Err(error) => {
                tracing::warn!(interface = self.name, %error, "sockets of the segment cannot be polled; they are closed and opened again");
                None
            }
        }
    }

    /// A byte means a new or a failed announcement in the queue; the end of the stream means the end of the segment.
    fn woken(&mut self, down: &mut Option<Time>) -> Next {
        if self.announcer.take_failure() {
            *down = Some(clock::boottime());
        }
        let mut bytes = [0; 64];
        match self.wake.read(&mut bytes) {
            Ok(0) => Next::Stop,
            Ok(_) => Next::Go,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Next::Go,
            Err(_) => Next::Stop,
        }
    }

    fn read(&self, socket: &Socket, down: &mut Option<Time>) -> Next {
        let mut frame = [0; SNAP];
        for _ in 0..TURN {
            match recv(socket.as_raw_fd(), &mut frame, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => {
                    // Frames received earlier may still be waiting behind the error.
                    *down = down.filter(|down| clock::boottime().since(*down) < LOOK);
                    if self.heard(frame.get(..length).unwrap_or_default()) == Next::Stop {
                        return Next::Stop;
                    }
                }
                Err(Errno::EAGAIN) => return Next::Go,
                Err(Errno::EINTR) => {}
                Err(Errno::ENETDOWN) => *down = Some(clock::boottime()),
                Err(error) => {
                    tracing::warn!(interface = self.name, %error, "frames of the segment cannot be read; the sockets are closed and opened again");
                    return Next::Stop;
                }
            }
        }
        Next::Go
    }

    fn heard(&self, frame: &[u8]) -> Next {
        let Ok(heard) = decode(frame) else { return Next::Go };
        if !self.wanted.lock().unwrap_or_else(PoisonError::into_inner).contains(&heard.address) {
            return Next::Go;
        }
        self.announcer.heard.fetch_add(1, Ordering::Relaxed);
        match self.events.try_send((clock::boottime(), heard)) {
            Ok(()) => Next::Go,
            Err(TrySendError::Full(_)) => {
                self.announcer.dropped.fetch_add(1, Ordering::Relaxed);
                Next::Go
            }
            Err(TrySendError::Closed(_)) => Next::Stop,
        }
    }
}
