//! A client's neighbour table: the MAC address to which the client sends frames for the VIP.

use std::net::IpAddr;

use mooring_agent::core::mac::Mac;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;

use super::netlink::{Netlink, index};
use super::{Error, Place, inside};

/// One entry of a neighbour table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The link-layer address; none while the kernel resolves it or if the kernel did not find it.
    pub mac: Option<Mac>,
    /// The kernel's state of the entry.
    pub state: NeighbourState,
}

/// The entry for `address` on `interface` inside `place`; `None` when there is none.
///
/// # Errors
/// The kernel's, or [`Error::NoInterface`].
pub fn neighbour(place: &impl Place, interface: &str, address: IpAddr) -> Result<Option<Neighbour>, Error> {
    let interface = interface.to_owned();
    inside(place, move || {
        let question = message(&interface, address)?;
        let index = question.header.ifindex;
        let mut ask = NeighbourMessage::default();
        ask.header.family = question.header.family;
        let all = Netlink::open(0)?.dump("list neighbours", RouteNetlinkMessage::GetNeighbour(ask))?;
        Ok(all.into_iter().find_map(|m| match m {
            RouteNetlinkMessage::NewNeighbour(entry) if entry.header.ifindex == index => entry_of(&entry, address),
            _ => None,
        }))
    })
}

/// Writes the entry for `address`: an entry that a client may still have from earlier.
///
/// # Errors
/// The kernel's, or [`Error::NoInterface`].
pub fn set_neighbour(
    place: &impl Place,
    interface: &str,
    address: IpAddr,
    mac: Mac,
    state: NeighbourState,
) -> Result<(), Error> {
    let interface = interface.to_owned();
    inside(place, move || {
        let mut entry = message(&interface, address)?;
        entry.header.state = state;
        entry.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()));
        let what = format!("set the neighbour {address} of {interface} to {mac}");
        Netlink::open(0)?.request(&what, RouteNetlinkMessage::NewNeighbour(entry), NLM_F_CREATE | NLM_F_REPLACE)
    })
}

/// Removes the entry for `address`; a missing entry is no error.
///
/// # Errors
/// The kernel's, or [`Error::NoInterface`].
pub fn forget_neighbour(place: &impl Place, interface: &str, address: IpAddr) -> Result<(), Error> {
    let interface = interface.to_owned();
    inside(place, move || {
        let entry = message(&interface, address)?;
        let what = format!("remove the neighbour {address} of {interface}");
        match Netlink::open(0)?.request(&what, RouteNetlinkMessage::DelNeighbour(entry), 0) {
            Err(Error::System { errno: Errno::ENOENT, .. }) => Ok(()),
            other => other,
        }
    })
}

fn message(interface: &str, address: IpAddr) -> Result<NeighbourMessage, Error> {
    let mut message = NeighbourMessage::default();
    message.header.family = if address.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
    message.header.ifindex = index(interface)?;
    message.attributes = vec![NeighbourAttribute::Destination(NeighbourAddress::from(address))];
    Ok(message)
}

fn entry_of(entry: &NeighbourMessage, address: IpAddr) -> Option<Neighbour> {
    let wanted = NeighbourAddress::from(address);
    entry.attributes.iter().find(|a| matches!(a, NeighbourAttribute::Destination(d) if *d == wanted))?;
    let mac = entry.attributes.iter().find_map(|a| match a {
        NeighbourAttribute::LinkLayerAddress(bytes) => <[u8; 6]>::try_from(bytes.as_slice()).ok().map(Mac),
        _ => None,
    });
    Some(Neighbour { mac, state: entry.header.state })
}
