//! One echo server for every IPv4 address of a node. For a node with hundreds of VIPs, one [`super::echo::Echo`] for
//! each would cost more than the measured work.

use std::io::{IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd as _};

use nix::errno::Errno;
use nix::libc::in_pktinfo;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, sendmsg, setsockopt, sockopt,
};
use socket2::{Domain, Protocol, Socket, Type};

use super::echo::{HEADER, MAGIC};
use super::socket::hold_much;
use super::worker::Worker;
use super::{Error, Place, inside};

/// A running server; it ends when dropped.
#[derive(Debug)]
pub struct Echoes {
    _worker: Worker,
}

impl Echoes {
    /// Answers probes to `port` of any address that `place` has or gets, from that address.
    ///
    /// # Errors
    /// When the port is taken or the namespace cannot be entered.
    pub fn start(place: &impl Place, node: &str, port: u16) -> Result<Self, Error> {
        let socket = inside(place, move || open(port))?;
        let node = node.as_bytes().to_vec();
        let worker = Worker::start("echoes", move |until| {
            while until.readable(socket.as_fd())? {
                while answer(&socket, &node)? {}
            }
            Ok(())
        })?;
        Ok(Self { _worker: worker })
    }
}

/// Answers one probe. False: none is there.
fn answer(socket: &Socket, node: &[u8]) -> Result<bool, Error> {
    let (mut buffer, mut control) = ([0; 512], nix::cmsg_space!(in_pktinfo));
    let (len, from, to) = {
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let got = recvmsg::<SockaddrIn>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::MSG_DONTWAIT);
        match got {
            Ok(got) => {
                let asked = got.cmsgs().ok().and_then(|mut all| {
                    all.find_map(|one| if let ControlMessageOwned::Ipv4PacketInfo(to) = one { Some(to) } else { None })
                });
                (got.bytes, got.address, asked)
            }
            Err(Errno::EAGAIN) => return Ok(false),
            // Errors that an earlier answer caused.
            Err(Errno::EINTR | Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ENETUNREACH) => return Ok(true),
            Err(errno) => return Err(Error::System { what: "receive a probe".into(), errno }),
        }
    };
    let (Some(from), Some(mut to)) = (from, to) else { return Ok(true) };
    if len < HEADER || buffer[..4] != MAGIC {
        return Ok(true);
    }
    // The source is the probed address; the routes decide the interface.
    to.ipi_ifindex = 0;
    to.ipi_spec_dst = to.ipi_addr;
    let parts = [IoSlice::new(&buffer[..HEADER]), IoSlice::new(node)];
    let source = [ControlMessage::Ipv4PacketInfo(&to)];
    // The VIP may have left this instant; the prober will notice that.
    if let Err(error) = sendmsg(socket.as_raw_fd(), &parts, &source, MsgFlags::MSG_DONTWAIT, Some(&from)) {
        tracing::trace!(%error, "echo not sent");
    }
    Ok(true)
}

fn open(port: u16) -> Result<Socket, Error> {
    let what = || format!("open the echo socket on port {port}");
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).map_err(Error::io(what()))?;
    setsockopt(&socket, sockopt::Ipv4PacketInfo, &true).map_err(Error::system("set IP_PKTINFO"))?;
    hold_much(&socket);
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into()).map_err(Error::io(what()))?;
    Ok(socket)
}
