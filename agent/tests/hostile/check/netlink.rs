//! rtnetlink messages, as the monitor reads them. The kernel alone sends them; a newer one may say more.

use std::net::IpAddr;

use mooring_agent::datapath::KernelEvent;
use mooring_agent::datapath::monitor::decode;

pub fn check(data: &[u8]) {
    let event = match decode(data) {
        Ok(Some(event)) => event,
        Ok(None) => return,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let kind = u16::from_ne_bytes([data[4], data[5]]);
    // struct ifaddrmsg and struct ifinfomsg both have the index at 4, behind struct nlmsghdr.
    let said = u32::from_ne_bytes(data[20..24].try_into().unwrap());
    match event {
        KernelEvent::AddressAdded { address, index, ours } => {
            assert_eq!((kind, index), (20, said), "RTM_NEWADDR");
            carried(data, address);
            assert!(!ours || data[24..].contains(&0x4d));
        }
        KernelEvent::AddressGone { address, index } => {
            assert_eq!((kind, index), (21, said), "RTM_DELADDR");
            carried(data, address);
        }
        KernelEvent::Link { index, mac, name, .. } => {
            assert_eq!((kind, index, data[16]), (16, said, 0), "RTM_NEWLINK of no family");
            assert!(mac.is_none_or(|mac| mac.is_host() && data[32..].windows(6).any(|bytes| bytes == mac.0)));
            assert!(name.len() <= 3 * data.len());
        }
        KernelEvent::LinkGone { index, .. } => assert_eq!((kind, index, data[16]), (17, said, 0), "RTM_DELLINK"),
        KernelEvent::NodeAddress { .. } | KernelEvent::Resync => panic!("no message alone means that"),
    }
}

fn carried(data: &[u8], address: IpAddr) {
    let there = match address {
        IpAddr::V4(ip) => data[24..].windows(4).any(|bytes| bytes == ip.octets()),
        IpAddr::V6(ip) => data[24..].windows(16).any(|bytes| bytes == ip.octets()),
    };
    assert!(there, "{address} is not in the message");
}
