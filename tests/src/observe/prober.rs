//! The prober: a client that probes the VIP a thousand times a second.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mooring_agent::core::time::Time;
use nix::sys::socket::SockaddrStorage;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use socket2::{Domain, Protocol, Socket, Type};

use super::echo::{HEADER, MAGIC, to_std};
use super::log::Log;
use super::probes::{Answer, Probe, Probes};
use super::socket::{hold_much, receive, stamp};
use super::worker::Worker;
use super::{Error, Place, inside, now};

/// Time between two probes.
pub const PACE: Duration = Duration::from_millis(1);

/// A prober that is later than this starts a new rhythm.
const LATE: Duration = Duration::from_millis(10);

/// How long answers are still awaited after the last probe.
const DRAIN: Duration = Duration::from_millis(300);

/// Tells the probes of one prober from those of another.
static RUNS: AtomicU32 = AtomicU32::new(1);

/// A running prober; it ends when dropped.
#[derive(Debug)]
pub struct Prober {
    vip: SocketAddr,
    seen: Arc<Log<Probes>>,
    sender: Worker,
    receiver: Worker,
}

impl Prober {
    /// Sends a probe to `vip` (address and port of an [`super::echo::Echo`]) every millisecond, from inside `place`.
    ///
    /// # Errors
    /// When no socket can be made there.
    pub fn start(place: &impl Place, vip: SocketAddr) -> Result<Self, Error> {
        Self::paced(place, vip, PACE)
    }

    /// The same at another pace.
    ///
    /// # Errors
    /// As [`Prober::start`].
    pub fn paced(place: &impl Place, vip: SocketAddr, every: Duration) -> Result<Self, Error> {
        let socket = Arc::new(inside(place, move || open(vip))?);
        let seen = Arc::new(Log::<Probes>::default());
        let run = new_run();

        let (answers, log) = (Arc::clone(&socket), Arc::clone(&seen));
        let receiver = Worker::start("prober-receive", move |until| {
            let mut buffer = [0; 512];
            while until.readable(answers.as_fd())? {
                while let Some(got) = receive::<SockaddrStorage>(&*answers, &mut buffer)? {
                    let from_vip = got.from.as_ref().and_then(to_std).is_some_and(|from| from == vip);
                    let Some((sequence, node)) = decode(&buffer[..got.len], run).filter(|_| from_vip) else {
                        continue;
                    };
                    log.change(|probes| probes.answered(sequence, got.at, &node));
                }
            }
            Ok(())
        })?;

        let log = Arc::clone(&seen);
        let sender = Worker::start("prober-send", move |until| {
            let mut due = now();
            for sequence in 0_u64.. {
                if until.over() {
                    break;
                }
                sleep_until(due);
                // A starved prober does not send the missed probes later: a burst would overflow the socket of the echo
                // server.
                due = if now() > due + LATE { now() } else { due } + every;
                // Recorded first: the answer may be faster than this thread.
                log.read().sent(Probe { sent: now(), answer: None });
                // A probe that cannot be sent (no route, no neighbour, a full queue) is a lost one.
                if let Err(error) = socket.send_to(&encode(run, sequence), &vip.into()) {
                    tracing::trace!(%error, %vip, "probe not sent");
                }
            }
            Ok(())
        })?;
        Ok(Self { vip, seen, sender, receiver })
    }

    /// The record so far; probes of the last second may still be answered and do not count as lost.
    #[must_use]
    pub fn so_far(&self) -> Probes {
        let mut probes = self.seen.read().clone();
        probes.end(now());
        probes
    }

    /// Waits until a probe sent at or after `after` was answered (by `node`, when one is named), and says when the
    /// answer came and who gave it.
    ///
    /// # Errors
    /// [`Error::Silent`] when none came within `limit`.
    pub async fn answer_after(
        &self,
        after: Time,
        node: Option<&str>,
        limit: Duration,
    ) -> Result<(Time, String), Error> {
        self.seen
            .wait("an answer", limit, |probes| {
                probes.first_answer_after(after, node).map(|(at, who)| (at, who.to_owned()))
            })
            .await
            .map_err(|_| Error::Silent { vip: self.vip, limit })
    }

    /// Stops sending, waits 300 ms for answers that are on their way, and gives the whole record. Blocks that long.
    ///
    /// # Errors
    /// What made a thread fail, if something did.
    pub fn finish(self) -> Result<Probes, Error> {
        self.sender.finish()?;
        std::thread::sleep(DRAIN);
        self.receiver.finish()?;
        let mut probes = self.seen.read().clone();
        // The wait is over: a probe without an answer is lost, even if it was sent recently.
        probes.end(Time::from_nanos(u64::MAX));
        Ok(probes)
    }
}

/// A number that no other prober of this process has.
pub(super) fn new_run() -> u32 {
    RUNS.fetch_add(1, Ordering::Relaxed)
}

pub(super) fn open(vip: SocketAddr) -> Result<Socket, Error> {
    let what = || format!("open the prober's socket to {vip}");
    let any = if vip.is_ipv6() {
        SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))
    } else {
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))
    };
    let socket = Socket::new(Domain::for_address(vip), Type::DGRAM, Some(Protocol::UDP)).map_err(Error::io(what()))?;
    // Never wait in send: while the neighbour is unknown the kernel keeps probes back, and they fill the socket.
    socket.set_nonblocking(true).map_err(Error::io(what()))?;
    socket.bind(&any.into()).map_err(Error::io(what()))?;
    hold_much(&socket);
    stamp(&socket)?;
    Ok(socket)
}

pub(super) fn encode(run: u32, sequence: u64) -> [u8; HEADER] {
    let mut probe = [0; HEADER];
    probe[..4].copy_from_slice(&MAGIC);
    probe[4..8].copy_from_slice(&run.to_be_bytes());
    probe[8..].copy_from_slice(&sequence.to_be_bytes());
    probe
}

/// Sequence number and node of an answer to a probe of `run`.
pub(super) fn decode(answer: &[u8], run: u32) -> Option<(u64, String)> {
    let (header, node) = answer.split_first_chunk::<HEADER>()?;
    let (magic, rest) = header.split_first_chunk::<4>()?;
    let (of, sequence) = rest.split_first_chunk::<4>()?;
    let sequence = u64::from_be_bytes(sequence.try_into().ok()?);
    (*magic == MAGIC && u32::from_be_bytes(*of) == run).then(|| (sequence, String::from_utf8_lossy(node).into_owned()))
}

/// Sleeps until a moment of [`now`]'s clock; a moment past is no sleep at all.
pub(crate) fn sleep_until(due: Time) {
    let wake = TimeSpec::from_duration(Duration::from_nanos(due.as_nanos()));
    while now() < due {
        // EINTR: look at the clock and sleep on.
        let _ = clock_nanosleep(ClockId::CLOCK_BOOTTIME, ClockNanosleepFlags::TIMER_ABSTIME, &wake);
    }
}

impl Probes {
    pub(super) fn sent(&mut self, probe: Probe) {
        self.all.push(probe);
    }

    pub(super) fn answered(&mut self, sequence: u64, at: Time, node: &str) {
        let known = self.nodes.iter().position(|n| n == node);
        let node = known.unwrap_or_else(|| {
            self.nodes.push(node.to_owned());
            self.nodes.len() - 1
        });
        let probe = usize::try_from(sequence).ok().and_then(|i| self.all.get_mut(i));
        // A second answer (two owners) does not replace the first.
        if let Some(probe) = probe.filter(|p| p.answer.is_none()) {
            probe.answer = Some(Answer { at, node });
        }
    }
}
