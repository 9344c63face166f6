//! Puts VIPs on their interfaces, keeps them there, and removes them.

use std::net::IpAddr;

use super::kernel::Kernel;
use super::task::Task;
use super::{Notice, Policy};
use crate::core::Vip;
use crate::core::time::Time;
use crate::datapath::Placed;
use crate::ops::metrics::Netlink;

impl<K: Kernel> Task<K> {
    pub(super) async fn ensure(&mut self, vips: Vec<Vip>, deadline: Time) {
        if !self.policy.has_one_interface() {
            return self.ensure_all(vips, deadline).await;
        }
        for vip in vips {
            match self.current() {
                // One by one: an error of one address must not cost the Lease of both.
                Some(current) if current == vip.interface => self.ensure_all(vec![vip], deadline).await,
                None if self.let_go.of([vip.address]).is_empty() => {
                    let reason = "the interface is not there".to_owned();
                    self.tell(Notice::EnsureFailed { address: vip.address, reason }).await;
                }
                // The interface has changed: the core is about to learn this, and asks again. Or the VIP was released.
                Some(_) | None => {}
            }
        }
    }

    async fn ensure_all(&mut self, mut vips: Vec<Vip>, deadline: Time) {
        // Released while this job waited: the removal job comes next.
        let let_go = self.let_go.of(vips.iter().map(|vip| vip.address));
        vips.retain(|vip| !let_go.contains(&vip.address));
        if vips.is_empty() {
            return;
        }
        self.watch(vips.iter().map(|vip| vip.address));
        let placed: Vec<Placed> = vips.iter().map(|vip| (self.policy.vip(vip.address), vip.interface)).collect();
        let outcome = self.datapath.put_all(&placed, deadline).await;
        let there: Vec<(IpAddr, u32)> =
            outcome.there.into_iter().map(|((vip, index), _)| (vip.address, index)).collect();
        // Released while the kernel was working: remove them now instead of waiting for the queued removal.
        let let_go = self.let_go.of(there.iter().map(|(address, _)| *address));
        self.remove(&let_go).await;
        let carried: Vec<(IpAddr, u32)> = there.into_iter().filter(|(address, _)| !let_go.contains(address)).collect();
        self.put.extend(carried.iter().copied());
        if !carried.is_empty() {
            self.tell(Notice::Ensured(carried.into_iter().map(|(address, _)| address).collect())).await;
        }
        for (address, error) in outcome.failed {
            let again = self.put.remove(&address).is_some();
            self.ops.metrics.netlink_error(if again { Netlink::Refresh } else { Netlink::Add });
            self.tell(Notice::EnsureFailed { address, reason: error.to_string() }).await;
        }
    }

    /// Reports the coming and going of these addresses. The control plane's addresses are known beforehand.
    pub(super) fn watch(&self, more: impl IntoIterator<Item = IpAddr>) {
        match self.policy {
            Policy::ControlPlane(_) => self.datapath.watch_addresses(self.needs.vips.iter().copied()),
            Policy::Services => self.datapath.watch_addresses(self.put.keys().copied().chain(more)),
        }
    }

    pub(super) async fn remove(&mut self, addresses: &[IpAddr]) {
        if addresses.is_empty() {
            return;
        }
        for (address, error) in self.datapath.remove_many(addresses).await.failed {
            self.ops.metrics.netlink_error(Netlink::Remove);
            tracing::error!(%address, %error, "the VIP could not be removed from its interface; its fence removes it");
        }
    }
}
