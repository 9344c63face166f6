//! What the allocation protocol is told, Services' addresses depend on as well: claims, addresses, pools, who leads.

use std::sync::Arc;

use mooring_allocator_core::protocol;
use mooring_services::machine::Event;
use mooring_services::objects::{Address, Claim, Pool};
use mooring_services::words;

use super::super::known::Known;

/// The same in the words of Services. None: it is nothing to them.
#[must_use]
pub fn told(event: &protocol::Event, known: &Known) -> Option<Event> {
    use protocol::Event as Told;
    Some(match event {
        Told::Tick => Event::Tick,
        Told::Leading(until) => Event::Leading(*until),
        Told::Claims(all) => Event::Claims(all.iter().filter_map(|one| claim(one, known)).collect()),
        Told::Claim(one) => match claim(one, known) {
            Some(claim) => Event::Claim(Box::new(claim)),
            // Perhaps somebody took its label off.
            None => Event::ClaimGone(one.key.clone(), one.uid.clone()),
        },
        Told::ClaimGone(key, uid) => Event::ClaimGone(key.clone(), uid.clone()),
        Told::Addresses(all, _) => Event::Addresses(all.iter().map(|one| address(one, known)).collect()),
        Told::Address(one) => Event::Address(address(one, known)),
        Told::AddressGone(uid) => Event::AddressGone(uid.clone()),
        Told::Pools(all) => Event::Pools(all.iter().filter_map(|one| pool(one, known)).collect()),
        Told::Pool(one) => Event::Pool(Box::new(pool(one, known)?)),
        Told::PoolGone(reference, uid) => Event::PoolGone(reference.clone(), uid.clone()),
        Told::Answer { .. } | Told::ClaimRead { .. } => return None,
    })
}

fn claim(claim: &protocol::Claim, known: &Known) -> Option<Claim> {
    let service = known.claims.get(&claim.uid.0)?.beside.service.as_ref()?;
    let refused = claim.condition.as_ref().filter(|condition| !condition.ready);
    Some(Claim {
        key: claim.key.clone(),
        uid: claim.uid.clone(),
        version: claim.version.clone(),
        family: service.family,
        pool: claim.pool.clone(),
        requested: claim.requested.as_deref().and_then(|text| text.parse().ok()),
        members: service.members.clone(),
        bound: claim.bound.clone(),
        refused: refused.map(|one| (one.reason.name().into(), one.message.as_str().into())),
        deleting: claim.deleting,
    })
}

fn address(address: &protocol::Address, known: &Known) -> Address {
    Address {
        key: address.key.clone(),
        uid: address.uid.clone(),
        version: address.version.clone(),
        claim: address.claim.clone(),
        address: address.address,
        holder: known.holders.get(&address.uid.0).cloned(),
    }
}

fn pool(pool: &protocol::Pool, known: &Known) -> Option<Pool> {
    if pool.reference.kind.of_prefixes() {
        return None;
    }
    let seen = &known.pools.get(&pool.reference)?.seen;
    let texts = |errors: &Vec<mooring_allocator_core::pool::SpecError>| {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ").into()
    };
    let counts = pool.status.as_ref().map(|status| &status.counts);
    Some(Pool {
        reference: pool.reference.clone(),
        uid: pool.uid.clone(),
        version: pool.version.clone(),
        generation: pool.generation,
        plan: pool.plan.as_ref().map(|plan| Arc::new(plan.clone())).map_err(texts),
        default: seen.annotation(words::SERVICE_DEFAULT) == Some("true"),
        class: seen.annotation(words::SERVICE_CLASS).filter(|class| !class.is_empty()).map(Box::from),
        made: seen.made(&known.namespaces),
        exhausted: counts.is_some_and(|counts| counts.total > 0 && counts.available <= 0),
        deleting: pool.deleting,
    })
}
