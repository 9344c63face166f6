//! Translates changes of the index to events of the machine.

use std::sync::Arc;

use mooring_allocator_core::names::{Key, PoolRef, Uid};
use mooring_allocator_core::pool::Plan;
use mooring_allocator_core::range_set::RangeSet;
use mooring_allocator_machines::machine::Event;
use mooring_allocator_machines::objects::{Claim, Labels, POOL_KINDS, Pool, entries, kept, nameservers};
use mooring_allocator_machines::words;

use super::super::change::Change;
use super::super::index::Index;

/// Translates a change.
pub(super) fn events(change: &Change, index: &Index) -> Vec<Event> {
    let claim = |key: &Key| claim(key, index);
    let of_address = |uid: &Uid| {
        let address = index.protocol.address(uid)?;
        claim(&address.claim_key())
    };
    match change {
        Change::Tick => vec![Event::Tick],
        Change::Leading(until) => vec![Event::Leading(*until)],
        Change::Claims(all) => vec![Event::Claims(all.iter().filter_map(claim).collect())],
        Change::Claim(key, uid) => vec![match claim(key) {
            Some(claim) => Event::Claim(Box::new(claim)),
            // Somebody may have removed the claim's marks.
            None => Event::ClaimGone(key.clone(), uid.clone()),
        }],
        Change::ClaimGone(key, uid) => vec![Event::ClaimGone(key.clone(), uid.clone())],
        Change::Address(uid) => of_address(uid).map(|claim| Event::Claim(Box::new(claim))).into_iter().collect(),
        Change::Addresses(all) => {
            all.iter().filter_map(of_address).map(|claim| Event::Claim(Box::new(claim))).collect()
        }
        Change::Pools(all) => vec![Event::Pools(all.iter().filter_map(|one| pool(one, index)).collect())],
        Change::Pool(reference) => pool(reference, index).map(|one| Event::Pool(Box::new(one))).into_iter().collect(),
        Change::PoolGone(reference, _) => vec![Event::PoolGone(reference.clone())],
        // The allocation protocol unbinds the claim, or makes the address anew.
        Change::AddressGone(_) => Vec::new(),
    }
}

fn claim(key: &Key, index: &Index) -> Option<Claim> {
    let shown = index.protocol.claim(key)?;
    let address = index.address_of(shown).and_then(|one| Some((one.address?, one.prefix)));
    Claim::new(shown.clone(), address)
}

/// A pool of a kind that serves machines.
fn pool(reference: &Arc<PoolRef>, index: &Index) -> Option<Pool> {
    if !POOL_KINDS.contains(&reference.kind) {
        return None;
    }
    let pool = index.protocol.pool(reference)?;
    let seen = &index.pools.get(reference)?.seen;
    // Until the namespaces that it selects are listed, nobody knows whom it serves.
    let known = !seen.needs_labels() || index.namespaces_listed;
    let plan = pool.plan.as_ref().ok().filter(|_| known);
    let labels = seen.meta.labels.as_ref();
    Some(Pool {
        reference: pool.reference.clone(),
        labels: Labels::read(|name| labels?.get(name).map(String::as_str)),
        family: plan.and_then(Plan::family),
        addresses: plan.map(|plan| RangeSet::of(plan.address_ranges())).unwrap_or_default(),
        allowed: plan.and_then(|plan| plan.allowed_namespaces.clone()),
        gateway: plan.and_then(|plan| plan.gateway),
        nameservers: seen.annotation(words::NAMESERVERS).map_or_else(|| Ok(Vec::new()), nameservers),
        search: seen.annotation(words::SEARCH_DOMAINS).and_then(kept).map(|text| entries(&text)).unwrap_or_default(),
        deleting: pool.deleting,
    })
}
