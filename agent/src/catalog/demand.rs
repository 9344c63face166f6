//! What a VIP demands of its holder.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::{Catalog, text};
use crate::api::addresses;
use crate::api::objects::{IpAddress, Key, Service, Slice};
use crate::core::placement::{Demand, Interface, Selector};

impl Catalog {
    /// Whether the VIP should exist: a Service has the address, or its label asks for the VIP.
    pub(super) fn is_advertised(&self, key: &Key, object: &IpAddress) -> bool {
        addresses::is_advertised(object) || self.users_of(key, object).next().is_some()
    }

    /// What the VIP demands. `Some(None)`: the VIP should not exist. None: the demand is not known yet.
    #[expect(clippy::option_option, reason = "not known is another thing than not wanted")]
    pub(super) fn demand(&self, address: IpAddr, key: &Key, object: &IpAddress) -> Option<Option<Demand>> {
        let by_label = addresses::is_advertised(object);
        if !by_label && !self.listed.services {
            return None;
        }
        let users: Vec<&Service> = self.users_of(key, object).collect();
        if !by_label && users.is_empty() {
            return Some(None);
        }
        let users = having(users, address);
        let local = self.common_nodes(&users)?;
        let notes = &object.metadata.annotations;
        let by_service = users.iter().find_map(|service| service.metadata.annotations.service_interface.as_deref());
        let interface = by_service.or(notes.interface.as_deref()).and_then(text::interface);
        let preferred = notes.preferred_nodes.as_deref().map(|t| Arc::new(text::weights(t)));
        let interface = interface.unwrap_or_else(|| self.interface.clone());
        let selector = notes.node_selector.as_deref().map(|text| Arc::new(Selector::of(text)));
        Some(Some(Demand { address, interface, selector, local, preferred }))
    }

    /// The Services that have the address.
    fn users_of(&self, key: &Key, object: &IpAddress) -> impl Iterator<Item = &Service> {
        let address = object.address();
        let users = self.users.get(key).into_iter().flatten().filter_map(|key| self.service(key));
        // The record on the Service must name this object and this address.
        let users = users.filter(move |service| service.addresses().any(|(of, ip)| of == *key && Some(ip) == address));
        // An object for Services, and a Service without any record.
        let counts = object.metadata.labels.service_family.is_some();
        let stripped = address.filter(|_| counts).and_then(|address| self.stripped.get(&address));
        users.chain(stripped.into_iter().flatten().filter_map(|key| self.service(key)))
    }

    /// The addresses of a Service that somebody has stripped of its record. (Where agents read what Services state, that says it all.)
    pub(super) fn had_by(&self, service: &Service) -> Vec<IpAddr> {
        if self.stated.is_some() { vec![] } else { service.had().collect() }
    }

    /// The nodes to which Services with `externalTrafficPolicy: Local` tie a VIP: those with an endpoint of each of them. Ready endpoints
    /// count; where a Service has none, serving ones count. One without endpoints ties to no node a VIP that others have too.
    /// `Some(None)`: any node will do. None: not all endpoints are known yet.
    #[expect(clippy::option_option, reason = "not known is another thing than not tied")]
    pub(super) fn common_nodes(&self, users: &[&Service]) -> Option<Option<Arc<BTreeSet<String>>>> {
        let mut common: Option<BTreeSet<String>> = None;
        for service in users.iter().filter(|service| service.is_local()) {
            if !self.covered.contains_key(&service.metadata.key()) {
                return None;
            }
            let slices = self.slices_of.get(&service.metadata.key()).into_iter().flatten();
            let nodes: Vec<(&str, bool)> =
                slices.filter_map(|key| self.slices.get(key)).flat_map(Slice::nodes).collect();
            let any_ready = nodes.iter().any(|(_, ready)| *ready);
            let mut of: BTreeSet<String> =
                nodes.iter().filter(|(_, ready)| *ready || !any_ready).map(|(node, _)| (*node).to_owned()).collect();
            if of.is_empty() {
                continue;
            }
            if let Some(common) = common {
                of.retain(|node| common.contains(node));
            }
            common = Some(of);
        }
        let nowhere = !users.is_empty() && users.iter().all(|service| service.is_local());
        Some(common.or_else(|| nowhere.then(BTreeSet::new)).map(Arc::new))
    }
}

/// The Services that say where a VIP belongs: those whose status shows the address, for the allocator puts it there. Others name it in their
/// annotations alone: they wait for it, or somebody has written it there. They count where none shows it yet.
fn having(mut users: Vec<&Service>, address: IpAddr) -> Vec<&Service> {
    let shows = |service: &Service| service.shown().any(|ip| ip == address);
    if users.iter().any(|service| shows(service)) {
        users.retain(|service| shows(service));
    }
    users
}

/// Where a VIP belongs, as text for people.
#[must_use]
pub fn interface_text(interface: &Interface) -> String {
    match interface {
        Interface::First => "the default one".to_owned(),
        Interface::Subnet => "the one whose subnet has the address".to_owned(),
        Interface::Named(name) => name.clone(),
    }
}
