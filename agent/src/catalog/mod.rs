//! Works out which VIPs there should be, and what each demands of its holder, from `IPAddress` objects, Services,
//! `EndpointSlices` and the own Node. The catalog is pure: it takes what the watches saw and returns the inputs for the core.
//!
//! An `IPAddress` is advertised when a Service of type `LoadBalancer` records it (the allocator writes the record once
//! the address is bound), or when the object has the label. An `IPAddress` with neither is not advertised: it may never
//! be bound. If somebody has taken the record away, the status of the Service stands for it: the allocator is the only one to clear that,
//! and writes the record again when it is back.

mod classes;
mod demand;
mod node;
mod owners;
mod remarks;
mod slices;
mod stated;
mod text;

#[cfg(test)]
mod owners_tests;
#[cfg(test)]
mod tests;

pub use classes::Classes;
pub use demand::interface_text;
pub use node::standing;
pub use remarks::{Remark, of_control_plane};
pub use slices::Dealt;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::api::addresses::view;
use crate::api::objects::{IpAddress, Key, Node, NodeAddresses, Service, Slice};
use crate::core::placement::{Demand, Interface, Labels};
use crate::core::session::{AddressView, Standing};
use crate::core::session_vips::Input;
use slices::Cover;

/// The number of `IPAddress` watches: one for each label.
pub const WATCHES: usize = 2;

/// Something was seen.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A change from one of the `IPAddress` watches.
    Addresses(usize, Change<IpAddress>),
    /// A change of a Service.
    Services(Change<Service>),
    /// A change from one of the watches of slices.
    Slices(Dealt, Change<Slice>),
    /// A change of this node's Node.
    Node(Change<Node>),
    /// A change of any Node's addresses.
    NodeAddresses(Change<NodeAddresses>),
    /// This program may not list Nodes.
    NodesDenied,
    /// What the nodes that take part in a Lease declare as their own addresses.
    Declared {
        /// The Lease.
        lease: String,
        /// The nodes.
        nodes: BTreeMap<String, BTreeSet<IpAddr>>,
    },
    /// This node's own addresses on its interfaces for VIPs.
    Own(BTreeSet<IpAddr>),
    /// VIPs that an earlier run of this agent left on this node.
    LeftOver(Vec<IpAddr>),
}

/// A change as a watch shows it.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// The full list.
    All(Vec<K>),
    /// One object was created or changed.
    One(K),
    /// One object was deleted.
    Gone(K),
}

/// See the module's text.
#[derive(Debug)]
pub struct Catalog {
    node: String,
    /// Default interface for VIPs that specify none.
    interface: Interface,
    // Boxed, because maps reserve room for more entries than they have. One or two keys need no set.
    addresses: BTreeMap<Key, Box<Address>>,
    by_ip: BTreeMap<IpAddr, Vec<Key>>,
    services: BTreeMap<Key, Box<Service>>,
    /// For each `IPAddress`, the Services that record it.
    users: BTreeMap<Key, Vec<Key>>,
    /// For each address, the Services whose status shows it, and from which somebody has taken the record.
    stripped: BTreeMap<IpAddr, Vec<Key>>,
    /// The Services that state an address themselves. None: stated addresses do not count.
    stated: Option<BTreeMap<IpAddr, Vec<Key>>>,
    /// The rules for the classes of these Services.
    classes: Classes,
    /// The Services that have an address and `externalTrafficPolicy: Local`.
    local: BTreeSet<Key>,
    slices: BTreeMap<Key, Slice>,
    slices_of: BTreeMap<Key, BTreeSet<Key>>,
    /// The Services whose slices are all known.
    covered: BTreeMap<Key, Cover>,
    listed: Listed,
    owners: owners::Owners,
    told: BTreeMap<IpAddr, Told>,
    /// What was last said of this node.
    standing: Option<Standing>,
    labels: Labels,
    drain: bool,
    rebalance: Rebalance,
    dirty: BTreeSet<IpAddr>,
    synced: bool,
    /// The control plane's VIPs, which no Service gets.
    reserved: BTreeSet<IpAddr>,
    remarks: remarks::Remarks,
}

/// An `IPAddress`, and the watches that show it.
#[derive(Debug)]
struct Address {
    object: IpAddress,
    shown_by: [bool; WATCHES],
}

/// The re-balancing request in this node's annotation.
#[derive(Debug, Default)]
struct Rebalance {
    /// The annotation was read once. A value present at the first read was meant for an earlier agent.
    known: bool,
    said: Option<String>,
}

/// Which resources were listed at least once.
#[derive(Debug, Default)]
struct Listed {
    addresses: [bool; WATCHES],
    services: bool,
    node: bool,
}

/// What the core knows of a VIP.
#[derive(Debug, Default)]
struct Told {
    /// The key of its object.
    key: Key,
    view: Option<AddressView>,
    demand: Option<Demand>,
    /// The node that has the address for itself: nothing is demanded then.
    owner: Option<String>,
}

impl Catalog {
    /// The catalog of a node that has seen nothing. `interface`: default interface for VIPs that specify none.
    #[must_use]
    pub fn new(node: &str, interface: Interface) -> Self {
        Self {
            node: node.to_owned(),
            interface,
            addresses: BTreeMap::new(),
            by_ip: BTreeMap::new(),
            services: BTreeMap::new(),
            users: BTreeMap::new(),
            stripped: BTreeMap::new(),
            stated: None,
            classes: Classes::default(),
            local: BTreeSet::new(),
            slices: BTreeMap::new(),
            slices_of: BTreeMap::new(),
            covered: BTreeMap::new(),
            listed: Listed::default(),
            owners: owners::Owners::default(),
            told: BTreeMap::new(),
            standing: None,
            labels: Labels::new(),
            drain: false,
            rebalance: Rebalance::default(),
            dirty: BTreeSet::new(),
            synced: false,
            reserved: BTreeSet::new(),
            remarks: remarks::Remarks::default(),
        }
    }

    /// Takes in a change and returns the inputs for the core.
    pub fn take(&mut self, seen: Seen) -> Vec<Input> {
        let mut out = Vec::new();
        let mut listed = false;
        match seen {
            Seen::Addresses(watch, change) => {
                listed = matches!(change, Change::All(_));
                self.take_addresses(watch, change);
            }
            Seen::Services(change) => self.take_services(change),
            Seen::Slices(dealt, change) => self.take_slices(&dealt, change),
            Seen::Node(change) => self.take_node(change, &mut out),
            Seen::NodeAddresses(change) => self.take_node_addresses(change),
            Seen::NodesDenied => self.nodes_denied(),
            Seen::Declared { lease, nodes } => self.take_declared(&lease, nodes),
            Seen::Own(own) => self.take_own(own),
            Seen::LeftOver(vips) => self.take_left_over(&vips),
        }
        self.tell(listed, &mut out);
        out
    }

    /// The Services whose `EndpointSlices` must be watched.
    #[must_use]
    pub const fn local_services(&self) -> &BTreeSet<Key> {
        &self.local
    }

    /// The object of a VIP.
    #[must_use]
    pub fn key_of(&self, address: IpAddr) -> Option<&Key> {
        self.told.get(&address).map(|told| &told.key)
    }

    /// The uid of a VIP's object.
    #[must_use]
    pub fn uid_of(&self, address: IpAddr) -> Option<&str> {
        self.told.get(&address)?.view.as_ref().map(|view| view.uid.as_str())
    }

    /// The Services that have a VIP. Where an allocator says who has it, a Service that merely states the address does not: anybody
    /// may state any address.
    #[must_use]
    pub fn services_of(&self, address: IpAddr) -> Vec<&Key> {
        let told = self.told.get(&address);
        let users = told.and_then(|told| self.users.get(&told.key)).filter(|users| !users.is_empty());
        let stated = self.stated.as_ref().and_then(|stated| stated.get(&address));
        let stripped = || self.stripped.get(&address).filter(|_| told.is_some_and(|told| told.demand.is_some()));
        let all: BTreeSet<&Key> = users.or(stated).or_else(stripped).into_iter().flatten().collect();
        all.into_iter().collect()
    }

    /// What a VIP demands.
    #[must_use]
    pub fn demand_of(&self, address: IpAddr) -> Option<&Demand> {
        self.told.get(&address)?.demand.as_ref()
    }

    /// The labels of this node.
    #[must_use]
    pub const fn labels(&self) -> &Labels {
        &self.labels
    }

    /// What all VIPs demand.
    pub fn demands(&self) -> impl Iterator<Item = &Demand> {
        self.told.values().filter_map(|told| told.demand.as_ref())
    }

    /// Whether every resource that the catalog needs was listed.
    #[must_use]
    pub const fn is_synced(&self) -> bool {
        self.synced
    }

    fn take_addresses(&mut self, watch: usize, change: Change<IpAddress>) {
        match change {
            Change::All(all) => {
                let there: BTreeSet<Key> = all.iter().map(|one| one.metadata.key()).collect();
                let shown = self.addresses.iter().filter(|(_, a)| a.shown_by.get(watch) == Some(&true));
                let gone: Vec<Key> = shown.map(|(key, _)| key).filter(|key| !there.contains(key)).cloned().collect();
                for key in gone {
                    self.hide_address(watch, &key);
                }
                for one in all {
                    self.put_address(watch, one);
                }
                if let Some(listed) = self.listed.addresses.get_mut(watch) {
                    *listed = true;
                }
            }
            Change::One(one) => self.put_address(watch, one),
            Change::Gone(one) => self.hide_address(watch, &one.metadata.key()),
        }
    }

    fn put_address(&mut self, watch: usize, object: IpAddress) {
        let key = object.metadata.key();
        let mut shown_by = self.forget_address(&key);
        if let Some(shown) = shown_by.get_mut(watch) {
            *shown = true;
        }
        if let Some(ip) = object.address() {
            insert(self.by_ip.entry(ip).or_default(), &key);
            self.dirty.insert(ip);
        } else {
            tracing::warn!(object = %key, "spec.address of an IPAddress cannot be read: the address is not advertised");
        }
        self.addresses.insert(key, Box::new(Address { object, shown_by }));
    }

    /// One of the watches no longer shows the address: the label was removed, or the object is gone.
    fn hide_address(&mut self, watch: usize, key: &Key) {
        let Some(address) = self.addresses.get_mut(key) else { return };
        if let Some(shown) = address.shown_by.get_mut(watch) {
            *shown = false;
        }
        if address.shown_by.contains(&true) {
            self.dirty.extend(address.object.address());
        } else {
            self.forget_address(key);
        }
    }

    fn forget_address(&mut self, key: &Key) -> [bool; WATCHES] {
        let Some(known) = self.addresses.remove(key) else { return [false; WATCHES] };
        if let Some(ip) = known.object.address() {
            if let Some(keys) = self.by_ip.get_mut(&ip) {
                keys.retain(|one| one != key);
                if keys.is_empty() {
                    self.by_ip.remove(&ip);
                }
            }
            self.dirty.insert(ip);
        }
        known.shown_by
    }

    fn take_services(&mut self, change: Change<Service>) {
        match change {
            Change::All(all) => {
                let there: BTreeSet<Key> = all.iter().map(|one| one.metadata.key()).collect();
                let gone: Vec<Key> = self.services.keys().filter(|key| !there.contains(key)).cloned().collect();
                for key in gone {
                    self.forget_service(&key);
                }
                for one in all {
                    self.put_service(one);
                }
                self.listed.services = true;
                self.remarks.keep(|key| there.contains(key));
                self.dirty.extend(self.by_ip.keys().copied());
                self.dirty.extend(self.stated.iter().flat_map(BTreeMap::keys).copied());
            }
            Change::One(one) => self.put_service(one),
            Change::Gone(one) => {
                let gone = one.metadata.key();
                self.forget_service(&gone);
                self.remarks.keep(|key| *key != gone);
            }
        }
    }

    fn put_service(&mut self, service: Service) {
        let key = service.metadata.key();
        self.forget_service(&key);
        if !service.is_served() {
            return;
        }
        self.remark_on(&service);
        for (object, ip) in service.addresses() {
            insert(self.users.entry(object).or_default(), &key);
            self.dirty.insert(ip);
        }
        for ip in self.had_by(&service) {
            insert(self.stripped.entry(ip).or_default(), &key);
            self.dirty.insert(ip);
        }
        self.states(&key, &service);
        let states = !self.stated_by(&service).is_empty() || !self.had_by(&service).is_empty();
        if service.is_local() && (states || service.addresses().next().is_some()) {
            self.local.insert(key.clone());
        }
        self.services.insert(key, Box::new(service));
    }

    fn forget_service(&mut self, key: &Key) {
        let Some(known) = self.services.remove(key) else { return };
        self.states_no_more(key, &known);
        self.local.remove(key);
        for (object, ip) in known.addresses() {
            remove(&mut self.users, &object, key);
            self.dirty.insert(ip);
        }
        for ip in self.had_by(&known) {
            remove(&mut self.stripped, &ip, key);
            self.dirty.insert(ip);
        }
    }

    fn service_dirty(&mut self, service: &Key) {
        if let Some(service) = self.services.get(service) {
            self.dirty.extend(service.addresses().map(|(_, ip)| ip));
            self.dirty.extend(self.had_by(service));
            self.dirty.extend(self.stated_by(service));
        }
    }

    /// Sends the core the changes of the VIPs that were concerned.
    fn tell(&mut self, listed: bool, out: &mut Vec<Input>) {
        let mut wanted = Vec::new();
        for address in std::mem::take(&mut self.dirty) {
            let object = self.object_of(address);
            let (key, shown) = match object {
                Some((key, object)) => (key.clone(), Some(view(object))),
                None => (Key::default(), None),
            };
            let demand = match object.map_or(Some(None), |(key, object)| self.demand(address, key, object)) {
                Some(None) => self.stated_demand(address),
                demand => demand,
            };
            let (demand, owner) = match demand {
                // Whoever wants it: an address that a node has for itself is no VIP.
                Some(Some(wanted)) => match self.owner_of(address) {
                    Ok(None) => (Some(Some(wanted)), None),
                    Ok(owner) => (Some(None), owner),
                    Err(()) => (None, None),
                },
                demand => (demand, None),
            };
            self.remark_on_owner(address, owner.as_deref(), demand.is_none());
            let told = self.told.entry(address).or_default();
            if told.view != shown || (listed && shown.is_some()) {
                told.view.clone_from(&shown);
                out.push(Input::Address { listed, address, view: shown.clone() });
            }
            told.key = key;
            if demand.is_some() {
                told.owner = owner;
            }
            // A demand that is not known yet stays as it was.
            if let Some(demand) = demand {
                if demand.is_none() && told.demand.is_some() {
                    out.push(Input::Unwanted(address));
                }
                if told.demand != demand {
                    wanted.extend(demand.clone());
                    told.demand = demand;
                }
            }
            if shown.is_none() && told.demand.is_none() && told.owner.is_none() {
                self.told.remove(&address);
            }
        }
        if !wanted.is_empty() {
            out.push(Input::Wanted(wanted));
        }
        let complete = self.listed.addresses == [true; WATCHES] && self.listed.services && self.listed.node;
        if !self.synced && complete && self.is_all_covered() && self.owners.is_known() {
            self.synced = true;
            out.push(Input::Synced);
        }
    }

    /// The `IPAddress` of a VIP. If several objects have the address: advertised objects come first, then the oldest.
    fn object_of(&self, address: IpAddr) -> Option<(&Key, &IpAddress)> {
        let all = self.by_ip.get(&address)?.iter().filter_map(|key| Some((key, &self.addresses.get(key)?.object)));
        all.min_by_key(|(key, object)| {
            let meta = &object.metadata;
            (!self.is_advertised(key, object), meta.creation_timestamp.clone(), meta.uid.clone())
        })
    }
}

/// Removes a key from those of one entry, and the entry with the last of them.
fn remove<K: Ord>(all: &mut BTreeMap<K, Vec<Key>>, of: &K, key: &Key) {
    if let Some(keys) = all.get_mut(of) {
        keys.retain(|one| one != key);
        if keys.is_empty() {
            all.remove(of);
        }
    }
}

/// Inserts a key in sorted order, unless the key is there.
fn insert(keys: &mut Vec<Key>, key: &Key) {
    if let Err(at) = keys.binary_search(key) {
        keys.reserve_exact(1);
        keys.insert(at, key.clone());
    }
}
