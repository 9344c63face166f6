//! Interfaces.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_route::link::{
    InfoKind, InfoPortKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, Prop, State,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;

use super::Datapath;
use super::address::Seen;
use super::error::Error;
use super::request::Failure;
use super::routes::DefaultRoute;
use crate::core::NO_INTERFACE;
use crate::core::mac::Mac;

/// An interface as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its index; a re-created interface has another.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its other names (`ip link property`).
    pub altnames: Vec<String>,
    /// Its Ethernet address.
    pub mac: Mac,
    /// The Ethernet addresses of its ports, if it is a bond or team, or a VLAN on one: the kernel also sends and answers from
    /// these (`fail_over_mac`, `balance-alb`).
    pub ports: Vec<Mac>,
    /// The bridge, bond or team that it is a port of. Frames for the node arrive there, and a VIP on the port may not answer.
    pub port_of: Option<String>,
    /// Whether frames can pass: its operational state (RFC 2863) is up, or the state is unknown and the link has
    /// carrier.
    pub up: bool,
    /// The node's own addresses on it: without our VIPs, kube-vip's VIPs and IPv6 link-local addresses.
    pub addresses: Vec<IpNet>,
    /// The IPv4 addresses that stand before the first own one, our VIPs among them. None, if it has no own one.
    pub before_own: Vec<IpAddr>,
    /// Its IPv6 link-local address, the source of our NDP probes.
    pub link_local: Option<Ipv6Addr>,
    /// The next hops of default routes through it.
    pub gateways: Vec<IpAddr>,
}

impl Interface {
    /// Whether that is one of its names.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.altnames.iter().any(|altname| altname == name)
    }

    /// Whether there is such an interface, and this is not what stands for one that is missing.
    #[must_use]
    pub const fn exists(&self) -> bool {
        self.index != NO_INTERFACE
    }
}

/// The content of a link message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinkSeen {
    pub index: u32,
    pub name: String,
    pub altnames: Vec<String>,
    pub mac: Option<Mac>,
    pub up: bool,
    /// The bridge, bond or team that it is a port of.
    pub port_of: Option<u32>,
    /// It is a port of a bond or team.
    pub is_bundled: bool,
    /// The link below, if it is a VLAN.
    pub vlan_on: Option<u32>,
    /// Frames go nowhere from there: the loopback interface, or a dummy.
    pub leads_nowhere: bool,
}

impl LinkSeen {
    pub(super) fn read(message: &LinkMessage) -> Self {
        let (mut name, mut mac, mut state, mut carrier) = (String::new(), None, State::Unknown, false);
        let (mut controller, mut below, mut port, mut is_vlan) = (None, None, None, false);
        let mut altnames = vec![];
        let mut leads_nowhere = message.header.flags.contains(LinkFlags::Loopback);
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(text) => name.clone_from(text),
                LinkAttribute::PropList(all) => altnames.extend(all.iter().filter_map(altname)),
                LinkAttribute::Address(bytes) => mac = <[u8; 6]>::try_from(bytes.as_slice()).ok().map(Mac),
                LinkAttribute::OperState(now) => state = *now,
                LinkAttribute::Carrier(value) => carrier = *value == 1,
                LinkAttribute::Controller(index) => controller = Some(*index),
                LinkAttribute::Link(index) => below = Some(*index),
                LinkAttribute::LinkInfo(infos) => {
                    port = infos.iter().find_map(port_kind);
                    is_vlan = infos.contains(&LinkInfo::Kind(InfoKind::Vlan));
                    leads_nowhere |= infos.contains(&LinkInfo::Kind(InfoKind::Dummy));
                }
                _ => {}
            }
        }
        let up = match state {
            State::Up => true,
            State::Unknown => carrier && message.header.flags.contains(LinkFlags::Up),
            _ => false,
        };
        let port_of = controller.filter(|_| port.is_some_and(takes_frames));
        // Ports of a bridge send with addresses of other hosts.
        let is_bundled = port.is_some_and(|kind| matches!(kind, InfoPortKind::Bond | InfoPortKind::Team));
        let (index, mac, vlan_on) = (message.header.index, mac.filter(|mac| mac.is_host()), below.filter(|_| is_vlan));
        Self { index, name, altnames, mac, up, port_of, is_bundled, vlan_on, leads_nowhere }
    }
}

fn altname(property: &Prop) -> Option<String> {
    match property {
        Prop::AltIfName(name) => Some(name.clone()),
        _ => None,
    }
}

const fn port_kind(info: &LinkInfo) -> Option<&InfoPortKind> {
    match info {
        LinkInfo::PortKind(kind) => Some(kind),
        _ => None,
    }
}

/// Whether the interface above takes the frames of such a port. A VRF does not: an address belongs on its ports.
const fn takes_frames(kind: &InfoPortKind) -> bool {
    matches!(kind, InfoPortKind::Bond | InfoPortKind::Team | InfoPortKind::Bridge)
}

/// The Ethernet addresses of the ports of an interface: of a bond or team, or of the one that the interface is a VLAN on.
fn ports_of(links: &[LinkSeen], index: u32) -> Vec<Mac> {
    let below = links.iter().find(|link| link.index == index).and_then(|link| link.vlan_on);
    let bundle = below.unwrap_or(index);
    let ports: BTreeSet<Mac> = links
        .iter()
        .filter(|link| link.is_bundled && link.port_of == Some(bundle))
        .filter_map(|link| link.mac)
        .collect();
    ports.into_iter().collect()
}

/// An Ethernet interface among these links, without addresses and gateways.
fn bare(links: &[LinkSeen], link: LinkSeen, mac: Mac) -> Interface {
    let (ports, port_of) = (ports_of(links, link.index), name_above(links, &link));
    let LinkSeen { index, name, altnames, up, .. } = link;
    Interface {
        index,
        name,
        altnames,
        mac,
        ports,
        port_of,
        up,
        addresses: vec![],
        before_own: vec![],
        link_local: None,
        gateways: vec![],
    }
}

/// The name of the interface that a link is a port of.
fn name_above(links: &[LinkSeen], link: &LinkSeen) -> Option<String> {
    let index = link.port_of?;
    links.iter().find(|above| above.index == index).map(|above| above.name.clone())
}

impl Datapath {
    /// The interface of this name.
    pub async fn interface(&self, name: &str) -> Result<Interface, Error> {
        let mut routes = self.default_routes(AddressFamily::Inet).await?;
        routes.extend(self.default_routes(AddressFamily::Inet6).await?);
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        let answers = self.requests.ask(RouteNetlinkMessage::GetLink(message), 0).await.map_err(|failure| {
            // ERANGE, EINVAL: a name that no interface can have.
            if matches!(failure, Failure::Errno(Errno::ENODEV | Errno::EINVAL | Errno::ERANGE)) {
                Error::NoInterface { name: name.to_owned() }
            } else {
                failure.about(format!("look at interface {name}"), false)
            }
        })?;
        let link = answers.iter().find_map(link).ok_or_else(|| Error::NoInterface { name: name.to_owned() })?;
        let Some(mac) = link.mac else {
            return Err(Error::NotEthernet { name: link.name });
        };

        let gateways = gateways_of(&routes, link.index);
        let NodesOwn { addresses, before_own, link_local } = self.own_addresses(link.index).await?;
        let links = self.links().await?;
        Ok(Interface { addresses, before_own, link_local, gateways, ..bare(&links, link, mac) })
    }

    /// All Ethernet interfaces of the node.
    pub async fn interfaces(&self) -> Result<Vec<Interface>, Error> {
        let mut routes = self.default_routes(AddressFamily::Inet).await?;
        routes.extend(self.default_routes(AddressFamily::Inet6).await?);
        let mut seen = self.dump(AddressFamily::Inet).await?;
        seen.extend(self.dump(AddressFamily::Inet6).await?);
        let links = self.links().await?;
        let ethernet = links.iter().filter_map(|link| Some((link.mac?, link.clone())));
        let interfaces = ethernet.map(|(mac, link)| {
            let NodesOwn { addresses, before_own, link_local } = own_of(&seen, link.index);
            let gateways = gateways_of(&routes, link.index);
            Interface { addresses, before_own, link_local, gateways, ..bare(&links, link, mac) }
        });
        Ok(interfaces.collect())
    }

    /// The index of the interface of the default route with the lowest metric: of IPv4, else of IPv6; or the other way round.
    pub async fn default_interface(&self, v6_first: bool) -> Result<u32, Error> {
        let mut families = [AddressFamily::Inet, AddressFamily::Inet6];
        if v6_first {
            families.reverse();
        }
        for family in families {
            let routes = self.default_routes(family).await?;
            if let Some(route) = routes.iter().min_by_key(|route| route.metric) {
                return Ok(route.index);
            }
        }
        Err(Error::NoDefaultRoute)
    }

    /// The Ethernet addresses of all interfaces of the node. A frame from one of them is not from a foreign host.
    pub async fn own_macs(&self) -> Result<Vec<Mac>, Error> {
        let macs: BTreeSet<_> = self.links().await?.into_iter().filter_map(|link| link.mac).collect();
        Ok(macs.into_iter().collect())
    }

    /// The interfaces from which frames go nowhere.
    pub(super) async fn leading_nowhere(&self) -> Result<BTreeSet<u32>, Error> {
        let links = self.links().await?.into_iter();
        Ok(links.filter(|link| link.leads_nowhere).map(|link| link.index).collect())
    }

    async fn links(&self) -> Result<Vec<LinkSeen>, Error> {
        let answers = self.requests.dump(RouteNetlinkMessage::GetLink(LinkMessage::default())).await;
        let answers = answers.map_err(|failure| failure.about("list interfaces".into(), false))?;
        Ok(answers.iter().filter_map(link).collect())
    }

    async fn own_addresses(&self, index: u32) -> Result<NodesOwn, Error> {
        let mut seen = self.dump(AddressFamily::Inet).await?;
        seen.extend(self.dump(AddressFamily::Inet6).await?);
        Ok(own_of(&seen, index))
    }
}

/// The node's own addresses on an interface, as [`Interface`] has them.
struct NodesOwn {
    addresses: Vec<IpNet>,
    before_own: Vec<IpAddr>,
    link_local: Option<Ipv6Addr>,
}

fn own_of(seen: &[Seen], index: u32) -> NodesOwn {
    let mut own = NodesOwn { addresses: vec![], before_own: vec![], link_local: None };
    // The kernel lists the IPv4 addresses of an interface in their order.
    let (mut before, mut is_first) = (vec![], true);
    for there in seen.iter().filter(|there| there.index == index && !there.duplicate) {
        match there.vip.address {
            IpAddr::V6(address) if address.is_unicast_link_local() => {
                own.link_local = own.link_local.or(Some(address));
            }
            address if !there.deprecated => {
                if address.is_ipv4() && std::mem::take(&mut is_first) {
                    own.before_own = std::mem::take(&mut before);
                }
                own.addresses.extend(IpNet::new(address, there.vip.prefix));
            }
            address => before.extend((address.is_ipv4() && is_first).then_some(address)),
        }
    }
    own
}

fn gateways_of(routes: &[DefaultRoute], index: u32) -> Vec<IpAddr> {
    let mut all: Vec<_> =
        routes.iter().filter(|route| route.index == index).filter_map(|route| route.gateway).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn link(answer: &RouteNetlinkMessage) -> Option<LinkSeen> {
    match answer {
        RouteNetlinkMessage::NewLink(message) => Some(LinkSeen::read(message)),
        _ => None,
    }
}

/// The name of an interface for messages. If the interface has no name any more: its number.
pub(super) fn name_of(index: u32) -> String {
    current_name(index).unwrap_or_else(|| format!("interface {index}"))
}

/// The current name of the interface in this thread's network namespace; `None` when there is no such interface.
#[must_use]
pub fn current_name(index: u32) -> Option<String> {
    // nix 0.31 answers with an empty name where there is no interface.
    let name = nix::net::if_::if_indextoname(index).ok()?.into_string().ok()?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(index: u32, mac: u8, attributes: Vec<LinkAttribute>) -> LinkSeen {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes = attributes;
        message.attributes.push(LinkAttribute::Address(vec![2, 0, 0, 0, 0, mac]));
        LinkSeen::read(&message)
    }

    /// A bond of two ports with a VLAN on it, and a bridge with a port.
    #[test]
    fn the_ports_of_a_bond_are_the_nodes_and_those_of_a_bridge_are_not() {
        let port =
            |of, kind| vec![LinkAttribute::Controller(of), LinkAttribute::LinkInfo(vec![LinkInfo::PortKind(kind)])];
        let vlan = vec![LinkAttribute::Link(10), LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Vlan)])];
        let links = [
            seen(10, 1, vec![]),
            seen(11, 1, port(10, InfoPortKind::Bond)),
            seen(12, 2, port(10, InfoPortKind::Bond)),
            seen(13, 1, vlan),
            seen(20, 3, vec![]),
            seen(21, 4, port(20, InfoPortKind::Bridge)),
            // The other end of a virtual cable in another network namespace may have any number.
            seen(22, 5, vec![LinkAttribute::Link(10), LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth)])]),
        ];
        let mac = |last| Mac([2, 0, 0, 0, 0, last]);
        let ports: Vec<_> = [10, 13, 20, 21, 22].map(|index| ports_of(&links, index)).into();
        assert_eq!(ports, [vec![mac(1), mac(2)], vec![mac(1), mac(2)], vec![], vec![], vec![]]);
    }

    #[test]
    fn a_port_is_one_of_a_bridge_a_bond_or_a_team_and_not_of_a_vrf() {
        let other = InfoPortKind::Other("openvswitch".into());
        let kinds = [InfoPortKind::Bridge, InfoPortKind::Bond, InfoPortKind::Team, InfoPortKind::Vrf, other];
        let above = kinds.map(|kind| {
            let info = LinkAttribute::LinkInfo(vec![LinkInfo::PortKind(kind)]);
            let port = seen(11, 2, vec![LinkAttribute::Controller(10), info]);
            let links = [seen(10, 1, vec![LinkAttribute::IfName("br-ex".into())]), port.clone()];
            name_above(&links, &port).is_some_and(|name| name == "br-ex")
        });
        assert_eq!(above, [true, true, true, false, false]);
    }

    #[test]
    fn frames_go_nowhere_from_a_dummy_and_from_a_tunnel_they_do() {
        let leads_nowhere = [InfoKind::Dummy, InfoKind::IpIp, InfoKind::Wireguard, InfoKind::Vrf, InfoKind::Veth]
            .map(|kind| seen(7, 1, vec![LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)])]).leads_nowhere);
        assert_eq!(leads_nowhere, [true, false, false, false, false]);
    }
}
