//! Removes VIPs from their interfaces. A removal that fails is tried again, with longer and longer pauses, until the VIP is gone
//! or is to be put there again: a VIP that stays answers beside its next holder until its fence ends.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::Notice;
use super::kernel::Kernel;
use super::task::Task;
use crate::ops::metrics::Netlink;

/// The pause after the first failure.
const FIRST: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(5);

/// Removals that have failed so far.
#[derive(Debug, Default)]
pub(super) struct Removals(BTreeMap<IpAddr, Again>);

#[derive(Clone, Copy, Debug)]
struct Again {
    at: Instant,
    pause: Duration,
}

impl Removals {
    /// When the next one is tried again.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.values().map(|again| again.at).min()
    }

    /// These VIPs are wanted again.
    pub(super) fn cancel(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        for address in addresses {
            self.0.remove(&address);
        }
    }

    /// Whether the VIP is still to be removed.
    pub(super) fn wait_for(&self, address: &IpAddr) -> bool {
        self.0.contains_key(address)
    }

    /// An interface has lost the VIP: whether it is gone is looked at now.
    pub(super) fn hurry(&mut self, address: IpAddr) {
        if let Some(again) = self.0.get_mut(&address) {
            again.at = Instant::now();
        }
    }

    fn due(&self) -> Vec<IpAddr> {
        let now = Instant::now();
        self.0.iter().filter(|(_, again)| again.at <= now).map(|(address, _)| *address).collect()
    }

    /// A removal has failed. True: for the first time.
    fn failed(&mut self, address: IpAddr) -> bool {
        let pause = self.0.get(&address).map_or(FIRST, |again| (again.pause * 2).min(LONGEST));
        self.0.insert(address, Again { at: Instant::now() + pause, pause }).is_none()
    }
}

impl<K: Kernel> Task<K> {
    /// Removes VIPs, and reports which are gone. Those that could not be removed follow later.
    pub(super) async fn remove(&mut self, addresses: &[IpAddr]) {
        if addresses.is_empty() {
            return;
        }
        let mut gone = self.let_go.numbered(addresses);
        let failed = self.datapath.remove_many(addresses).await.failed;
        gone.retain(|(address, _)| !failed.iter().any(|(one, _)| one == address));
        self.removals.cancel(gone.iter().map(|(address, _)| *address));
        if !gone.is_empty() {
            self.tell(Notice::Removed(gone)).await;
        }
        for (address, error) in failed {
            self.ops.metrics.netlink_error(Netlink::Remove);
            // The core reports the first failure.
            if self.removals.failed(address) {
                self.tell(Notice::RemoveFailed { address, reason: error.to_string() }).await;
            } else {
                tracing::debug!(%address, %error, "the VIP could still not be removed from its interface; retrying");
            }
        }
    }

    /// Tries again to remove what is due.
    pub(super) async fn remove_again(&mut self) {
        let due = self.removals.due();
        self.remove(&due).await;
    }
}
