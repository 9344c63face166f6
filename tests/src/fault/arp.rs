//! What switches and virtual networks do to ARP and NDP, without harm to IP: the agent's evidence is ARP and NDP.
//!
//! A host whose questions are dropped cannot find other hosts either. In the field such a host reaches the API by another
//! network; here every host knows the MAC addresses of all others by heart (`acquaint`), but those of no VIP.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use mooring_agent::core::time::Time;
use netlink_packet_route::neighbour::NeighbourState;

use super::Error;
use super::rules::Rule;
use crate::host::Host;
use crate::lab::Lab;
use crate::observe::neighbours::set_neighbour;
use crate::segment::{GATEWAY, ip4, ip6, mac};

impl Lab {
    /// ARP and NDP of a host get out no more. The host hears all that others say, and IP still passes.
    ///
    /// # Errors
    /// There is no such host, or nft is missing.
    pub fn mute(&self, host: &str) -> Result<Time, Error> {
        self.filter(host, &[], true)
    }

    /// ARP of a host gets out only if its sender address is one of these, as with port security of OpenStack, in OVN, or with
    /// dynamic ARP inspection. A probe (RFC 5227) has the sender 0.0.0.0. NDP is not filtered.
    ///
    /// # Errors
    /// There is no such host, or nft is missing.
    pub fn let_speak(&self, host: &str, as_whom: &[IpAddr]) -> Result<Time, Error> {
        self.filter(host, as_whom, false)
    }

    /// As [`Lab::let_speak`], and no NDP of the host gets out.
    ///
    /// # Errors
    /// There is no such host, or nft is missing.
    pub fn let_speak_arp(&self, host: &str, as_whom: &[IpAddr]) -> Result<Time, Error> {
        self.filter(host, as_whom, true)
    }

    /// Ends [`Lab::mute`] and [`Lab::let_speak`].
    ///
    /// # Errors
    /// nft is missing.
    pub fn unmute(&self, host: &str) -> Result<Time, Error> {
        self.rules(|rules| rules.retain(|rule| !is_filter(rule, host)))
    }

    /// These hosts hear no ARP and no NDP of each other, as on isolated ports. All others hear them, and are heard.
    ///
    /// # Errors
    /// There is no such host, or nft is missing.
    pub fn estrange(&self, hosts: &[&str]) -> Result<Time, Error> {
        for host in hosts {
            self.host(host)?;
        }
        self.acquaint()?;
        let pairs = hosts.iter().flat_map(|from| hosts.iter().map(move |to| (*from, *to)));
        let cuts = pairs.filter(|(from, to)| from != to);
        let cuts = cuts.map(|(from, to)| Rule::CutNeighbour { from: from.to_owned(), to: to.to_owned() });
        self.rules(|rules| rules.extend(cuts))
    }

    fn filter(&self, host: &str, senders: &[IpAddr], ndp: bool) -> Result<Time, Error> {
        let port = self.host(host)?.name().to_owned();
        self.acquaint()?;
        let v4 = |address: &IpAddr| if let IpAddr::V4(v4) = address { Some(*v4) } else { None };
        let allowed: BTreeSet<Ipv4Addr> = senders.iter().filter_map(v4).collect();
        self.rules(|rules| {
            rules.retain(|rule| !is_filter(rule, &port));
            rules.insert(Rule::ArpSender { port: port.clone(), allowed });
            if ndp {
                rules.insert(Rule::Ndp { port });
            }
        })
    }

    /// Every host knows the MAC address of every other one, and of the gateway, for ever.
    fn acquaint(&self) -> Result<(), Error> {
        let up: Vec<_> = self.hosts().into_iter().filter(|host| host.netns().index("eth0").is_ok()).collect();
        let numbers: Vec<u8> = up.iter().map(Host::number).chain([GATEWAY]).collect();
        for host in &up {
            for number in numbers.iter().filter(|number| **number != host.number()) {
                for address in [IpAddr::from(ip4(*number)), ip6(*number).into()] {
                    set_neighbour(host.netns(), "eth0", address, mac(*number), NeighbourState::Permanent)?;
                }
            }
        }
        Ok(())
    }
}

fn is_filter(rule: &Rule, of: &str) -> bool {
    matches!(rule, Rule::ArpSender { port, .. } | Rule::Ndp { port } if port == of)
}
