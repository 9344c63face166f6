//! Translates changes of the index to events of the Services' machine.

use std::sync::Arc;

use mooring_allocator_core::few::few;
use mooring_allocator_core::names::{PoolKind, PoolRef};
use mooring_allocator_services::machine::Event;
use mooring_allocator_services::objects::{Claim, Pool};
use mooring_allocator_services::words;

use super::super::change::Change;
use super::super::index::Index;

/// Translates a change to an event; None: Services do not depend on the change.
pub(super) fn event(change: &Change, index: &Index) -> Option<Event> {
    Some(match change {
        Change::Tick => Event::Tick,
        Change::Leading(until) => Event::Leading(*until),
        Change::Claims(all) => {
            Event::Claims(all.iter().filter_map(|key| Claim::of(index.protocol.claim(key)?)).collect())
        }
        Change::Claim(key, uid) => match index.protocol.claim(key).and_then(Claim::of) {
            Some(claim) => Event::Claim(Box::new(claim)),
            // Somebody may have removed the claim's label.
            None => Event::ClaimGone(key.clone(), uid.clone()),
        },
        Change::ClaimGone(key, uid) => Event::ClaimGone(key.clone(), uid.clone()),
        Change::Addresses(all) => {
            Event::Addresses(all.iter().filter_map(|uid| index.protocol.address(uid).cloned()).collect())
        }
        Change::Address(uid) => Event::Address(index.protocol.address(uid)?.clone()),
        Change::AddressGone(uid) => Event::AddressGone(uid.clone()),
        Change::Pools(all) => Event::Pools(all.iter().filter_map(|one| pool(one, index)).collect()),
        Change::Pool(reference) => Event::Pool(Box::new(pool(reference, index)?)),
        Change::PoolGone(reference, uid) => Event::PoolGone(reference.clone(), uid.clone()),
    })
}

fn pool(reference: &Arc<PoolRef>, index: &Index) -> Option<Pool> {
    // Services have single addresses. metal3's pools are of machines.
    if reference.kind.of_prefixes() || reference.kind == PoolKind::Metal3IPPool || reference.kind.is_remote() {
        return None;
    }
    let pool = index.protocol.pool(reference)?;
    let seen = &index.pools.get(reference)?.seen;
    let texts = |errors: &Vec<mooring_allocator_core::pool::SpecError>| few(errors).into();
    let counts = pool.status.as_ref().map(|status| &status.counts);
    Some(Pool {
        reference: pool.reference.clone(),
        uid: pool.uid.clone(),
        version: pool.version.clone(),
        generation: pool.generation,
        plan: if seen.needs_labels() && !index.namespaces_listed {
            // Until then it counts as what it was before.
            Err("the namespaces that it selects are not listed yet".into())
        } else {
            pool.plan.as_ref().map(|plan| Arc::new(plan.clone())).map_err(texts)
        },
        before: None,
        default: seen.annotation(words::SERVICE_DEFAULT) == Some("true"),
        class: seen.annotation(words::SERVICE_CLASS).filter(|class| !class.is_empty()).map(Box::from),
        made: seen.made(&index.namespaces),
        exhausted: counts.is_some_and(|counts| counts.total > 0 && counts.available <= 0),
        deleting: pool.deleting,
    })
}
