//! ARP suppression: the switch answers questions to everybody on behalf of the hosts that it knows, with their MAC addresses,
//! also for hosts that are gone. EVPN, NSX and OVN do so. Questions to one host reach that host, and only it answers.
//!
//! A bridge of Linux (`neigh_suppress`, for EVPN) neither answers a probe of RFC 5227, whose sender is 0.0.0.0, nor passes it on.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;

use mooring_agent::core::mac::Mac;
use mooring_agent::core::time::Time;
use nix::sys::socket::LinkAddr;
use pnet::datalink::DataLinkSender;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use super::rules::Rule;
use super::{Error, lock, talk};
use crate::clock;
use crate::lab::Lab;
use crate::observe::socket::receive;
use crate::observe::worker::Worker;
use crate::observe::{self, inside};
use crate::segment::{GATEWAY, ip4, mac};

/// `ETH_P_ALL` in network byte order, as the kernel expects: a socket for ARP alone hears only what the bridge leaves over.
const EVERY_PROTOCOL: i32 = 0x0003_u16.to_be() as i32;
/// `PACKET_OUTGOING` of `linux/if_packet.h`.
const OUTGOING: u8 = 4;
/// Ethernet header and ARP for IPv4.
const FRAME: usize = 42;

/// What becomes of probes with the sender 0.0.0.0 to everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probes {
    /// They are answered as any other question.
    Answered,
    /// They are dropped.
    Dropped,
}

/// What answers; ends when dropped.
#[derive(Debug)]
pub struct Suppression {
    _worker: Worker,
}

impl Lab {
    /// The switch answers ARP requests to everybody itself, for every address that it has heard of. It learns from all that
    /// passes, announcements too, and forgets nothing. Ports that are made later have no part in it. [`Lab::heal_all`] ends it.
    ///
    /// # Errors
    /// No packet socket is available, or nft is missing.
    pub fn suppress_arp(&self, probes: Probes) -> Result<Time, Error> {
        let switch = self.0.segment.switch();
        let mut ports: HashMap<usize, Box<dyn DataLinkSender>> = HashMap::new();
        let mut known: HashMap<Ipv4Addr, Mac> = HashMap::from([(ip4(GATEWAY), mac(GATEWAY))]);
        for nic in lock(&self.0.nics).values().flatten() {
            // An interface that a test has deleted has no port.
            if let Ok(index) = switch.index(&nic.port) {
                ports.insert(usize::try_from(index).unwrap_or_default(), talk::sender(switch, &nic.port)?);
            }
        }
        let socket = inside(switch, || {
            let open = || {
                let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(EVERY_PROTOCOL)))?;
                socket.attach_filter(&arp())?;
                Ok(socket)
            };
            open().map_err(observe::Error::io("open a packet socket"))
        })?;
        let worker = Worker::start("suppression", move |until| {
            let mut buffer = [0; 128];
            while until.readable(socket.as_fd())? {
                let Some(got) = receive::<LinkAddr>(&socket, &mut buffer)? else {
                    continue;
                };
                let Some(from) = got.from.filter(|link| link.pkttype() != OUTGOING) else {
                    continue;
                };
                let frame = &buffer[..got.len.min(buffer.len())];
                // The bridge shows each frame once more, as its own.
                if !ports.contains_key(&from.ifindex()) {
                    continue;
                }
                match judge(frame, &mut known, probes) {
                    Verdict::Nothing => {}
                    Verdict::Answer(answer) => {
                        if let Some(port) = ports.get_mut(&from.ifindex()) {
                            drop(port.send_to(&answer, None));
                        }
                    }
                    Verdict::PassOn => {
                        for (_, port) in ports.iter_mut().filter(|(index, _)| **index != from.ifindex()) {
                            // The port of a host that is down takes nothing.
                            drop(port.send_to(frame, None));
                        }
                    }
                }
            }
            Ok(())
        })?;
        let at = self.rules(|rules| {
            rules.insert(Rule::ArpBroadcasts);
        })?;
        *lock(&self.0.faults.suppression) = Some(Suppression { _worker: worker });
        Ok(at.max(clock::now()))
    }
}

/// The filter in the kernel (classic BPF): ARP, and no packet of a prober.
fn arp() -> [SockFilter; 4] {
    const LOAD_HALF: u16 = 0x28;
    const IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    [
        SockFilter::new(LOAD_HALF, 0, 0, 12),
        SockFilter::new(IF_EQUAL, 0, 1, 0x0806),
        SockFilter::new(RETURN, 0, 0, 128),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}

/// What is to be done with a frame.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// The bridge passes it on, or dropped it for good.
    Nothing,
    /// Say that to who asked.
    Answer(Vec<u8>),
    /// The bridge dropped it: say it to all others.
    PassOn,
}

/// Learns from a frame, and says what follows.
fn judge(frame: &[u8], known: &mut HashMap<Ipv4Addr, Mac>, probes: Probes) -> Verdict {
    let part = |from: usize| frame.get(from..from + 6)?.try_into().ok().map(Mac);
    let address = |from: usize| frame.get(from..from + 4)?.try_into().ok().map(|four: [u8; 4]| Ipv4Addr::from(four));
    let (Some(to), Some(asker), Some(sender), Some(target)) = (part(0), part(22), address(28), address(38)) else {
        return Verdict::Nothing;
    };
    if frame.get(12..14) != Some(&[0x08, 0x06]) {
        return Verdict::Nothing;
    }
    if !sender.is_unspecified() {
        known.insert(sender, asker);
    }
    if to != Mac::BROADCAST || frame[20..22] != [0, 1] {
        return Verdict::Nothing;
    }
    if sender.is_unspecified() && probes == Probes::Dropped {
        return Verdict::Nothing;
    }
    match known.get(&target) {
        // Nobody is told of his own address.
        Some(owner) if sender != target && *owner != asker => {
            let mut answer = Vec::with_capacity(FRAME);
            answer.extend(asker.0);
            answer.extend(owner.0);
            answer.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2]);
            answer.extend(owner.0);
            answer.extend(target.octets());
            answer.extend(asker.0);
            answer.extend(sender.octets());
            Verdict::Answer(answer)
        }
        _ => Verdict::PassOn,
    }
}
