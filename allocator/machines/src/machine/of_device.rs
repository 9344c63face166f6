//! The addresses of one device: which claims they come from, and what is missing.

use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::few::few;
use mooring_allocator_core::names::Key;

use crate::device::Given;
use crate::objects::{Claim, entries};
use crate::reason::{Condition, Reason};
use crate::selector::{Choice, Reach, Selector};
use crate::{naming, words};

use super::Write;
use super::action::{NewClaim, Parent};
use super::decide::View;

/// The address of a device, with what the pool adds.
pub(super) struct Ready {
    pub(super) given: Given,
    search: Vec<Box<str>>,
}

/// The addresses of a device: one of each family of its pools.
pub(super) fn of_device(
    view: &View<'_>,
    (place, cluster): (usize, &Arc<str>),
    selector: Selector<'_>,
    reach: &Reach<'_>,
    (writes, needed): (&mut Vec<Write>, &mut Vec<Arc<str>>),
) -> Result<Vec<Ready>, Condition> {
    let machine = view.machine;
    let choice = selector.choose(view.pools.values(), reach);
    let mut ready = Vec::new();
    let mut trouble = None;
    let mut any = false;
    for family in [Family::V4, Family::V6] {
        let Some(pool) = choice.of(family) else { continue };
        any = true;
        let name = naming::claim(&machine.key.name, place, family);
        let seen = view.claims.get(&name);
        let fits = |claim: &Claim| choice.all().iter().any(|pool| pool.reference == claim.pool);
        if seen.is_none_or(|claim| claim.bound.is_some() || fits(claim)) {
            needed.push(name.clone());
        }
        let found = match seen {
            Some(claim) => of_claim(view, claim, &choice),
            None if (view.hidden)(&name) => {
                let message =
                    format!("there is a claim {name} that is not this machine's: delete it, or rename the machine");
                Err(Condition::new(Reason::NameTaken, message))
            }
            None => {
                let key = Key { namespace: machine.key.namespace.clone(), name: name.clone() };
                let parent = Parent::of(machine);
                let pool = pool.reference.clone();
                let new = NewClaim { key, parent, cluster: cluster.clone(), device: place, pool, requested: None };
                writes.push(Write::CreateClaim(Box::new(new)));
                Err(Condition::new(Reason::Allocating, format!("claim {name} is made")))
            }
        };
        match found {
            Ok(one) => ready.push(one),
            Err(condition) => _ = trouble.get_or_insert(condition),
        }
    }
    if !any {
        return Err(no_pool(selector, &choice, place, reach));
    }
    trouble.map_or(Ok(ready), Err)
}

/// Why there is no pool for a device.
fn no_pool(selector: Selector<'_>, choice: &Choice<'_>, place: usize, reach: &Reach<'_>) -> Condition {
    if !choice.all().is_empty() {
        let names = few(choice.all().iter().map(|pool| &pool.reference));
        let message = format!("device {place}: {names} has no addresses that can be handed out: its status says why");
        return Condition::new(Reason::PoolNotReady, message);
    }
    let (words, namespace) = (selector.words(), reach.namespace);
    let own = match reach.pool_namespace.filter(|_| !reach.own_pools()) {
        None => format!("InClusterIPPool of namespace {namespace}, and no GlobalInClusterIPPool that serves it,"),
        Some(other) => format!(
            "GlobalInClusterIPPool that serves namespace {namespace} (an InClusterIPPool of {other}, which the Cluster's annotation {} names, \
             serves that namespace only)",
            words::POOL_NAMESPACE
        ),
    };
    Condition::new(
        Reason::NoPool,
        format!("device {place}: no {own} is named by {words}: correct the labels, or make the pool"),
    )
}

/// The address of a claim.
fn of_claim(view: &View<'_>, claim: &Claim, choice: &Choice<'_>) -> Result<Ready, Condition> {
    let name = &claim.key.name;
    if !claim.is_of(view.machine) {
        let message = format!("claim {name} is of a former machine of this name, and is being released");
        return Err(Condition::new(Reason::Allocating, message));
    }
    let pool = choice.all().iter().find(|pool| pool.reference == claim.pool);
    if claim.bound.is_none() {
        if claim.deleting || pool.is_none() {
            return Err(Condition::new(Reason::Allocating, format!("claim {name} is being made anew")));
        }
        return Err(match claim.condition.as_ref().filter(|condition| !condition.ready) {
            Some(said) => {
                Condition::new(Reason::of_claim(said.reason.name()), format!("claim {name}: {}", said.message))
            }
            None => Condition::new(Reason::Allocating, format!("claim {name} waits for its address")),
        });
    }
    let Some(pool) = pool else {
        let message = format!(
            "claim {name} has an address of {}, which the labels do not name any more: name it again; or delete the machine, and the \
             next one gets an address of the pool that they name",
            claim.pool
        );
        return Err(Condition::new(Reason::OtherPool, message));
    };
    let Some((ip, prefix)) = claim.address else {
        return Err(Condition::new(Reason::Allocating, format!("the address of claim {name} is not shown yet")));
    };
    let nameservers = pool.nameservers.clone().map_err(|entry| {
        let message = format!(
            "{entry:?} in the annotation {} of {} is no address: correct it",
            words::NAMESERVERS,
            pool.reference
        );
        Condition::new(Reason::InvalidRequest, message)
    })?;
    let gateway = pool.gateway;
    Ok(Ready { given: Given { ip, prefix, gateway, nameservers }, search: pool.search.clone() })
}

/// The search domains: of the machine, else of its template, else of the pools.
pub(super) fn search(view: &View<'_>, ready: &[Ready]) -> Vec<Box<str>> {
    let said = view.machine.search.as_ref().or_else(|| view.template?.search.as_ref());
    if let Some(text) = said {
        return entries(text);
    }
    let mut all: Vec<Box<str>> = Vec::new();
    for one in ready.iter().flat_map(|one| &one.search) {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
    all
}
