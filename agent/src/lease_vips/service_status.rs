//! Writes the holder of a Service's addresses on the Service, as kube-vip's agent does, where the addresses have no
//! `IPAddress` that this node may write its record on. No decision depends on this text.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::api::objects::Key;
use crate::api::{Servers, services};
use crate::catalog::Catalog;
use crate::core::lease_vips::LeaseVips;
use crate::core::time::Time;

/// The time limit of each write.
const WITHIN: Duration = Duration::from_secs(5);
/// How many writes run at a time.
const AT_ONCE: usize = 16;
/// How often the agent checks for Services to write.
const EVERY: Duration = Duration::from_millis(200);

/// The writes made lately.
pub(super) struct ServiceStatus {
    node: String,
    servers: Servers,
    on: bool,
    /// The last write for each Service: the version it was based on, and when.
    written: BTreeMap<Key, (String, Time)>,
    next: Time,
}

impl ServiceStatus {
    /// With `on` false, nothing is ever written.
    pub(super) const fn new(node: String, servers: Servers, on: bool) -> Self {
        Self { node, servers, on, written: BTreeMap::new(), next: Time::from_nanos(0) }
    }

    /// Writes every Service that is not correct. `objects`: whether this node sees `IPAddress` objects.
    pub(super) fn sync(&mut self, now: Time, lease_vips: &LeaseVips, catalog: &Catalog, objects: bool) {
        if !self.on || now < self.next {
            return;
        }
        self.next = now + EVERY;
        let mut held: BTreeMap<&Key, Vec<IpAddr>> = BTreeMap::new();
        for (address, _) in lease_vips.held().filter(|(address, _)| catalog.ip_address(*address).is_none()) {
            for key in catalog.services_of(address) {
                held.entry(key).or_default().push(address);
            }
        }
        self.written.retain(|_, (_, at)| now.since(*at) < WITHIN);
        for (key, addresses) in held {
            if self.written.len() >= AT_ONCE {
                return;
            }
            let Some(service) = catalog.service(key) else { continue };
            let version = &service.metadata.resource_version;
            let known = service.metadata.annotations.vip_host.as_deref() == Some(self.node.as_str())
                && addresses.iter().all(|ip| service.shows(*ip));
            // The allocator writes the status for addresses it has given, as soon as it reads this node's record.
            let others = objects && service.metadata.annotations.ip_addresses.is_some();
            if known || others || self.written.get(key).is_some_and(|(base, _)| base == version) {
                continue;
            }
            self.written.insert(key.clone(), (version.clone(), now));
            let (servers, key, node) = (self.servers.clone(), key.clone(), self.node.clone());
            tokio::spawn(async move {
                if let Err(error) = services::tell(&servers, &key, &node, &addresses, WITHIN).await {
                    tracing::debug!(service = %key, %error, "status of the Service could not be written; retrying");
                }
            });
        }
    }
}
