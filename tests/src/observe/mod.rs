//! Observers: they watch a segment from outside the agents, with one clock for all. Afterwards they say what a client
//! saw and who held an address when.
//!
//! A socket belongs to the network namespace in which it is made, whoever uses it later. So only the opening of a
//! socket happens inside a [`Place`]; the loops run on plain threads, and end when their handle is dropped.

pub mod addresses;
pub mod audit;
pub mod echo;
pub mod echoes;
pub mod footprint;
pub mod frames;
pub mod https;
pub mod log;
pub mod neighbours;
pub mod netlink;
pub mod page;
pub mod prober;
pub mod probes;
pub mod pulse;
pub mod rights;
pub mod socket;
pub mod swarm;
pub mod tap;
pub mod timeline;
pub(crate) mod worker;

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use mooring_agent::core::time::Time;
use nix::errno::Errno;
use nix::time::{ClockId, clock_gettime};

/// A network namespace that code can run in.
pub trait Place {
    /// Runs `work` on a thread of its own inside the namespace.
    fn spawn_thread<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T>;
}

/// An observer could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{what}: {errno}")]
    System {
        /// What was tried, and on what.
        what: String,
        /// Why the kernel refused.
        errno: Errno,
    },
    /// A socket of the standard library failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, and on what.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// An answer of the kernel made no sense.
    #[error("netlink answer to {what} cannot be read: {detail}")]
    Netlink {
        /// The request.
        what: &'static str,
        /// What was wrong with the answer.
        detail: String,
    },
    /// There is no such interface in the namespace.
    #[error("no interface {name} in this namespace: {errno}")]
    NoInterface {
        /// Its name.
        name: String,
        /// The answer of `if_nametoindex`.
        errno: Errno,
    },
    /// No answer of the VIP came in time.
    #[error("{vip} did not answer within {limit:?}")]
    Silent {
        /// Where the probes went.
        vip: SocketAddr,
        /// How long was waited.
        limit: Duration,
    },
    /// An event did not come in time.
    #[error("waited {limit:?} in vain for {what}")]
    Waited {
        /// The event.
        what: String,
        /// How long was waited.
        limit: Duration,
    },
    /// Certificates or keys cannot be used.
    #[error("{what} cannot be used for TLS: {detail}")]
    Tls {
        /// Which certificate, key or name.
        what: &'static str,
        /// The reason.
        detail: String,
    },
    /// A line of an audit log is not an audit event.
    #[error("{path} line {line}: {detail}")]
    Audit {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        detail: String,
    },
    /// The thread of an observer panicked.
    #[error("the {0} thread panicked")]
    Panicked(&'static str),
}

impl Error {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(Errno) -> Self {
        let what = what.into();
        move |errno| Self::System { what, errno }
    }

    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// Runs `work` inside the namespace and waits for it. For opening sockets and short requests.
///
/// # Errors
/// Whatever `work` answers, or [`Error::Panicked`].
pub fn inside<T: Send + 'static>(
    place: &impl Place,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    place.spawn_thread(work).join().map_err(|_| Error::Panicked("namespace"))?
}

/// The time of every observer: `CLOCK_BOOTTIME`, as the agent's own [`Time`].
#[must_use]
pub fn now() -> Time {
    Time::from_nanos(read(ClockId::CLOCK_BOOTTIME))
}

/// The wall-clock time of `time`, by the current setting of the wall clock. For logs that have only wall-clock times.
#[must_use]
pub fn wall(time: Time) -> SystemTime {
    let (boot, real) = (now(), SystemTime::now());
    if time > boot { real + time.since(boot) } else { real - boot.since(time) }
}

/// The reverse of [`wall`].
#[must_use]
pub fn from_wall(at: SystemTime) -> Time {
    let (boot, real) = (now(), SystemTime::now());
    at.duration_since(real).map_or_else(|before| boot - before.duration(), |ahead| boot + ahead)
}

/// Nanoseconds on a clock; these clocks always exist, a failure reads as zero.
fn read(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |t| {
        let t = Duration::from(t);
        u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod https_tests;

#[cfg(test)]
mod tests;
