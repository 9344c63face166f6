//! An interface of a host and its port on the switch.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use futures::TryStreamExt as _;
use mooring_agent::core::mac::Mac;
use netlink_packet_route::link::{InfoData, InfoVeth, LinkAttribute, LinkMessage, State};
use nix::sys::socket::AddressFamily;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::{Handle, LinkUnspec, LinkVeth, RouteMessageBuilder};
use std::os::fd::{AsFd, AsRawFd};

use super::{BRIDGE, GATEWAY, Segment, ip4, ip6, prefix};
use crate::host::{Error, Host, Netns};

/// How often, and how far apart, a new port is looked at until it forwards.
const TRIES: u32 = 500;
const AGAIN: Duration = Duration::from_millis(10);

/// An interface of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Its name on the host, for example `eth0`.
    pub interface: String,
    /// Its port on the switch; for `eth0` the host's name.
    pub port: String,
    /// Its MAC address.
    pub mac: Mac,
    /// The host's own addresses on it.
    pub addresses: Vec<IpAddr>,
    /// Whether the default routes go through it, to the gateway.
    pub default_route: bool,
}

impl Nic {
    /// The first interface of a host: `eth0`, with the host's addresses and the default routes.
    #[must_use]
    pub fn first(host: &Host) -> Self {
        Self {
            interface: "eth0".into(),
            port: host.name().to_owned(),
            mac: host.mac(),
            addresses: host.addresses().into(),
            default_route: true,
        }
    }

    /// One more interface on the same segment, `ethN` for an N from 1 to 9, with addresses (N x 20 + the host's number).
    #[must_use]
    pub fn more(host: &Host, n: u8) -> Self {
        let number = host.number().wrapping_add(n.wrapping_mul(20));
        Self {
            interface: format!("eth{n}"),
            port: format!("{}-eth{n}", host.name()),
            mac: Mac([0x02, 0x00, 0x0a, 0x4d, n, host.number()]),
            addresses: vec![ip4(number).into(), ip6(number).into()],
            default_route: false,
        }
    }

    /// `eth1`, on another segment: with the n-th address of 10.88.0.0/24.
    #[must_use]
    pub fn elsewhere(host: &Host, n: u8) -> Self {
        Self {
            interface: "eth1".into(),
            port: format!("{}-eth1", host.name()),
            mac: Mac([0x02, 0, 0x0a, 0x58, 0, n]),
            addresses: vec![Ipv4Addr::new(10, 88, 0, n).into()],
            default_route: false,
        }
    }

    /// Makes the interface and plugs it in: carrier, addresses and routes are there when this returns.
    ///
    /// # Errors
    /// An interface or a port of that name exists, or the kernel refuses.
    pub fn plug(&self, host: &Netns, segment: &Segment) -> Result<(), Error> {
        let switch = segment.switch();
        // The builder sets the peer's name only; the whole of it is given here, to have it in the other namespace.
        let peer = LinkUnspec::new_with_name(&self.port).setns_by_fd(switch.as_fd().as_raw_fd()).build();
        let veth = LinkVeth::new(&self.interface, &self.port)
            .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
            .address(self.mac.0.to_vec())
            .build();
        host.netlink(&format!("make {}", self.interface), async move |handle| handle.link().add(veth).execute().await)?;

        let (bridge, port) = (switch.index(BRIDGE)?, switch.index(&self.port)?);
        switch.netlink(&format!("plug in {}", self.port), async move |handle| {
            handle.link().set_port(LinkUnspec::new_with_index(port).controller(bridge).up().build()).execute().await
        })?;

        let index = host.index(&self.interface)?;
        let (addresses, default_route) = (self.addresses.clone(), self.default_route);
        host.netlink(&format!("set up {}", self.interface), async move |handle| {
            handle.link().change(LinkUnspec::new_with_index(index).up().build()).execute().await?;
            for address in addresses {
                handle.address().add(index, address, prefix(address)).execute().await?;
            }
            if default_route {
                let to_v4 = RouteMessageBuilder::<Ipv4Addr>::new().gateway(ip4(GATEWAY)).output_interface(index);
                handle.route().add(to_v4.build()).execute().await?;
                let to_v6 = RouteMessageBuilder::<Ipv6Addr>::new().gateway(ip6(GATEWAY)).output_interface(index);
                handle.route().add(to_v6.build()).execute().await?;
            }
            Ok(())
        })?;
        switch.netlink(&format!("wait for {}", self.port), async move |handle| forwards(&handle, port).await)
    }

    /// Deletes the interface, and so its port: its addresses and routes go with it.
    ///
    /// # Errors
    /// There is none.
    pub fn unplug(&self, host: &Netns) -> Result<(), Error> {
        let index = host.index(&self.interface)?;
        host.netlink(&format!("delete {}", self.interface), async move |handle| {
            handle.link().del(index).execute().await
        })
    }
}

/// Waits until the switch forwards what comes from a port: the kernel tells the bridge of a carrier by a work queue, and a busy machine may
/// be a second late.
async fn forwards(handle: &Handle, port: u32) -> Result<(), rtnetlink::Error> {
    let is_up = |link: LinkMessage| link.attributes.contains(&LinkAttribute::OperState(State::Up));
    for _ in 0..TRIES {
        if handle.link().get().match_index(port).execute().try_next().await?.is_some_and(is_up) {
            break;
        }
        tokio::time::sleep(AGAIN).await;
    }
    Ok(())
}

impl Netns {
    /// Adds an address by hand, for ever.
    ///
    /// # Errors
    /// There is no such interface, or it has the address.
    pub fn add_address(&self, interface: &str, address: IpAddr, prefix_len: u8) -> Result<(), Error> {
        let index = self.index(interface)?;
        self.netlink(&format!("add {address}/{prefix_len} to {interface}"), async move |handle| {
            handle.address().add(index, address, prefix_len).execute().await
        })
    }

    /// Deletes an address by hand, whoever added it.
    ///
    /// # Errors
    /// There is no such interface, or it does not have the address.
    pub fn delete_address(&self, interface: &str, address: IpAddr) -> Result<(), Error> {
        let index = self.index(interface)?;
        let found = self.addresses(interface)?.into_iter().find(|(one, _)| *one == address);
        let (_, prefix_len) =
            found.ok_or_else(|| Error::Unknown { what: "address", name: format!("{address} on {interface}") })?;
        let mut message = AddressMessage::default();
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        message.header.family = (family as u8).into();
        message.header.prefix_len = prefix_len;
        message.header.index = index;
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        self.netlink(&format!("delete {address} from {interface}"), async move |handle| {
            handle.address().del(message).execute().await
        })
    }

    /// The addresses of an interface, with their prefix lengths.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn addresses(&self, interface: &str) -> Result<Vec<(IpAddr, u8)>, Error> {
        let index = self.index(interface)?;
        self.netlink(&format!("list the addresses of {interface}"), async move |handle| {
            use futures::TryStreamExt;
            let all: Vec<AddressMessage> =
                handle.address().get().set_link_index_filter(index).execute().try_collect().await?;
            let address = |message: &AddressMessage| {
                let local = message.attributes.iter().find_map(|attribute| match attribute {
                    AddressAttribute::Local(address) => Some(*address),
                    _ => None,
                });
                local.or_else(|| {
                    message.attributes.iter().find_map(|attribute| match attribute {
                        AddressAttribute::Address(address) => Some(*address),
                        _ => None,
                    })
                })
            };
            Ok(all.iter().filter_map(|one| Some((address(one)?, one.header.prefix_len))).collect())
        })
    }
}
