//! Interfaces as sessions declare them: they tell which segments two nodes share, and which VIPs may be on which node.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::evidence::Sender;
use crate::mac::Mac;

/// A subnet, `192.0.2.0/24` say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subnet {
    /// Its first address.
    pub network: IpAddr,
    /// The prefix length.
    pub length: u8,
}

impl Subnet {
    /// The subnet of that length which contains the address; lengths beyond the family's are cut.
    #[must_use]
    pub fn of(address: IpAddr, length: u8) -> Self {
        let length = length.min(if address.is_ipv4() { 32 } else { 128 });
        Self { network: masked(address, length), length }
    }

    /// Whether the address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.network.is_ipv4() && masked(address, self.length) == self.network
    }
}

fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            IpAddr::V4((u32::from(ip) & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
            IpAddr::V6((u128::from(ip) & mask).into())
        }
    }
}

/// An interface of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its other names (`ip link property`), by which a pool or a setting may call it too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub altnames: Vec<String>,
    /// The MAC addresses from which the node answers there.
    pub macs: Vec<Mac>,
    /// The node's own addresses there.
    pub addresses: Vec<IpAddr>,
    /// The subnets of those addresses, without link-local ones. Two interfaces with one in common are on the same segment.
    pub subnets: Vec<Subnet>,
    /// Whether frames can pass.
    pub up: bool,
    /// No host answers the node there: it offers the VIPs that it has there to nodes that are answered. Only sessions say so; older agents
    /// neither write nor read it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unheard: bool,
}

impl Link {
    /// Whether that is one of its names.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.altnames.iter().any(|altname| altname == name)
    }

    /// Whether both are on one segment.
    #[must_use]
    pub fn shares(&self, other: &Self) -> bool {
        self.subnets.iter().any(|subnet| other.subnets.contains(subnet))
    }

    /// What [`Sender::Own`] amounts to on this interface.
    #[must_use]
    pub fn own_sender(&self) -> Sender {
        if self.addresses.iter().any(IpAddr::is_ipv4) { Sender::Own } else { Sender::Unspecified }
    }

    /// Whether a subnet of this interface contains the address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.subnets.iter().any(|subnet| subnet.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_subnet_contains_what_begins_like_it() {
        for (of, length, inside, outside) in [
            ("192.0.2.77", 24, "192.0.2.1", "192.0.3.1"),
            ("10.1.2.3", 32, "10.1.2.3", "10.1.2.2"),
            ("2001:db8::5", 64, "2001:db8::ffff", "2001:db8:0:1::5"),
        ] {
            let subnet = Subnet::of(ip(of), length);
            assert!(subnet.contains(ip(inside)) && !subnet.contains(ip(outside)), "{of}/{length}");
        }
        assert!(Subnet::of(ip("1.2.3.4"), 0).contains(ip("9.9.9.9")));
        assert!(!Subnet::of(ip("::"), 0).contains(ip("9.9.9.9")), "another family");
    }
}
