//! Addresses that are no VIPs, whoever asks for them: those that a node of the cluster has for itself. Another load balancer (k3s's
//! `ServiceLB`) may have written them into the status of a Service.
//!
//! There are three sources. This node's kernel says what this node has on its interfaces for VIPs. Nodes that take part in a Lease
//! declare theirs there. And the status of every Node names its addresses, also where no agent runs.
//!
//! A cloud provider may list all addresses of a machine, also the VIP that it carries. So an address that a Node gets beside those it
//! had, while that address is a VIP, is the VIP: so it is with one that the `IPAddress` says to be on that node, or that an earlier run
//! of the agent left on this one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{Catalog, Change};
use crate::api::addresses::{is_advertised, placed, view};
use crate::api::objects::{IpAddress, Key, NodeAddresses};

/// A node's own addresses.
type Own = BTreeSet<IpAddr>;

/// Who has which address for itself.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// The addresses that the status of each Node names. None: they are not listed yet.
    nodes: Option<BTreeMap<String, Own>>,
    /// The Nodes that name an address.
    by_address: BTreeMap<IpAddr, BTreeSet<String>>,
    /// This program may not list Nodes: only what is declared is known.
    denied: bool,
    /// VIPs that Nodes name because they carry them.
    shown: BTreeSet<(String, IpAddr)>,
    /// What each node has declared, and on which Lease.
    declared: BTreeMap<String, BTreeMap<String, Own>>,
    /// What this node has on its interfaces.
    own: Own,
    /// The VIPs that an earlier run of this agent left on this node.
    left_over: Own,
    /// An address was asked for that may be a Node's: from now on Nodes must be known.
    asked: bool,
}

impl Owners {
    /// Whether it is known whose addresses are, as far as anybody has asked.
    pub(super) const fn is_known(&self) -> bool {
        !self.asked || self.nodes.is_some() || self.denied
    }

    /// Takes in the addresses of a Node; None: it is gone. Returns those that it has got or lost. `is_vip`: that address is a VIP now.
    fn put(&mut self, name: &str, now: Option<Own>, is_vip: impl Fn(IpAddr) -> bool) -> Own {
        let nodes = self.nodes.get_or_insert_default();
        let (known, before) = (nodes.contains_key(name), nodes.remove(name).unwrap_or_default());
        let after = now.clone().unwrap_or_default();
        let stays = !before.is_disjoint(&after);
        for lost in before.difference(&after) {
            self.shown.remove(&(name.to_owned(), *lost));
            if let Some(names) = self.by_address.get_mut(lost) {
                names.remove(name);
                if names.is_empty() {
                    self.by_address.remove(lost);
                }
            }
        }
        for got in after.difference(&before) {
            self.by_address.entry(*got).or_default().insert(name.to_owned());
            if known && stays && is_vip(*got) {
                self.shown.insert((name.to_owned(), *got));
            }
        }
        if let Some(now) = now {
            nodes.insert(name.to_owned(), now);
        }
        before.symmetric_difference(&after).copied().collect()
    }

    /// A node that is no longer in the cluster may still be named on Leases.
    fn is_there(&self, name: &str) -> bool {
        self.denied || self.nodes.as_ref().is_none_or(|nodes| nodes.contains_key(name))
    }

    /// The node that declares the address as its own.
    fn declared_by(&self, me: &str, address: IpAddr) -> Option<&str> {
        let has = |leases: &BTreeMap<String, Own>| leases.values().any(|own| own.contains(&address));
        let others = self.declared.iter().filter(|(node, _)| *node != me && self.is_there(node));
        others.filter(|(_, leases)| has(leases)).map(|(node, _)| node.as_str()).next()
    }
}

impl Catalog {
    /// Whether the catalog must see all Nodes: an address may be a VIP here, and no allocator has looked whose it is.
    #[must_use]
    pub const fn asks_for_nodes(&self) -> bool {
        self.owners.asked
    }

    /// The addresses that are not carried because nodes have them for themselves, each with the node.
    pub fn owned(&self) -> impl Iterator<Item = (IpAddr, &str)> {
        self.told.iter().filter_map(|(address, told)| Some((*address, told.owner.as_deref()?)))
    }

    pub(super) fn take_node_addresses(&mut self, change: Change<NodeAddresses>) {
        let told = &self.told;
        let is_vip = |address: IpAddr| told.get(&address).is_some_and(|told| told.demand.is_some());
        match change {
            Change::All(all) => {
                let there: BTreeSet<&str> = all.iter().map(|one| one.metadata.name.as_str()).collect();
                let gone = self.owners.nodes.iter().flatten().map(|(name, _)| name);
                let gone: Vec<String> = gone.filter(|name| !there.contains(name.as_str())).cloned().collect();
                for name in gone {
                    self.owners.put(&name, None, is_vip);
                }
                for one in &all {
                    self.owners.put(&one.metadata.name, Some(one.addresses()), is_vip);
                }
                self.owners.nodes.get_or_insert_default();
                self.owners.denied = false;
                self.all_dirty();
            }
            Change::One(one) => {
                let changed = self.owners.put(&one.metadata.name, Some(one.addresses()), is_vip);
                self.dirty.extend(changed);
                self.declared_dirty(&one.metadata.name);
            }
            Change::Gone(one) => {
                let changed = self.owners.put(&one.metadata.name, None, is_vip);
                self.dirty.extend(changed);
                self.declared_dirty(&one.metadata.name);
            }
        }
    }

    /// This program may not list Nodes.
    pub(super) fn nodes_denied(&mut self) {
        if self.owners.nodes.is_none() && !std::mem::replace(&mut self.owners.denied, true) {
            tracing::warn!(
                "this agent may not list and watch Nodes: the address of a node without an agent may be taken for a VIP, if that node is silent"
            );
            self.all_dirty();
        }
    }

    /// A Lease names these nodes, with their own addresses. What a node declared last, on any Lease, counts.
    pub(super) fn take_declared(&mut self, lease: &str, nodes: BTreeMap<String, BTreeSet<IpAddr>>) {
        for (node, own) in nodes {
            let leases = self.owners.declared.entry(node).or_default();
            let before = leases.get(lease).cloned();
            if before.as_ref() == Some(&own) {
                continue;
            }
            self.dirty.extend(leases.values().flatten().chain(&own).copied());
            if before.is_some() {
                leases.clear();
            }
            leases.insert(lease.to_owned(), own);
        }
    }

    /// The addresses of this node's interfaces, as its kernel says.
    pub(super) fn take_own(&mut self, own: BTreeSet<IpAddr>) {
        self.dirty.extend(self.owners.own.symmetric_difference(&own));
        self.owners.own = own;
    }

    /// An earlier run of this agent left these VIPs on this node.
    pub(super) fn take_left_over(&mut self, vips: &[IpAddr]) {
        self.owners.left_over.extend(vips);
        self.dirty.extend(vips);
    }

    /// An address that somebody asks for is looked at: whether an allocator has seen to it that it is no Node's.
    fn is_to_be_looked_at(&self, object: Option<&IpAddress>) -> bool {
        self.stated.is_some() || object.is_some_and(is_advertised)
    }

    /// The node that has the address for itself. Err: that is not known yet.
    pub(super) fn owner_of(&mut self, address: IpAddr) -> Result<Option<String>, ()> {
        let object = self.object_of(address).map(|(_, object)| object);
        if !self.is_to_be_looked_at(object) {
            return Ok(None);
        }
        let by_record =
            object.and_then(|object| placed(object).map(|one| one.node).or_else(|| Some(view(object).holder?.node)));
        self.owners.asked = true;
        let owners = &self.owners;
        if owners.own.contains(&address) {
            return Ok(Some(self.node.clone()));
        }
        if let Some(node) = owners.declared_by(&self.node, address) {
            return Ok(Some(node.to_owned()));
        }
        if !owners.is_known() {
            return Err(());
        }
        let left_here = |node: &str| node == self.node && owners.left_over.contains(&address);
        let is_shown = |node: &String| {
            owners.shown.contains(&(node.clone(), address)) || by_record.as_ref() == Some(node) || left_here(node)
        };
        Ok(owners.by_address.get(&address).into_iter().flatten().find(|node| !is_shown(node)).cloned())
    }

    fn declared_dirty(&mut self, node: &str) {
        self.dirty.extend(self.owners.declared.get(node).into_iter().flat_map(BTreeMap::values).flatten());
    }

    /// All addresses that anybody asks for are looked at.
    fn all_dirty(&mut self) {
        self.dirty.extend(self.by_ip.keys().copied());
        self.dirty.extend(self.stated.iter().flat_map(BTreeMap::keys).copied());
    }

    /// The Services that have the address and are to be told whose it is.
    pub(super) fn asking_for(&self, address: IpAddr) -> Vec<Key> {
        let by_record = self.object_of(address).and_then(|(key, _)| self.users.get(key));
        let stated = self.stated.as_ref().and_then(|stated| stated.get(&address));
        let all: BTreeSet<&Key> = by_record.into_iter().chain(stated).flatten().collect();
        all.into_iter().cloned().collect()
    }
}
