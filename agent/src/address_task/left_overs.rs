//! VIPs that are on the node before this run has put any there.

use std::collections::BTreeSet;
use std::net::IpAddr;

use tokio::time::Instant;

use super::kernel::Kernel;
use super::task::{LOOK_AGAIN, Task};
use super::{Notice, Policy};
use crate::core::Vip;
use crate::datapath::{Kind, Placed, Vip as Ours};
use crate::ops::metrics::Netlink;

/// The result of the search.
#[derive(Debug, Default)]
pub(super) struct LeftOvers {
    /// VIPs of the control plane that are an address of this node's own.
    pub(super) own: BTreeSet<IpAddr>,
    /// Another program has put a VIP of the control plane on an interface.
    pub(super) given: bool,
    /// The search for VIPs of Services is done.
    pub(super) found: bool,
}

impl<K: Kernel> Task<K> {
    /// Handles VIPs of the control plane that are on this node already. The agent adopts its own VIPs, or removes them
    /// from another interface. It removes kube-vip's VIPs as kube-vip itself would. It refuses to touch the node's own
    /// addresses.
    pub(super) async fn look_for_left_overs(&mut self) {
        let Some(index) = self.current() else { return };
        let (mut ours, mut own, mut refused) = (vec![], BTreeSet::new(), vec![]);
        for address in self.needs.vips.clone() {
            let found = match self.datapath.find(address).await {
                Ok(found) => found,
                Err(error) => {
                    self.ops.metrics.netlink_error(Netlink::Dump);
                    tracing::error!(%address, %error, "addresses of this node cannot be read: a VIP that an earlier run left behind may stay until its lifetime ends");
                    continue;
                }
            };
            for found in found {
                match found.kind {
                    Kind::Ours { .. } if found.index == index => ours.push(address),
                    Kind::Ours { .. } => {
                        tracing::warn!(%address, interface = %found.interface, "removing the VIP from another interface");
                        let elsewhere = Ours { address, prefix: found.prefix };
                        self.remove_at(&[(elsewhere, found.index)]).await;
                    }
                    Kind::KubeVip => {
                        tracing::warn!(%address, interface = %found.interface, "removing a VIP that kube-vip left behind");
                        if let Err(error) = self.datapath.remove_kube_vip(address).await {
                            tracing::error!(%address, %error, "the VIP that kube-vip left behind could not be removed");
                        }
                    }
                    Kind::NodesOwn => {
                        refused.push(format!(
                            "{address} is this node's own permanent address on {} and will not be carried here: choose another VIP, or remove the address",
                            found.interface
                        ));
                        own.insert(address);
                    }
                    Kind::LeadsNowhere => tracing::info!(
                        %address, interface = %found.interface,
                        "the VIP stands on an interface that leads nowhere too: this node's kernel answers ARP for it there as well, unless arp_ignore is set (kube-proxy: strictARP)"
                    ),
                    Kind::Dynamic => {
                        tracing::warn!(%address, interface = %found.interface, "another program has the VIP on this node");
                    }
                }
            }
        }
        if own != self.left_overs.own {
            for text in &refused {
                tracing::error!("{text}");
            }
            self.left_overs.own.clone_from(&own);
            self.tell(Notice::Own(own)).await;
        }
        self.ops.readiness.set("address", (!refused.is_empty()).then(|| refused.join("; ")));
        // A VIP whose removal has failed is this run's: it is removed as soon as possible.
        let known = |address: &IpAddr| self.put.contains_key(address) || self.removals.wait_for(address);
        let fresh: Vec<IpAddr> = ours.into_iter().filter(|address| !known(address)).collect();
        if !fresh.is_empty() {
            tracing::info!(addresses = ?fresh, "found VIPs of an earlier run");
            self.put.extend(fresh.iter().map(|address| (*address, index)));
            let vips = fresh.into_iter().map(|address| Vip { address, interface: index }).collect();
            self.tell(Notice::LeftOver(vips)).await;
        }
        if self.needs.all_known {
            match self.datapath.ours().await {
                Ok(ours) => self.remove_strays(&ours).await,
                Err(error) => {
                    self.ops.metrics.netlink_error(Netlink::Dump);
                    self.look_for_strays = true;
                    tracing::warn!(%error, "addresses of this node cannot be read: what an earlier run left may stay until its lifetime ends; retrying");
                }
            }
        }
    }

    /// Removes addresses of ours that should not be there: an earlier run put them there for VIPs that are configured no more, or
    /// the VIP is on another interface by now. `ours`: all addresses that are surely ours.
    pub(super) async fn remove_strays(&mut self, ours: &[Placed]) {
        let strays: Vec<Placed> =
            ours.iter().copied().filter(|(vip, index)| self.is_stray(vip.address, *index)).collect();
        if strays.is_empty() {
            return;
        }
        let addresses: Vec<IpAddr> = strays.iter().map(|(vip, _)| vip.address).collect();
        tracing::warn!(
            ?addresses,
            "removing addresses that this agent once put on this node and that should not be there"
        );
        self.remove_at(&strays).await;
    }

    fn is_stray(&self, address: IpAddr, index: u32) -> bool {
        match (self.put.get(&address), self.policy) {
            (Some(put), _) => *put != index,
            // A VIP whose name has no answer yet may be one of those that an earlier run left.
            (None, Policy::ControlPlane(_)) => self.needs.all_known && !self.needs.vips.contains(&address),
            // What was there at the start is the core's, until it removes that.
            (None, Policy::Services) => self.left_overs.found,
        }
    }

    /// Removes addresses of ours from these interfaces only. What fails is looked for again soon.
    async fn remove_at(&mut self, places: &[Placed]) {
        for (address, error) in self.datapath.remove_at(places).await.failed {
            self.ops.metrics.netlink_error(Netlink::Remove);
            tracing::error!(%address, %error, "an address that should not be there could not be removed; retrying, and its lifetime ends it");
            self.look_for_strays = true;
            self.refresh = self.refresh.min(Instant::now() + LOOK_AGAIN);
        }
    }
}
