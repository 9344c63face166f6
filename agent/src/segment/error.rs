//! What can go wrong on the segment, and what to do about it.

use std::io;
use std::net::IpAddr;

/// A failure of the segment's sockets.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A socket, or the thread that reads it, could not be opened.
    #[error("{what} on {interface}: {source}{}", advice(source))]
    Open {
        /// What the agent tried to open.
        what: &'static str,
        /// The interface.
        interface: String,
        /// Why not.
        source: io::Error,
    },
    /// A frame could not be sent.
    #[error("send {kind} for {address} on {interface}: {source}{}", advice(source))]
    Send {
        /// The kind of frame.
        kind: Kind,
        /// The address it is about.
        address: IpAddr,
        /// The interface.
        interface: String,
        /// Why not.
        source: io::Error,
    },
    /// IPv6 on an interface that has no link-local address.
    #[error(
        "{address} on {interface}: the interface had no IPv6 link-local address when it was opened; is IPv6 enabled on \
         it (net.ipv6.conf.{interface}.disable_ipv6)?"
    )]
    NoIpv6 {
        /// The address to announce or probe.
        address: IpAddr,
        /// The interface.
        interface: String,
    },
}

impl Error {
    /// A short word for the kind of failure, as a metric label.
    #[must_use]
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::Send { .. } => "send",
            Self::NoIpv6 { .. } => "no_ipv6",
        }
    }
}

/// A kind of frame that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An ARP announcement (RFC 5227 section 2.3): a request for the own address.
    ArpRequest,
    /// The same announcement as a reply: some hosts accept only one of the two forms.
    ArpReply,
    /// An unsolicited neighbour advertisement (RFC 4861 section 7.2.6).
    Advertisement,
    /// An ARP probe (RFC 5227 section 2.1.1).
    ArpProbe,
    /// A neighbour solicitation.
    Solicitation,
}

impl Kind {
    /// All kinds, for metrics.
    pub const ALL: [Self; 5] =
        [Self::ArpRequest, Self::ArpReply, Self::Advertisement, Self::ArpProbe, Self::Solicitation];

    /// The kind as a metric label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ArpRequest => "arp_request",
            Self::ArpReply => "arp_reply",
            Self::Advertisement => "na",
            Self::ArpProbe => "arp_probe",
            Self::Solicitation => "ns",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (the agent needs the capability NET_RAW)",
        io::ErrorKind::NetworkDown => " (the interface is down)",
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => " (the interface's queue is full)",
        _ if matches!(error.raw_os_error(), Some(ENXIO | ENODEV)) => " (the interface is gone)",
        _ => "",
    }
}

const ENXIO: i32 = nix::errno::Errno::ENXIO as i32;
const ENODEV: i32 = nix::errno::Errno::ENODEV as i32;
