//! A VIP with a prefix shorter than the address: which other addresses the kernel removes with it.
//!
//! The first IPv4 address of a subnet on an interface is its primary; when it is deleted or expires, the kernel
//! deletes the secondary ones with it, unless `promote_secondaries` is 1. IPv6 knows no such thing, and the prefix
//! route is not ours there (`NOPREFIXROUTE`).

use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;

use super::Shared;
use super::address::{Seen, Vip};
use super::error::Error;
use super::link::name_of;

pub(super) fn check(vip: Vip, index: u32, seen: &[Seen], known: &Shared) -> Result<(), Error> {
    let IpAddr::V4(address) = vip.address else {
        return Ok(());
    };
    if vip.is_host() || promotes(index)? {
        return Ok(());
    }
    let known = known.lock();
    let others = seen.iter().filter(|there| there.index == index && there.vip.prefix == vip.prefix);
    let mut own = others.filter(|there| !known.is_ours(there)).filter_map(|there| match there.vip.address {
        IpAddr::V4(own) => Some(own),
        IpAddr::V6(_) => None,
    });
    if own.any(|own| same_subnet(own, address, vip.prefix)) {
        return Ok(());
    }
    Err(Error::PrefixWouldTakeOthers { address: vip.address, prefix: vip.prefix, interface: name_of(index) })
}

fn same_subnet(a: Ipv4Addr, b: Ipv4Addr, prefix: u8) -> bool {
    Ipv4Net::new(a, prefix).is_ok_and(|net| net.contains(&b))
}

/// Whether the kernel promotes secondary addresses on this interface: its own setting or that of all.
fn promotes(index: u32) -> Result<bool, Error> {
    for interface in ["all", &name_of(index)] {
        let path = format!("/proc/sys/net/ipv4/conf/{interface}/promote_secondaries");
        match std::fs::read_to_string(&path) {
            Ok(value) if value.trim() != "0" => return Ok(true),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => {
                return Err(Error::File { path: path.into(), source });
            }
        }
    }
    Ok(false)
}
