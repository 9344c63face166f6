//! The frames that the agent hears: which host claims which address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pnet::packet::Packet;
use pnet::packet::arp::{ArpHardwareTypes, ArpOperations, ArpPacket};
use pnet::packet::ethernet::{EtherTypes, EthernetPacket};
use pnet::packet::icmpv6::{Icmpv6Code, Icmpv6Packet, Icmpv6Types, checksum};
use pnet::packet::ip::IpNextHeaderProtocols;
use pnet::packet::ipv6::Ipv6Packet;

use super::frame::NDP;
use crate::core::evidence::{Form, Sender};
use crate::core::mac::Mac;

/// A frame that claims that an address is at a MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The address: an ARP frame's sender address, an advertisement's target, a solicitation's source.
    pub address: IpAddr,
    /// The claimed MAC address: the link-layer address in the frame, or without one the frame's source.
    pub mac: Mac,
    /// How it was said.
    pub form: Form,
}

/// Why a frame does not claim an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    /// The frame ends before its headers do.
    #[error("cut short")]
    Short,
    /// Neither ARP nor a neighbour solicitation or advertisement.
    #[error("another protocol")]
    Protocol,
    /// ARP that is not about IPv4 on Ethernet, or neither request nor reply.
    #[error("another kind of ARP")]
    Arp,
    /// A probe, which claims no address: sender 0.0.0.0, or source `::`.
    #[error("a probe")]
    Probe,
    /// No host can have the address.
    #[error("not a host's address")]
    Address,
    /// The MAC address is not a host's, or is not the sender's.
    #[error("not the sender's MAC address")]
    Mac,
    /// The hop limit is not 255: the frame came through a router (RFC 4861 section 7.1).
    #[error("hop limit below 255")]
    HopLimit,
    /// The checksum is wrong.
    #[error("wrong checksum")]
    Checksum,
    /// The options do not fill the frame, or one has no length.
    #[error("broken options")]
    Options,
    /// Not allowed by RFC 4861 section 7.1: a code, or a solicited advertisement to everybody.
    #[error("not allowed")]
    Invalid,
}

/// Reads a frame that was sent to us or to everybody, from its Ethernet header on.
pub fn decode(frame: &[u8]) -> Result<Heard, Ignored> {
    let ethernet = EthernetPacket::new(frame).ok_or(Ignored::Short)?;
    let from = Mac(ethernet.get_source().octets());
    let to = Mac(ethernet.get_destination().octets());
    if !from.is_host() {
        return Err(Ignored::Mac);
    }
    match ethernet.get_ethertype() {
        EtherTypes::Arp => arp(ethernet.payload(), from, to),
        EtherTypes::Ipv6 => ipv6(ethernet.payload(), from),
        _ => Err(Ignored::Protocol),
    }
}

fn arp(packet: &[u8], from: Mac, to: Mac) -> Result<Heard, Ignored> {
    let arp = ArpPacket::new(packet).ok_or(Ignored::Short)?;
    let about = (arp.get_hardware_type(), arp.get_protocol_type(), arp.get_hw_addr_len(), arp.get_proto_addr_len());
    if about != (ArpHardwareTypes::Ethernet, EtherTypes::Ipv4, 6, 4) {
        return Err(Ignored::Arp);
    }
    let form = match arp.get_operation() {
        ArpOperations::Reply if to.is_host() => Form::Answer(asked_by(arp.get_target_proto_addr())),
        ArpOperations::Reply | ArpOperations::Request => Form::Claim,
        _ => return Err(Ignored::Arp),
    };
    let address: Ipv4Addr = arp.get_sender_proto_addr();
    if address.is_unspecified() {
        return Err(Ignored::Probe);
    }
    if address.is_multicast() || address.is_broadcast() || address.is_loopback() {
        return Err(Ignored::Address);
    }
    let mac = Mac(arp.get_sender_hw_addr().octets());
    if mac == from { Ok(Heard { address: address.into(), mac, form }) } else { Err(Ignored::Mac) }
}

/// The sender of the request that a reply answers: the reply's target (RFC 826).
fn asked_by(target: Ipv4Addr) -> Sender {
    if target.is_unspecified() { Sender::Unspecified } else { Sender::Own }
}

fn ipv6(packet: &[u8], from: Mac) -> Result<Heard, Ignored> {
    let ip = Ipv6Packet::new(packet).ok_or(Ignored::Short)?;
    if ip.get_version() != 6 || ip.get_next_header() != IpNextHeaderProtocols::Icmpv6 {
        return Err(Ignored::Protocol);
    }
    // Ethernet pads short frames: the IPv6 header says where this one ends.
    let icmp = packet.get(40..40 + usize::from(ip.get_payload_length())).ok_or(Ignored::Short)?;
    let header = Icmpv6Packet::new(icmp).ok_or(Ignored::Short)?;
    let advertisement = match header.get_icmpv6_type() {
        Icmpv6Types::NeighborAdvert => true,
        Icmpv6Types::NeighborSolicit => false,
        _ => return Err(Ignored::Protocol),
    };
    if ip.get_hop_limit() != 255 {
        return Err(Ignored::HopLimit);
    }
    let (source, destination) = (ip.get_source(), ip.get_destination());
    let (said, right) = (header.get_checksum(), checksum(&header, &source, &destination));
    // One's complement has two zeros, and receivers take either (RFC 1071).
    if said != right && (said, right) != (0xffff, 0) {
        return Err(Ignored::Checksum);
    }
    if header.get_icmpv6_code() != Icmpv6Code(0) {
        return Err(Ignored::Invalid);
    }
    let body = icmp.first_chunk::<NDP>().ok_or(Ignored::Short)?;
    let target = Ipv6Addr::from(*body.last_chunk::<16>().ok_or(Ignored::Short)?);
    if target.is_multicast() || target.is_unspecified() || target.is_loopback() {
        return Err(Ignored::Address);
    }
    let (source_mac, target_mac) = options(icmp.get(NDP..).unwrap_or_default())?;
    let (address, mac, form) = if advertisement {
        // RFC 4861 section 4.4: Solicited is 0x40.
        let solicited = body[4] & 0x40 != 0;
        if solicited && destination.is_multicast() {
            return Err(Ignored::Invalid);
        }
        (target, target_mac, if solicited { Form::Answer(Sender::Own) } else { Form::Claim })
    } else if source.is_unspecified() {
        return Err(Ignored::Probe);
    } else if source.is_multicast() || source.is_loopback() {
        return Err(Ignored::Address);
    } else {
        (source, source_mac, Form::Claim)
    };
    let mac = mac.unwrap_or(from);
    if mac.is_host() { Ok(Heard { address: address.into(), mac, form }) } else { Err(Ignored::Mac) }
}

/// The source and target link-layer address options, where present (RFC 4861 section 4.6.1). Of two options of one kind
/// the first counts, as in Linux: a frame with two claims is heard as its victims hear it.
fn options(mut rest: &[u8]) -> Result<(Option<Mac>, Option<Mac>), Ignored> {
    let (mut source, mut target) = (None, None);
    while let [kind, units, ..] = rest {
        let length = usize::from(*units) * 8;
        if length == 0 {
            return Err(Ignored::Options);
        }
        let (option, after) = rest.split_at_checked(length).ok_or(Ignored::Options)?;
        if let (1 | 2, Some(&mac)) = (*kind, option.get(2..).and_then(<[u8]>::first_chunk::<6>)) {
            (if *kind == 1 { &mut source } else { &mut target }).get_or_insert(Mac(mac));
        }
        rest = after;
    }
    if rest.is_empty() { Ok((source, target)) } else { Err(Ignored::Options) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, proptest};
    use proptest::sample::select;

    use super::super::frame::{ArpForm, NDP_FRAME, arp_announce, arp_probe, na_announce, ns_probe};
    use super::*;

    const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const US: Mac = Mac([2, 0, 0, 0, 0, 2]);
    const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
    const VIP6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);

    fn claim(address: impl Into<IpAddr>) -> Heard {
        Heard { address: address.into(), mac: MAC, form: Form::Claim }
    }

    /// Puts a correct checksum on a changed frame.
    fn sealed(mut frame: [u8; NDP_FRAME]) -> [u8; NDP_FRAME] {
        let ip = Ipv6Packet::new(&frame[14..]).unwrap();
        let (source, destination) = (ip.get_source(), ip.get_destination());
        let sum = checksum(&Icmpv6Packet::new(&frame[54..]).unwrap(), &source, &destination);
        frame[56..58].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    #[test]
    fn own_words_are_understood() {
        assert_eq!(decode(&arp_announce(VIP, MAC, ArpForm::Request)), Ok(claim(VIP)));
        assert_eq!(decode(&arp_announce(VIP, MAC, ArpForm::Reply)), Ok(claim(VIP)));
        assert_eq!(decode(&na_announce(VIP6, MAC)), Ok(claim(VIP6)));
        assert_eq!(decode(&arp_probe((MAC, Ipv4Addr::UNSPECIFIED), VIP, Mac::BROADCAST)), Err(Ignored::Probe));
        let own = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        assert_eq!(decode(&ns_probe(VIP6, None, MAC, own)), Ok(claim(own)));
        assert_eq!(decode(&ns_probe(VIP6, None, MAC, Ipv6Addr::UNSPECIFIED)), Err(Ignored::Probe));
    }

    #[test]
    fn answers_are_told_from_claims() {
        let mut reply = arp_announce(VIP, MAC, ArpForm::Reply);
        reply[..6].copy_from_slice(&US.0);
        assert_eq!(decode(&reply).unwrap().form, Form::Answer(Sender::Own));
        reply[38..42].fill(0);
        assert_eq!(decode(&reply).unwrap().form, Form::Answer(Sender::Unspecified));
        let mut advert = na_announce(VIP6, MAC);
        advert[58] |= 0x40;
        assert_eq!(decode(&sealed(advert)), Err(Ignored::Invalid), "solicited, and to everybody");
        advert[38..54].copy_from_slice(&VIP6.octets());
        assert_eq!(decode(&sealed(advert)).unwrap().form, Form::Answer(Sender::Own));
    }

    #[test]
    fn lies_are_ignored() {
        let arp = arp_announce(VIP, MAC, ArpForm::Reply);
        // Each case: offset, byte, and the reason to ignore the frame.
        for (at, byte, ignored) in [
            (11, 9, Ignored::Mac),
            (6, 3, Ignored::Mac),
            (27, 9, Ignored::Mac),
            (15, 6, Ignored::Arp),
            (18, 8, Ignored::Arp),
            (19, 16, Ignored::Arp),
            (21, 3, Ignored::Arp),
            (28, 224, Ignored::Address),
            (28, 127, Ignored::Address),
            (13, 0, Ignored::Protocol),
        ] {
            let mut lie = arp;
            lie[at] = byte;
            assert_eq!(decode(&lie), Err(ignored), "byte {at}");
        }
        let advert = na_announce(VIP6, MAC);
        for (at, byte, ignored) in [
            (14, 0x40, Ignored::Protocol),
            (20, 17, Ignored::Protocol),
            (21, 254, Ignored::HopLimit),
            (54, 133, Ignored::Protocol),
            (55, 1, Ignored::Invalid),
            (62, 0xff, Ignored::Address),
            (79, 0, Ignored::Options),
            (79, 2, Ignored::Options),
            (80, 1, Ignored::Mac),
            (19, 31, Ignored::Options),
            (19, 33, Ignored::Short),
            (19, 8, Ignored::Short),
        ] {
            let mut lie = advert;
            lie[at] = byte;
            if at == 19 {
                // A shorter or longer body: the checksum covers the body up to its stated end.
                let end = (54 + usize::from(byte)).min(lie.len());
                let ip = Ipv6Packet::new(&lie[14..]).unwrap();
                let (source, destination) = (ip.get_source(), ip.get_destination());
                let sum = checksum(&Icmpv6Packet::new(&lie[54..end]).unwrap(), &source, &destination);
                lie[56..58].copy_from_slice(&sum.to_be_bytes());
            } else {
                lie = sealed(lie);
            }
            assert_eq!(decode(&lie), Err(ignored), "byte {at} = {byte}");
        }
        let mut wrong = advert;
        wrong[70] ^= 1;
        assert_eq!(decode(&wrong), Err(Ignored::Checksum));
    }

    #[test]
    fn without_an_option_the_frame_says_where_it_is_from() {
        let mut advert = na_announce(VIP6, MAC);
        advert[78] = 14; // a nonce
        assert_eq!(decode(&sealed(advert)), Ok(claim(VIP6)));
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
            let _ = decode(&bytes);
        }

        /// Frames that are nearly right: any length, a VLAN tag, a sender that nobody can have. What is heard is a host's address
        /// at the MAC address that sent the frame.
        #[test]
        fn what_is_heard_is_a_host(
            kind in select(vec![0x0806_u16, 0x86dd, 0x8100, 0x88a8, 0x0800, 28]),
            operation in 0_u16..4,
            from in select(vec![MAC, US, Mac::BROADCAST, Mac([0; 6]), Mac([1, 0, 0x5e, 0, 0, 1])]),
            sender in select(vec![MAC, US, Mac([0; 6])]),
            address in select(vec![[0; 4], [192, 0, 2, 7], [127, 0, 0, 1], [224, 0, 0, 18], [255; 4]]),
            rest in prop::collection::vec(any::<u8>(), 0..28),
            length in 0_usize..=70,
        ) {
            let mut frame = [&US.0[..], &from.0, &kind.to_be_bytes(), &[0, 1, 8, 0, 6, 4], &operation.to_be_bytes()].concat();
            for part in [&sender.0[..], &address, &US.0, &VIP.octets(), &rest[..]] {
                frame.extend_from_slice(part);
            }
            frame.truncate(length);
            if let Ok(heard) = decode(&frame) {
                assert!(frame.len() >= 42 && kind == 0x0806 && from.is_host() && heard.mac == from && sender == from);
                assert_eq!(heard.address, IpAddr::from(VIP));
                assert!(matches!(operation, 1 | 2));
            }
        }

        #[test]
        fn cut_and_changed(cut in 0_usize..=86, at in 0_usize..86, byte in any::<u8>(), v6 in any::<bool>()) {
            let mut frame = if v6 { sealed(na_announce(VIP6, MAC)).to_vec() } else { arp_announce(VIP, MAC, ArpForm::Reply).to_vec() };
            if let Some(there) = frame.get_mut(at) {
                *there = byte;
            }
            frame.truncate(cut);
            let heard = decode(&frame);
            if cut < 42 {
                assert!(heard.is_err());
            }
        }
    }
}
