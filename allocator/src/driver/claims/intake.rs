//! Translates lists and watches of claims, addresses and Clusters to the protocol's events.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mooring_allocator_core::clusters::depends_on;
use mooring_allocator_core::names::{ClaimKind, Key, PoolKind, PoolRef, Uid};
use mooring_allocator_core::protocol::{Address, Claim, Event};
use mooring_allocator_core::retained_meta::Finalizers;
use mooring_api::claim::IpAddressClaimStatus;
use mooring_api::versions::{IpamVersion, Version as _};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::index::Index;
use super::metal3::Known;
use crate::api::{Resource, Turned};
use crate::decode::address::{AddressJson, Shared};
use crate::decode::claim::ClaimJson;
use crate::decode::cluster::ClusterJson;
use crate::decode::frame::{Line, Page, line};

/// A list or a watch event cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{resource} cannot be read: {source}")]
pub struct Unreadable {
    /// Of which kind.
    pub resource: &'static str,
    /// Why.
    pub source: serde_json::Error,
}

/// Unfinished lists, and the kinds that were listed.
#[derive(Debug, Default)]
pub struct Intake {
    claims: Vec<Claim>,
    addresses: Vec<Address>,
    pub(super) pools: BTreeMap<PoolKind, Vec<Arc<PoolRef>>>,
    /// The kinds of pools about which something is known, even if only that none exist.
    pub(super) pools_known: BTreeSet<PoolKind>,
    /// The kinds of outside systems' pools that this program may not list, and has never listed.
    pub(super) pools_refused: BTreeSet<PoolKind>,
    claims_begun: bool,
    claims_listed: bool,
    /// The durations of claims that were seen to be bound.
    took: Vec<Duration>,
    /// Claims that must be judged again: what holds them back has changed.
    hold_changed: BTreeSet<Key>,
}

/// The status alone, whole.
#[derive(Deserialize)]
struct StatusOnly {
    #[serde(default)]
    status: Option<IpAddressClaimStatus>,
}

impl Intake {
    /// Whether the first claims were listed. Addresses, which share their texts, are listed a page behind them: an API server
    /// needs as long for the ones as for the others.
    #[must_use]
    pub const fn claims_begun(&self) -> bool {
        self.claims_begun
    }

    /// The claims whose hold may have changed.
    pub fn take_changed_holds(&mut self, now: Duration, index: &mut Index) -> Vec<Key> {
        self.hold_changed.extend(index.clusters.end_of_grace(now));
        std::mem::take(&mut self.hold_changed).into_iter().collect()
    }

    /// The durations of claims that were seen to be bound since the last call.
    pub fn take_times(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.took)
    }

    /// A page of a list.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn page(
        &mut self,
        index: &mut Index,
        now: Duration,
        page: (Resource, &'static str, &Bytes),
        first: bool,
        asked: Option<u64>,
    ) -> Result<(Turned, Vec<Event>), Unreadable> {
        let (resource, version, bytes) = page;
        let unreadable = |source| Unreadable { resource: resource.plural(), source };
        let mut events = Vec::new();
        let turned = match resource {
            Resource::Claims => self.claims_page(index, now, (version, bytes), first, &mut events),
            Resource::Addresses => self.addresses_page(index, bytes, first, asked, &mut events),
            Resource::Metal3Claims => self.metal3_claims_page(index, now, bytes, first, &mut events),
            Resource::Metal3Addresses => self.metal3_addresses_page(index, bytes, first, asked, &mut events),
            Resource::Clusters => self.clusters_page(index, bytes, first, &mut events),
            Resource::Namespaces => super::pools::namespaces_page(index, bytes, first, &mut events),
            Resource::Pools(kind) => self.pools_page(index, kind, (version, bytes), first, &mut events),
            other => return Err(Unreadable { resource: other.plural(), source: not_here() }),
        };
        Ok((turned.map_err(unreadable)?, events))
    }

    /// Lines of a watch. An unreadable line is reported and ignored: the other lines count.
    pub fn lines(
        &mut self,
        index: &mut Index,
        now: Duration,
        resource: Resource,
        bytes: &[u8],
        mut each: impl FnMut(Result<Event, Unreadable>),
    ) {
        for text in bytes.split(|&byte| byte == b'\n').filter(|text| !text.is_empty()) {
            let event = match resource {
                Resource::Claims => self.claim_line(index, now, text),
                Resource::Addresses => address_line(index, text),
                Resource::Metal3Claims => self.metal3_claim_line(index, now, text),
                Resource::Metal3Addresses => super::metal3::address_line(index, text),
                Resource::Clusters => self.cluster_line(index, text, &mut each).map(|()| None),
                Resource::Namespaces => super::pools::namespace_line(index, text, &mut each).map(|()| None),
                Resource::Pools(kind) => super::pools::pool_line(index, kind, text),
                _ => Err(not_here()),
            };
            match event {
                Ok(Some(event)) => each(Ok(event)),
                Ok(None) => {}
                Err(source) => each(Err(Unreadable { resource: resource.plural(), source })),
            }
        }
    }

    /// A kind is not served. At the start this means that no objects of the kind exist; later it means nothing.
    pub fn missing(&mut self, index: &mut Index, resource: Resource) -> Vec<Event> {
        match resource {
            Resource::Clusters if index.clusters.not_served(self.claims_listed) => self.judge_by_clusters(index),
            _ if resource.of_metal3() => return self.metal3_unlisted(index, resource, Known::Missing),
            Resource::Pools(kind) if self.pools_known.insert(kind) => return self.all_pools(index),
            Resource::Pools(kind) => return self.pools_allowed(kind).into_iter().collect(),
            _ => {}
        }
        Vec::new()
    }

    fn claims_page(
        &mut self,
        index: &mut Index,
        now: Duration,
        (version, bytes): (&'static str, &Bytes),
        first: bool,
        events: &mut Vec<Event>,
    ) -> Result<Turned, serde_json::Error> {
        let page = Page::<'_, ClaimJson<'_>>::read(bytes)?;
        if first {
            self.claims.clear();
            self.claims_begun = true;
        }
        let api = IpamVersion::newest([version]).unwrap_or_default();
        index.served = api;
        let whole: OnceCell<Vec<Option<&RawValue>>> = OnceCell::new();
        for (at, item) in page.items.iter().enumerate() {
            let Some(item) = item else { continue };
            let status = || {
                if whole.get().is_none() {
                    let all: Page<'_, &RawValue> = serde_json::from_slice(bytes)?;
                    let _ = whole.set(all.items);
                }
                let text = whole.get().and_then(|all| *all.get(at)?).map_or("{}", RawValue::get);
                Ok(serde_json::from_str::<StatusOnly>(text)?.status)
            };
            match item.translate(&mut index.names, &index.scope, api, status) {
                Ok(Some(claim)) => {
                    self.shown(index, now, &claim);
                    self.claims.push(claim);
                }
                Ok(None) => {}
                Err(error) => {
                    let (namespace, name) = (&*item.metadata.namespace, &*item.metadata.name);
                    tracing::error!(%error, claim = format!("{namespace}/{name}"), "status of claim cannot be read; the claim is ignored until it changes");
                }
            }
        }
        if page.metadata.next.is_empty() {
            self.claims_listed = true;
            let claims = std::mem::take(&mut self.claims);
            forget_others(index, ClaimKind::ClusterApi, &claims);
            events.push(Event::Claims(claims.into_iter().map(|claim| index.held(claim)).collect()));
        }
        Ok(turned(&page))
    }

    /// Notes that a claim was shown.
    pub(super) fn shown(&mut self, index: &mut Index, now: Duration, claim: &Claim) {
        if index.claims.insert(claim.uid.clone(), claim.key.clone()).is_none() {
            index.clusters.claim_shown_first(now, claim);
        }
        if claim.bound.is_some() {
            self.took.extend(index.waiting_since.remove(&claim.uid).map(|since| now.saturating_sub(since)));
        } else {
            index.waiting_since.entry(claim.uid.clone()).or_insert(now);
        }
    }

    fn claim_line(
        &mut self,
        index: &mut Index,
        now: Duration,
        text: &[u8],
    ) -> Result<Option<Event>, serde_json::Error> {
        let api = index.served;
        let json = match line::<ClaimJson<'_>>(text)? {
            Line::Deleted(json) => {
                let key = Key::new(&json.metadata.namespace, &json.metadata.name);
                let uid = Uid::from(&*json.metadata.uid);
                let known = index.claims.contains_key(&uid);
                claim_gone(index, &uid);
                return Ok(known.then_some(Event::ClaimGone(key, uid)));
            }
            Line::Applied(json) => json,
            Line::Bookmark | Line::Error(_) => return Ok(None),
        };
        let whole = || match line::<StatusOnly>(text)? {
            Line::Applied(one) => Ok(one.status),
            _ => Ok(None),
        };
        let Some(claim) = json.translate(&mut index.names, &index.scope, api, whole)? else {
            return Ok(None);
        };
        self.shown(index, now, &claim);
        Ok(Some(Event::Claim(index.held(claim))))
    }

    fn addresses_page(
        &mut self,
        index: &mut Index,
        bytes: &Bytes,
        first: bool,
        asked: Option<u64>,
        events: &mut Vec<Event>,
    ) -> Result<Turned, serde_json::Error> {
        // No address may be missed: an unreadable address stops everything.
        let page: Page<'_, AddressJson<'_>> = serde_json::from_slice(bytes)?;
        if first {
            self.addresses.clear();
            index.foreign_finalizers.list_begins();
        }
        for item in page.items.iter().flatten() {
            let Some((address, others)) = address(index, item) else { continue };
            index.foreign_finalizers.listed(&address.uid, &address.version, others);
            self.addresses.push(address);
        }
        if page.metadata.next.is_empty() {
            index.foreign_finalizers.list_ends();
            events.push(Event::Addresses(std::mem::take(&mut self.addresses), asked));
        }
        Ok(turned(&page))
    }

    fn clusters_page(
        &mut self,
        index: &mut Index,
        bytes: &Bytes,
        first: bool,
        events: &mut Vec<Event>,
    ) -> Result<Turned, serde_json::Error> {
        let page = Page::<'_, ClusterJson<'_>>::read(bytes)?;
        if first {
            index.clusters.list_begins();
        }
        for item in page.items.iter().flatten() {
            let key = Key::new(&item.metadata.namespace, &item.metadata.name);
            index.clusters.listed(key, item.pause());
        }
        if page.metadata.next.is_empty() {
            index.clusters.list_ends();
            self.judge_by_clusters(index);
            events.append(&mut super::metal3::all_again(index));
        }
        Ok(turned(&page))
    }

    /// All claims that depend on a Cluster are judged again.
    fn judge_by_clusters(&mut self, index: &Index) {
        let named = index.protocol.claims().filter(|claim| depends_on(claim).is_some());
        self.hold_changed.extend(named.map(|claim| claim.key.clone()));
    }

    fn cluster_line(
        &mut self,
        index: &mut Index,
        text: &[u8],
        each: &mut impl FnMut(Result<Event, Unreadable>),
    ) -> Result<(), serde_json::Error> {
        let (json, pause) = match line::<ClusterJson<'_>>(text)? {
            Line::Applied(json) => {
                let pause = json.pause();
                (json, Some(pause))
            }
            Line::Deleted(json) => (json, None),
            Line::Bookmark | Line::Error(_) => return Ok(()),
        };
        let key = Key::new(&json.metadata.namespace, &json.metadata.name);
        let changed = match pause {
            Some(pause) => index.clusters.shown(key.clone(), pause),
            None => index.clusters.gone(&key),
        };
        if changed {
            let its = index.protocol.claims().filter(|claim| depends_on(claim).as_ref() == Some(&key));
            self.hold_changed.extend(its.map(|claim| claim.key.clone()));
            super::metal3::of_cluster(index, &key, each);
        }
        Ok(())
    }
}

/// Kinds that only Services depend on are read by their controller.
fn not_here() -> serde_json::Error {
    serde::de::Error::custom("the protocol does not depend on this kind")
}

/// A list of all claims of a kind: of others nothing is kept.
pub(super) fn forget_others(index: &mut Index, kind: ClaimKind, claims: &[Claim]) {
    let there: HashSet<&Uid> = claims.iter().map(|claim| &claim.uid).collect();
    let gone = |(uid, key): &(&Uid, &Key)| key.claim_kind() == kind && !there.contains(uid);
    for uid in index.claims.iter().filter(gone).map(|(uid, _)| uid.clone()).collect::<Vec<_>>() {
        claim_gone(index, &uid);
    }
}

/// A claim is gone: nothing of the claim is kept.
pub(super) fn claim_gone(index: &mut Index, uid: &Uid) {
    index.claims.remove(uid);
    index.waiting_since.remove(uid);
    index.clusters.claim_gone(uid);
}

pub fn turned<T>(page: &Page<'_, T>) -> Turned {
    let meta = &page.metadata;
    Turned { next: meta.next.to_string(), version: meta.resource_version.to_string() }
}

/// Translates an address. The address comes with its finalizers, if it has others besides ours.
pub fn address(index: &mut Index, json: &AddressJson<'_>) -> Option<(Address, Option<Finalizers>)> {
    let Index { names, claims, served, pools_served, .. } = index;
    let claim = |uid: &str| {
        let (uid, key) = claims.get_key_value(uid)?;
        Some(Shared { uid: uid.clone(), key: key.clone() })
    };
    json.translate(names, claim, *served, |kind| pools_served.get(&kind).copied().unwrap_or_default())
}

fn address_line(index: &mut Index, text: &[u8]) -> Result<Option<Event>, serde_json::Error> {
    match line::<AddressJson<'_>>(text)? {
        Line::Applied(json) => Ok(address(index, &json).map(|(address, others)| {
            index.foreign_finalizers.shown(&address.uid, &address.version, others);
            Event::Address(address)
        })),
        Line::Deleted(json) => {
            let uid = Uid::from(&*json.metadata.uid);
            index.foreign_finalizers.gone(&uid);
            Ok(Some(Event::AddressGone(uid)))
        }
        Line::Bookmark | Line::Error(_) => Ok(None),
    }
}
