//! The echo server of a node: answers a probe with the node's name. The VIP is the source of the answer.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::socket::SockaddrStorage;
use socket2::{Domain, Protocol, Socket, Type};

use super::socket::{hold_much, receive};
use super::worker::Worker;
use super::{Error, Place, inside};

/// The default port of the echo servers.
pub const PORT: u16 = 7007;

/// The first octets of every probe.
pub const MAGIC: [u8; 4] = *b"MRNG";

/// Magic, run and sequence number: an answer repeats this part.
pub const HEADER: usize = 16;

/// A running echo server; it ends when dropped.
#[derive(Debug)]
pub struct Echo {
    silent: Arc<AtomicBool>,
    worker: Worker,
}

impl Echo {
    /// Starts an echo server for `vip` inside `place`. The address need not be there yet (`IP_FREEBIND`): the server
    /// answers probes while the address is there, and the answer's source is the VIP.
    ///
    /// # Errors
    /// The port is taken, or the namespace cannot be entered.
    pub fn start(place: &impl Place, node: &str, vip: SocketAddr) -> Result<Self, Error> {
        let socket = inside(place, move || open(vip))?;
        let silent = Arc::new(AtomicBool::new(false));
        let (quiet, node) = (Arc::clone(&silent), node.as_bytes().to_vec());
        let worker = Worker::start("echo", move |until| {
            let mut buffer = [0; 512];
            while until.readable(socket.as_fd())? {
                let Some(probe) = receive::<SockaddrStorage>(&socket, &mut buffer)? else {
                    continue;
                };
                let Some(to) = probe.from.as_ref().and_then(to_std) else {
                    continue;
                };
                if quiet.load(Ordering::Relaxed) || probe.len < HEADER || buffer[..4] != MAGIC {
                    continue;
                }
                let mut answer = buffer[..HEADER].to_vec();
                answer.extend_from_slice(&node);
                // The VIP may have left at this moment; the prober notices that.
                if let Err(error) = socket.send_to(&answer, &to.into()) {
                    tracing::trace!(%error, %vip, "echo not sent");
                }
            }
            Ok(())
        })?;
        Ok(Self { silent, worker })
    }

    /// Stops answering (true), or answers again (false): the effect of a host crash on its programs.
    pub fn silence(&self, silent: bool) {
        self.silent.store(silent, Ordering::Relaxed);
    }

    /// Ends the server and frees its port.
    ///
    /// # Errors
    /// The failure of the server, if it failed earlier.
    pub fn stop(self) -> Result<(), Error> {
        self.worker.finish()
    }
}

fn open(vip: SocketAddr) -> Result<Socket, Error> {
    let what = || format!("open the echo socket on {vip}");
    let socket = Socket::new(Domain::for_address(vip), Type::DGRAM, Some(Protocol::UDP)).map_err(Error::io(what()))?;
    if vip.is_ipv6() {
        socket.set_freebind_v6(true).map_err(Error::io(what()))?;
        socket.set_only_v6(true).map_err(Error::io(what()))?;
    } else {
        socket.set_freebind_v4(true).map_err(Error::io(what()))?;
    }
    socket.set_nonblocking(true).map_err(Error::io(what()))?;
    hold_much(&socket);
    socket.bind(&vip.into()).map_err(Error::io(what()))?;
    Ok(socket)
}

/// A socket address of the standard library.
pub(crate) fn to_std(address: &SockaddrStorage) -> Option<SocketAddr> {
    address
        .as_sockaddr_in()
        .map(|v4| SocketAddr::from((v4.ip(), v4.port())))
        .or_else(|| address.as_sockaddr_in6().map(|v6| SocketAddr::from((v6.ip(), v6.port()))))
}
