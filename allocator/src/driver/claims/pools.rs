//! Translates lists and watches of pools and namespaces to the protocol's events.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use mooring_allocator_core::names::{PoolKind, PoolRef};
use mooring_allocator_core::pool::Network;
use mooring_allocator_core::protocol::{Event, Paused, Pool, PoolStatus};
use mooring_api::pool::{
    FloatingIpPoolSpec, FloatingIpPoolStatus, IpPoolSpec, Metal3PoolSpec, Metal3PoolStatus, PhpIpamIpPoolSpec,
    PrefixPoolSpec,
};
use mooring_api::versions::{PoolVersion, Version as _};
use serde::Deserialize;

use super::super::index::{Index, KnownPool};
use super::intake::{Intake, Unreadable, turned};
use super::pool_status;
use crate::api::{Resource, Turned};
use crate::decode::cluster::NamespaceJson;
use crate::decode::floating_ips;
use crate::decode::frame::{Line, Page, line};
use crate::decode::pool::{PoolJson, Seen, Spec};

impl Intake {
    pub(super) fn pools_page(
        &mut self,
        index: &mut Index,
        kind: PoolKind,
        (version, bytes): (&'static str, &Bytes),
        first: bool,
        events: &mut Vec<Event>,
    ) -> Result<Turned, serde_json::Error> {
        let api = PoolVersion::newest([version]).unwrap_or_default();
        index.pools_served.insert(kind, api);
        let (turned, seen) = read_pools(kind, bytes)?;
        let there = self.pools.entry(kind).or_default();
        if first {
            there.clear();
        }
        for seen in seen {
            let reference = keep_pool(index, kind, seen, api);
            there.push(reference);
        }
        if turned.next.is_empty() {
            let there: BTreeSet<Arc<PoolRef>> = there.drain(..).collect();
            let stays = |reference: &PoolRef| reference.kind != kind || there.contains(reference);
            index.pools.retain(|reference, _| stays(reference));
            index.written.retain(stays);
            self.pools_known.insert(kind);
            if kind == PoolKind::Metal3IPPool {
                index.metal3.listed(Resource::Pools(kind));
            }
            events.append(&mut self.all_pools(index));
            events.extend(self.pools_allowed(kind));
            events.extend(index.metal3.all_listed());
        }
        Ok(turned)
    }

    /// The API server does not let this program list a kind of pools of outside systems. Once it was listed, this means nothing;
    /// before, what is of such pools waits, and the others need not.
    pub fn pools_refused(&mut self, index: &Index, kind: PoolKind) -> Vec<Event> {
        if !self.pools_known.insert(kind) {
            return Vec::new();
        }
        self.pools_refused.insert(kind);
        let component = component(Resource::Pools(kind));
        let why = format!("Mooring may not list {}: give it the permissions of {component}", kind.name());
        let mut events = vec![Event::PoolsRefused(kind, Some(why))];
        events.append(&mut self.all_pools(index));
        events
    }

    /// A kind of pools that could not be listed was listed, or is not served.
    pub(super) fn pools_allowed(&mut self, kind: PoolKind) -> Option<Event> {
        self.pools_refused.remove(&kind).then_some(Event::PoolsRefused(kind, None))
    }

    /// All pools, once all kinds are known. For metal3's, and for the addresses of its claims, it is enough that they were asked
    /// for: who may not list them must not hold up the others.
    pub(super) fn all_pools(&self, index: &Index) -> Vec<Event> {
        let of_metal3 = !index.names.serves(PoolKind::Metal3IPPool) || index.metal3.is_asked_for();
        let mut others = index.pool_kinds.iter().filter(|kind| **kind != PoolKind::Metal3IPPool);
        if !of_metal3 || !others.all(|kind| self.pools_known.contains(kind)) {
            return Vec::new();
        }
        vec![Event::Pools(index.pools.keys().filter_map(|one| index.pool(one)).collect())]
    }
}

/// The manifests with the permissions for a kind that is served on request.
pub const fn component(resource: Resource) -> &'static str {
    match resource {
        Resource::Pools(PoolKind::PHPIPAMIPPool) => "manifests/allocator/phpipam",
        Resource::Pools(PoolKind::OpenStackFloatingIPPool) => "manifests/allocator/openstack",
        _ => "manifests/allocator/metal3",
    }
}

pub(super) fn namespaces_page(
    index: &mut Index,
    bytes: &Bytes,
    first: bool,
    events: &mut Vec<Event>,
) -> Result<Turned, serde_json::Error> {
    let page = Page::<'_, NamespaceJson<'_>>::read(bytes)?;
    if first {
        index.namespaces_listing.clear();
    }
    for item in page.items.iter().flatten() {
        let labels = item.metadata.labels.clone().unwrap_or_default();
        index.namespaces_listing.insert(item.metadata.name.to_string(), labels);
    }
    if page.metadata.next.is_empty() {
        index.namespaces = std::mem::take(&mut index.namespaces_listing);
        index.namespaces_listed = true;
        events.append(&mut pools_that_select(index));
    }
    Ok(turned(&page))
}

pub(super) fn namespace_line(
    index: &mut Index,
    text: &[u8],
    each: &mut impl FnMut(Result<Event, Unreadable>),
) -> Result<(), serde_json::Error> {
    let changed = match line::<NamespaceJson<'_>>(text)? {
        Line::Applied(json) => {
            let labels = json.metadata.labels.unwrap_or_default();
            index.namespaces.insert(json.metadata.name.to_string(), labels.clone()) != Some(labels)
        }
        Line::Deleted(json) => index.namespaces.remove(&*json.metadata.name).is_some(),
        Line::Bookmark | Line::Error(_) => false,
    };
    if changed {
        for event in pools_that_select(index) {
            each(Ok(event));
        }
    }
    Ok(())
}

/// The pools that select namespaces by label, with a new plan.
fn pools_that_select(index: &mut Index) -> Vec<Event> {
    index.namespaces_changed += 1;
    let selecting = index.pools.iter().filter(|(_, pool)| pool.seen.needs_labels());
    selecting.filter_map(|(one, _)| Some(Event::Pool(Box::new(index.pool(one)?)))).collect()
}

fn keep_pool(index: &mut Index, kind: PoolKind, seen: Seen, api: PoolVersion) -> Arc<PoolRef> {
    let meta = &seen.meta;
    let name = meta.name.as_deref().unwrap_or_default();
    let reference = index.names.pool(kind, meta.namespace.as_deref().unwrap_or_default(), name);
    index.written.shown(&reference, &seen.uid());
    index.pools.insert(reference.clone(), KnownPool { seen, api });
    reference
}

pub(super) fn pool_line(index: &mut Index, kind: PoolKind, text: &[u8]) -> Result<Option<Event>, serde_json::Error> {
    let (seen, gone) = match read_pool_line(kind, text)? {
        Line::Applied(seen) => (seen, false),
        Line::Deleted(seen) => (seen, true),
        Line::Bookmark | Line::Error(_) => return Ok(None),
    };
    // Found again under the name that stands in the object.
    let uid = seen.uid();
    let api = index.pool_version(kind);
    let reference = keep_pool(index, kind, seen, api);
    if gone {
        index.pools.remove(&reference);
        index.written.gone(&reference);
        return Ok(Some(Event::PoolGone(reference, uid)));
    }
    Ok(index.pool(&reference).map(|pool| Event::Pool(Box::new(pool))))
}

impl Index {
    /// What pauses a pool, besides its own annotation.
    fn paused(&self, reference: &PoolRef, seen: &Seen) -> Option<Paused> {
        if !self.scope.has_namespace(&reference.namespace) {
            return Some(Paused::Elsewhere);
        }
        if seen.is_paused() {
            return Some(Paused::Annotation);
        }
        if let Some(cluster) = self.cluster_of_pool(reference).filter(|cluster| self.clusters.is_paused(cluster)) {
            let known = self.clusters.are_known();
            return Some(if known { Paused::Cluster(cluster.name) } else { Paused::ClusterUnknown(cluster.name) });
        }
        (seen.needs_labels() && !self.namespaces_listed).then_some(Paused::NamespacesUnknown)
    }

    /// A pool as the protocol wants it.
    #[must_use]
    pub fn pool(&self, reference: &Arc<PoolRef>) -> Option<Pool> {
        let pool = self.pools.get(reference)?;
        let changes = match &pool.seen.spec {
            Spec::FloatingIps(_, status) => u64::from(floating_ips::is_served_twice(&status.conditions)) << 40,
            _ if pool.seen.needs_labels() => self.namespaces_changed << 40,
            _ => 0,
        };
        let generation = pool.seen.meta.generation.and_then(|one| u64::try_from(one).ok()).unwrap_or(0);
        let says = |written: &PoolStatus| match &pool.seen.spec {
            Spec::Metal3(_, shown) => self.metal3_indexes(reference) == *shown,
            Spec::FloatingIps(_, shown) => self.floating_ips_say(reference, pool, shown, written),
            _ => pool_status::says(pool, written),
        };
        let status = self.written.of(reference, says, || pool_status::read(pool));
        let mut pool = pool.seen.pool(
            reference.clone(),
            &self.namespaces,
            generation.wrapping_add(changes),
            self.paused(reference, &pool.seen),
            status,
        );
        if let Ok(plan) = &mut pool.plan
            && self.one_network
            && matches!(plan.network, Network::Namespace(_))
        {
            plan.network = Network::Common;
        }
        Some(pool)
    }
}
fn read_pools(kind: PoolKind, bytes: &[u8]) -> Result<(Turned, Vec<Seen>), serde_json::Error> {
    fn read<J>(bytes: &[u8]) -> Result<(Turned, Vec<Seen>), serde_json::Error>
    where
        J: for<'de> Deserialize<'de>,
        Seen: From<J>,
    {
        let page = Page::<'_, J>::read(bytes)?;
        let turned = turned(&page);
        Ok((turned, page.items.into_iter().flatten().map(Seen::from).collect()))
    }
    match kind {
        PoolKind::Metal3IPPool => read::<PoolJson<Metal3PoolSpec, Metal3PoolStatus>>(bytes),
        PoolKind::PHPIPAMIPPool => read::<PoolJson<PhpIpamIpPoolSpec>>(bytes),
        PoolKind::OpenStackFloatingIPPool => read::<PoolJson<FloatingIpPoolSpec, FloatingIpPoolStatus>>(bytes),
        PoolKind::InClusterPrefixPool | PoolKind::GlobalInClusterPrefixPool => read::<PoolJson<PrefixPoolSpec>>(bytes),
        PoolKind::InClusterIPPool | PoolKind::GlobalInClusterIPPool => read::<PoolJson<IpPoolSpec>>(bytes),
    }
}

fn read_pool_line(kind: PoolKind, text: &[u8]) -> Result<Line<Seen>, serde_json::Error> {
    fn read<J>(text: &[u8]) -> Result<Line<Seen>, serde_json::Error>
    where
        J: for<'de> Deserialize<'de>,
        Seen: From<J>,
    {
        Ok(match line::<J>(text)? {
            Line::Applied(pool) => Line::Applied(pool.into()),
            Line::Deleted(pool) => Line::Deleted(pool.into()),
            Line::Bookmark => Line::Bookmark,
            Line::Error(error) => Line::Error(error),
        })
    }
    match kind {
        PoolKind::Metal3IPPool => read::<PoolJson<Metal3PoolSpec, Metal3PoolStatus>>(text),
        PoolKind::PHPIPAMIPPool => read::<PoolJson<PhpIpamIpPoolSpec>>(text),
        PoolKind::OpenStackFloatingIPPool => read::<PoolJson<FloatingIpPoolSpec, FloatingIpPoolStatus>>(text),
        PoolKind::InClusterPrefixPool | PoolKind::GlobalInClusterPrefixPool => read::<PoolJson<PrefixPoolSpec>>(text),
        PoolKind::InClusterIPPool | PoolKind::GlobalInClusterIPPool => read::<PoolJson<IpPoolSpec>>(text),
    }
}
