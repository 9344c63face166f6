//! The errors between the agent and the kernel, and the remedy for each.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;

/// A failure of the datapath.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused a request.
    #[error("{what}: {errno}{}", advice(*errno, *v6))]
    Kernel {
        /// The request, with address and interface.
        what: String,
        /// The kernel's answer.
        errno: Errno,
        /// Whether the request was about an IPv6 address.
        v6: bool,
    },
    /// The kernel did not answer in time.
    #[error("{what}: no answer from the kernel within {} ms", deadline.as_millis())]
    Deadline {
        /// The request.
        what: String,
        /// How long the agent waited.
        deadline: Duration,
    },
    /// The netlink socket could not be opened, or closed by itself. The next request opens another.
    #[error("{what}: the netlink socket is closed: {reason}")]
    Netlink {
        /// The request.
        what: String,
        /// Why there is no socket.
        reason: String,
    },
    /// There is no interface with this name (yet).
    #[error("there is no interface {name:?} in this network namespace; `ip link` lists what there is")]
    NoInterface {
        /// The requested name.
        name: String,
    },
    /// The settings name no interface, and there is no default route.
    #[error("no interface was named, and there is no default route (IPv4 or IPv6) to take it from; name one")]
    NoDefaultRoute,
    /// The interface has no Ethernet address. ARP and NDP as implemented here need one.
    #[error("interface {name} has no Ethernet address; take an Ethernet-like one (physical, bond, bridge, VLAN)")]
    NotEthernet {
        /// The interface.
        name: String,
    },
    /// The address is there and is not ours: the agent neither refreshes nor removes it.
    #[error("{address} on {interface} is not Mooring's ({look}); remove it, or choose another VIP")]
    Stranger {
        /// The VIP.
        address: IpAddr,
        /// The interface that has the address.
        interface: String,
        /// How the address looks, which hints at who put it there.
        look: String,
    },
    /// When this address ends, the kernel would remove the node's own address too.
    #[error(
        "{address}/{prefix} on {interface}: the first address of a subnet takes all others of the subnet along when it \
         ends; use /32, or set net.ipv4.conf.{interface}.promote_secondaries=1"
    )]
    PrefixWouldTakeOthers {
        /// The VIP.
        address: IpAddr,
        /// Its prefix length.
        prefix: u8,
        /// The interface.
        interface: String,
    },
    /// The prefix length does not fit the address family.
    #[error("{address}/{prefix}: an address of this kind has at most {most} bits of prefix, and needs at least one")]
    BadPrefix {
        /// The VIP.
        address: IpAddr,
        /// The requested prefix length.
        prefix: u8,
        /// The longest prefix length of the family.
        most: u8,
    },
    /// Too little of the Lease is left to be sure that the address ends before the Lease does. The address is not
    /// there.
    #[error("{address} on {interface}: too little of the Lease was left to put the address there")]
    Late {
        /// The VIP.
        address: IpAddr,
        /// The interface.
        interface: String,
    },
    /// Like [`Error::Late`], but the address could not be removed: it ends with its lifetime.
    #[error("{address} on {interface}: the Lease ran out while the address was put there, and removing it failed")]
    LateAndLeft {
        /// The VIP.
        address: IpAddr,
        /// The interface.
        interface: String,
        /// Why it could not be removed.
        source: Box<Error>,
    },
    /// The system gave no thread for the addresses, or no runtime for the thread.
    #[error(
        "the thread that puts addresses on interfaces cannot start: {0}; look at the limits of threads and open files"
    )]
    Thread(std::io::Error),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Error {
    /// A short word for the kind of failure, as a metric label.
    #[must_use]
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Kernel { .. } => "kernel",
            Self::Deadline { .. } => "deadline",
            Self::Netlink { .. } => "netlink",
            Self::NoInterface { .. } | Self::NoDefaultRoute | Self::NotEthernet { .. } => "interface",
            Self::Stranger { .. } => "stranger",
            Self::PrefixWouldTakeOthers { .. } | Self::BadPrefix { .. } => "prefix",
            Self::Late { .. } | Self::LateAndLeft { .. } => "late",
            Self::Thread(_) => "thread",
            Self::File { .. } => "file",
        }
    }

    /// The kernel's error number, where it gave one.
    #[must_use]
    pub const fn errno(&self) -> Option<Errno> {
        match self {
            Self::Kernel { errno, .. } => Some(*errno),
            _ => None,
        }
    }
}

/// The remedy for an error number, for people.
fn advice(errno: Errno, v6: bool) -> &'static str {
    match errno {
        Errno::EPERM => " (the agent needs the capability NET_ADMIN)",
        Errno::EACCES if v6 => " (is IPv6 enabled on the interface? see net.ipv6.conf.*.disable_ipv6)",
        Errno::EOPNOTSUPP | Errno::EAFNOSUPPORT if v6 => " (this kernel has no IPv6)",
        Errno::ENODEV | Errno::ENXIO => " (the interface is gone)",
        Errno::ENOBUFS | Errno::ENOMEM => " (the kernel is short of memory)",
        _ => "",
    }
}
