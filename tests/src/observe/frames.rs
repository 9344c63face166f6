//! Announcements by hand: the reference for the agent's announcements, and the frames of a stranger on the segment.

use std::net::{IpAddr, Ipv6Addr};

use mooring_agent::core::mac::Mac;
use pnet::datalink::{self, Channel, Config};
use pnet::packet::icmpv6::{self, Icmpv6Packet};

use super::netlink::mac_of;
use super::{Error, Place, inside};

/// Sends one gratuitous ARP request (IPv6: one unsolicited advertisement with the override flag) for `address` from
/// `interface` inside `place`, with the interface's own MAC address.
///
/// # Errors
/// The interface is not there, or no packet socket is available.
pub fn announce(place: &impl Place, interface: &str, address: IpAddr) -> Result<(), Error> {
    let interface = interface.to_owned();
    inside(place, move || announce_here(&interface, address))
}

/// The same in the namespace of this thread.
///
/// # Errors
/// As [`announce`].
pub fn announce_here(interface: &str, address: IpAddr) -> Result<(), Error> {
    send_here(interface, &announcement(mac_of(interface)?, address))
}

/// Sends a frame from an interface of this thread's namespace.
///
/// # Errors
/// The interface is not there, or no packet socket is available.
pub fn send_here(interface: &str, frame: &[u8]) -> Result<(), Error> {
    let nic = datalink::interfaces()
        .into_iter()
        .find(|nic| nic.name == interface)
        .ok_or_else(|| Error::NoInterface { name: interface.into(), errno: nix::errno::Errno::ENODEV })?;
    let what = || format!("send a frame on {interface}");
    let config = Config { promiscuous: false, ..Config::default() };
    let Channel::Ethernet(mut sender, _) = datalink::channel(&nic, config).map_err(Error::io(what()))? else {
        return Err(Error::System { what: what(), errno: nix::errno::Errno::EPROTONOSUPPORT });
    };
    sender.send_to(frame, None).unwrap_or(Ok(())).map_err(Error::io(what()))
}

/// The frame of one announcement (RFC 5227 section 2.3; RFC 4861 section 7.2.6).
#[must_use]
pub fn announcement(mac: Mac, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(ip) => {
            let mut frame = ethernet(Mac::BROADCAST, mac, [0x08, 0x06]);
            frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
            frame.extend(mac.0);
            frame.extend(ip.octets());
            frame.extend([0; 6]);
            frame.extend(ip.octets());
            // The minimum length of an Ethernet frame.
            frame.resize(60, 0);
            frame
        }
        IpAddr::V6(ip) => {
            let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
            let mut message = vec![136, 0, 0, 0, 0x20, 0, 0, 0];
            message.extend(ip.octets());
            message.extend([2, 1]);
            message.extend(mac.0);
            let sum = Icmpv6Packet::new(&message).map_or(0, |packet| icmpv6::checksum(&packet, &ip, &all_nodes));
            message[2..4].copy_from_slice(&sum.to_be_bytes());

            let mut frame = ethernet(Mac([0x33, 0x33, 0, 0, 0, 1]), mac, [0x86, 0xdd]);
            frame.extend([0x60, 0, 0, 0, 0, 32, 58, 255]);
            frame.extend(ip.octets());
            frame.extend(all_nodes.octets());
            frame.extend(message);
            frame
        }
    }
}

fn ethernet(to: Mac, from: Mac, kind: [u8; 2]) -> Vec<u8> {
    [&to.0[..], &from.0[..], &kind[..]].concat()
}
