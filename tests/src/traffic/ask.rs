//! A client's one question.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::observe::{Error, Place, inside};

/// Of layer 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// An HTTP request on a connection of its own.
    Tcp,
    /// A datagram.
    Udp,
}

/// What a backend said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its name.
    pub backend: String,
    /// The client's address as it sees it.
    pub sees: IpAddr,
}

/// Asks once from inside `place`; nothing within `patience` is an error.
///
/// # Errors
/// The namespace cannot be entered. That nobody answers is the inner one.
pub fn ask(
    place: &impl Place,
    protocol: Protocol,
    to: SocketAddr,
    patience: Duration,
) -> Result<io::Result<Answer>, Error> {
    inside(place, move || Ok(once(protocol, to, patience)))
}

/// As [`ask`], from where the thread is.
pub(super) fn once(protocol: Protocol, to: SocketAddr, patience: Duration) -> io::Result<Answer> {
    let text = match protocol {
        Protocol::Tcp => over_tcp(to, patience)?,
        Protocol::Udp => over_udp(to, patience)?,
    };
    let line = text.lines().last().unwrap_or_default();
    let (backend, sees) = line.split_once(" sees ").ok_or_else(|| io::Error::other(format!("it says {text:?}")))?;
    let sees = sees.trim().parse().map_err(io::Error::other)?;
    Ok(Answer { backend: backend.to_owned(), sees })
}

fn over_tcp(to: SocketAddr, patience: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&to, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn over_udp(to: SocketAddr, patience: Duration) -> io::Result<String> {
    let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    // Connected: a port that is closed is told at once.
    socket.connect(to)?;
    socket.set_read_timeout(Some(patience))?;
    socket.send(b"?")?;
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}
