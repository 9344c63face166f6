//! metal3's kinds: their lists and watches, and what the status of its pools says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mooring_allocator_core::foreign_finalizers::ForeignFinalizers;
use mooring_allocator_core::names::{ClaimKind, Key, PoolKind, PoolRef, Uid};
use mooring_allocator_core::protocol::{Address, Claim, Event};

use super::super::index::Index;
use super::intake::{Intake, Unreadable, turned};
use crate::api::{Resource, Turned};
use crate::decode::frame::{Line, Page, line};
use crate::decode::metal3::{Metal3AddressJson, Metal3ClaimJson};

/// What is known of one of metal3's kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Known {
    /// Nothing yet.
    #[default]
    No,
    /// The API server does not let this program list them. Their claims wait; the other kinds' do not.
    Refused,
    /// It is not served: there are none.
    Missing,
    /// It was listed.
    Listed,
}

/// What is known of metal3's kinds, besides the objects themselves.
#[derive(Debug, Default)]
pub struct Metal3 {
    /// The finalizers of addresses that have others besides ours.
    pub foreign_finalizers: ForeignFinalizers,
    known: BTreeMap<Resource, Known>,
    /// The pages of unfinished lists.
    claims: Vec<Claim>,
    addresses: Vec<Address>,
    /// The list of addresses that the protocol waits for.
    asked: Option<u64>,
    /// The protocol was told that all are known.
    told: bool,
}

/// The kinds.
pub const METAL3: [Resource; 3] =
    [Resource::Pools(PoolKind::Metal3IPPool), Resource::Metal3Claims, Resource::Metal3Addresses];

impl Metal3 {
    fn of(&self, resource: Resource) -> Known {
        self.known.get(&resource).copied().unwrap_or_default()
    }

    /// Whether something is known of each kind, and be it that nothing can be known.
    pub fn is_asked_for(&self) -> bool {
        METAL3.iter().all(|one| self.of(*one) != Known::No)
    }

    /// The protocol asks for a list of addresses. False: there are none.
    pub fn wants_list(&mut self, id: u64) -> bool {
        self.asked = Some(id);
        self.of(Resource::Metal3Addresses) != Known::Missing
    }

    /// A kind was listed.
    pub(super) fn listed(&mut self, resource: Resource) {
        self.known.insert(resource, Known::Listed);
    }

    /// The event that says that all is known, once.
    pub(super) fn all_listed(&mut self) -> Option<Event> {
        let known = |one: &Resource| matches!(self.of(*one), Known::Listed | Known::Missing);
        let all = METAL3.iter().all(known) && !self.told;
        self.told |= all;
        all.then_some(Event::Metal3Listed)
    }
}

impl Intake {
    /// One of metal3's kinds is not served, or may not be listed. Once it was listed, neither means anything.
    pub fn metal3_unlisted(&mut self, index: &mut Index, resource: Resource, known: Known) -> Vec<Event> {
        let before = index.metal3.of(resource);
        if before == Known::Listed || before == known {
            return Vec::new();
        }
        index.metal3.known.insert(resource, known);
        let mut events = Vec::new();
        if let (Resource::Metal3Addresses, Known::Missing, Some(id)) = (resource, known, index.metal3.asked.take()) {
            events.push(Event::Metal3Addresses(Vec::new(), Some(id)));
        }
        events.append(&mut self.all_pools(index));
        events.extend(index.metal3.all_listed());
        events
    }

    pub(super) fn metal3_claims_page(
        &mut self,
        index: &mut Index,
        now: Duration,
        bytes: &Bytes,
        first: bool,
        events: &mut Vec<Event>,
    ) -> Result<Turned, serde_json::Error> {
        let page = Page::<'_, Metal3ClaimJson<'_>>::read(bytes)?;
        if first {
            index.metal3.claims.clear();
        }
        for item in page.items.iter().flatten() {
            if let Some(claim) = item.translate(&mut index.names, &index.scope) {
                self.shown(index, now, &claim);
                index.metal3.claims.push(claim);
            }
        }
        if page.metadata.next.is_empty() {
            let claims = std::mem::take(&mut index.metal3.claims);
            super::intake::forget_others(index, ClaimKind::Metal3, &claims);
            let held = claims.into_iter().map(|claim| index.held(claim)).collect();
            events.push(Event::Metal3Claims(held));
            index.metal3.listed(Resource::Metal3Claims);
            events.append(&mut self.all_pools(index));
            events.extend(index.metal3.all_listed());
        }
        Ok(turned(&page))
    }

    pub(super) fn metal3_claim_line(
        &mut self,
        index: &mut Index,
        now: Duration,
        text: &[u8],
    ) -> Result<Option<Event>, serde_json::Error> {
        match line::<Metal3ClaimJson<'_>>(text)? {
            Line::Deleted(json) => {
                let (key, uid) =
                    (Key::of_metal3(&json.metadata.namespace, &json.metadata.name), Uid::from(&*json.metadata.uid));
                let known = index.claims.contains_key(&uid);
                super::intake::claim_gone(index, &uid);
                Ok(known.then_some(Event::ClaimGone(key, uid)))
            }
            Line::Applied(json) => Ok(json.translate(&mut index.names, &index.scope).map(|claim| {
                self.shown(index, now, &claim);
                Event::Claim(index.held(claim))
            })),
            Line::Bookmark | Line::Error(_) => Ok(None),
        }
    }

    pub(super) fn metal3_addresses_page(
        &mut self,
        index: &mut Index,
        bytes: &Bytes,
        first: bool,
        asked: Option<u64>,
        events: &mut Vec<Event>,
    ) -> Result<Turned, serde_json::Error> {
        // No address may be missed: an unreadable object stops the list.
        let page: Page<'_, Metal3AddressJson<'_>> = serde_json::from_slice(bytes)?;
        if first {
            index.metal3.addresses.clear();
            index.metal3.foreign_finalizers.list_begins();
        }
        for item in page.items.iter().flatten() {
            let Some((address, others)) = item.translate(&mut index.names) else { continue };
            index.metal3.foreign_finalizers.listed(&address.uid, &address.version, others);
            index.metal3.addresses.push(address);
        }
        if page.metadata.next.is_empty() {
            index.metal3.foreign_finalizers.list_ends();
            if asked == index.metal3.asked {
                index.metal3.asked = None;
            }
            events.push(Event::Metal3Addresses(std::mem::take(&mut index.metal3.addresses), asked));
            index.metal3.listed(Resource::Metal3Addresses);
            events.append(&mut self.all_pools(index));
            events.extend(index.metal3.all_listed());
        }
        Ok(turned(&page))
    }
}

pub(super) fn address_line(index: &mut Index, text: &[u8]) -> Result<Option<Event>, serde_json::Error> {
    match line::<Metal3AddressJson<'_>>(text)? {
        Line::Applied(json) => Ok(json.translate(&mut index.names).map(|(address, others)| {
            index.metal3.foreign_finalizers.shown(&address.uid, &address.version, others);
            Event::Address(address)
        })),
        Line::Deleted(json) => {
            let uid = Uid::from(&*json.metadata.uid);
            index.metal3.foreign_finalizers.gone(&uid);
            Ok(Some(Event::AddressGone(uid)))
        }
        Line::Bookmark | Line::Error(_) => Ok(None),
    }
}

/// All of metal3's pools are judged again.
pub(super) fn all_again(index: &Index) -> Vec<Event> {
    events_of(index, |_| true)
}

/// The pools of a Cluster are judged again.
pub(super) fn of_cluster(index: &Index, cluster: &Key, each: &mut impl FnMut(Result<Event, Unreadable>)) {
    let its = |pool: &PoolRef| index.cluster_of_pool(pool).as_ref() == Some(cluster);
    for event in events_of(index, its) {
        each(Ok(event));
    }
}

fn events_of(index: &Index, which: impl Fn(&PoolRef) -> bool) -> Vec<Event> {
    let ours = |pool: &&Arc<PoolRef>| pool.kind == PoolKind::Metal3IPPool && which(pool);
    index.pools.keys().filter(ours).filter_map(|one| Some(Event::Pool(Box::new(index.pool(one)?)))).collect()
}

impl Index {
    /// The Cluster that a pool of metal3's names.
    pub(super) fn cluster_of_pool(&self, pool: &PoolRef) -> Option<Key> {
        let name = self.pools.get(pool)?.seen.metal3()?.cluster_name.as_deref().filter(|name| !name.is_empty())?;
        Some(Key::new(&pool.namespace, name))
    }

    /// `status.indexes` of a pool of metal3's: claim to address. Claims of two kinds may have the same name.
    pub(super) fn metal3_indexes(&self, pool: &PoolRef) -> BTreeMap<String, String> {
        let of_pool = |one: &&Arc<Address>| *one.pool == *pool && one.rest.is_none();
        let of_kind = |kind| {
            let all = self.protocol.addresses().filter(of_pool);
            all.filter(move |one| one.key.claim_kind() == kind).filter_map(|one| Some((one, one.address?.to_string())))
        };
        let claim = |one: &Address| Key { name: one.claim.clone(), ..one.key.clone() }.object().to_owned();
        let mut all: BTreeMap<String, String> = of_kind(ClaimKind::Metal3).map(|(one, ip)| (claim(one), ip)).collect();
        let theirs = all.clone();
        for (address, ip) in of_kind(ClaimKind::ClusterApi) {
            let name = claim(address);
            let key = if theirs.contains_key(&name) { format!("IPAddressClaim/{name}") } else { name };
            all.insert(key, ip);
        }
        all
    }
}
