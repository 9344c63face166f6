//! Writes the node to which a Lease gives a VIP on the VIP's `IPAddress`. The allocator reads the record and informs
//! the Service and people. No decision depends on the record.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::api::addresses::{Addresses, Placed, placed};
use crate::catalog::Catalog;
use crate::core::lease_vips::LeaseVips;
use crate::core::time::Time;

/// The time limit of each write.
const WITHIN: Duration = Duration::from_secs(5);
/// How many writes run at a time.
const AT_ONCE: usize = 32;
/// How often the agent checks for records to write.
const EVERY: Duration = Duration::from_millis(200);

/// The records written lately.
pub(super) struct Records {
    node: String,
    api: Option<Addresses>,
    /// The last write for each VIP: the version it was based on, and when.
    written: BTreeMap<IpAddr, (String, Time)>,
    next: Time,
}

impl Records {
    pub(super) const fn new(node: String) -> Self {
        Self { node, api: None, written: BTreeMap::new(), next: Time::from_nanos(0) }
    }

    /// Sets the client: the cluster has the kind, or does not.
    pub(super) fn set_api(&mut self, api: Option<Addresses>) {
        self.api = api;
    }

    /// Writes every record that is not correct, for VIPs held here and for VIPs released.
    pub(super) fn sync(&mut self, now: Time, lease_vips: &LeaseVips, catalog: &Catalog) {
        let Some(api) = self.api.clone().filter(|_| now >= self.next) else { return };
        self.next = now + EVERY;
        let mut wanted: Vec<(IpAddr, Option<Placed>)> = Vec::new();
        for (address, lease) in lease_vips.held() {
            wanted.push((address, Some(Placed { node: self.node.clone(), lease: lease.to_owned() })));
        }
        for demand in catalog.demands().filter(|demand| !lease_vips.is_carried(demand.address)) {
            let said = catalog.ip_address(demand.address).and_then(placed);
            if said.is_some_and(|said| said.node == self.node) {
                wanted.push((demand.address, None));
            }
        }
        self.written.retain(|_, (_, at)| now.since(*at) < WITHIN);
        for (address, record) in wanted {
            if self.written.len() >= AT_ONCE {
                return;
            }
            // A VIP without an object has no record.
            let Some(object) = catalog.ip_address(address).filter(|object| placed(object) != record) else { continue };
            let (key, version) = (object.metadata.key(), object.metadata.resource_version.clone());
            if self.written.get(&address).is_some_and(|(base, _)| *base == version) {
                continue;
            }
            self.written.insert(address, (version.clone(), now));
            let api = api.clone();
            tokio::spawn(async move {
                if let Err(error) = api.place(&key, &version, record.as_ref(), WITHIN).await {
                    tracing::debug!(object = %key, %error, "holder could not be written to the IPAddress; retrying");
                }
            });
        }
    }
}
