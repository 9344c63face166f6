//! The frames that the agent sends.
//!
//! ```text
//! Ethernet 14 | ARP 28                                          = 42   RFC 826, RFC 5227
//! Ethernet 14 | IPv6 40 | NS or NA 24 | link-layer option 8     = 86   RFC 4861
//! ```

use std::net::{Ipv4Addr, Ipv6Addr};

use pnet::packet::arp::{ArpHardwareTypes, ArpOperation, ArpOperations, MutableArpPacket};
use pnet::packet::ethernet::{EtherType, EtherTypes, MutableEthernetPacket};
use pnet::packet::icmpv6::ndp::{MutableNeighborAdvertPacket, MutableNeighborSolicitPacket, NdpOptionTypes};
use pnet::packet::icmpv6::{Icmpv6Packet, Icmpv6Types, MutableIcmpv6Packet, checksum};
use pnet::packet::ip::IpNextHeaderProtocols;
use pnet::packet::ipv6::MutableIpv6Packet;
use pnet::util::MacAddr;

use crate::core::mac::Mac;

/// Length of an Ethernet header.
pub const ETHERNET: usize = 14;
/// Length of an IPv6 header.
pub const IPV6: usize = 40;
/// Length of a neighbour solicitation or advertisement without options.
pub const NDP: usize = 24;
/// Length of an ARP frame.
pub const ARP_FRAME: usize = ETHERNET + 28;
/// Length of a neighbour solicitation or advertisement with a link-layer address.
pub const NDP_FRAME: usize = ETHERNET + IPV6 + NDP + OPTION;

const OPTION: usize = 8;
/// Override (RFC 4861 section 4.4): the address in this advertisement replaces the entry in the neighbour's cache.
const OVERRIDE: u8 = 0x20;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ZERO: Mac = Mac([0; 6]);

/// The two forms of an ARP announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArpForm {
    /// A request for the own address, as RFC 5227 defines it.
    Request,
    /// A gratuitous reply.
    Reply,
}

/// "`address` is at `mac`", to everybody.
#[must_use]
pub fn arp_announce(address: Ipv4Addr, mac: Mac, form: ArpForm) -> [u8; ARP_FRAME] {
    match form {
        ArpForm::Request => arp(ArpOperations::Request, Mac::BROADCAST, (mac, address), (ZERO, address)),
        ArpForm::Reply => arp(ArpOperations::Reply, Mac::BROADCAST, (mac, address), (mac, address)),
    }
}

/// "Who has `target`?" With sender address 0.0.0.0 no cache learns from the probe: owners answer, and Linux' proxy ARP does not.
#[must_use]
pub fn arp_probe(sender: (Mac, Ipv4Addr), target: Ipv4Addr, to: Mac) -> [u8; ARP_FRAME] {
    arp(ArpOperations::Request, to, sender, (ZERO, target))
}

fn arp(operation: ArpOperation, to: Mac, sender: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> [u8; ARP_FRAME] {
    let mut frame = [0; ARP_FRAME];
    ethernet(&mut frame, to, sender.0, EtherTypes::Arp);
    if let Some(mut arp) = MutableArpPacket::new(&mut frame[ETHERNET..]) {
        arp.set_hardware_type(ArpHardwareTypes::Ethernet);
        arp.set_protocol_type(EtherTypes::Ipv4);
        arp.set_hw_addr_len(6);
        arp.set_proto_addr_len(4);
        arp.set_operation(operation);
        arp.set_sender_hw_addr(pnet_mac(sender.0));
        arp.set_sender_proto_addr(sender.1);
        arp.set_target_hw_addr(pnet_mac(target.0));
        arp.set_target_proto_addr(target.1);
    }
    frame
}

/// "`address` is at `mac`", to all nodes: an unsolicited advertisement with the Override flag. Its source is the
/// address itself, as Linux has it.
#[must_use]
pub fn na_announce(address: Ipv6Addr, mac: Mac) -> [u8; NDP_FRAME] {
    let mut frame = [0; NDP_FRAME];
    if let Some(mut na) = MutableNeighborAdvertPacket::new(&mut frame[ETHERNET + IPV6..]) {
        na.set_icmpv6_type(Icmpv6Types::NeighborAdvert);
        na.set_flags(OVERRIDE);
        na.set_target_addr(address);
    }
    frame[ETHERNET + IPV6 + NDP] = NdpOptionTypes::TargetLLAddr.0;
    ndp(frame, multicast_mac(ALL_NODES), mac, address, ALL_NODES)
}

/// "Who has `target`?", sent from our link-local address to one host (`Some`), or to the target's solicited-node group.
#[must_use]
pub fn ns_probe(target: Ipv6Addr, to: Option<Mac>, our_mac: Mac, our_link_local: Ipv6Addr) -> [u8; NDP_FRAME] {
    let mut frame = [0; NDP_FRAME];
    if let Some(mut ns) = MutableNeighborSolicitPacket::new(&mut frame[ETHERNET + IPV6..]) {
        ns.set_icmpv6_type(Icmpv6Types::NeighborSolicit);
        ns.set_target_addr(target);
    }
    frame[ETHERNET + IPV6 + NDP] = NdpOptionTypes::SourceLLAddr.0;
    let group = solicited_node(target);
    let (to, destination) = to.map_or_else(|| (multicast_mac(group), group), |mac| (mac, target));
    ndp(frame, to, our_mac, our_link_local, destination)
}

/// Fills in what solicitation and advertisement share: headers, the option's address, the checksum.
fn ndp(mut frame: [u8; NDP_FRAME], to: Mac, from: Mac, src: Ipv6Addr, dst: Ipv6Addr) -> [u8; NDP_FRAME] {
    let option = ETHERNET + IPV6 + NDP;
    frame[option + 1] = 1; // its length, in units of 8 bytes
    frame[option + 2..].copy_from_slice(&from.0);
    ethernet(&mut frame, to, from, EtherTypes::Ipv6);
    if let Some(mut ip) = MutableIpv6Packet::new(&mut frame[ETHERNET..]) {
        ip.set_version(6);
        ip.set_payload_length(32); // NDP + OPTION
        ip.set_next_header(IpNextHeaderProtocols::Icmpv6);
        ip.set_hop_limit(255);
        ip.set_source(src);
        ip.set_destination(dst);
    }
    let sum = Icmpv6Packet::new(&frame[ETHERNET + IPV6..]).map(|icmp| checksum(&icmp, &src, &dst));
    if let (Some(sum), Some(mut icmp)) = (sum, MutableIcmpv6Packet::new(&mut frame[ETHERNET + IPV6..])) {
        icmp.set_checksum(sum);
    }
    frame
}

fn ethernet(frame: &mut [u8], to: Mac, from: Mac, kind: EtherType) {
    if let Some(mut ethernet) = MutableEthernetPacket::new(frame) {
        ethernet.set_destination(pnet_mac(to));
        ethernet.set_source(pnet_mac(from));
        ethernet.set_ethertype(kind);
    }
}

/// `ff02::1:ffXX:XXXX` (RFC 4291 section 2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | high & 0xff, low)
}

/// `33:33:XX:XX:XX:XX` (RFC 2464 section 7).
fn multicast_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    Mac([0x33, 0x33, a, b, c, d])
}

pub(super) fn pnet_mac(mac: Mac) -> MacAddr {
    mac.0.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const PEER: Mac = Mac([2, 0, 0, 0, 0, 2]);

    #[test]
    fn arp_bytes() {
        let vip = Ipv4Addr::new(192, 0, 2, 7);
        let request = arp_announce(vip, MAC, ArpForm::Request);
        assert_eq!(request[..6], [0xff; 6]);
        assert_eq!(request[6..22], [2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        assert_eq!(request[22..], [2, 0, 0, 0, 0, 1, 192, 0, 2, 7, 0, 0, 0, 0, 0, 0, 192, 0, 2, 7]);
        let reply = arp_announce(vip, MAC, ArpForm::Reply);
        assert_eq!(reply[20..], [0, 2, 2, 0, 0, 0, 0, 1, 192, 0, 2, 7, 2, 0, 0, 0, 0, 1, 192, 0, 2, 7]);
        let probe = arp_probe((MAC, Ipv4Addr::UNSPECIFIED), vip, PEER);
        assert_eq!(probe[..12], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        assert_eq!(probe[20..], [0, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 192, 0, 2, 7]);
    }

    #[test]
    fn ndp_bytes() {
        let vip: Ipv6Addr = "2001:db8::12:3456".parse().unwrap();
        let own: Ipv6Addr = "fe80::1".parse().unwrap();
        let na = na_announce(vip, MAC);
        assert_eq!(na[..14], [0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x86, 0xdd]);
        assert_eq!(na[14..22], [0x60, 0, 0, 0, 0, 32, 58, 255]);
        assert_eq!((na[54], na[55], na[58]), (136, 0, OVERRIDE));
        assert_eq!(na[78..], [2, 1, 2, 0, 0, 0, 0, 1]);
        let group = ns_probe(vip, None, MAC, own);
        assert_eq!(group[..6], [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
        assert_eq!(group[38..54], "ff02::1:ff12:3456".parse::<Ipv6Addr>().unwrap().octets());
        let unicast = ns_probe(vip, Some(PEER), MAC, own);
        assert_eq!(unicast[..6], PEER.0);
        assert_eq!(unicast[38..54], vip.octets());
        assert_eq!((unicast[54], unicast[78]), (135, 1));
    }
}
