//! A DNS answer: which of its addresses become VIPs. The bytes: a mode, then addresses, each after a byte for its family.

use std::net::IpAddr;

use mooring_agent::settings::{DnsMode, Given, Host, Settings};

use super::bytes::Bytes;

pub fn check(data: &[u8]) {
    let mut rest = Bytes(data);
    let mode = rest.pick(&[DnsMode::First, DnsMode::Ipv4, DnsMode::Ipv6, DnsMode::Dual]);
    let mut answers = Vec::new();
    while !rest.is_empty() && answers.len() < 64 {
        answers.push(if rest.yes() { IpAddr::from(rest.array::<16>()) } else { IpAddr::from(rest.array::<4>()) });
    }
    let picked = mode.pick(&answers);
    let families = picked.iter().map(IpAddr::is_ipv4).collect::<Vec<_>>();
    match mode {
        DnsMode::First => assert!(picked.len() <= 1),
        DnsMode::Ipv4 => assert!(picked.len() <= 1 && families.iter().all(|four| *four)),
        DnsMode::Ipv6 => assert!(picked.len() <= 1 && families.iter().all(|four| !*four)),
        DnsMode::Dual => assert!(picked.len() <= 2 && (picked.len() < 2 || families == [true, false])),
    }
    for ip in picked {
        assert!(answers.contains(&ip));
        assert!(may_be_vip(ip), "{ip}");
    }
    // What a name gives is what a setting takes.
    if let [ip] = answers.as_slice() {
        let given = Given([("address".to_owned(), ip.to_string())].into());
        let host = Host { name: Some("cp1".into()), pod_namespace: None };
        assert_eq!(Settings::load(&given, [], &host).is_ok(), may_be_vip(*ip), "{ip}");
    }
}

/// The addresses that are one host's on a segment, by RFC 1122 section 3.2.1.3 and RFC 4291.
fn may_be_vip(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !matches!(ip.octets(), [0 | 127 | 224..=239, ..] | [255, 255, 255, 255]),
        IpAddr::V6(ip) => {
            let bits = u128::from(ip);
            bits > 1 && bits >> 120 != 0xff && bits >> 118 != 0xfe80 >> 6 && bits >> 32 != 0xffff
        }
    }
}
