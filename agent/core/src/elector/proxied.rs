//! What a router with proxy ARP answers for a VIP, or for another node: [`crate::proxies`] has the rule.

use std::net::IpAddr;

use super::Elector;
use crate::action::Action;
use crate::evidence::{Form, Sender};
use crate::mac::Mac;
use crate::parties::PARTIES;
use crate::planted::planted;
use crate::proxies::Of;

impl Elector {
    /// Another host spoke. True: it answers for others, and this answer says nothing about who has the address.
    pub(super) fn is_proxied(&mut self, address: IpAddr, mac: Mac, form: Form) -> bool {
        if !address.is_ipv4() || !form.is_answer() {
            return false;
        }
        let now = self.step.at.now;
        let is_own = form.answers(address, Sender::Own);
        let is_vip = self.vips.contains_key(&address);
        let gateway = !is_vip && self.node.gateways.contains(&address);
        let node = if is_vip || gateway { None } else { self.name_of(address) };
        // A gateway's answer says nothing: where ports are kept apart, gateways are all that a node reaches. Nor does that of a host which
        // answers for a node, or an answer to a broadcast: a network may give it for a node that is not reached.
        let proves = form.is_alone() && self.is_peer(mac) || planted!(BelievesProofs);
        if node.is_some() && !is_own && proves {
            self.segment.proxies.passed(now, mac);
        }
        if self.is_nodes(mac) {
            return false;
        }
        if gateway {
            self.segment.proxies.answered(now, mac, Of::Gateway);
        } else if let Some(name) = node.filter(|_| is_own) {
            self.segment.proxies.answered(now, mac, Of::Node(name));
        } else if !is_vip {
            return false;
        }
        if gateway || !is_own {
            return false;
        }
        if !is_vip {
            // Whichever probes pass, this does not show that the node is heard.
            return self.segment.proxies.is_one(now, mac) && !planted!(BelievesProxies);
        }
        if self.segment.proxies.tries(now, mac) {
            self.find_out(mac);
        }
        self.is_proxy(mac)
    }

    /// Whether only an answer to a probe from 0.0.0.0 shows that this host has a VIP.
    pub(super) fn is_proxy(&self, mac: Mac) -> bool {
        let now = self.step.at.now;
        self.segment.proxies.is_one(now, mac)
            && self.is_proven_beside(mac)
            && !self.is_nodes(mac)
            && !planted!(BelievesProxies)
    }

    /// Those hosts, of all that are known.
    pub(super) fn proxies(&self) -> Vec<Mac> {
        self.segment.proxies.all(self.step.at.now).filter(|mac| self.is_proxy(*mac)).collect()
    }

    /// With which sender a host is asked whether it has a VIP.
    pub(super) fn sender_to(&self, mac: Mac) -> Sender {
        if self.is_proxy(mac) { Sender::Unspecified } else { self.own_sender() }
    }

    /// Whether probes from 0.0.0.0 pass: another host than that one answers them. Where no other node takes part, or where the Lease
    /// has ended, nothing but a foreign owner is to be ruled out: then it suffices, as before any other take, that anybody does.
    fn is_proven_beside(&self, mac: Mac) -> bool {
        let now = self.step.at.now;
        let alone = || self.lease.view().is_some() && self.peers().next().is_none();
        let looks = self.segment.echo.looks(now);
        let passes = || looks.works && looks.first == Sender::Unspecified;
        self.segment.proxies.is_proven(now, mac) || (self.is_searching() || alone()) && passes()
    }

    /// Whether that MAC address is one of a node that takes part, or that the Lease names or named.
    fn is_nodes(&self, mac: Mac) -> bool {
        self.is_peer(mac) || self.is_holders(mac) || self.holder_with(mac).is_some()
    }

    /// The node that takes part and has that address for itself.
    fn name_of(&self, address: IpAddr) -> Option<String> {
        let participants = self.lease.view().into_iter().flat_map(|view| &view.notes.participants);
        let mut others = participants.filter(|(name, _)| **name != self.rules.node);
        others.find(|(_, node)| node.addresses.contains(&address)).map(|(name, _)| name.clone())
    }

    /// The MAC address that a node answered from last, if it is one that nodes declare; or else the first that it declares.
    fn mac_declared(&self, address: IpAddr) -> Option<Mac> {
        let heard = self.segment.third_heard.get(&address).map(|(_, mac)| *mac).filter(|mac| self.is_peer(*mac));
        let participants = || self.lease.view().into_iter().flat_map(|view| view.notes.participants.values());
        heard.or_else(|| participants().find(|p| p.addresses.contains(&address))?.macs.first().copied())
    }

    /// A host answered for a VIP. Whether it answers for the addresses of others too, and whether others answer probes from 0.0.0.0, is
    /// asked for: of the nodes, those that answered themselves first, and those heard last.
    fn find_out(&mut self, mac: Mac) {
        let own = self.own_sender();
        let mut peers: Vec<IpAddr> = self.peers().filter(|a| a.is_ipv4() && !self.vips.contains_key(a)).collect();
        peers.sort_by_key(|a| {
            let heard = self.segment.third_heard.get(a);
            std::cmp::Reverse(heard.map(|(at, by)| (self.is_peer(*by), *at)))
        });
        let limited = self.rules.frames_per_second.is_some();
        peers.truncate(if limited { 1 } else { PARTIES });
        for address in &peers {
            let to = self.mac_declared(*address).filter(|_| !planted!(BelievesProofs));
            self.act(Action::Probe { address: *address, to, sender: Sender::Unspecified });
        }
        if self.segment.proxies.is_one(self.step.at.now, mac) {
            return;
        }
        let gateways = self.node.gateways.iter().copied().filter(IpAddr::is_ipv4);
        let others: Vec<IpAddr> = gateways.chain(peers.into_iter().take(2)).collect();
        for address in others {
            self.act(Action::Probe { address, to: Some(mac), sender: own });
        }
    }
}
