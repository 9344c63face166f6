//! To which node a Lease gives a VIP, written on its `IPAddress`: for the allocator, which tells the Service and people.
//! Nothing is decided by it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::api::addresses::{Addresses, Placed, placed};
use crate::catalog::Catalog;
use crate::core::leased::Leased;
use crate::core::time::Time;

/// For each write.
const WITHIN: Duration = Duration::from_secs(5);
/// So many are written at a time.
const AT_ONCE: usize = 32;
/// How often it is looked for what is to be written.
const EVERY: Duration = Duration::from_millis(200);

/// See the module's text.
pub(super) struct Records {
    node: String,
    api: Option<Addresses>,
    /// What was written last, by the version it was based on, and when.
    written: BTreeMap<IpAddr, (String, Time)>,
    next: Time,
}

impl Records {
    pub(super) const fn new(node: String) -> Self {
        Self { node, api: None, written: BTreeMap::new(), next: Time::from_nanos(0) }
    }

    /// The cluster has the kind, or has it not.
    pub(super) fn set_api(&mut self, api: Option<Addresses>) {
        self.api = api;
    }

    /// Writes what is not as it should be: what is held here, and what is not any more.
    pub(super) fn sync(&mut self, now: Time, leased: &Leased, catalog: &Catalog) {
        let Some(api) = self.api.clone().filter(|_| now >= self.next) else { return };
        self.next = now + EVERY;
        let mut wanted: Vec<(IpAddr, Option<Placed>)> = Vec::new();
        for (address, lease) in leased.held() {
            wanted.push((address, Some(Placed { node: self.node.clone(), lease: lease.to_owned() })));
        }
        for demand in catalog.demands().filter(|demand| !leased.is_carried(demand.address)) {
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
            // What has no object has no record.
            let Some(object) = catalog.ip_address(address).filter(|object| placed(object) != record) else { continue };
            let (key, version) = (object.metadata.key(), object.metadata.resource_version.clone());
            if self.written.get(&address).is_some_and(|(base, _)| *base == version) {
                continue;
            }
            self.written.insert(address, (version.clone(), now));
            let api = api.clone();
            tokio::spawn(async move {
                if let Err(error) = api.place(&key, &version, record.as_ref(), WITHIN).await {
                    tracing::debug!(object = %key, %error, "who holds it could not be written; it is tried again");
                }
            });
        }
    }
}
