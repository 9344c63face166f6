//! Addresses that Services state themselves, as kube-vip reads them. They count for VIPs without an `IPAddress`,
//! because Mooring then places VIPs as kube-vip does, and kube-vip's cloud provider still hands out the addresses. Where an allocator
//! answers for a Service, what it says counts ([`Service::stated`]): it may have refused the address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{Catalog, Classes};
use crate::api::objects::{IpAddress, Key, Service};
use crate::core::placement::Demand;

impl Catalog {
    /// Also counts the addresses that Services of these classes state themselves.
    #[must_use]
    pub fn by_services(mut self, classes: Classes) -> Self {
        self.stated = Some(BTreeMap::new());
        self.classes = classes;
        self
    }

    /// The stated addresses of a Service that count.
    pub(super) fn stated_by(&self, service: &Service) -> BTreeSet<IpAddr> {
        if self.stated.is_some() && self.classes.accept(service.class()) { service.stated() } else { BTreeSet::new() }
    }

    /// Whether every source of VIPs is known. `objects`: `IPAddress` objects are one of the sources.
    #[must_use]
    pub fn is_known(&self, objects: bool) -> bool {
        let listed = self.listed.services && self.listed.node;
        let objects = !objects || self.listed.addresses.iter().all(|listed| *listed);
        listed && objects && self.is_all_covered() && self.owners.is_known()
    }

    /// The Lease of a VIP where each Service has a Lease: the Lease of the oldest of its Services, so that Services
    /// which share an address are never in two places, and one that joins moves nothing. None: no Service has the VIP.
    #[must_use]
    pub fn lease_of(&self, address: IpAddr) -> Option<(String, String)> {
        let users = self.services_of(address).into_iter().filter_map(|key| Some((key, self.service(key)?)));
        users
            .min_by_key(|(key, service)| (&service.metadata.creation_timestamp, *key))
            .map(|(_, oldest)| oldest.lease())
    }

    /// A Service of type `LoadBalancer`.
    #[must_use]
    pub fn service(&self, key: &Key) -> Option<&Service> {
        self.services.get(key).map(AsRef::as_ref)
    }

    /// All Services of type `LoadBalancer`.
    pub fn services(&self) -> impl Iterator<Item = (&Key, &Service)> {
        self.services.iter().map(|(key, service)| (key, service.as_ref()))
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

    /// The demand of a VIP that Services state; like [`Catalog::demand`].
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
        let local = self.common_nodes(&users)?;
        let interface = users.iter().find_map(|service| service.metadata.annotations.service_interface.as_deref());
        let interface = interface.and_then(super::text::interface).unwrap_or_else(|| self.interface.clone());
        Some(Some(Demand { interface, local, ..Demand::of(address) }))
    }
}
