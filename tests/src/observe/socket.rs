//! Receiving with the kernel's time stamp, so that a late thread does not look like a late packet.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use mooring_agent::core::time::Time;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrLike, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::time::ClockId;

use super::{Error, now, read};

/// Older stamps are ignored: the wall clock was changed in between.
const OLDEST: Duration = Duration::from_secs(10);

/// One datagram or frame.
#[derive(Debug)]
pub struct Received<A> {
    /// When the kernel received it.
    pub at: Time,
    /// Its length in the buffer, octets.
    pub len: usize,
    /// Where it came from.
    pub from: Option<A>,
}

/// Enables the kernel's time stamps on a socket.
pub fn stamp(socket: &impl AsFd) -> Result<(), Error> {
    setsockopt(socket, sockopt::ReceiveTimestampns, &true).map_err(Error::system("set SO_TIMESTAMPNS"))
}

/// Gives a socket a receive buffer for several seconds of probes, so that a starved reader loses none: the usual limit
/// of 212 KiB holds 280 probes. A buffer above the limit needs root outside of any user namespace; other users get the
/// limit.
pub fn hold_much(socket: &(impl AsFd + AsRawFd)) {
    const BYTES: usize = 4 << 20;
    if setsockopt(socket, sockopt::RcvBufForce, &BYTES).is_err()
        && let Err(errno) = setsockopt(socket, sockopt::RcvBuf, &BYTES)
    {
        tracing::debug!(%errno, "the receive buffer stays as it is");
    }
}

/// Receives one datagram without waiting. `None` if there is none; errors that a peer causes (ICMP) also count as none.
pub fn receive<A: SockaddrLike>(socket: &impl AsRawFd, buffer: &mut [u8]) -> Result<Option<Received<A>>, Error> {
    let mut parts = [IoSliceMut::new(buffer)];
    let mut control = nix::cmsg_space!(TimeSpec);
    match recvmsg::<A>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::MSG_DONTWAIT) {
        Ok(message) => {
            let stamp = message.cmsgs().ok().and_then(|mut all| {
                all.find_map(|c| if let ControlMessageOwned::ScmTimestampns(t) = c { Some(t) } else { None })
            });
            let at = stamp.map_or_else(now, from_stamp);
            Ok(Some(Received { at, len: message.bytes, from: message.address }))
        }
        Err(
            Errno::EAGAIN
            | Errno::EINTR
            | Errno::ECONNREFUSED
            | Errno::EHOSTUNREACH
            | Errno::ENETUNREACH
            | Errno::ENETDOWN
            | Errno::ENOBUFS,
        ) => Ok(None),
        Err(errno) => Err(Error::System { what: "receive".into(), errno }),
    }
}

/// The stamp is in wall-clock time: its age is subtracted from the current time.
fn from_stamp(stamp: TimeSpec) -> Time {
    let (boot, real) = (now(), Duration::from_nanos(read(ClockId::CLOCK_REALTIME)));
    let age = real.checked_sub(Duration::from(stamp)).filter(|age| *age < OLDEST);
    boot - age.unwrap_or_default()
}
