//! From what is heard to the protocol's events.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mooring_allocator_core::names::{Key, PoolKind, PoolRef};
use mooring_allocator_core::protocol::{Address, Claim, Event};
use mooring_api::claim::IpAddressClaimStatus;
use mooring_api::pool::{IpPoolSpec, PrefixPoolSpec};
use mooring_api::versions::{IpamVersion, PoolVersion, Version};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::known::{Known, KnownClaim, KnownPool};
use super::pool_status;
use crate::api::{POOLS, Resource, Turned};
use crate::wire::address::{AddressJson, Shared};
use crate::wire::claim::{Beside, ClaimJson};
use crate::wire::cluster::{ClusterJson, NamespaceJson};
use crate::wire::frame::{Line, Page, line};
use crate::wire::pool::{PoolJson, Seen};

/// A claim whose Cluster was not seen is left alone for so long: both may have been made at once.
const CLUSTER_GRACE: Duration = Duration::from_secs(1);

/// Something that was heard makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{resource} cannot be read: {source}")]
pub struct Unreadable {
    /// Of which kind.
    pub resource: &'static str,
    /// Why.
    pub source: serde_json::Error,
}

/// Takes in what is heard, of all kinds.
#[derive(Debug, Default)]
pub struct Intake {
    claims: Vec<Claim>,
    addresses: Vec<Address>,
    pools: BTreeMap<PoolKind, Vec<Arc<PoolRef>>>,
    round: u32,
    /// The kinds of pools of which something is known, if only that there are none.
    pools_known: BTreeSet<PoolKind>,
    clusters_known: bool,
    /// Clusters were listed, if only that there are none.
    clusters_listed: bool,
    claims_known: bool,
    /// Claims whose Cluster was not seen, and when they are to be looked at again.
    graced: VecDeque<(Duration, Arc<str>)>,
    /// How long claims took that were seen to be bound.
    took: Vec<Duration>,
    /// Claims that must be told again: what holds them back has changed.
    again: BTreeSet<Key>,
}

/// The status alone, whole.
#[derive(Deserialize)]
struct StatusOnly {
    #[serde(default)]
    status: Option<IpAddressClaimStatus>,
}

impl Intake {
    /// Whether the Clusters are known: before, no claim can be judged.
    #[must_use]
    pub const fn clusters_known(&self) -> bool {
        self.clusters_known
    }

    /// Whether the first claims were listed. Addresses, which share their texts, are listed a page behind them: an API server
    /// needs as long for the ones as for the others.
    #[must_use]
    pub const fn claims_begun(&self) -> bool {
        self.round > 0
    }

    /// Claims that must be told again.
    pub fn take_again(&mut self, now: Duration, known: &mut Known) -> Vec<Key> {
        while self.graced.front().is_some_and(|(at, _)| *at <= now) {
            let claim = self.graced.pop_front().and_then(|(_, uid)| known.claims.get_mut(&uid));
            if let Some(claim) = claim {
                claim.grace = false;
                self.again.insert(claim.beside.key.clone());
            }
        }
        std::mem::take(&mut self.again).into_iter().collect()
    }

    /// How long claims took that were seen to be bound since this was last asked.
    pub fn take_times(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.took)
    }

    /// When [`Intake::take_again`] has something for sure.
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        self.graced.front().map(|(at, _)| *at)
    }

    /// A page of a list.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn page(
        &mut self,
        known: &mut Known,
        now: Duration,
        page: (Resource, &'static str, &Bytes),
        first: bool,
        asked: Option<u64>,
    ) -> Result<(Turned, Vec<Event>), Unreadable> {
        let (resource, version, bytes) = page;
        let unreadable = |source| Unreadable { resource: resource.plural(), source };
        let mut events = Vec::new();
        let turned = match resource {
            Resource::Claims => self.claims_page(known, now, (version, bytes), first, &mut events),
            Resource::Addresses => self.addresses_page(known, (version, bytes), first, asked, &mut events),
            Resource::Clusters => self.clusters_page(known, bytes, first),
            Resource::Namespaces => namespaces_page(known, bytes, first, &mut events),
            Resource::Pools(kind) => self.pools_page(known, kind, (version, bytes), first, &mut events),
            other => return Err(Unreadable { resource: other.plural(), source: not_here() }),
        };
        Ok((turned.map_err(unreadable)?, events))
    }

    /// Lines of a watch. A line that cannot be read is told, and passed over: the others count.
    pub fn lines(
        &mut self,
        known: &mut Known,
        now: Duration,
        resource: Resource,
        bytes: &[u8],
        mut each: impl FnMut(Result<Event, Unreadable>),
    ) {
        for text in bytes.split(|&byte| byte == b'\n').filter(|text| !text.is_empty()) {
            let event = match resource {
                Resource::Claims => self.claim_line(known, now, text),
                Resource::Addresses => address_line(known, text),
                Resource::Clusters => self.cluster_line(known, text).map(|()| None),
                Resource::Namespaces => namespace_line(known, text, &mut each).map(|()| None),
                Resource::Pools(kind) => pool_line(known, kind, text),
                _ => Err(not_here()),
            };
            match event {
                Ok(Some(event)) => each(Ok(event)),
                Ok(None) => {}
                Err(source) => each(Err(Unreadable { resource: resource.plural(), source })),
            }
        }
    }

    /// A kind is not served. At the start that means that there is none of it; later it says nothing.
    pub fn missing(&mut self, known: &mut Known, resource: Resource) -> Vec<Event> {
        match resource {
            Resource::Clusters => {
                self.clusters_known = true;
                // An API server that has only begun denies every kind for a moment: one that serves claims has begun.
                if self.claims_known && !self.clusters_listed && !known.no_clusters {
                    known.no_clusters = true;
                    self.judge_by_clusters(known);
                }
            }
            Resource::Pools(kind) if self.pools_known.insert(kind) => return self.all_pools(known),
            _ => {}
        }
        Vec::new()
    }

    fn claims_page(
        &mut self,
        known: &mut Known,
        now: Duration,
        (version, bytes): (&'static str, &Bytes),
        first: bool,
        events: &mut Vec<Event>,
    ) -> Result<Turned, serde_json::Error> {
        let page = Page::<'_, ClaimJson<'_>>::read(bytes)?;
        if first {
            self.claims.clear();
            self.round = self.round.wrapping_add(1);
        }
        let api = IpamVersion::newest([version]).unwrap_or_default();
        known.served = api;
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
            match item.translate(&mut known.names, &known.scope, api, status) {
                Ok(Some((claim, beside))) => {
                    self.keep(known, now, &claim, beside);
                    self.claims.push(claim);
                }
                Ok(None) => {}
                Err(error) => {
                    let (namespace, name) = (&*item.metadata.namespace, &*item.metadata.name);
                    tracing::error!(%error, claim = format!("{namespace}/{name}"), "a claim is passed over");
                }
            }
        }
        if page.metadata.next.is_empty() {
            let round = self.round;
            known.claims.retain(|_, one| one.round == round);
            self.claims_known = true;
            let claims = std::mem::take(&mut self.claims);
            events.push(Event::Claims(claims.into_iter().map(|claim| known.held(claim)).collect()));
        }
        Ok(turned(&page))
    }

    /// Keeps what must be kept of a claim that was shown.
    fn keep(&mut self, known: &mut Known, now: Duration, claim: &Claim, beside: Beside) {
        let before = known.claims.get(&claim.uid.0);
        let mut grace = before.is_some_and(|one| one.grace);
        if before.is_none() && known.lacks_cluster(&beside) {
            grace = true;
            self.graced.push_back((now + CLUSTER_GRACE, claim.uid.0.clone()));
        }
        let since = match before {
            _ if claim.bound.is_some() => {
                self.took.extend(before.and_then(|one| Some(now.saturating_sub(one.since()?))));
                None
            }
            Some(before) => before.since().or(Some(now)),
            None => Some(now),
        };
        let one = KnownClaim::new(beside, self.round, grace, since);
        known.claims.insert(claim.uid.0.clone(), one);
    }

    fn claim_line(
        &mut self,
        known: &mut Known,
        now: Duration,
        text: &[u8],
    ) -> Result<Option<Event>, serde_json::Error> {
        let api = known.served;
        let json = match line::<ClaimJson<'_>>(text)? {
            Line::Deleted(json) => {
                let key = Key::new(&json.metadata.namespace, &json.metadata.name);
                return Ok(known
                    .claims
                    .remove(&*json.metadata.uid)
                    .map(|_| Event::ClaimGone(key, (*json.metadata.uid).into())));
            }
            Line::Applied(json) => json,
            Line::Bookmark | Line::Error(_) => return Ok(None),
        };
        let whole = || match line::<StatusOnly>(text)? {
            Line::Applied(one) => Ok(one.status),
            _ => Ok(None),
        };
        let Some((claim, beside)) = json.translate(&mut known.names, &known.scope, api, whole)? else {
            return Ok(None);
        };
        self.keep(known, now, &claim, beside);
        Ok(Some(Event::Claim(known.held(claim))))
    }

    fn addresses_page(
        &mut self,
        known: &mut Known,
        (_, bytes): (&'static str, &Bytes),
        first: bool,
        asked: Option<u64>,
        events: &mut Vec<Event>,
    ) -> Result<Turned, serde_json::Error> {
        // No address may be overlooked: what cannot be read stops all.
        let page: Page<'_, AddressJson<'_>> = serde_json::from_slice(bytes)?;
        if first {
            self.addresses.clear();
            known.odd.clear();
            known.holders.clear();
            known.facts.clear();
        }
        for item in page.items.iter().flatten() {
            self.addresses.extend(address(known, item));
        }
        if page.metadata.next.is_empty() {
            events.push(Event::Addresses(std::mem::take(&mut self.addresses), asked));
        }
        Ok(turned(&page))
    }

    fn clusters_page(&mut self, known: &mut Known, bytes: &Bytes, first: bool) -> Result<Turned, serde_json::Error> {
        let page = Page::<'_, ClusterJson<'_>>::read(bytes)?;
        if first {
            // All claims are judged anew.
            known.clusters.clear();
        }
        for item in page.items.iter().flatten() {
            let key = Key::new(&item.metadata.namespace, &item.metadata.name);
            known.clusters.insert(key, item.is_paused());
        }
        if page.metadata.next.is_empty() {
            (self.clusters_known, self.clusters_listed) = (true, true);
            known.no_clusters = false;
            self.judge_by_clusters(known);
        }
        Ok(turned(&page))
    }

    /// All claims that name a Cluster are judged anew.
    fn judge_by_clusters(&mut self, known: &Known) {
        let named = known.claims.values().filter(|one| one.beside.cluster.is_some());
        self.again.extend(named.map(|one| one.beside.key.clone()));
    }

    fn cluster_line(&mut self, known: &mut Known, text: &[u8]) -> Result<(), serde_json::Error> {
        let (json, now) = match line::<ClusterJson<'_>>(text)? {
            Line::Applied(json) => {
                let paused = json.is_paused();
                (json, Some(paused))
            }
            Line::Deleted(json) => (json, None),
            Line::Bookmark | Line::Error(_) => return Ok(()),
        };
        let key = Key::new(&json.metadata.namespace, &json.metadata.name);
        let before = match now {
            Some(paused) => known.clusters.insert(key.clone(), paused),
            None => known.clusters.remove(&key),
        };
        if before != now {
            let its = known.claims.values().filter(|one| {
                one.beside.key.namespace == key.namespace && one.beside.cluster.as_ref() == Some(&key.name)
            });
            self.again.extend(its.map(|one| one.beside.key.clone()));
        }
        Ok(())
    }

    fn pools_page(
        &mut self,
        known: &mut Known,
        kind: PoolKind,
        (version, bytes): (&'static str, &Bytes),
        first: bool,
        events: &mut Vec<Event>,
    ) -> Result<Turned, serde_json::Error> {
        let api = PoolVersion::newest([version]).unwrap_or_default();
        known.pools_served.insert(kind, api);
        let (turned, seen) = read_pools(kind, bytes)?;
        let there = self.pools.entry(kind).or_default();
        if first {
            there.clear();
        }
        for seen in seen {
            let reference = keep_pool(known, kind, seen, api);
            there.push(reference);
        }
        if turned.next.is_empty() {
            let there: BTreeSet<Arc<PoolRef>> = there.drain(..).collect();
            known.pools.retain(|reference, _| reference.kind != kind || there.contains(reference));
            self.pools_known.insert(kind);
            events.append(&mut self.all_pools(known));
        }
        Ok(turned)
    }

    /// All pools, once all kinds are known.
    fn all_pools(&self, known: &Known) -> Vec<Event> {
        if self.pools_known.len() < POOLS.len() {
            return Vec::new();
        }
        vec![Event::Pools(known.pools.keys().filter_map(|one| known.pool(one)).collect())]
    }
}

/// What is heard for Services' sake is taken in elsewhere.
fn not_here() -> serde_json::Error {
    serde::de::Error::custom("it is none of the protocol's kinds")
}

pub(super) fn turned<T>(page: &Page<'_, T>) -> Turned {
    let meta = &page.metadata;
    Turned { next: meta.next.to_string(), version: meta.resource_version.to_string() }
}

/// Translates an address and keeps what must be kept of it.
pub(super) fn address(known: &mut Known, json: &AddressJson<'_>) -> Option<Address> {
    let Known { names, claims, odd, holders, facts, .. } = known;
    let claim = |uid: &str| {
        let (uid, one) = claims.get_key_value(uid)?;
        Some(Shared { uid: mooring_allocator_core::names::Uid(uid.clone()), key: one.beside.key.clone() })
    };
    let (address, others) = json.translate(names, claim)?;
    match others {
        Some(others) => {
            odd.insert(address.uid.0.clone(), (address.version.clone(), others));
        }
        None if odd.is_empty() => {}
        None => {
            odd.remove(&address.uid.0);
        }
    }
    match json.holder() {
        Some(holder) => {
            holders.insert(address.uid.0.clone(), holder);
        }
        None if holders.is_empty() => {}
        None => {
            holders.remove(&address.uid.0);
        }
    }
    let now = json.facts();
    if now.matters() {
        facts.insert(address.uid.0.clone(), Box::new(now));
    } else if !facts.is_empty() {
        facts.remove(&address.uid.0);
    }
    Some(address)
}

fn address_line(known: &mut Known, text: &[u8]) -> Result<Option<Event>, serde_json::Error> {
    match line::<AddressJson<'_>>(text)? {
        Line::Applied(json) => Ok(address(known, &json).map(Event::Address)),
        Line::Deleted(json) => {
            known.odd.remove(&*json.metadata.uid);
            known.holders.remove(&*json.metadata.uid);
            known.facts.remove(&*json.metadata.uid);
            Ok(Some(Event::AddressGone((*json.metadata.uid).into())))
        }
        Line::Bookmark | Line::Error(_) => Ok(None),
    }
}

fn namespaces_page(
    known: &mut Known,
    bytes: &Bytes,
    first: bool,
    events: &mut Vec<Event>,
) -> Result<Turned, serde_json::Error> {
    let page = Page::<'_, NamespaceJson<'_>>::read(bytes)?;
    if first {
        known.namespaces.clear();
    }
    for item in page.items.iter().flatten() {
        known.namespaces.insert(item.metadata.name.to_string(), item.metadata.labels.clone());
    }
    if page.metadata.next.is_empty() {
        known.labels_listed = true;
        events.append(&mut choosy_pools(known));
    }
    Ok(turned(&page))
}

fn namespace_line(
    known: &mut Known,
    text: &[u8],
    each: &mut impl FnMut(Result<Event, Unreadable>),
) -> Result<(), serde_json::Error> {
    let changed = match line::<NamespaceJson<'_>>(text)? {
        Line::Applied(json) => {
            let labels = Some(json.metadata.labels);
            known.namespaces.insert(json.metadata.name.to_string(), labels.clone().unwrap_or_default()) != labels
        }
        Line::Deleted(json) => known.namespaces.remove(&*json.metadata.name).is_some(),
        Line::Bookmark | Line::Error(_) => false,
    };
    if changed {
        for event in choosy_pools(known) {
            each(Ok(event));
        }
    }
    Ok(())
}

/// The pools that select namespaces by label, with a new plan.
fn choosy_pools(known: &mut Known) -> Vec<Event> {
    known.namespaces_changed += 1;
    let choosy = known.pools.iter().filter(|(_, pool)| pool.seen.needs_labels());
    choosy.filter_map(|(one, _)| Some(Event::Pool(Box::new(known.pool(one)?)))).collect()
}

fn keep_pool(known: &mut Known, kind: PoolKind, seen: Seen, api: PoolVersion) -> Arc<PoolRef> {
    let meta = &seen.meta;
    let name = meta.name.as_deref().unwrap_or_default();
    let reference = known.names.pool(kind, meta.namespace.as_deref().unwrap_or_default(), name);
    let written = known.pools.remove(&reference).filter(|one| one.seen.uid() == seen.uid()).and_then(|one| one.written);
    known.pools.insert(reference.clone(), KnownPool { seen, api, written });
    reference
}

fn pool_line(known: &mut Known, kind: PoolKind, text: &[u8]) -> Result<Option<Event>, serde_json::Error> {
    let (seen, gone) = match read_pool_line(kind, text)? {
        Line::Applied(seen) => (seen, false),
        Line::Deleted(seen) => (seen, true),
        Line::Bookmark | Line::Error(_) => return Ok(None),
    };
    // Found again under the name that stands in the object.
    let uid = seen.uid();
    let api = known.pools_served.get(&kind).copied().unwrap_or_default();
    let reference = keep_pool(known, kind, seen, api);
    if gone {
        known.pools.remove(&reference);
        return Ok(Some(Event::PoolGone(reference, uid)));
    }
    Ok(known.pool(&reference).map(|pool| Event::Pool(Box::new(pool))))
}

impl Known {
    /// A pool as the protocol wants it.
    #[must_use]
    pub fn pool(&self, reference: &Arc<PoolRef>) -> Option<mooring_allocator_core::protocol::Pool> {
        let pool = self.pools.get(reference)?;
        let changes = if pool.seen.needs_labels() { self.namespaces_changed << 40 } else { 0 };
        let generation = pool.seen.meta.generation.and_then(|one| u64::try_from(one).ok()).unwrap_or(0);
        let unknown = pool.seen.needs_labels() && !self.labels_listed;
        let elsewhere = !self.scope.has_namespace(&reference.namespace);
        let status = pool_status::shown(pool);
        Some(pool.seen.pool(
            reference.clone(),
            &self.namespaces,
            generation.wrapping_add(changes),
            elsewhere || unknown,
            status,
        ))
    }
}

fn read_pools(kind: PoolKind, bytes: &[u8]) -> Result<(Turned, Vec<Seen>), serde_json::Error> {
    fn read<S>(bytes: &[u8]) -> Result<(Turned, Vec<Seen>), serde_json::Error>
    where
        S: for<'de> Deserialize<'de> + Default,
        Seen: From<PoolJson<S>>,
    {
        let page = Page::<'_, PoolJson<S>>::read(bytes)?;
        let turned = turned(&page);
        Ok((turned, page.items.into_iter().flatten().map(Seen::from).collect()))
    }
    if kind.of_prefixes() { read::<PrefixPoolSpec>(bytes) } else { read::<IpPoolSpec>(bytes) }
}

fn read_pool_line(kind: PoolKind, text: &[u8]) -> Result<Line<Seen>, serde_json::Error> {
    fn read<S>(text: &[u8]) -> Result<Line<Seen>, serde_json::Error>
    where
        S: for<'de> Deserialize<'de> + Default,
        Seen: From<PoolJson<S>>,
    {
        Ok(match line::<PoolJson<S>>(text)? {
            Line::Applied(pool) => Line::Applied(pool.into()),
            Line::Deleted(pool) => Line::Deleted(pool.into()),
            Line::Bookmark => Line::Bookmark,
            Line::Error(error) => Line::Error(error),
        })
    }
    if kind.of_prefixes() { read::<PrefixPoolSpec>(text) } else { read::<IpPoolSpec>(text) }
}
