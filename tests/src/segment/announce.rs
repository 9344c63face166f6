//! What a host that takes an address says to the segment, made by hand: for strangers, and for the floor of the benches.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mooring_agent::core::mac::Mac;
use mooring_agent::core::time::Time;
use pnet::datalink::{self, Channel, ChannelType, Config};

use crate::clock;
use crate::host::{Error, Netns};

/// A gratuitous ARP request: everybody who knows `address` learns `mac` (RFC 5227 section 3, "ARP Announcement").
#[must_use]
pub fn gratuitous_arp(mac: Mac, address: Ipv4Addr) -> Vec<u8> {
    let mut frame = Vec::with_capacity(42);
    frame.extend(Mac::BROADCAST.0);
    frame.extend(mac.0);
    // EtherType ARP; Ethernet, IPv4, lengths 6 and 4, request.
    frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(mac.0);
    frame.extend(address.octets());
    frame.extend([0; 6]);
    frame.extend(address.octets());
    frame
}

/// An unsolicited neighbour advertisement to all nodes, override set (RFC 4861 section 7.2.6).
#[must_use]
pub fn unsolicited_na(mac: Mac, address: Ipv6Addr) -> Vec<u8> {
    let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let mut icmp = vec![136, 0, 0, 0, 0x20, 0, 0, 0];
    icmp.extend(address.octets());
    // Option: target link-layer address, length 1 x 8 bytes.
    icmp.extend([2, 1]);
    icmp.extend(mac.0);

    let mut sum: u32 = 58 + 32;
    let words = [&address.octets()[..], &all_nodes.octets(), &icmp];
    for pair in words.iter().flat_map(|part| part.chunks(2)) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let [_, _, high, low] = (!sum).to_be_bytes();
    icmp[2..4].copy_from_slice(&[high, low]);

    let mut frame = vec![0x33, 0x33, 0, 0, 0, 1];
    frame.extend(mac.0);
    // EtherType IPv6; version 6, payload of 32 bytes, ICMPv6, hop limit 255.
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255]);
    frame.extend(address.octets());
    frame.extend(all_nodes.octets());
    frame.extend(icmp);
    frame
}

/// Announces that `address` is at `mac`, with one frame from the interface; answers when it was sent.
///
/// # Errors
/// There is no such interface, or the frame cannot be sent.
pub fn announce(netns: &Netns, interface: &str, mac: Mac, address: IpAddr) -> Result<Time, Error> {
    let frame = match address {
        IpAddr::V4(address) => gratuitous_arp(mac, address),
        IpAddr::V6(address) => unsolicited_na(mac, address),
    };
    let name = interface.to_owned();
    netns
        .run(move || -> io::Result<Time> {
            let nic = datalink::interfaces().into_iter().find(|nic| nic.name == name);
            let nic = nic.ok_or_else(|| io::Error::other("no such interface"))?;
            // Not promiscuous, and for sending only.
            let config = Config { promiscuous: false, channel_type: ChannelType::Layer2, ..Config::default() };
            let Channel::Ethernet(mut sender, _) = datalink::channel(&nic, config)? else {
                return Err(io::Error::other("not an Ethernet interface"));
            };
            sender.send_to(&frame, None).ok_or_else(|| io::Error::other("the frame is too large"))??;
            Ok(clock::now())
        })
        .map_err(Error::io(format!("announce {address} at {mac} from {interface} of {}", netns.name())))
}
