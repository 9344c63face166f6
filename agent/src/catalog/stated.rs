//! Addresses that Services state themselves, as kube-vip reads them: what counts where a VIP has no `IPAddress`, because VIPs
//! are placed as kube-vip places them and it is still kube-vip's cloud provider that hands addresses out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::{Catalog, Classes};
use crate::api::objects::{IpAddress, Key, Service};
use crate::core::placement::Demand;

impl Catalog {
    /// What Services of these classes state themselves counts too.
    #[must_use]
    pub fn by_services(mut self, classes: Classes) -> Self {
        self.stated = Some(BTreeMap::new());
        self.classes = classes;
        self
    }

    /// What a Service states that counts.
    pub(super) fn stated_by(&self, service: &Service) -> BTreeSet<IpAddr> {
        if self.stated.is_some() && self.classes.accept(service.class()) { service.stated() } else { BTreeSet::new() }
    }

    /// Whether all that says which VIPs there are is known; `objects`: `IPAddress` objects are a part of that.
    #[must_use]
    pub fn is_known(&self, objects: bool) -> bool {
        let listed = self.listed.services && self.listed.nodes;
        let objects = !objects || self.listed.addresses.iter().all(|listed| *listed);
        listed && objects && self.local_services().is_subset(&self.covered)
    }

    /// The Lease of a VIP where each Service has one: that of the first of its Services, so that those which share an address
    /// are never in two places. None: no Service has it.
    #[must_use]
    pub fn lease_of(&self, address: IpAddr) -> Option<(String, String)> {
        self.services_of(address).into_iter().find_map(|key| self.service(key)).map(Service::lease)
    }

    /// A Service of type `LoadBalancer`.
    #[must_use]
    pub fn service(&self, key: &Key) -> Option<&Service> {
        self.services.get(key).map(AsRef::as_ref)
    }

    /// The `IPAddress` of a VIP.
    #[must_use]
    pub fn ip_address(&self, address: IpAddr) -> Option<&IpAddress> {
        self.object_of(address).map(|(_, object)| object)
    }

    pub(super) fn states(&mut self, key: &Key, service: &Service) {
        let all = self.stated_by(service);
        let Some(stated) = &mut self.stated else { return };
        for ip in all {
            super::insert(stated.entry(ip).or_default(), key);
            self.dirty.insert(ip);
        }
    }

    pub(super) fn states_no_more(&mut self, key: &Key, service: &Service) {
        let all = self.stated_by(service);
        let Some(stated) = &mut self.stated else { return };
        for ip in all {
            if let Some(services) = stated.get_mut(&ip) {
                services.retain(|one| one != key);
                if services.is_empty() {
                    stated.remove(&ip);
                }
            }
            self.dirty.insert(ip);
        }
    }

    /// What a VIP demands that Services state; as [`Catalog::demand`].
    #[expect(clippy::option_option, reason = "not known is another thing than not wanted")]
    pub(super) fn stated_demand(&self, address: IpAddr) -> Option<Option<Demand>> {
        let Some(stated) = &self.stated else { return Some(None) };
        if !self.listed.services {
            return None;
        }
        let keys = stated.get(&address).into_iter().flatten();
        let users: Vec<&Service> = keys.filter_map(|key| self.service(key)).collect();
        if users.is_empty() {
            return Some(None);
        }
        let local: Vec<&Service> = users.iter().copied().filter(|service| service.is_local()).collect();
        if local.iter().any(|service| !self.covered.contains(&service.metadata.key())) {
            return None;
        }
        let local = (!local.is_empty()).then(|| Arc::new(self.common_nodes(&local)));
        let interface = users.iter().find_map(|service| service.metadata.annotations.service_interface.as_deref());
        let interface = interface.and_then(super::text::interface).unwrap_or_else(|| self.interface.clone());
        Some(Some(Demand { interface, local, ..Demand::of(address) }))
    }
}
