//! ARP and NDP frames, compared with a second reading of RFC 826, 4861 and 1071, byte by byte.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mooring_agent::core::mac::Mac;
use mooring_agent::segment::frame::{ArpForm, arp_announce, na_announce};
use mooring_agent::segment::hear::decode;
use mooring_agent::segment::{Form, Heard, Sender};

pub fn check(data: &[u8]) {
    one(data);
    // No mutation finds a checksum: the same frame with the right one, and with the other zero.
    if let Some(mut sealed) = sealed(data) {
        one(&sealed);
        if sealed[56..58] == [0, 0] {
            sealed[56..58].fill(0xff);
            one(&sealed);
        }
    }
}

fn one(frame: &[u8]) {
    let heard = decode(frame);
    assert_eq!(heard.ok(), reference(frame), "{heard:?}");
    match heard {
        Ok(heard) => {
            assert!(heard.mac.is_host() && frame.windows(6).any(|bytes| bytes == heard.mac.0), "{heard:?}");
            let encoded = match heard.address {
                IpAddr::V4(ip) => {
                    assert_eq!(frame[28..32], ip.octets());
                    arp_announce(ip, heard.mac, ArpForm::Reply).to_vec()
                }
                IpAddr::V6(ip) => {
                    assert!(frame[22..38] == ip.octets() || frame[62..78] == ip.octets());
                    na_announce(ip, heard.mac).to_vec()
                }
            };
            assert_eq!(decode(&encoded), Ok(Heard { form: Form::Claim, ..heard }));
            // Ethernet pads what is short.
            assert_eq!(decode(&[frame, &[0xa5; 18]].concat()), Ok(heard));
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}

fn reference(frame: &[u8]) -> Option<Heard> {
    let from = mac(frame.get(6..12)?)?;
    match frame.get(12..14)? {
        [0x08, 0x06] => arp(frame.get(14..42)?, from, frame[0] & 1 == 0 && frame[..6] != [0; 6]),
        [0x86, 0xdd] => ndp(frame, from),
        _ => None,
    }
}

fn arp(packet: &[u8], from: Mac, to_a_host: bool) -> Option<Heard> {
    let form = match packet[..8] {
        [0, 1, 8, 0, 6, 4, 0, 2] if to_a_host && packet[24..28] == [0; 4] => Form::Answer(Sender::Unspecified),
        [0, 1, 8, 0, 6, 4, 0, 2] if to_a_host => Form::Answer(Sender::Own),
        [0, 1, 8, 0, 6, 4, 0, 1 | 2] => Form::Claim,
        _ => return None,
    };
    let ip = Ipv4Addr::from(<[u8; 4]>::try_from(&packet[14..18]).unwrap());
    let of_a_host = !matches!(ip.octets(), [0, 0, 0, 0] | [127 | 224..=239, ..] | [255, 255, 255, 255]);
    let heard = Heard { address: ip.into(), mac: mac(&packet[8..14])?, form };
    (of_a_host && heard.mac == from).then_some(heard)
}

fn ndp(frame: &[u8], from: Mac) -> Option<Heard> {
    let (header, message) = (frame.get(14..54)?, message(frame)?);
    let advertisement = match message.first_chunk::<24>()? {
        [135, 0, ..] => false,
        [136, 0, ..] => true,
        _ => return None,
    };
    if header[0] >> 4 != 6 || header[6] != 58 || header[7] != 255 || sum(frame)? != 0xffff {
        return None;
    }
    let address = |at: &[u8]| Ipv6Addr::from(<[u8; 16]>::try_from(at).unwrap());
    let (source, target) = (address(&header[8..24]), address(&message[8..24]));
    let told = option(&message[24..], if advertisement { 2 } else { 1 })?;
    let solicited = advertisement && message[4] & 0x40 != 0;
    let ip = if advertisement { target } else { source };
    let of_no_host = |ip: Ipv6Addr| ip.octets()[0] == 0xff || u128::from(ip) <= 1;
    if of_no_host(target) || of_no_host(ip) || (solicited && header[24] == 0xff) {
        return None;
    }
    let mac = told.map_or(Some(from), |bytes| mac(&bytes))?;
    Some(Heard { address: ip.into(), mac, form: if solicited { Form::Answer(Sender::Own) } else { Form::Claim } })
}

/// The first link-layer address of that kind, as Linux has it; None where options are broken.
#[expect(clippy::option_option, reason = "the outer None: broken")]
fn option(mut rest: &[u8], wanted: u8) -> Option<Option<[u8; 6]>> {
    let mut found = None;
    while let Some((kind, units)) = rest.first().zip(rest.get(1)) {
        let length = usize::from(*units) * 8;
        let option = rest.get(..length).filter(|option| !option.is_empty())?;
        if *kind == wanted {
            found = found.or_else(|| option[2..8].try_into().ok());
        }
        rest = &rest[length..];
    }
    rest.is_empty().then_some(found)
}

fn mac(bytes: &[u8]) -> Option<Mac> {
    let mac = Mac(bytes.try_into().ok()?);
    (mac.0[0] & 1 == 0 && mac.0 != [0; 6]).then_some(mac)
}

/// The `ICMPv6` message, as long as the IPv6 header says.
fn message(frame: &[u8]) -> Option<&[u8]> {
    let length = u16::from_be_bytes(frame.get(18..20)?.try_into().ok()?);
    frame.get(54..)?.get(..usize::from(length))
}

/// The one's complement sum over pseudo header and message: all ones when the checksum is right (RFC 1071).
fn sum(frame: &[u8]) -> Option<u16> {
    let message = message(frame)?;
    let words = frame.get(22..54)?.chunks(2).chain(message.chunks(2));
    let words = words.map(|word| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0)));
    let mut sum = words.sum::<u64>() + message.len() as u64 + 58;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).ok()
}

fn sealed(data: &[u8]) -> Option<Vec<u8>> {
    let mut frame = data.to_vec();
    message(&frame).filter(|message| message.len() >= 4)?;
    frame[56..58].fill(0);
    let right = !sum(&frame)?;
    frame[56..58].copy_from_slice(&right.to_be_bytes());
    Some(frame)
}
