//! A tap on ARP (RFC 826) and on IPv6 neighbour discovery (RFC 4861): records who sent which frame about which address.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use mooring_agent::core::mac::Mac;
use mooring_agent::core::time::Time;
use nix::sys::socket::LinkAddr;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use super::log::Log;
use super::netlink::Netlink;
use super::socket::{hold_much, receive, stamp};
use super::worker::Worker;
use super::{Error, Place, inside};

/// `ETH_P_ALL` in network byte order, as the kernel expects.
const EVERY_PROTOCOL: i32 = 0x0003_u16.to_be() as i32;

/// `PACKET_OUTGOING` of `linux/if_packet.h`: a frame on its way out.
const OUTGOING: u8 = 4;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// ARP, operation 1.
    ArpRequest,
    /// ARP, operation 2.
    ArpReply,
    /// `ICMPv6` type 135.
    Solicitation,
    /// `ICMPv6` type 136.
    Advertisement {
        /// The frame answers a solicitation.
        solicited: bool,
        /// The frame replaces the receiver's entry.
        overriding: bool,
    },
}

/// A frame about an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When the frame arrived.
    pub at: Time,
    /// The interface on which the frame arrived: on a bridge, the sender's port.
    pub port: Arc<str>,
    /// The Ethernet header's source.
    pub source: Mac,
    /// The Ethernet header's destination.
    pub destination: Mac,
    /// The kind of the frame.
    pub kind: Kind,
    /// The sender that the frame names: ARP's sender protocol address, IPv6's source.
    pub sender: IpAddr,
    /// The MAC address that the frame announces: ARP's sender hardware address, ND's link-layer address option.
    pub sender_mac: Option<Mac>,
    /// The address that the frame asks for or announces.
    pub target: IpAddr,
}

impl Frame {
    /// Whether the frame is an unsolicited announcement of `vip`: a gratuitous ARP of either form, or an unsolicited
    /// advertisement.
    #[must_use]
    pub fn announces(&self, vip: IpAddr) -> bool {
        match self.kind {
            Kind::ArpRequest => self.sender == vip && self.target == vip,
            // A broadcast reply is an announcement; some senders put another target into it.
            Kind::ArpReply => self.sender == vip && (self.target == vip || self.destination == Mac::BROADCAST),
            Kind::Solicitation => false,
            Kind::Advertisement { solicited, .. } => self.target == vip && !solicited,
        }
    }

    /// Whether the sender claims `vip`, solicited or unsolicited.
    #[must_use]
    pub fn claims(&self, vip: IpAddr) -> bool {
        match self.kind {
            Kind::ArpRequest | Kind::ArpReply | Kind::Solicitation => self.sender == vip,
            Kind::Advertisement { .. } => self.target == vip,
        }
    }
}

/// A running tap; ends when dropped.
#[derive(Debug)]
pub struct Tap {
    frames: Arc<Log<Vec<Frame>>>,
    _worker: Worker,
}

impl Tap {
    /// Listens to incoming frames on every interface of `place`, except those named in `but`. In the switch's
    /// namespace, without the bridge itself, the tap sees every frame of the segment exactly once.
    ///
    /// # Errors
    /// No packet socket is available (`CAP_NET_RAW`).
    pub fn start(place: &impl Place, but: &[&str]) -> Result<Self, Error> {
        let (socket, mut links) = inside(place, || Ok((open()?, Netlink::open(0)?)))?;
        let but: Vec<String> = but.iter().map(|&name| name.to_owned()).collect();
        let frames = Arc::new(Log::<Vec<Frame>>::default());
        let log = Arc::clone(&frames);
        let worker = Worker::start("tap", move |until| {
            let mut ports: HashMap<usize, Arc<str>> = HashMap::new();
            let mut buffer = [0; 256];
            while until.readable(socket.as_fd())? {
                let Some(got) = receive::<LinkAddr>(&socket, &mut buffer)? else {
                    continue;
                };
                let Some(link) = got.from.filter(|link| link.pkttype() != OUTGOING) else {
                    continue;
                };
                let port = match ports.entry(link.ifindex()) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => new.insert(links.name_of(link.ifindex())?.into()),
                };
                if but.iter().any(|name| **name == **port) {
                    continue;
                }
                if let Some(frame) = decode(&buffer[..got.len.min(buffer.len())], got.at, port) {
                    log.change(|all| all.push(frame));
                }
            }
            Ok(())
        })?;
        Ok(Self { frames, _worker: worker })
    }

    /// Everything heard so far.
    #[must_use]
    pub fn frames(&self) -> Vec<Frame> {
        self.frames.read().clone()
    }

    /// The frames heard from `from` to `to` that `wanted` accepts.
    #[must_use]
    pub fn between(&self, from: Time, to: Time, wanted: impl Fn(&Frame) -> bool) -> Vec<Frame> {
        let all = self.frames.read();
        let begin = all.partition_point(|frame| frame.at < from);
        all[begin..].iter().take_while(|frame| frame.at <= to).filter(|frame| wanted(frame)).cloned().collect()
    }

    /// Announcements of `vip` heard at or after `from`, from one MAC address or from any.
    #[must_use]
    pub fn announcements(&self, vip: IpAddr, from: Time, by: Option<Mac>) -> Vec<Frame> {
        let by_whom = |f: &Frame| by.is_none_or(|mac| f.sender_mac.unwrap_or(f.source) == mac);
        self.frames.read().iter().filter(|f| f.at >= from && f.announces(vip) && by_whom(f)).cloned().collect()
    }

    /// How many frames that `wanted` accepts arrived in each second from `from` on.
    #[must_use]
    pub fn per_second(&self, from: Time, wanted: impl Fn(&Frame) -> bool) -> Vec<usize> {
        let mut counts = Vec::new();
        for frame in self.frames.read().iter().filter(|f| f.at >= from && wanted(f)) {
            let second = usize::try_from(frame.at.since(from).as_secs()).unwrap_or_default();
            if counts.len() <= second {
                counts.resize(second + 1, 0);
            }
            counts[second] += 1;
        }
        counts
    }

    /// Waits for a frame at or after `from` that `wanted` accepts.
    ///
    /// # Errors
    /// [`Error::Waited`].
    pub async fn frame(
        &self,
        what: &str,
        from: Time,
        limit: Duration,
        wanted: impl Fn(&Frame) -> bool,
    ) -> Result<Frame, Error> {
        self.frames.wait(what, limit, |all| all.iter().find(|f| f.at >= from && wanted(f)).cloned()).await
    }
}

fn open() -> Result<Socket, Error> {
    const WHAT: &str = "open the tap";
    // The decoder drops frames that arrive before the filter is attached.
    let socket =
        Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(EVERY_PROTOCOL))).map_err(Error::io(WHAT))?;
    socket.attach_filter(&arp_or_neighbour_discovery()).map_err(Error::io(WHAT))?;
    socket.set_nonblocking(true).map_err(Error::io(WHAT))?;
    hold_much(&socket);
    stamp(&socket)?;
    Ok(socket)
}

/// The filter in the kernel (classic BPF): the prober's packets do not wake the tap.
fn arp_or_neighbour_discovery() -> [SockFilter; 10] {
    const LOAD_HALF: u16 = 0x28;
    const LOAD_BYTE: u16 = 0x30;
    const IF_EQUAL: u16 = 0x15;
    const IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    [
        SockFilter::new(LOAD_HALF, 0, 0, 12),
        SockFilter::new(IF_EQUAL, 6, 0, 0x0806),
        SockFilter::new(IF_EQUAL, 0, 6, 0x86dd),
        SockFilter::new(LOAD_BYTE, 0, 0, 20),
        SockFilter::new(IF_EQUAL, 0, 4, 58),
        SockFilter::new(LOAD_BYTE, 0, 0, 54),
        SockFilter::new(IF_AT_LEAST, 0, 2, 135),
        SockFilter::new(IF_AT_LEAST, 1, 0, 137),
        SockFilter::new(RETURN, 0, 0, 256),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}

fn decode(bytes: &[u8], at: Time, port: &Arc<str>) -> Option<Frame> {
    let destination = Mac(octets(bytes, 0)?);
    let source = Mac(octets(bytes, 6)?);
    let frame = |kind, sender, sender_mac, target| Frame {
        at,
        port: Arc::clone(port),
        source,
        destination,
        kind,
        sender,
        sender_mac,
        target,
    };
    match octets::<2>(bytes, 12)? {
        [0x08, 0x06] => {
            // Ethernet and IPv4, addresses of six and four octets.
            if octets::<6>(bytes, 14)? != [0, 1, 8, 0, 6, 4] {
                return None;
            }
            let kind = match octets::<2>(bytes, 20)? {
                [0, 1] => Kind::ArpRequest,
                [0, 2] => Kind::ArpReply,
                _ => return None,
            };
            let sender = Ipv4Addr::from(octets::<4>(bytes, 28)?);
            let target = Ipv4Addr::from(octets::<4>(bytes, 38)?);
            Some(frame(kind, sender.into(), Some(Mac(octets(bytes, 22)?)), target.into()))
        }
        [0x86, 0xdd] => {
            // Next header ICMPv6 and hop limit 255, as RFC 4861 asks for; behind it type, code, checksum and flags.
            if octets::<2>(bytes, 20)? != [58, 255] {
                return None;
            }
            let flags = *bytes.get(58)?;
            let (kind, option) = match octets::<2>(bytes, 54)? {
                [135, 0] => (Kind::Solicitation, 1),
                [136, 0] => (Kind::Advertisement { solicited: flags & 0x40 != 0, overriding: flags & 0x20 != 0 }, 2),
                _ => return None,
            };
            let sender = Ipv6Addr::from(octets::<16>(bytes, 22)?);
            let target = Ipv6Addr::from(octets::<16>(bytes, 62)?);
            let payload = usize::from(u16::from_be_bytes(octets(bytes, 18)?));
            let options = bytes.get(78..(54 + payload).min(bytes.len())).unwrap_or_default();
            Some(frame(kind, sender.into(), link_layer_option(options, option), target.into()))
        }
        _ => None,
    }
}

/// The link-layer address in options of type `wanted`: 1 the source's, 2 the target's.
fn link_layer_option(mut options: &[u8], wanted: u8) -> Option<Mac> {
    while let &[kind, length, ..] = options {
        let (this, rest) = options.split_at_checked(usize::from(length) * 8).filter(|_| length > 0)?;
        if kind == wanted {
            return octets(this, 2).map(Mac);
        }
        options = rest;
    }
    None
}

fn octets<const N: usize>(bytes: &[u8], from: usize) -> Option<[u8; N]> {
    bytes.get(from..from + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_cut_short_or_lying_are_no_frames() {
        let mut na = [0_u8; 86];
        na[12..14].copy_from_slice(&[0x86, 0xdd]);
        na[18..22].copy_from_slice(&[0, 32, 58, 255]);
        na[54] = 136;
        na[78..80].copy_from_slice(&[2, 1]);
        na[80] = 6;
        let port = Arc::from("p");
        let read = |bytes: &[u8]| decode(bytes, Time::default(), &port);
        assert_eq!(read(&na).and_then(|f| f.sender_mac), Some(Mac([6, 0, 0, 0, 0, 0])));
        for length in 0..na.len() {
            if let Some(frame) = read(&na[..length]) {
                assert_eq!(frame.sender_mac, None, "{length}");
            }
        }
        na[79] = 0;
        assert_eq!(read(&na).map(|f| f.sender_mac), Some(None), "an option of no length");
        na[79] = 9;
        assert_eq!(read(&na).map(|f| f.sender_mac), Some(None), "an option longer than the frame");
    }
}
