//! The next steps for the addresses of a Cluster's Services.

use crate::notes::{RequestError, service_wish};
use crate::reason::{Condition, Reason};
use crate::service_addresses::{NoAddresses, name, number, put};

use super::Write;
use super::action::{NewClaim, Parent};
use super::decide::Finding;
use super::view::{Bond, Step, Stop, View, address_of, bond, claim_target, is_of_another, target};

/// Adds what is to be done for the Services' addresses to what was found for the endpoint. Returns what they wait for.
///
/// # Errors
/// An annotation cannot be read.
pub(super) fn add(view: &View<'_>, finding: &mut Finding) -> Result<Option<Condition>, RequestError> {
    let cluster = view.cluster;
    let wish = service_wish(&cluster.notes, &cluster.key.namespace);
    let wanted = wish.as_ref().map(|wish| wish.as_ref().map_or(0, |wish| wish.count));
    for claim in view.claims.values().filter(|claim| claim.deleting && claim.in_use()) {
        // An earlier Cluster of this name had it, or somebody takes back what is no longer wanted, or it has no address.
        let number = number(&cluster.key.name, &claim.key.name);
        let endpoint = claim.key.name == cluster.key.name && matches!(view.wish, Ok(Some(_)));
        let unwanted = number.is_some_and(|number| wanted.as_ref().is_ok_and(|wanted| number >= *wanted));
        let empty = number.is_some() && claim.bound.is_none();
        if unwanted || empty || (is_of_another(claim, cluster) && !endpoint) {
            finding.steps.push(Step::Write(Write::ReleaseClaim(claim_target(claim))));
        }
    }
    let Some(wish) = wish? else { return Ok(None) };
    let mut addresses = Vec::new();
    let mut waits = None;
    for number in 0..wish.count {
        let name = name(&cluster.key.name, number);
        let Some(claim) = view.claims.get(&name) else {
            if (view.hidden)(&name) {
                let message = format!(
                    "a claim {name} for its Services exists and is not shown: if it is of another provider's pool, delete or rename it"
                );
                waits = waits.or_else(|| Some(Condition::new(Reason::Allocating, message)));
            } else if !view.held() {
                let mut key = cluster.key.clone();
                key.name = name;
                let new = NewClaim { key, parent: Parent::of(cluster), pool: wish.pool.clone(), requested: None };
                finding.steps.push(Step::Write(Write::CreateClaim(Box::new(new))));
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
            Bond::Whole if is_of_another(claim, cluster) => {}
            Bond::Whole => match address_of(claim) {
                Ok(ip) => addresses.push(ip),
                Err(Stop::Wait(condition)) => waits = waits.or(Some(condition)),
                Err(Stop::Step(_) | Stop::Nothing) => {}
            },
        }
    }
    let Some(what) = wish.target.filter(|_| addresses.len() == wish.count as usize && !view.held()) else {
        return Ok(waits);
    };
    finding.wants.push(what.clone());
    match (view.read)(&what) {
        None => finding.steps.push(Step::Read(what)),
        // It is read again later.
        Some(None) => {
            waits = Some(Condition::new(
                Reason::WaitingForSecret,
                format!("there is no {what} yet, which gets the addresses of its Services"),
            ));
        }
        Some(Some(reading)) => {
            let new = if reading.other {
                Err(NoAddresses)
            } else {
                put(reading.text.as_deref().unwrap_or_default(), &addresses)
            };
            match new {
                Ok(None) => {}
                Ok(Some(text)) => {
                    let at = target(what.key(), &reading.uid, &reading.version);
                    finding.steps.push(Step::Write(Write::Text(at, what, text)));
                }
                Err(error) => {
                    waits = Some(Condition::new(Reason::ManifestNotUsable, format!("{what}: {error}")));
                }
            }
        }
    }
    Ok(waits)
}
