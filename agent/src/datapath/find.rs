//! Finds an address on the node's interfaces, and the owner of the address: this agent, kube-vip, the node itself.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::Datapath;
use super::address::{Seen, Vip, family};
use super::error::Error;
use super::link::name_of;

/// An address found on an interface of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The interface's index.
    pub index: u32,
    /// The interface's name.
    pub interface: String,
    /// The address's prefix length.
    pub prefix: u8,
    /// The owner.
    pub kind: Kind,
}

/// The owner of an address, as far as its attributes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ours.
    Ours {
        /// How long the kernel keeps it.
        left: Duration,
    },
    /// kube-vip's: the address alone, for ever, deprecated, no mark. It is left behind when kube-vip is killed.
    KubeVip,
    /// On an interface that leads to no segment, where each node may have it: kube-proxy's in IPVS mode (`kube-ipvs0`), kube-router's
    /// (`kube-dummy-if`), an address for direct server return on `lo`. It belongs there, but the kernel answers ARP for it on other
    /// interfaces, unless `arp_ignore` is set (kube-proxy: `strictARP`).
    LeadsNowhere,
    /// The node's own, for ever.
    NodesOwn,
    /// Somebody's with a finite lifetime: DHCP, router advertisement, another program.
    Dynamic,
}

impl Datapath {
    /// All addresses that are ours, with interface index and the time left. At start these are left-overs of an earlier
    /// run.
    pub async fn ours(&self) -> Result<Vec<(Vip, u32, Duration)>, Error> {
        let mut ours = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let seen = self.dump(family).await?;
            let mut known = self.known.lock();
            ours.extend(seen.iter().filter(|seen| known.saw(seen)).map(|seen| (seen.vip, seen.index, left(seen))));
        }
        Ok(ours)
    }

    /// Which interfaces of this node have an address, and who owns it there.
    pub async fn find(&self, address: IpAddr) -> Result<Vec<Found>, Error> {
        let seen = self.look(address).await?;
        let nowhere = if seen.is_empty() { BTreeSet::new() } else { self.leading_nowhere().await? };
        Ok(seen.iter().map(|seen| self.found(seen, &nowhere)).collect())
    }

    /// What was seen, where these interfaces lead to no segment.
    pub(super) fn found(&self, seen: &Seen, nowhere: &BTreeSet<u32>) -> Found {
        let interface = name_of(seen.index);
        let kind = if self.known.lock().is_ours(seen) {
            Kind::Ours { left: left(seen) }
        } else if nowhere.contains(&seen.index) {
            Kind::LeadsNowhere
        } else if seen.valid.is_some() {
            Kind::Dynamic
        } else if seen.vip.is_host() && seen.deprecated && seen.proto.is_none() {
            Kind::KubeVip
        } else {
            Kind::NodesOwn
        };
        Found { index: seen.index, interface, prefix: seen.vip.prefix, kind }
    }

    /// Every place on this node that has the address.
    pub(super) async fn look(&self, address: IpAddr) -> Result<Vec<Seen>, Error> {
        let mut seen = self.family_of(address).await?;
        seen.retain(|seen| seen.vip.address == address);
        Ok(seen)
    }

    /// All addresses of the same family as this one.
    pub(super) async fn family_of(&self, address: IpAddr) -> Result<Vec<Seen>, Error> {
        self.dump(family(address)).await
    }

    pub(super) async fn dump(&self, family: AddressFamily) -> Result<Vec<Seen>, Error> {
        let mut message = AddressMessage::default();
        message.header.family = family;
        let answers = self.requests.dump(RouteNetlinkMessage::GetAddress(message)).await;
        let answers =
            answers.map_err(|failure| failure.about("list addresses".into(), family == AddressFamily::Inet6))?;
        Ok(answers
            .iter()
            .filter_map(|answer| match answer {
                // A kernel without this family answers with the addresses of all other families.
                RouteNetlinkMessage::NewAddress(message) if message.header.family == family => Seen::read(message),
                _ => None,
            })
            .collect())
    }
}

fn left(seen: &Seen) -> Duration {
    seen.valid.map_or(Duration::MAX, |secs| Duration::from_secs(secs.into()))
}
