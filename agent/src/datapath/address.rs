//! An address as requested, and as the kernel shows it.

use std::net::IpAddr;

use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressProtocol, CacheInfo,
};

use super::error::Error;

/// The value of `IFA_PROTO` that marks an address as ours (ASCII `M`). 1 to 3 are the kernel's
/// (`linux/if_addr.h`); `ip addr` shows it as `proto 77`, and `/etc/iproute2/rt_addrprotos` may give it a name.
pub const OUR_PROTO: u8 = 0x4d;

/// The mark for VIPs of Services and other `IPAddress` objects (ASCII `S`). Neither kind of agent touches the other's
/// addresses.
pub const SERVICES_PROTO: u8 = 0x53;

/// The kernel's "for ever" in seconds.
const FOREVER: u32 = u32::MAX;

/// A virtual IP address with its prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vip {
    /// The address.
    pub address: IpAddr,
    /// The length of its prefix in bits: 32 or 128, unless the operator has a reason for another.
    pub prefix: u8,
}

impl Vip {
    /// The address alone: /32 or /128.
    #[must_use]
    pub const fn host(address: IpAddr) -> Self {
        Self { address, prefix: host_prefix(address) }
    }

    /// Whether the prefix is the address alone.
    #[must_use]
    pub const fn is_host(self) -> bool {
        self.prefix == host_prefix(self.address)
    }

    pub(super) fn check(self) -> Result<Self, Error> {
        let most = host_prefix(self.address);
        if (1..=most).contains(&self.prefix) {
            Ok(self)
        } else {
            Err(Error::BadPrefix { address: self.address, prefix: self.prefix, most })
        }
    }

    /// The address for a request to the kernel, without lifetime, flags and mark. This is enough to remove the address.
    pub(super) fn message(self, index: u32) -> AddressMessage {
        let mut message = AddressMessage::default();
        message.header.family = family(self.address);
        message.header.prefix_len = self.prefix;
        message.header.index = index;
        message.attributes = vec![AddressAttribute::Local(self.address), AddressAttribute::Address(self.address)];
        message
    }

    /// The request to put the address on an interface for `lifetime` seconds.
    pub(super) fn message_for(self, index: u32, lifetime: u32, mark: Option<u8>) -> AddressMessage {
        let mut message = self.message(index);
        let mut cache = CacheInfo::default();
        cache.ifa_valid = lifetime;
        cache.ifa_preferred = 0;
        message.attributes.push(AddressAttribute::CacheInfo(cache));
        if self.address.is_ipv6() {
            // NODAD: duplicate address detection takes a second, and the agent's own probes have already done the
            // check.
            // Noprefixroute: otherwise each refresh gives the *subnet's* route our lifetime.
            message.header.flags = AddressHeaderFlags::Nodad;
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad | AddressFlags::Noprefixroute));
        }
        if let Some(mark) = mark {
            message.attributes.push(AddressAttribute::Protocol(AddressProtocol::Other(mark)));
        }
        message
    }
}

/// 32 or 128.
pub(super) const fn host_prefix(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

pub(super) const fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

/// An address on an interface, as the kernel shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub vip: Vip,
    pub index: u32,
    /// Seconds left; `None` means for ever.
    pub valid: Option<u32>,
    /// Whether the kernel never picks the address as a source (`preferred_lft 0`).
    pub deprecated: bool,
    /// Whether the address failed duplicate address detection (IPv6).
    pub duplicate: bool,
    /// `IFA_PROTO`, where one is set.
    pub proto: Option<u8>,
}

impl Seen {
    /// `None` when the message is not about an address of this host.
    pub(super) fn read(message: &AddressMessage) -> Option<Self> {
        let (mut local, mut address, mut cache, mut proto) = (None, None, None, None);
        let mut flags = u32::from(message.header.flags.bits());
        for attribute in &message.attributes {
            match attribute {
                AddressAttribute::Local(ip) => local = Some(*ip),
                AddressAttribute::Address(ip) => address = Some(*ip),
                AddressAttribute::CacheInfo(info) => cache = Some(*info),
                AddressAttribute::Protocol(value) => proto = Some(u8::from(*value)),
                AddressAttribute::Flags(all) => flags = all.bits(),
                _ => {}
            }
        }
        // On a point-to-point link, `Address` is the other end.
        let address = local.or(address)?;
        let flags = AddressFlags::from_bits_retain(flags);
        Some(Self {
            vip: Vip { address, prefix: message.header.prefix_len },
            index: message.header.index,
            valid: cache.map(|info| info.ifa_valid).filter(|&valid| valid != FOREVER),
            deprecated: cache.is_some_and(|info| info.ifa_preferred == 0) || flags.contains(AddressFlags::Deprecated),
            duplicate: flags.contains(AddressFlags::Dadfailed),
            proto: proto.filter(|&value| value != 0),
        })
    }

    /// The address as shown to people.
    pub(super) fn look(&self) -> String {
        let valid = self.valid.map_or_else(|| "permanent".to_owned(), |secs| format!("{secs} s left"));
        let deprecated = if self.deprecated { ", deprecated" } else { "" };
        let proto = self.proto.map_or_else(String::new, |proto| format!(", proto {proto}"));
        format!("/{}, {valid}{deprecated}{proto}", self.vip.prefix)
    }
}
