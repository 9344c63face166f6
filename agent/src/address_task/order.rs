//! Keeps VIPs behind the node's own addresses.
//!
//! A network manager that sets an interface up anew flushes its addresses. The agent is faster than any of them, so the VIP would be the
//! first address of the interface from then on. The kernel still does not use it as a source, but flannel and Calico take an interface's
//! first address for the node's (kube-vip's issue 1385). So a VIP that stands before all own addresses is put there again, behind them.

use std::net::IpAddr;

use super::Notice;
use super::kernel::Kernel;
use super::task::Task;
use crate::datapath::{Interface, Placed};

impl<K: Kernel> Task<K> {
    /// Puts the VIPs again that stand before the interface's own addresses. Nobody answers for them meanwhile: some microseconds.
    pub(super) async fn put_behind(&mut self, interface: &Interface) {
        for address in &interface.before_own {
            let vip = self.policy.vip(*address);
            // Of one with the subnet's prefix, the own addresses may be secondaries, which the kernel would remove with it.
            if self.put.get(address) != Some(&interface.index) || !vip.is_host() {
                continue;
            }
            if let Some(deadline) = self.let_go.deadline(*address) {
                self.put_again((vip, interface.index), deadline).await;
            }
        }
    }

    async fn put_again(&mut self, placed: Placed, deadline: crate::core::time::Time) {
        let (vip, index) = placed;
        let removed = self.datapath.remove_at(&[placed]).await;
        if removed.removed.is_empty() {
            // It stays where it is, or it is gone already, which an event tells.
            return;
        }
        self.moved.insert((vip.address, index));
        let outcome = self.datapath.put_all(&[placed], deadline).await;
        if outcome.there.is_empty() {
            self.put.remove(&vip.address);
            tracing::warn!(address = %vip.address, ?outcome, "the VIP could not be put behind the interface's own addresses");
            self.tell(Notice::Gone(vip.address)).await;
        } else {
            tracing::info!(address = %vip.address, "the VIP stood before the interface's own addresses: it was put behind them");
        }
    }

    /// Whether an address is gone because the task has put it behind others.
    pub(super) fn was_moved(&mut self, address: IpAddr, index: u32) -> bool {
        self.moved.remove(&(address, index))
    }
}
