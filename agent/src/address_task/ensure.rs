//! Puts VIPs on their interfaces, and keeps them there.

use std::net::IpAddr;

use super::kernel::Kernel;
use super::task::Task;
use super::{Notice, Policy};
use crate::core::Vip;
use crate::core::time::Time;
use crate::datapath::{Error, Placed};
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
        // Released while this job waited, or given another deadline: that job comes next.
        vips.retain(|vip| !self.let_go.is_outdated(vip.address, deadline));
        if vips.is_empty() {
            return;
        }
        self.removals.cancel(vips.iter().map(|vip| vip.address));
        self.watch(vips.iter().map(|vip| vip.address));
        let placed: Vec<Placed> = vips.iter().map(|vip| (self.policy.vip(vip.address), vip.interface)).collect();
        let outcome = self.datapath.put_all(&placed, deadline).await;
        let there: Vec<(IpAddr, u32)> =
            outcome.there.into_iter().map(|((vip, index), _)| (vip.address, index)).collect();
        if !there.is_empty() {
            self.heart.beat();
        }
        // Released while the kernel was working: remove them now instead of waiting for the queued removal.
        let let_go = self.let_go.of(there.iter().map(|(address, _)| *address));
        self.remove(&let_go).await;
        let carried: Vec<(IpAddr, u32)> = there.into_iter().filter(|(address, _)| !let_go.contains(address)).collect();
        self.put.extend(carried.iter().copied());
        self.strangers.retain(|address| !self.put.contains_key(address));
        if !carried.is_empty() {
            self.tell(Notice::Ensured(carried.into_iter().map(|(address, _)| address).collect())).await;
        }
        let (refreshed, unknown): (Vec<_>, Vec<_>) =
            outcome.unchanged.into_iter().partition(|(address, _)| self.put.contains_key(address));
        self.not_refreshed(refreshed).await;
        for (address, error) in outcome.failed.into_iter().chain(unknown) {
            if matches!((self.policy, &error), (Policy::Services, Error::Stranger { .. })) {
                self.strangers.insert(address);
            }
            let again = self.put.remove(&address).is_some();
            self.ops.metrics.netlink_error(if again { Netlink::Refresh } else { Netlink::Add });
            self.tell(Notice::EnsureFailed { address, reason: error.to_string() }).await;
        }
    }

    /// VIPs that are there got no new lifetime: they stay for the one that they have, and the core asks again.
    async fn not_refreshed(&mut self, vips: Vec<(IpAddr, Error)>) {
        // One cause for all, most of the time.
        let Some((_, error)) = vips.first() else { return };
        let addresses: Vec<IpAddr> = vips.iter().map(|(address, _)| *address).collect();
        tracing::warn!(?addresses, %error, "VIPs got no new lifetime from the kernel; they stay until their present lifetime ends, and the agent asks again");
        for _ in &addresses {
            self.ops.metrics.netlink_error(Netlink::Refresh);
        }
        self.tell(Notice::NotRefreshed(addresses)).await;
    }

    /// Reports the coming and going of these addresses. The control plane's addresses are known beforehand.
    pub(super) fn watch(&self, more: impl IntoIterator<Item = IpAddr>) {
        match self.policy {
            Policy::ControlPlane(_) => self.datapath.watch_addresses(self.needs.vips.iter().copied()),
            Policy::Services => {
                let known = self.put.keys().chain(&self.strangers).copied();
                self.datapath.watch_addresses(known.chain(more));
            }
        }
    }
}
