//! VIPs that are on the node before this run has put any there.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::Notice;
use super::kernel::Kernel;
use super::task::Task;
use crate::core::Vip;
use crate::datapath::Kind;
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
                        self.remove_elsewhere(address).await;
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
                    Kind::KubeProxy => tracing::info!(%address, "kube-proxy has the VIP too; it needs strictARP"),
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
        let fresh: Vec<IpAddr> = ours.into_iter().filter(|address| !self.put.contains_key(address)).collect();
        if !fresh.is_empty() {
            tracing::info!(addresses = ?fresh, "found VIPs of an earlier run");
            self.put.extend(fresh.iter().map(|address| (*address, index)));
            let vips = fresh.into_iter().map(|address| Vip { address, interface: index }).collect();
            self.tell(Notice::LeftOver(vips)).await;
        }
    }

    async fn remove_elsewhere(&mut self, address: IpAddr) {
        // The kernel's notice of our own removal must not be taken for a removal by another program.
        self.put.remove(&address);
        for (address, error) in self.datapath.remove_many(&[address]).await.failed {
            tracing::error!(%address, %error, "the VIP could not be removed from another interface; its fence removes it");
        }
    }
}
