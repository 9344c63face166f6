//! Which interfaces there are for VIPs of Services: the first one, for VIPs that name none, and those that VIPs name.

use std::collections::BTreeSet;
use std::net::IpAddr;

use tokio::time::Instant;

use super::Notice;
use super::kernel::Kernel;
use super::task::{LOOK_AGAIN, Task, news};
use crate::core::mac::Mac;
use crate::core::{NO_INTERFACE, Vip};
use crate::datapath::{Error, Interface};
use crate::ops::metrics::Netlink;

impl<K: Kernel> Task<K> {
    /// The interfaces that VIPs of Services need.
    pub(super) async fn look_for_all(&mut self) {
        // First: the needed interfaces include the interfaces of the left-overs.
        // And a core that knows its interfaces puts VIPs there: a later search would take those for left-overs.
        let seen = async {
            let left_overs = if self.left_overs.found { None } else { Some(self.find_left_overs().await?) };
            Ok((left_overs, self.datapath.interfaces().await?, self.default_route().await?))
        };
        let (left_overs, all, route) = match seen.await {
            Ok(seen) => seen,
            Err(error) => {
                self.refresh = Instant::now() + LOOK_AGAIN;
                self.ops.metrics.netlink_error(Netlink::Dump);
                let error: Error = error;
                return tracing::warn!(%error, "interfaces and their addresses cannot be read; retrying");
            }
        };
        let macs: BTreeSet<Mac> = all.iter().map(|one| one.mac).collect();
        let macs: Vec<Mac> = macs.into_iter().collect();
        let exists = |index: u32| all.iter().any(|one| one.index == index);
        let first = match &self.needs.first {
            Some(name) => all.iter().find(|one| one.is_named(name)).map(|one| one.index),
            // A route through a tunnel names no interface that VIPs could be on.
            None => self.by_route.first(Instant::now(), route.filter(|index| exists(*index)), exists),
        };
        let lacks_first = first.is_none();
        if lacks_first && self.must_keep_left_overs() {
            self.refresh = Instant::now() + LOOK_AGAIN;
            self.say_missing(true);
            return self.heart.beat();
        }
        let found = self.needed(all, first);
        for one in &found {
            self.put_behind(one).await;
        }
        let none = found.is_empty();
        // No event reports a route.
        let again = lacks_first && self.needs.may_want_first() || self.by_route.is_in_doubt();
        self.refresh = Instant::now() + if again { LOOK_AGAIN } else { self.policy.refresh() };
        let unknown = none && !self.needs.all_known;
        self.say_missing(lacks_first && (self.needs.by_first || unknown));
        let (by_first, named) = (self.needs.by_first, self.needs.named.clone());
        let is_chosen =
            |one: &&Interface| by_first && Some(one.index) == first || named.iter().any(|name| one.is_named(name));
        self.warn_of_ports(found.iter().filter(is_chosen));
        if self.known.as_ref() != Some(&(found.clone(), macs.clone())) {
            if let Some(names) = other_names(&mut self.named, &found) {
                tracing::info!(interfaces = ?names, "interfaces for VIPs of Services");
            }
            self.known = Some((found.clone(), macs.clone()));
            self.tell(Notice::Interfaces(found, macs)).await;
        }
        if let Some(found) = left_overs.filter(|_| !none) {
            self.left_overs.found = true;
            if !found.is_empty() {
                tracing::info!(count = found.len(), "found VIPs of an earlier run");
                self.tell(Notice::LeftOver(found)).await;
            }
        }
        self.heart.beat();
    }

    /// Whether VIPs of an earlier run stand that may belong on the first interface, and it was never known which one that is. The cores
    /// would drop them; until the interface is known, the kernel's lifetimes are their fence.
    fn must_keep_left_overs(&self) -> bool {
        let may_want_first = |vip: &IpAddr| self.needs.may_want_first_for(*vip);
        self.needs.first.is_none() && !self.left_overs.found && self.put.keys().any(may_want_first)
    }

    /// Tells people that VIPs wait for the first interface, or that they do no more.
    fn say_missing(&mut self, is_missing: bool) {
        let waits = is_missing.then(|| self.missing());
        if let Some(text) = news(&mut self.complaint, waits.as_deref()) {
            tracing::warn!("{text}");
        }
        self.ops.readiness.set("services-interface", waits);
    }

    fn missing(&self) -> String {
        match &self.needs.first {
            Some(name) => {
                format!(
                    "there is no Ethernet interface {name} for VIPs of Services: waiting for it, or set services-interface"
                )
            }
            None => {
                "no default route names an Ethernet interface for VIPs of Services: waiting for it, or set services-interface"
                    .into()
            }
        }
    }

    /// The interface of the default route, if the settings name no interface.
    pub(super) async fn default_route(&self) -> Result<Option<u32>, Error> {
        if self.needs.first.is_some() {
            return Ok(None);
        }
        match self.datapath.default_interface(self.needs.only_v6()).await {
            Ok(index) => Ok(Some(index)),
            Err(Error::NoDefaultRoute) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The first interface, and the others that a VIP needs.
    fn needed(&self, all: Vec<Interface>, first: Option<u32>) -> Vec<Interface> {
        // Interfaces that already carry VIPs are known from the start: no VIP is released only because nothing has
        // asked for its interface yet.
        let carries: BTreeSet<u32> = self.put.values().copied().collect();
        let is_needed = |one: &Interface| {
            // An address alone is no subnet: kube-proxy in IPVS mode puts all VIPs on an interface that leads nowhere.
            let nets = || one.addresses.iter().filter(|net| net.prefix_len() < net.max_prefix_len());
            let has = |vip: &IpAddr| nets().any(|net| net.contains(vip));
            let named = self.needs.named.iter().any(|name| one.is_named(name));
            carries.contains(&one.index) || named || self.needs.by_subnet.iter().any(has)
        };
        let (mut these, others): (Vec<Interface>, Vec<Interface>) =
            all.into_iter().partition(|one| Some(one.index) == first);
        let others: Vec<Interface> = others.into_iter().filter(is_needed).collect();
        if these.is_empty() && !others.is_empty() {
            these.push(placeholder(self.needs.first.as_deref()));
        }
        these.extend(others);
        these
    }

    /// The VIPs that an earlier run of this agent left.
    async fn find_left_overs(&mut self) -> Result<Vec<Vip>, Error> {
        let ours = self.datapath.ours().await?;
        let found: Vec<Vip> = ours.iter().map(|(vip, index)| Vip { address: vip.address, interface: *index }).collect();
        self.watch(found.iter().map(|vip| vip.address));
        // This run has put none there yet.
        self.put = found.iter().map(|vip| (vip.address, vip.interface)).collect();
        Ok(found)
    }
}

/// The names of the interfaces, if the log has last named others. Pods' interfaces come and go: what changes about the node's
/// Ethernet addresses is no news for people.
fn other_names<'a>(last: &'a mut Option<Vec<String>>, found: &[Interface]) -> Option<&'a [String]> {
    let names: Vec<String> = found.iter().filter(|one| one.exists()).map(|one| one.name.clone()).collect();
    if last.as_ref() == Some(&names) {
        return None;
    }
    Some(last.insert(names))
}

/// Stands for the first interface while it is missing and others are needed: VIPs that name no interface belong on the first one, and on
/// no other. No VIP is put here. This node lets go of these VIPs; under a Lease for several VIPs, of all of them.
fn placeholder(name: Option<&str>) -> Interface {
    Interface {
        index: NO_INTERFACE,
        name: name.unwrap_or_default().to_owned(),
        altnames: vec![],
        mac: Mac([0; 6]),
        ports: vec![],
        port_of: None,
        up: false,
        addresses: vec![],
        before_own: vec![],
        link_local: None,
        gateways: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_names_are_news() {
        let eth0 = Interface { index: 2, name: "eth0".into(), ..placeholder(None) };
        let changed = Interface { mac: Mac([2; 6]), up: true, ..eth0.clone() };
        let eth1 = Interface { index: 3, name: "eth1".into(), ..eth0.clone() };
        let mut named = None;
        assert!(other_names(&mut named, std::slice::from_ref(&eth0)).is_some());
        assert!(other_names(&mut named, &[changed]).is_none());
        assert_eq!(other_names(&mut named, &[eth0, eth1]).map(<[_]>::len), Some(2));
        assert!(other_names(&mut named, &[]).is_some_and(<[_]>::is_empty));
    }
}
