//! What people ask for, made of what the API shows. Reads no clock and makes no call.
//!
//! Nothing is decided here: the agents judge by what they see change, this page by the times that stand in the objects. A
//! clock that is wrong shows a session as late.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::{ClusterStatus, ControlPlane, Node, Session, Vip, VipState};
use crate::api::addresses::{is_advertised, placed, view};
use crate::api::objects::{self, IpAddress, Key, Service, Slice};
use crate::catalog::{Catalog, Change, Dealt, Seen, standing};
use crate::core::lease::{LeaseView, Record};
use crate::core::placement::{Candidate, Interface, Labels, order, seed};
use crate::core::session::{End, EndCause, Holder, Standing, View};
use crate::core::time::WallTime;

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// The control plane's Lease, NAMESPACE/NAME; None: there is none.
    pub control_plane: Option<(String, LeaseView)>,
    /// Sessions.
    pub sessions: Vec<View>,
    /// Advertised addresses.
    pub addresses: Vec<IpAddress>,
    /// Services of type `LoadBalancer`.
    pub services: Vec<Service>,
    /// `EndpointSlices`; None: not read.
    pub slices: Option<Vec<Slice>>,
    /// Nodes.
    pub nodes: Vec<objects::Node>,
    /// What could not be read.
    pub unread: Vec<String>,
}

/// The cluster's state at `now`, by this machine's clock.
#[must_use]
pub fn judge(objects: &Objects, now: WallTime) -> ClusterStatus {
    let control_plane = objects.control_plane.as_ref().map(|(name, lease)| control_plane(name, lease, now));
    let sessions: BTreeMap<&str, &View> = objects.sessions.iter().map(|view| (view.node.as_str(), view)).collect();
    let next = Next::new(objects);
    let users = users(&objects.services);
    let mut vips: Vec<Vip> = Vec::new();
    let mut carried: BTreeMap<String, usize> = BTreeMap::new();
    for object in &objects.addresses {
        let Some(address) = object.address() else { continue };
        let (holder, state) = holder(object, &sessions, now);
        if let Some(node) = &holder {
            *carried.entry(node.clone()).or_default() += 1;
        }
        let next = next.after(address, holder.as_deref());
        let services = users.get(&object.metadata.key()).cloned().unwrap_or_default();
        let conflict = object.metadata.annotations.conflict.clone();
        vips.push(Vip { address, object: object.metadata.key().to_string(), services, holder, state, next, conflict });
    }
    vips.sort_by(|a, b| (a.address, &a.object).cmp(&(b.address, &b.object)));
    vips.dedup_by(|a, b| a.object == b.object);
    let nodes = sessions.values().map(|view| node(view, carried.get(&view.node).copied().unwrap_or(0), now));
    ClusterStatus { control_plane, vips, nodes: nodes.collect(), unread: objects.unread.clone() }
}

fn control_plane(name: &str, lease: &LeaseView, now: WallTime) -> ControlPlane {
    let record = &lease.record;
    let declared = lease.declaration();
    ControlPlane {
        lease: name.to_owned(),
        holder: record.holder.clone(),
        takes_part: declared.is_some(),
        vips: declared.map(|declared| declared.vips.clone()).unwrap_or_default(),
        renewed_ago_ms: record.renewed.map(|at| millis(since(at, now))),
        expired: is_late(record, now),
        transitions: record.transitions,
        candidates: lease.notes.participants.keys().filter(|node| **node != record.holder).cloned().collect(),
    }
}

fn holder(object: &IpAddress, sessions: &BTreeMap<&str, &View>, now: WallTime) -> (Option<String>, VipState) {
    if let Some(placed) = placed(object) {
        return (Some(placed.node), VipState::ByLease);
    }
    let Some(Holder { node, session, to }) = view(object).holder else { return (None, VipState::Free) };
    let state = match sessions.get(node.as_str()).filter(|view| view.is_live() && view.is_of(&session)) {
        None => VipState::HolderEnded,
        Some(_) if to.is_some() => VipState::HandedOver,
        Some(view) if is_late(&view.record, now) => VipState::HolderLate,
        Some(_) => VipState::Carried,
    };
    (Some(node), state)
}

fn node(view: &View, vips: usize, now: WallTime) -> Node {
    let session = match view {
        view if !view.is_live() => Session::Ended,
        view if view.is_leaving() => Session::Leaving,
        view if is_late(&view.record, now) => Session::Late,
        _ => Session::Live,
    };
    // A link without a name stands for the first interface of a node that knows none.
    let links = view.links().iter().filter(|link| !link.name.is_empty()).map(|link| {
        let addresses: Vec<String> = link.addresses.iter().map(ToString::to_string).collect();
        let down = if link.up { "" } else { " (down)" };
        format!("{} {}{down}", link.name, addresses.join(" "))
    });
    let ended = view.end.as_ref().filter(|_| !view.is_live()).map(|End { by, cause }| match cause {
        EndCause::Planned => "ended by its own agent".to_owned(),
        EndCause::Expired => format!("{by}: not renewed in time"),
        EndCause::Abandoned => format!("{by}: silent on the segment"),
    });
    let renewed_ago_ms = view.record.renewed.map(|at| millis(since(at, now)));
    Node { node: view.node.clone(), session, renewed_ago_ms, vips, links: links.collect(), ended }
}

/// The Services that record each `IPAddress`.
fn users(services: &[Service]) -> BTreeMap<Key, Vec<String>> {
    let mut users: BTreeMap<Key, Vec<String>> = BTreeMap::new();
    for service in services {
        let objects: BTreeSet<Key> = service.addresses().map(|(key, _)| key).collect();
        for key in objects {
            users.entry(key).or_default().push(service.metadata.key().to_string());
        }
    }
    users
}

/// Which nodes would have a VIP next: by the agents' own rule, where the API says all that it asks for.
struct Next<'a> {
    catalog: Catalog,
    sessions: &'a [View],
    nodes: BTreeMap<&'a str, (Standing, &'a Labels)>,
}

impl<'a> Next<'a> {
    fn new(objects: &'a Objects) -> Self {
        // Which interface an agent takes for a VIP that names none stands in its settings: usually the first that it declares.
        let mut catalog = Catalog::new("", Interface::First);
        let (advertised, of_services): (Vec<_>, Vec<_>) = objects.addresses.iter().cloned().partition(is_advertised);
        let _ = catalog.take(Seen::Node(Change::All(vec![])));
        // Whose an address is, agents say themselves: here it is enough that nothing more is waited for.
        let _ = catalog.take(Seen::NodesDenied);
        let _ = catalog.take(Seen::Services(Change::All(objects.services.clone())));
        if let Some(slices) = &objects.slices {
            let local = Dealt::to_one(catalog.local_services());
            let _ = catalog.take(Seen::Slices(local, Change::All(slices.clone())));
        }
        let _ = catalog.take(Seen::Addresses(0, Change::All(of_services)));
        let _ = catalog.take(Seen::Addresses(1, Change::All(advertised)));
        let of = |node: &'a objects::Node| (node.metadata.name.as_str(), (standing(node), &node.metadata.labels));
        Self { catalog, sessions: &objects.sessions, nodes: objects.nodes.iter().map(of).collect() }
    }

    /// Everybody but the holder, the best first.
    fn after(&self, address: IpAddr, holder: Option<&str>) -> Vec<String> {
        let Some(demand) = self.catalog.demand_of(address) else { return vec![] };
        let live = self.sessions.iter().filter(|view| view.is_live() && Some(view.node.as_str()) != holder);
        let candidates = live.map(|view| {
            // What a session declares may be a moment old, and agents of before declare nothing.
            let known = self.nodes.get(view.node.as_str()).copied();
            let (standing, labels) = known.unwrap_or_else(|| (view.standing(), view.labels()));
            let (seed, links, leaving) = (seed(&view.node), view.links(), view.is_leaving());
            Candidate { node: &view.node, seed, links, standing, labels, leaving, late: false }
        });
        order(demand, seed(&address), candidates).into_iter().map(str::to_owned).collect()
    }
}

fn is_late(record: &Record, now: WallTime) -> bool {
    !record.holder.is_empty() && record.renewed.is_none_or(|at| since(at, now) > record.duration)
}

/// Zero if it lies in the future: clocks differ.
fn since(then: WallTime, now: WallTime) -> Duration {
    Duration::from_micros(u64::try_from(now.0.saturating_sub(then.0)).unwrap_or(0))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
