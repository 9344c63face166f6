//! Route netlink on a blocking socket: enough for an observer, and for moving an address by hand.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use mooring_agent::core::mac::Mac;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, CacheInfo};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

use super::Error;

/// The longest datagram that the kernel sends in a dump.
const LARGEST: usize = 64 << 10;

/// Longer than any answer of the kernel takes.
const DEADLINE: Duration = Duration::from_secs(5);

/// A message of route netlink.
pub type Message = NetlinkMessage<RouteNetlinkMessage>;

/// A netlink socket; belongs to the namespace in which it was opened.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens a socket in the namespace of this thread. `groups`: a mask of multicast groups to hear, 0 for none.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(groups: u32) -> Result<Self, Error> {
        let family = nix::sys::socket::AddressFamily::Netlink;
        let socket = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)
            .map_err(Error::system("open a netlink socket"))?;
        let limit = TimeVal::milliseconds(i64::try_from(DEADLINE.as_millis()).unwrap_or(i64::MAX));
        setsockopt(&socket, sockopt::ReceiveTimeout, &limit).map_err(Error::system("set SO_RCVTIMEO"))?;
        // Needs `CAP_NET_ADMIN` of the first user namespace; without it the default size applies.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &(4 << 20));
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups)).map_err(Error::system("bind a netlink socket"))?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; LARGEST] })
    }

    /// Sends a request and returns its sequence number.
    ///
    /// # Errors
    /// The kernel's.
    pub fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<u32, Error> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty()).map_err(Error::system("send to netlink"))?;
        Ok(self.sequence)
    }

    /// Sends requests in one datagram, and waits until the kernel has processed the last one. The kernel acknowledges
    /// only the last one and does not report which of the others it refused.
    ///
    /// # Errors
    /// The kernel's refusal of the last one, with `what` in front.
    pub fn send_all(&mut self, what: &str, messages: Vec<RouteNetlinkMessage>, flags: u16) -> Result<(), Error> {
        let mut bytes = Vec::new();
        let last = messages.len();
        for (message, nth) in messages.into_iter().zip(1..) {
            self.sequence += 1;
            let mut header = NetlinkHeader::default();
            header.flags = NLM_F_REQUEST | flags | if nth == last { NLM_F_ACK } else { 0 };
            header.sequence_number = self.sequence;
            let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
            message.finalize();
            let at = bytes.len();
            bytes.resize(at + message.buffer_len().next_multiple_of(4), 0);
            message.serialize(&mut bytes[at..]);
        }
        send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty()).map_err(Error::system("send to netlink"))?;
        self.acknowledged(what, self.sequence)
    }

    /// Receives one datagram; waits for at most 5 s.
    ///
    /// # Errors
    /// `ENOBUFS` in [`Error::System`] if messages were lost: the caller must then query the state again.
    pub fn receive(&mut self) -> Result<Vec<Message>, Error> {
        let len = loop {
            match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty()) {
                Err(Errno::EINTR) => {}
                other => break other.map_err(Error::system("receive from netlink"))?,
            }
        };
        let mut rest = &self.buffer[..len.min(self.buffer.len())];
        let mut messages = Vec::new();
        while rest.len() >= 16 {
            let message =
                Message::deserialize(rest).map_err(|e| Error::Netlink { what: "a message", detail: e.to_string() })?;
            // Messages are padded to four octets.
            let size = usize::try_from(message.header.length).unwrap_or(rest.len()).next_multiple_of(4);
            rest = rest.get(size.max(16)..).unwrap_or_default();
            messages.push(message);
        }
        Ok(messages)
    }

    /// Requests a change and waits for the acknowledgement.
    ///
    /// # Errors
    /// The kernel's refusal, with `what` in front.
    pub fn request(&mut self, what: &str, message: RouteNetlinkMessage, flags: u16) -> Result<(), Error> {
        let sequence = self.send(message, NLM_F_ACK | flags)?;
        self.acknowledged(what, sequence)
    }

    fn acknowledged(&mut self, what: &str, sequence: u32) -> Result<(), Error> {
        loop {
            for message in self.receive()? {
                if let NetlinkPayload::Error(error) = message.payload
                    && message.header.sequence_number == sequence
                {
                    return error.code.map_or(Ok(()), |code| {
                        Err(Error::System { what: what.into(), errno: Errno::from_raw(code.get().abs()) })
                    });
                }
            }
        }
    }

    /// Requests a list and waits for all of it.
    ///
    /// # Errors
    /// The kernel's refusal, with `what` in front.
    pub fn dump(&mut self, what: &str, message: RouteNetlinkMessage) -> Result<Vec<RouteNetlinkMessage>, Error> {
        let sequence = self.send(message, NLM_F_DUMP)?;
        let mut all = Vec::new();
        loop {
            for message in self.receive()?.into_iter().filter(|m| m.header.sequence_number == sequence) {
                match message.payload {
                    NetlinkPayload::InnerMessage(inner) => all.push(inner),
                    NetlinkPayload::Done(_) => return Ok(all),
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        let errno = Errno::from_raw(error.raw_code().abs());
                        return Err(Error::System { what: what.into(), errno });
                    }
                    _ => {}
                }
            }
        }
    }

    /// The name of the interface with this index, or `#INDEX` if it no longer exists. Queries the socket's namespace.
    ///
    /// # Errors
    /// The kernel's.
    pub fn name_of(&mut self, index: usize) -> Result<String, Error> {
        let all = self.dump("list interfaces", RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
        let name = all.into_iter().find_map(|message| match message {
            RouteNetlinkMessage::NewLink(link) if usize::try_from(link.header.index) == Ok(index) => {
                link.attributes.into_iter().find_map(|a| if let LinkAttribute::IfName(n) = a { Some(n) } else { None })
            }
            _ => None,
        });
        Ok(name.unwrap_or_else(|| format!("#{index}")))
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The index of an interface of this thread's namespace.
///
/// # Errors
/// [`Error::NoInterface`].
pub fn index(interface: &str) -> Result<u32, Error> {
    if_nametoindex(interface).map_err(|errno| Error::NoInterface { name: interface.into(), errno })
}

/// The MAC address of an interface of this thread's namespace.
///
/// # Errors
/// [`Error::NoInterface`], or the kernel's.
pub fn mac_of(interface: &str) -> Result<Mac, Error> {
    let index = index(interface)?;
    for message in Netlink::open(0)?.dump("list interfaces", RouteNetlinkMessage::GetLink(LinkMessage::default()))? {
        if let RouteNetlinkMessage::NewLink(link) = message
            && link.header.index == index
        {
            for attribute in link.attributes {
                if let LinkAttribute::Address(bytes) = attribute
                    && let Ok(mac) = <[u8; 6]>::try_from(bytes)
                {
                    return Ok(Mac(mac));
                }
            }
        }
    }
    Err(Error::Netlink { what: "list interfaces", detail: format!("{interface} has no Ethernet address") })
}

/// Adds an address to an interface of this thread's namespace, as a host prefix, without duplicate address detection.
///
/// # Errors
/// The kernel's: `EEXIST` if the address is there already.
pub fn add_address(interface: &str, address: IpAddr) -> Result<(), Error> {
    let message = address_message(interface, address)?;
    let what = format!("add {address} to {interface}");
    Netlink::open(0)?.request(&what, RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
}

/// A request to add an address to an interface of this thread's namespace for `valid` seconds, after which the kernel removes it.
///
/// # Errors
/// [`Error::NoInterface`].
pub fn lent_address(interface: &str, address: IpAddr, valid: u32) -> Result<AddressMessage, Error> {
    let mut message = address_message(interface, address)?;
    let mut lifetime = CacheInfo::default();
    lifetime.ifa_valid = valid;
    message.attributes.push(AddressAttribute::CacheInfo(lifetime));
    Ok(message)
}

/// Like [`add_address`], for many addresses in one datagram.
///
/// # Errors
/// The kernel's, for the last one.
pub fn add_addresses(interface: &str, addresses: &[IpAddr]) -> Result<(), Error> {
    let make = |address: &IpAddr| address_message(interface, *address).map(RouteNetlinkMessage::NewAddress);
    let messages = addresses.iter().map(make).collect::<Result<_, _>>()?;
    Netlink::open(0)?.send_all(&format!("add addresses to {interface}"), messages, NLM_F_CREATE | NLM_F_EXCL)
}

/// Like [`remove_address`], for many addresses in one datagram.
///
/// # Errors
/// The kernel's, for the last one.
pub fn remove_addresses(interface: &str, addresses: &[IpAddr]) -> Result<(), Error> {
    let make = |address: &IpAddr| address_message(interface, *address).map(RouteNetlinkMessage::DelAddress);
    let messages = addresses.iter().map(make).collect::<Result<_, _>>()?;
    Netlink::open(0)?.send_all(&format!("remove addresses from {interface}"), messages, 0)
}

/// Removes an address from an interface of this thread's namespace.
///
/// # Errors
/// The kernel's: `EADDRNOTAVAIL` if the address is not there.
pub fn remove_address(interface: &str, address: IpAddr) -> Result<(), Error> {
    let message = address_message(interface, address)?;
    let what = format!("remove {address} from {interface}");
    Netlink::open(0)?.request(&what, RouteNetlinkMessage::DelAddress(message), 0)
}

/// Sets an interface of this thread's namespace up or down.
///
/// # Errors
/// [`Error::NoInterface`], or the kernel's.
pub fn set_up(interface: &str, up: bool) -> Result<(), Error> {
    let mut message = LinkMessage::default();
    message.header.index = index(interface)?;
    message.header.change_mask = LinkFlags::Up;
    message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
    let what = format!("set {interface} {}", if up { "up" } else { "down" });
    Netlink::open(0)?.request(&what, RouteNetlinkMessage::SetLink(message), 0)
}

fn address_message(interface: &str, address: IpAddr) -> Result<AddressMessage, Error> {
    let mut message = AddressMessage::default();
    message.header.index = index(interface)?;
    (message.header.family, message.header.prefix_len) =
        if address.is_ipv6() { (AddressFamily::Inet6, 128) } else { (AddressFamily::Inet, 32) };
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    if address.is_ipv6() {
        message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    }
    Ok(message)
}
