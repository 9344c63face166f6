//! metal3's pools: what they depend on beside themselves, and what their status says.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use mooring_allocator_core::names::{Key, PoolKind, PoolRef, Uid};
use mooring_allocator_core::protocol::Event;

use super::super::index::Index;
use super::intake::{Unreadable, turned};
use crate::api::Turned;
use crate::decode::frame::{Line, Page, line};
use crate::decode::metal3::{Metal3AddressJson, Taken};

/// The addresses that metal3's own claims have. Nobody gives them to claims of Cluster API, and this program gives none to
/// metal3's own claims.
#[derive(Debug, Default)]
pub struct Metal3 {
    taken: HashMap<Uid, Taken>,
    /// The pages of an unfinished list.
    listing: HashMap<Uid, Taken>,
    /// They were listed, or metal3's kind is not served.
    known: bool,
    /// How often they have changed.
    changes: u64,
}

impl Metal3 {
    /// Whether a pool can be judged.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.known
    }

    /// How often they have changed.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// What metal3's own claims have of a pool.
    pub fn of<'a>(&'a self, pool: &'a PoolRef) -> impl Iterator<Item = &'a Taken> {
        self.taken.values().filter(move |one| *one.pool == *pool)
    }

    /// metal3's own kind is not served. Once it was listed, this means nothing.
    pub fn not_served(&mut self) -> bool {
        !std::mem::replace(&mut self.known, true)
    }
}

pub(super) fn page(
    index: &mut Index,
    bytes: &Bytes,
    first: bool,
    events: &mut Vec<Event>,
) -> Result<Turned, serde_json::Error> {
    // No address may be missed: an unreadable object stops the list.
    let page: Page<'_, Metal3AddressJson<'_>> = serde_json::from_slice(bytes)?;
    if first {
        index.metal3.listing.clear();
    }
    for item in page.items.iter().flatten() {
        if let Some(taken) = item.taken(&mut index.names) {
            index.metal3.listing.insert(item.uid(), taken);
        }
    }
    if page.metadata.next.is_empty() {
        index.metal3.taken = std::mem::take(&mut index.metal3.listing);
        index.metal3.known = true;
        events.append(&mut all_again(index));
    }
    Ok(turned(&page))
}

pub(super) fn address_line(index: &mut Index, text: &[u8]) -> Result<Option<Event>, serde_json::Error> {
    let (uid, now) = match line::<Metal3AddressJson<'_>>(text)? {
        Line::Applied(json) => (json.uid(), json.taken(&mut index.names)),
        Line::Deleted(json) => (json.uid(), None),
        Line::Bookmark | Line::Error(_) => return Ok(None),
    };
    let before = match now.clone() {
        Some(taken) => index.metal3.taken.insert(uid, taken),
        None => index.metal3.taken.remove(&uid),
    };
    if before == now {
        return Ok(None);
    }
    index.metal3.changes += 1;
    // Its spec does not change, so it is of one pool.
    let pool = before.or(now).map(|one| one.pool);
    Ok(pool.and_then(|pool| index.pool(&pool)).map(|pool| Event::Pool(Box::new(pool))))
}

/// All of metal3's pools are judged again.
pub(super) fn all_again(index: &mut Index) -> Vec<Event> {
    index.metal3.changes += 1;
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
        let own = self.metal3.of(pool).map(|one| (one.claim.to_string(), one.address.to_string()));
        let mut all: BTreeMap<String, String> = own.collect();
        let theirs = all.clone();
        for address in self.protocol.addresses().filter(|one| *one.pool == *pool && one.rest.is_none()) {
            if let Some(ip) = address.address {
                let name = address.claim.to_string();
                let key = if theirs.contains_key(&name) { format!("IPAddressClaim/{name}") } else { name };
                all.insert(key, ip.to_string());
            }
        }
        all
    }
}
