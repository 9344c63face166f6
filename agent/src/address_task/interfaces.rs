//! Which interfaces there are for VIPs, and the state of the node around them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use tokio::time::Instant;

use super::kernel::Kernel;
use super::task::{LOOK_AGAIN, Task};
use super::{Notice, Policy};
use crate::core::Vip;
use crate::core::mac::Mac;
use crate::datapath::{Error, Interface};
use crate::ops::metrics::Netlink;

impl<K: Kernel> Task<K> {
    /// Looks for the interfaces, and reports changes to the event loop.
    pub(super) async fn look(&mut self) {
        match self.policy {
            Policy::ControlPlane(_) => self.look_for_one().await,
            Policy::Services => self.look_for_all().await,
        }
    }

    /// The event loop lacks an interface: report the interfaces again.
    pub(super) async fn look_anew(&mut self) {
        match self.policy {
            Policy::ControlPlane(_) => self.look_for_one().await,
            Policy::Services => {
                self.known = None;
                self.look_for_all().await;
            }
        }
    }

    /// The scheduled look at the node.
    pub(super) async fn look_again(&mut self) {
        match (self.policy, self.known.is_some()) {
            (Policy::ControlPlane(_), true) => {
                self.refresh = Instant::now() + self.policy.refresh();
                if self.look_failed {
                    self.look_for_one().await;
                } else {
                    self.look_at_the_node().await;
                }
            }
            _ => self.look().await,
        }
        if self.look_for_strays {
            self.resync().await;
        }
    }

    /// VIPs need other interfaces, or other VIPs are to be looked for.
    pub(super) async fn needs_changed(&mut self) {
        match self.policy {
            Policy::ControlPlane(_) => {
                self.watch([]);
                self.look_for_left_overs().await;
            }
            Policy::Services => self.look_for_all().await,
        }
    }

    /// The control plane's interface. Its link is reported even without a change: the VIPs are put there and announced
    /// anew.
    async fn look_for_one(&mut self) {
        let (found, macs) = match self.see_one(self.needs.first.as_deref()).await {
            Ok(seen) => seen,
            Err(error) => {
                self.look_failed = true;
                self.refresh = Instant::now() + LOOK_AGAIN;
                return self.complain(&error);
            }
        };
        self.look_failed = false;
        self.complaint.clear();
        self.ops.readiness.set("interface", None);
        let (index, up) = (found.index, found.up);
        tracing::info!(interface = %found.name, index, mac = %found.mac, up, "interface found");
        let before = self.known.replace((vec![found.clone()], macs.clone()));
        if before.is_none() {
            self.refresh = Instant::now() + self.policy.refresh();
        }
        let same = before
            .and_then(|(all, _)| all.into_iter().next())
            .is_some_and(|before| (before.index, before.mac, before.up) == (index, found.mac, up));
        self.look_for_left_overs().await;
        self.tell(Notice::Interfaces(vec![found], macs)).await;
        if same {
            self.tell(Notice::Link { interface: index, up }).await;
        }
        self.heart.beat();
    }

    pub(super) async fn only_interface_gone(&mut self, name: &str) {
        self.ops.readiness.set("interface", Some(format!("{name} is gone: waiting for it")));
        let macs = self.known.take().map(|(_, macs)| macs).unwrap_or_default();
        self.put.clear();
        self.refresh = self.refresh.min(Instant::now() + LOOK_AGAIN);
        self.tell(Notice::Interfaces(vec![], macs)).await;
    }

    /// Reports changes of the node other than the link: addresses, gateways, other interfaces.
    async fn look_at_the_node(&mut self) {
        let known = self.known.as_ref().and_then(|(all, macs)| Some((all.first()?.clone(), macs.clone())));
        let Some((known, known_macs)) = known else { return };
        // The interface may have a new name. An event reports an interface that is gone or replaced.
        let Some(name) = self.datapath.current_name(known.index) else { return };
        let (found, macs) = match self.see_one(Some(&name)).await {
            Ok(seen) => seen,
            Err(error) => {
                self.ops.metrics.netlink_error(Netlink::Dump);
                return tracing::debug!(%error, "addresses of the interface cannot be read; keeping what is known");
            }
        };
        if found.index != known.index || found.mac != known.mac {
            return;
        }
        if std::mem::take(&mut self.left_overs.given) || !self.left_overs.own.is_empty() {
            self.look_for_left_overs().await;
        }
        let found = Interface { up: known.up, ..found };
        if found != known {
            tracing::info!(interface = %found.name, addresses = ?found.addresses, gateways = ?found.gateways, "addresses or gateways of the interface changed");
        }
        if found != known || macs != known_macs {
            self.known = Some((vec![found.clone()], macs.clone()));
            self.tell(Notice::Interfaces(vec![found], macs)).await;
        }
    }

    async fn see_one(&self, name: Option<&str>) -> Result<(Interface, Vec<Mac>), Error> {
        let found = self.datapath.interface(name).await?;
        Ok((found, self.datapath.own_macs().await?))
    }

    fn complain(&mut self, error: &Error) {
        self.ops.readiness.set("interface", Some(error.to_string()));
        if error.category() != "interface" {
            self.ops.metrics.netlink_error(Netlink::Dump);
        }
        let text = error.to_string();
        if self.complaint != text {
            tracing::warn!(reason = text, "no interface to carry VIPs on; waiting for it");
            self.complaint = text;
        }
    }

    /// The interfaces that VIPs of Services need.
    async fn look_for_all(&mut self) {
        // First: the needed interfaces include the interfaces of the left-overs.
        let left_overs = if self.left_overs.found { None } else { self.find_left_overs().await };
        let seen = async { Ok((self.datapath.interfaces().await?, self.default_route().await?)) }.await;
        let (all, route) = match seen {
            Ok(seen) => seen,
            Err(error) => {
                self.refresh = Instant::now() + LOOK_AGAIN;
                self.ops.metrics.netlink_error(Netlink::Dump);
                let error: Error = error;
                return tracing::warn!(%error, "interfaces cannot be read; retrying");
            }
        };
        let macs: BTreeSet<Mac> = all.iter().map(|one| one.mac).collect();
        let macs: Vec<Mac> = macs.into_iter().collect();
        let first = match &self.needs.first {
            Some(name) => all.iter().find(|one| one.name == *name).map(|one| one.index),
            None => self.by_route.first(Instant::now(), route, |index| all.iter().any(|one| one.index == index)),
        };
        let found = self.needed(all, first);
        let again = found.first().is_none_or(is_missing) || self.by_route.is_in_doubt();
        let none = found.is_empty();
        self.refresh = Instant::now() + if again { LOOK_AGAIN } else { self.policy.refresh() };
        let waits = none.then(|| self.missing());
        if let Some(text) = &waits
            && self.complaint != *text
        {
            tracing::warn!("{text}");
        }
        self.complaint = waits.clone().unwrap_or_default();
        self.ops.readiness.set("services-interface", waits);
        if self.known.as_ref() != Some(&(found.clone(), macs.clone())) {
            let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
            tracing::info!(interfaces = ?names, "interfaces for VIPs of Services");
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

    fn missing(&self) -> String {
        match &self.needs.first {
            Some(name) => format!("there is no Ethernet interface {name} for VIPs of Services: waiting for it"),
            None => {
                "no default route names an interface for VIPs of Services: waiting for it, or set services-interface"
                    .into()
            }
        }
    }

    /// The interface of the default route, if the settings name no interface.
    async fn default_route(&self) -> Result<Option<u32>, Error> {
        if self.needs.first.is_some() {
            return Ok(None);
        }
        match self.datapath.default_interface().await {
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
            carries.contains(&one.index) || self.needs.named.contains(&one.name) || self.needs.by_subnet.iter().any(has)
        };
        let (mut these, others): (Vec<Interface>, Vec<Interface>) =
            all.into_iter().partition(|one| Some(one.index) == first);
        let others: Vec<Interface> = others.into_iter().filter(is_needed).collect();
        if these.is_empty() && !others.is_empty() {
            these.push(missing(self.needs.first.as_deref()));
        }
        these.extend(others);
        these
    }

    /// The VIPs that an earlier run of this agent left.
    async fn find_left_overs(&mut self) -> Option<Vec<Vip>> {
        let ours = match self.datapath.ours().await {
            Ok(ours) => ours,
            Err(error) => {
                tracing::warn!(%error, "addresses of this node cannot be read to find VIPs of an earlier run; retrying");
                return None;
            }
        };
        let found: Vec<Vip> = ours.iter().map(|(vip, index)| Vip { address: vip.address, interface: *index }).collect();
        self.watch(found.iter().map(|vip| vip.address));
        self.put.extend(found.iter().map(|vip| (vip.address, vip.interface)));
        Some(found)
    }
}

/// Stands for the first interface while it does not exist and others do: VIPs that name no interface belong on the first one, and on no
/// other. Nothing can be carried on it, so the node hands these VIPs over.
fn missing(name: Option<&str>) -> Interface {
    Interface {
        index: 0,
        name: name.unwrap_or_default().to_owned(),
        mac: Mac([0; 6]),
        ports: vec![],
        up: false,
        addresses: vec![],
        link_local: None,
        gateways: vec![],
    }
}

/// The kernel has no interface of this index (`if_nametoindex(3)`).
const fn is_missing(interface: &Interface) -> bool {
    interface.index == 0
}
