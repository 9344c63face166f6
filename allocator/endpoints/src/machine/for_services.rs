//! The next steps for the addresses of a Cluster's Services.
//!
//! The target outlives the claims: a backup may bring back a Cluster, and what its workload cluster reads, before the claims. Then
//! the claims that are missing are made for the addresses that the target lists. Otherwise the list would grow by other addresses,
//! and somebody else would get those that the workload cluster uses.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::names::Key;
use mooring_allocator_core::work::Target;

use crate::notes::{RequestError, ServiceWish, service_wish};
use crate::objects::{Claim, Companion};
use crate::reason::{Condition, Reason};
use crate::service_addresses::{NoAddresses, listed, name, number, put};

use super::Write;
use super::action::{NewClaim, Parent};
use super::decide::{Finding, is_given};
use super::flaws::{Flaw, planted};
use super::view::{Bond, Step, Stop, View, address_of, bond, claim_target, is_of_another, target};

/// What was read of the target this long ago, or earlier, says nothing about which addresses a claim is made for: people may have
/// changed the list and deleted the claim.
const FRESH: Duration = Duration::from_secs(1);

/// Adds what is to be done for the Services' addresses to what was found for the endpoint. Returns what they wait for.
///
/// # Errors
/// An annotation cannot be read.
pub(super) fn add(view: &View<'_>, finding: &mut Finding) -> Result<Option<Condition>, RequestError> {
    let cluster = view.cluster;
    let wish = service_wish(&cluster.notes, &cluster.key.namespace);
    let wanted = wish.as_ref().map(|wish| wish.as_ref().map_or(0, |wish| wish.count));
    let target = wish.as_ref().ok().and_then(|wish| wish.as_ref()).and_then(|wish| wish.target.as_ref());
    let list = target.filter(|_| !view.held()).map(|what| read(view, what, finding));
    // What the workload cluster uses for certain. None: that is not known yet, or nothing is done now.
    let in_use = match &list {
        _ if view.held() || wish.is_err() => None,
        Some(list) => list.as_ref().ok().map(|list| &*list.alone),
        None => Some(&[][..]),
    };
    let is_there = |number| view.claims.contains_key(&name(&cluster.key.name, number));
    let mut others_are_there = wanted.as_ref().is_ok_and(|wanted| (0..*wanted).all(is_there));
    for claim in view.claims.values().filter(|claim| claim.deleting && claim.in_use()) {
        // An earlier Cluster of this name had it, or somebody takes back what is no longer wanted, or it has no address.
        let number = number(&cluster.key.name, &claim.key.name);
        let endpoint = claim.key.name == cluster.key.name && matches!(view.wish, Ok(Some(_)));
        let unwanted = number.is_some_and(|number| wanted.as_ref().is_ok_and(|wanted| number >= *wanted));
        let empty = number.is_some() && claim.bound.is_none();
        let goes = empty || (is_of_another(claim, cluster) && !endpoint);
        let restored = number.is_some() && (claim.bound.is_some() || claim.had().is_some());
        if !unwanted && goes && restored && !planted(Flaw::ReleasesTheRestored) {
            // One is made anew after the other, and each for what no other has.
            let stays = |listed: &[IpAddr]| claim.bound.is_some() && is_listed(claim, listed);
            if in_use.is_none_or(stays) || (empty && !std::mem::take(&mut others_are_there)) {
                continue;
            }
        }
        if unwanted || goes {
            finding.steps.push(Step::Write(Write::ReleaseClaim(claim_target(claim))));
        }
    }
    let Some(wish) = wish.as_ref().map_err(Clone::clone)? else { return Ok(None) };
    let mut addresses = Vec::new();
    let mut missing = Vec::new();
    let mut waits = None;
    for number in 0..wish.count {
        let name = name(&cluster.key.name, number);
        let Some(claim) = view.claims.get(&name) else {
            if (view.hidden)(&name) {
                let message = format!(
                    "a claim {name} for its Services exists and is not shown: if it is of another provider's pool, delete or rename it"
                );
                waits = waits.or_else(|| Some(Condition::new(Reason::Allocating, message)));
            } else {
                missing.push(name);
            }
            continue;
        };
        match bond(claim, cluster) {
            Bond::Foreign => {
                let message =
                    format!("a claim {name} for its Services exists and belongs to somebody else: delete or rename it");
                waits = waits.or_else(|| Some(Condition::new(Reason::NameTaken, message)));
            }
            Bond::Missing(write) => finding.steps.push(Step::Write(write)),
            Bond::Whole if is_of_another(claim, cluster) && !in_use.is_some_and(|listed| is_listed(claim, listed)) => {}
            Bond::Whole => match address_of(claim) {
                Ok(ip) => addresses.push(ip),
                Err(Stop::Wait(condition)) => {
                    if let Some(Ok(list)) = &list
                        && asks_in_vain(view, claim, &list.alone)
                    {
                        finding.steps.push(Step::Write(Write::DeleteClaim(claim_target(claim))));
                    }
                    waits = waits.or_else(|| Some(with_place(condition, claim, wish)));
                }
                Err(Stop::Step(_) | Stop::Nothing) => {}
            },
        }
    }
    match list {
        None if view.held() => {}
        None => make(view, wish, missing, &[], finding),
        Some(Err(trouble)) => waits = waits.or(trouble),
        Some(Ok(list)) => {
            if !missing.is_empty() && list.is_old && !planted(Flaw::BelievesOldLists) {
                finding.steps.push(Step::Read(list.what.clone()));
            } else {
                make(view, wish, missing, &list.alone, finding);
            }
            if addresses.len() == wish.count as usize
                && let Ok(Some(text)) = put(&list.text, &addresses)
            {
                finding.steps.push(Step::Write(Write::Text(list.at, list.what.clone(), text)));
            }
        }
    }
    Ok(waits)
}

/// What the target lists.
struct List<'a> {
    what: &'a Companion,
    at: Target,
    text: String,
    /// Its single addresses.
    alone: Vec<IpAddr>,
    is_old: bool,
}

/// Reads the target's list.
///
/// # Errors
/// There is none. What it waits for; None: it is being read.
fn read<'a>(view: &View<'a>, what: &'a Companion, finding: &mut Finding) -> Result<List<'a>, Option<Condition>> {
    finding.wants.push(what.clone());
    match (view.read)(what) {
        None => {
            finding.steps.push(Step::Read(what.clone()));
            Err(None)
        }
        // It is read again later.
        Some(None) => {
            let message = format!("there is no {what} yet, which gets the addresses of its Services");
            Err(Some(Condition::new(Reason::WaitingForSecret, message)))
        }
        Some(Some(reading)) => {
            let text = reading.text.as_deref().unwrap_or_default();
            let alone = if reading.other { Err(NoAddresses) } else { listed(text) };
            let unusable = |error| Condition::new(Reason::ManifestNotUsable, format!("{what}: {error}"));
            let alone = alone.map_err(|error| Some(unusable(error)))?;
            let is_old = (view.read_at)(what).is_none_or(|at| at + FRESH < view.now);
            let at = target(what.key(), &reading.uid, &reading.version);
            Ok(List { what, at, text: text.to_owned(), alone, is_old })
        }
    }
}

/// Makes the claims that are missing. Each asks for one of the addresses that the target lists and no claim has: the last of these,
/// since Mooring appends, in their order. A claim that asks for none comes after all that do, so that it cannot get theirs.
fn make(view: &View<'_>, wish: &ServiceWish, missing: Vec<Arc<str>>, listed: &[IpAddr], finding: &mut Finding) {
    let cluster = view.cluster;
    let had: Vec<IpAddr> = view.claims.values().filter_map(had).collect();
    let listed = if planted(Flaw::ForgetsLists) { &[] } else { listed };
    let free: Vec<IpAddr> = listed.iter().copied().filter(|ip| !had.contains(ip)).collect();
    let of_services = view.claims.values().filter(|claim| number(&cluster.key.name, &claim.key.name).is_some());
    let of_services: Vec<&Claim> = of_services.filter(|claim| !claim.deleting).collect();
    if !free.is_empty() && of_services.iter().any(|claim| self::had(claim).is_none()) {
        // One of these may be its own: its `IPAddress` will say so, or it gets another.
        return;
    }
    let asked = free.len().min(missing.len());
    let asking = of_services.iter().any(|claim| is_given(claim) && claim.bound.is_none());
    let mut requests: Vec<Option<IpAddr>> = free[free.len() - asked..].iter().copied().map(Some).collect();
    if asked == 0 && !asking {
        requests.resize(missing.len(), None);
    }
    for (name, requested) in missing.into_iter().zip(requests) {
        let key = Key { namespace: cluster.key.namespace.clone(), name };
        let new = NewClaim { key, parent: Parent::of(cluster), pool: wish.pool.clone(), requested };
        finding.steps.push(Step::Write(Write::CreateClaim(Box::new(new))));
    }
}

/// Whether the target lists the address of a claim: its Cluster was restored, and has another uid than the owner that it names.
fn is_listed(claim: &Claim, listed: &[IpAddr]) -> bool {
    claim.address.is_some_and(|ip| listed.contains(&ip))
}

/// The address that a claim has, was given before, or asks for.
fn had(claim: &Claim) -> Option<IpAddr> {
    claim.address.or_else(|| claim.had()).or_else(|| claim.asks_for())
}

/// Whether a claim asks, without success, for an address that the target does not list any more, or that another claim of the
/// Cluster has: then another is made. One that was given it before is restored, and waits.
fn asks_in_vain(view: &View<'_>, claim: &Claim, listed: &[IpAddr]) -> bool {
    let Some(ip) = claim.asks_for().filter(|_| is_given(claim)) else { return false };
    let mut others = view.claims.values().filter(|other| other.key != claim.key);
    let open = claim.bound.is_none() && claim.had.is_none() && !claim.deleting;
    open && (!listed.contains(&ip) || others.any(|other| other.address == Some(ip)))
}

/// The condition of a claim that is refused what the target lists, with what to do.
fn with_place(condition: Condition, claim: &Claim, wish: &ServiceWish) -> Condition {
    let ip = claim.asks_for().filter(|_| is_given(claim) && !condition.reason.passes());
    let (Some(ip), Some(what)) = (ip, &wish.target) else { return condition };
    let Condition { reason, message } = condition;
    Condition::new(reason, format!("{message}. {what} lists {ip}: take it out there to get another"))
}
