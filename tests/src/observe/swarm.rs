//! A client of many VIPs at once: the client probes every VIP at the same pace, one after the other.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use mooring_agent::core::time::Time;
use nix::sys::socket::SockaddrStorage;

use super::echo::to_std;
use super::log::Log;
use super::prober::{decode, encode, new_run, open, sleep_until};
use super::probes::{Probe, Probes};
use super::socket::receive;
use super::worker::Worker;
use super::{Error, Place, now};

/// The sender wakes up at this interval, and sends the probes that are due by then.
const TICK: Duration = Duration::from_millis(1);
/// How long the swarm waits for answers after the last probe.
const DRAIN: Duration = Duration::from_millis(300);

/// A running swarm; it ends when dropped.
#[derive(Debug)]
pub struct Swarm {
    vips: Arc<[IpAddr]>,
    seen: Arc<Log<Vec<Probes>>>,
    sender: Worker,
    receiver: Worker,
}

impl Swarm {
    /// Sends probes to `port` of each of these IPv4 addresses, to each address once per `every`, from inside `place`.
    ///
    /// # Errors
    /// No socket can be made there.
    pub fn start(place: &impl Place, vips: &[IpAddr], port: u16, every: Duration) -> Result<Self, Error> {
        let vips: Arc<[IpAddr]> = vips.into();
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let socket = Arc::new(super::inside(place, move || open(any))?);
        let seen = Arc::new(Log::<Vec<Probes>>::default());
        seen.change(|all| all.resize_with(vips.len(), Probes::default));
        let run = new_run();
        let count = vips.len().max(1) as u64;
        let step = every / u32::try_from(count).unwrap_or(u32::MAX);

        let (answers, log, to) = (Arc::clone(&socket), Arc::clone(&seen), Arc::clone(&vips));
        let receiver = Worker::start("swarm-receive", move |until| {
            let mut buffer = [0; 512];
            while until.readable(answers.as_fd())? {
                while let Some(got) = receive::<SockaddrStorage>(&*answers, &mut buffer)? {
                    let Some((number, node)) = decode(&buffer[..got.len], run) else { continue };
                    let (round, index) = (number / count, usize::try_from(number % count).unwrap_or_default());
                    let from = got.from.as_ref().and_then(to_std).map(|from| from.ip());
                    if from == to.get(index).copied() {
                        log.change(|all| all[index].answered(round, got.at, &node));
                    }
                }
            }
            Ok(())
        })?;

        let (log, to) = (Arc::clone(&seen), Arc::clone(&vips));
        let sender = Worker::start("swarm-send", move |until| {
            let (mut due, mut number) = (now(), 0_u64);
            while !until.over() {
                sleep_until(now() + TICK);
                let mut sent = 0;
                while due <= now() && sent < count {
                    let index = usize::try_from(number % count).unwrap_or_default();
                    // Recorded before sending: the answer may be faster than this thread.
                    log.read()[index].sent(Probe { sent: now(), answer: None });
                    if let Err(error) = socket.send_to(&encode(run, number), &SocketAddr::new(to[index], port).into()) {
                        tracing::trace!(%error, vip = %to[index], "probe not sent");
                    }
                    (number, sent, due) = (number + 1, sent + 1, due + step);
                }
                // A starved sender does not send the missed probes later.
                due = due.max(now());
            }
            Ok(())
        })?;
        Ok(Self { vips, seen, sender, receiver })
    }

    /// Waits until, for every VIP, a node other than `not` has answered a probe that was sent at or after `after`.
    ///
    /// # Errors
    /// [`Error::Waited`], with how many are missing.
    pub async fn all_answered(&self, after: Time, not: Option<&str>, limit: Duration) -> Result<(), Error> {
        let all = |all: &Vec<Probes>| all.iter().all(|one| first(one, after, not).is_some()).then_some(());
        self.seen.wait("an answer of every VIP", limit, all).await.map_err(|_| {
            let missing = self.seen.read().iter().filter(|one| first(one, after, not).is_none()).count();
            Error::Waited {
                what: format!("an answer of every VIP ({missing} of {} are silent)", self.vips.len()),
                limit,
            }
        })
    }

    /// Stops sending, waits 300 ms for late answers, and returns the record of each VIP. Blocks for that time.
    ///
    /// # Errors
    /// The failure of a thread, if one failed.
    pub fn finish(self) -> Result<Vec<Probes>, Error> {
        self.sender.finish()?;
        std::thread::sleep(DRAIN);
        self.receiver.finish()?;
        let mut all = self.seen.read().clone();
        // The wait is over: a probe without an answer is lost, even if it was sent recently.
        for one in &mut all {
            one.end(Time::from_nanos(u64::MAX));
        }
        Ok(all)
    }
}

/// When a node other than `not` gave the first answer to a probe that was sent at or after `after`.
#[must_use]
pub fn first(probes: &Probes, after: Time, not: Option<&str>) -> Option<Time> {
    let from = probes.all().partition_point(|probe| probe.sent < after);
    let answers = probes.all()[from..].iter().filter_map(|probe| probe.answer);
    answers.filter(|answer| probes.name(answer.node) != not).map(|answer| answer.at).min()
}
