//! Claims for addresses that devices have already.
//!
//! A backup may bring back a machine whose virtual machine runs, and its claims later, without status, or not at all: the garbage collector
//! deletes them at once, because their owner has another uid by now. So a claim that had what a device has stays, and where a device has
//! an address of a pool that the labels name, and no claim has it, one is made for exactly this address.

use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::Key;

use crate::device::Device;
use crate::naming;
use crate::objects::{Claim, Pool};
use crate::reason::{Condition, Reason};
use crate::selector::Reach;

use super::Write;
use super::action::{NewClaim, Parent};
use super::decide::{View, selector};
use super::flaws::{Flaw, planted};

/// What is found about addresses that devices have.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The claims without an address that are needed for them.
    pub(super) needed: Vec<Arc<str>>,
    /// Those of these that are being deleted, and for which no others can be made yet.
    pub(super) kept: Vec<Arc<str>>,
    /// Claims to make.
    pub(super) writes: Vec<Write>,
    /// What is missing.
    pub(super) trouble: Option<Condition>,
}

/// Looks for the claims of the addresses that devices have.
pub(super) fn restored(view: &View<'_>) -> Found {
    let mut found = Found::default();
    let machine = view.machine;
    for (place, device) in machine.devices.iter().enumerate().filter(|(_, device)| device.fixed) {
        for family in [Family::V4, Family::V6] {
            let name = naming::claim(&machine.key.name, place, family);
            of_family(view, (place, device), family, name, &mut found);
        }
    }
    found
}

fn of_family(view: &View<'_>, (place, device): (usize, &Device), family: Family, name: Arc<str>, found: &mut Found) {
    let machine = view.machine;
    let has = |ip: &IpAddr| Family::of(*ip) == family;
    let given = device.addresses.iter().copied().filter(has).find_map(|ip| Some((ip, pool(view, device, ip)?)));
    let given = given.filter(|_| !machine.deleting);
    let trouble = match view.claims.get(&name) {
        Some(claim) if claim.is_of(machine) => {
            let its = claim.has_or_had().or_else(|| claim.asks_for());
            let Some(ip) = its.filter(|ip| claim.bound.is_none() && device.addresses.contains(ip)) else { return };
            found.needed.push(name.clone());
            if claim.deleting && given.is_none() && !planted(Flaw::ForgetsWhatItHad) {
                found.kept.push(name);
            }
            waits(claim, ip)
        }
        Some(_) if given.is_some() => Condition::new(
            Reason::Allocating,
            format!("claim {name} is of a former machine of this name, and is being released"),
        ),
        Some(_) => return,
        None => {
            let others = |ip| view.claims.values().any(|claim| claim.is_of(machine) && claim.has_or_had() == Some(ip));
            let Some((ip, pool)) = given.filter(|(ip, _)| !others(*ip)) else { return };
            if (view.hidden)(&name) {
                let message = format!(
                    "there is a claim {name} that is not this machine's, which has {ip}: delete it, or rename the machine"
                );
                Condition::new(Reason::NameTaken, message)
            } else if let Some(cluster) = &machine.cluster {
                let key = Key { namespace: machine.key.namespace.clone(), name: name.clone() };
                let (parent, pool) = (Parent::of(machine), pool.reference.clone());
                let new = NewClaim { key, parent, cluster: cluster.clone(), device: place, pool, requested: Some(ip) };
                found.writes.push(Write::CreateClaim(Box::new(new)));
                Condition::new(Reason::Allocating, format!("claim {name} is made for {ip}, which the machine has"))
            } else {
                return;
            }
        }
    };
    _ = found.trouble.get_or_insert(trouble);
}

/// What a claim for an address that the machine has waits for.
fn waits(claim: &Claim, ip: IpAddr) -> Condition {
    let name = &claim.key.name;
    match claim.condition.as_ref().filter(|condition| !condition.ready) {
        Some(said) => {
            let message = format!("claim {name}, for {ip} that the machine has: {}", said.message);
            Condition::new(Reason::of_claim(said.reason.name()), message)
        }
        None => Condition::new(Reason::Allocating, format!("claim {name} waits for {ip}, which the machine has")),
    }
}

/// The pool that has an address of a device, among those that the labels name.
fn pool<'a>(view: &View<'a>, device: &Device, ip: IpAddr) -> Option<&'a Pool> {
    let reach = Reach {
        namespace: &view.machine.key.namespace,
        pool_namespace: view.cluster?.pool_namespace.as_deref(),
        network: &device.network,
    };
    let choice = selector(view).ok()?.choose(view.pools.values(), &reach);
    choice.all().iter().find(|pool| pool.has(ip) && !pool.deleting).copied()
}
