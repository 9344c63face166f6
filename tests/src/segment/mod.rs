//! The segment: a bridge in a namespace of its own (the switch), with a gateway that answers ARP and NDP, and a port for
//! every interface of a host. Everything is 10.77.0.0/24 and `fd77::/64`; each lab has its own, so they do not meet.

mod announce;
mod nic;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use announce::{announce, gratuitous_arp, unsolicited_na};
use mooring_agent::core::mac::Mac;
use netlink_packet_route::link::BridgeStpState;
pub use nic::Nic;
use rtnetlink::{LinkBridge, LinkUnspec};

use crate::host::{Error, Netns};

/// The last part of the gateway's addresses.
pub const GATEWAY: u8 = 1;
/// The name by which cuts know the gateway.
pub const GATEWAY_NAME: &str = "gateway";
/// The bridge.
pub const BRIDGE: &str = "br0";

/// The IPv4 address with that last part; the segment is a /24.
#[must_use]
pub const fn ip4(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, number)
}

/// The IPv6 address that is written like the IPv4 one: `fd77::11` beside `10.77.0.11`. The segment is a /64.
#[must_use]
pub const fn ip6(number: u8) -> Ipv6Addr {
    let digits = number as u16 / 100 * 0x100 + number as u16 / 10 % 10 * 0x10 + number as u16 % 10;
    Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, digits)
}

/// The MAC address of that host's first interface.
#[must_use]
pub const fn mac(number: u8) -> Mac {
    Mac([0x02, 0x00, 0x0a, 0x4d, 0x00, number])
}

/// The prefix length of the segment for this address.
#[must_use]
pub const fn prefix(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 24,
        IpAddr::V6(_) => 64,
    }
}

/// The switch.
#[derive(Clone, Debug)]
pub struct Segment {
    switch: Netns,
}

impl Segment {
    /// Makes the switch and its gateway. No spanning tree and no multicast snooping: a port forwards at once.
    ///
    /// # Errors
    /// The kernel refuses the namespace or the bridge.
    pub fn new() -> Result<Self, Error> {
        let switch = Netns::new("switch")?;
        let bridge = LinkBridge::new(BRIDGE)
            .address(mac(GATEWAY).0.to_vec())
            .forward_delay(0)
            .stp_state(BridgeStpState::Disabled)
            .mcast_snooping(false)
            .build();
        switch.netlink("make the bridge", async move |handle| handle.link().add(bridge).execute().await)?;
        let index = switch.index(BRIDGE)?;
        switch.netlink("give the gateway its addresses", async move |handle| {
            for address in [IpAddr::from(ip4(GATEWAY)), ip6(GATEWAY).into()] {
                handle.address().add(index, address, prefix(address)).execute().await?;
            }
            handle.link().change(LinkUnspec::new_with_index(index).up().build()).execute().await
        })?;
        Ok(Self { switch })
    }

    /// The namespace of the bridge. Each port there is named as the [`Nic::port`] says. A tap on [`BRIDGE`] or on a
    /// port sees the frames of the segment.
    #[must_use]
    pub fn switch(&self) -> &Netns {
        &self.switch
    }

    /// Takes a port up or down: the host's side loses its carrier, as with a pulled cable.
    ///
    /// # Errors
    /// There is no such port.
    pub fn set_port(&self, port: &str, up: bool) -> Result<(), Error> {
        let index = self.switch.index(port)?;
        self.switch.netlink(if up { "take a port up" } else { "take a port down" }, async move |handle| {
            let link = LinkUnspec::new_with_index(index);
            handle.link().change(if up { link.up() } else { link.down() }.build()).execute().await
        })
    }
}
