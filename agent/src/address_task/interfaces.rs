//! Which interface there is for the VIPs of the control plane, and the state of the node around it.

use tokio::time::Instant;

use super::kernel::Kernel;
use super::task::{LOOK_AGAIN, Task, news};
use super::{Notice, Policy};
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
        let seen = async {
            let name = self.name_of_one().await?;
            self.see_one(&name).await
        };
        let (found, macs) = match seen.await {
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
        self.warn_of_ports(std::iter::once(&found));
        let (index, up) = (found.index, found.up);
        let before = self.known.replace((vec![found.clone()], macs.clone()));
        tracing::info!(interface = %found.name, index, mac = %found.mac, up, "interface found");
        let left = before.as_ref().and_then(|(all, _)| all.first()).filter(|before| before.index != index);
        if let Some(left) = left.filter(|_| self.needs.first.is_none()) {
            tracing::warn!(
                interface = %found.name, before = %left.name,
                "another interface has the default route: the VIPs belong there now. Set `interface` where they should stay on one"
            );
        }
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
        self.warn_of_ports(std::iter::empty());
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
        if self.follows_the_route().await && self.by_route.current() != Some(known.index) {
            return self.look_for_one().await;
        }
        let (found, macs) = match self.see_one(&name).await {
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
        self.put_behind(&found).await;
        self.warn_of_ports(std::iter::once(&found));
        if (&found.addresses, &found.gateways) != (&known.addresses, &known.gateways) {
            tracing::info!(interface = %found.name, addresses = ?found.addresses, gateways = ?found.gateways, "addresses or gateways of the interface changed");
        }
        if found != known || macs != known_macs {
            self.known = Some((vec![found.clone()], macs.clone()));
            self.tell(Notice::Interfaces(vec![found], macs)).await;
        }
    }

    /// The name of the interface: that of the settings, or that of the default route, once the route has settled there.
    async fn name_of_one(&mut self) -> Result<String, Error> {
        if let Some(name) = &self.needs.first {
            return Ok(name.clone());
        }
        let route = self.default_route().await?;
        let all = self.datapath.interfaces().await?;
        let exists = |index: u32| all.iter().any(|one| one.index == index);
        let first = self.by_route.first(Instant::now(), route.filter(|index| exists(*index)), exists);
        // A route through a tunnel names an interface that VIPs cannot be on: the next look says so.
        let index = first.or(route).ok_or(Error::NoDefaultRoute)?;
        self.datapath.current_name(index).ok_or(Error::NoDefaultRoute)
    }

    /// Whether the default route decides, as far as the kernel answers. If the route has moved, it is looked at again soon.
    async fn follows_the_route(&mut self) -> bool {
        if self.needs.first.is_some() || self.name_of_one().await.is_err() {
            return false;
        }
        if self.by_route.is_in_doubt() {
            self.refresh = self.refresh.min(Instant::now() + LOOK_AGAIN);
        }
        true
    }

    async fn see_one(&self, name: &str) -> Result<(Interface, Vec<Mac>), Error> {
        let found = self.datapath.interface(name).await?;
        Ok((found, self.datapath.own_macs().await?))
    }

    fn complain(&mut self, error: &Error) {
        self.ops.readiness.set("interface", Some(error.to_string()));
        if error.category() != "interface" {
            self.ops.metrics.netlink_error(Netlink::Dump);
        }
        let text = error.to_string();
        if let Some(text) = news(&mut self.complaint, Some(&text)) {
            tracing::warn!(reason = text, "no interface to carry VIPs on; waiting for it");
        }
    }
}
