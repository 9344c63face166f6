//! A program behind a Service: it answers who it is, and whom it sees. TCP and UDP on the same port.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::time::Duration;

use crate::observe::worker::Worker;
use crate::observe::{Error, Place, inside};

/// A client that sends nothing for this time is disconnected.
const PATIENCE: Duration = Duration::from_secs(2);

/// A running one; it ends when dropped.
#[derive(Debug)]
pub struct Backend {
    _tcp: Worker,
    _udp: Worker,
}

impl Backend {
    /// Starts one on an address of `place`.
    ///
    /// # Errors
    /// The port is taken, or the namespace cannot be entered.
    pub fn start(place: &impl Place, name: &str, at: SocketAddr) -> Result<Self, Error> {
        let (tcp, udp) = inside(place, move || {
            let io = || Error::io("open the sockets of a backend");
            Ok((TcpListener::bind(at).map_err(io())?, UdpSocket::bind(at).map_err(io())?))
        })?;
        let named = name.to_owned();
        let tcp = Worker::start("backend", move |until| {
            while until.readable(tcp.as_fd())? {
                match tcp.accept() {
                    Ok((stream, client)) => answer(stream, &said(&named, client)),
                    Err(error) => tracing::debug!(%error, "a connection was not accepted"),
                }
            }
            Ok(())
        })?;
        let named = name.to_owned();
        let udp = Worker::start("backend", move |until| {
            let mut buffer = [0; 512];
            while until.readable(udp.as_fd())? {
                let answered = udp
                    .recv_from(&mut buffer)
                    .and_then(|(_, client)| udp.send_to(said(&named, client).as_bytes(), client));
                if let Err(error) = answered {
                    tracing::debug!(%error, "a datagram was not answered");
                }
            }
            Ok(())
        })?;
        Ok(Self { _tcp: tcp, _udp: udp })
    }
}

fn said(name: &str, client: SocketAddr) -> String {
    format!("{name} sees {}\n", client.ip())
}

/// As much HTTP as a client needs that asks once.
fn answer(mut stream: TcpStream, text: &str) {
    let answered = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.read(&mut [0; 1_024]))
        .and_then(|_| write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()));
    if let Err(error) = answered {
        tracing::debug!(%error, "a request was not answered");
    }
}
