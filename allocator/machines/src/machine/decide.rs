//! The next step for a machine's addresses: it follows from what the objects say, and from nothing else.
//!
//! The order: a claim for each device and family; their addresses; then all devices in one write. A claim that has its address
//! stays until the machine is gone, whoever deletes it and whatever the devices say by then: its virtual machine may use it.

use std::collections::BTreeMap;
use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::few::few;
use mooring_allocator_core::names::{Key, PoolRef};
use mooring_allocator_core::work::Target;

use crate::device::{Device, Given};
use crate::objects::{Claim, Cluster, Pool, Template, VSphereMachine, entries};
use crate::reason::{Condition, Reason};
use crate::selector::{Choice, Reach, Selector};
use crate::{naming, words};

use super::Write;
use super::action::{NewClaim, Parent};
use super::flaws::{Flaw, planted};

/// What a decision about one machine rests on.
pub(super) struct View<'a> {
    pub(super) machine: &'a VSphereMachine,
    /// The machine's Cluster, if it is shown.
    pub(super) cluster: Option<&'a Cluster>,
    /// The machine's template, if it is shown.
    pub(super) template: Option<&'a Template>,
    pub(super) pools: &'a BTreeMap<Arc<PoolRef>, Pool>,
    /// Its claims, by name; also those of a former machine of its name.
    pub(super) claims: &'a BTreeMap<Arc<str>, Claim>,
    /// Whether a claim of this name exists and is not shown.
    pub(super) hidden: &'a dyn Fn(&str) -> bool,
}

/// What a decision found.
#[derive(Debug, Default)]
pub(super) struct Finding {
    /// What to write.
    pub(super) writes: Vec<Write>,
    /// Where the addresses stand; None: the machine needs none of ours.
    pub(super) verdict: Option<Condition>,
}

/// The address of a device, with what the pool adds.
struct Ready {
    given: Given,
    search: Vec<Box<str>>,
}

pub(super) fn target(claim: &Claim) -> Target {
    Target { key: claim.key.clone(), uid: claim.uid.clone(), version: claim.version.clone() }
}

fn wants(device: &Device) -> bool {
    device.wants || (planted(Flaw::OverwritesAddresses) && device.whole.is_object())
}

/// Decides the next step.
pub(super) fn decide(view: &View<'_>) -> Finding {
    let mut finding = Finding::default();
    let machine = view.machine;
    let paused = machine.held || view.cluster.is_some_and(|cluster| cluster.paused);
    if paused && !planted(Flaw::ActsWhilePaused) {
        let wanting = machine.devices.iter().any(wants) && !machine.deleting;
        let message = "nothing is written while the machine or its Cluster is paused";
        finding.verdict = wanting.then(|| Condition::new(Reason::Paused, message));
        return finding;
    }
    let mut needed = Vec::new();
    if machine.devices.iter().any(wants) && (!machine.deleting || planted(Flaw::IgnoresDeletion)) {
        let found = addresses(view, &mut finding.writes, &mut needed);
        finding.verdict = Some(found.unwrap_or_else(|condition| condition));
    } else {
        finding.verdict = at_rest(view);
    }
    for claim in view.claims.values().filter(|claim| claim.is_of(machine) && !claim.retained.elsewhere) {
        finding.writes.extend(keep(view, claim, needed.contains(&claim.key.name)));
    }
    finding
}

/// What is to be done about a claim of the machine. `needed`: a device waits for its address.
fn keep(view: &View<'_>, claim: &Claim, needed: bool) -> Option<Write> {
    let bound = claim.bound.is_some() && !planted(Flaw::ReleasesBound);
    if claim.deleting {
        return (!bound && claim.in_use()).then(|| Write::ReleaseClaim(target(claim)));
    }
    if !bound && !needed {
        return Some(Write::DeleteClaim(target(claim)));
    }
    let owned = claim.owner().is_some_and(|owner| owner.uid == view.machine.uid);
    let whole = owned && (claim.in_use() || planted(Flaw::NoFinalizer));
    (!whole).then(|| Write::AdoptClaim(target(claim), Parent::of(view.machine)))
}

/// Where it stands with a machine none of whose devices wants addresses.
fn at_rest(view: &View<'_>) -> Option<Condition> {
    let machine = view.machine;
    let bound = view.claims.values().filter(|claim| claim.is_of(machine)).filter_map(|claim| Some((claim, claim.address?)));
    let (used, unused): (Vec<_>, Vec<_>) = bound.partition(|(_, (ip, _))| machine.carries(*ip));
    if machine.deleting {
        return None;
    }
    if !unused.is_empty() {
        let what = few(unused.iter().map(|(claim, (ip, _))| format!("claim {} has {ip}", claim.key.name)));
        let message = format!(
            "{what}, which stands in no device: it stays taken until the machine is gone, since its virtual machine may use it. If \
             that is not so, delete the claim and take its finalizer {} off",
            words::IN_USE
        );
        return Some(Condition::new(Reason::NotInUse, message));
    }
    (!used.is_empty()).then(|| Condition::new(Reason::Written, few(used.iter().map(|(_, (ip, _))| ip))))
}

/// Claims for all devices that want addresses; then the write of the devices. `Err` and `Ok`: where it stands.
fn addresses(view: &View<'_>, writes: &mut Vec<Write>, needed: &mut Vec<Arc<str>>) -> Result<Condition, Condition> {
    let machine = view.machine;
    let Some(name) = &machine.cluster else {
        let message = format!("its label {} is missing: it names the Cluster", mooring_names::labels::CLUSTER_NAME);
        return Err(Condition::new(Reason::InvalidRequest, message));
    };
    let Some(cluster) = view.cluster else {
        return Err(Condition::new(Reason::WaitingForCluster, format!("there is no Cluster {name} yet")));
    };
    let selector = selector(view)?;
    let mut all = Vec::with_capacity(machine.devices.len());
    let (mut trouble, mut given) = (None, Vec::new());
    for (place, device) in machine.devices.iter().enumerate() {
        if !wants(device) {
            all.push(device.whole.clone());
            continue;
        }
        let reach = Reach {
            namespace: &machine.key.namespace,
            pool_namespace: cluster.pool_namespace.as_deref(),
            network: &device.network,
        };
        match of_device(view, (place, name), selector, &reach, (writes, needed)) {
            Ok(ready) => {
                let ips: Vec<Given> = ready.iter().map(|one| one.given.clone()).collect();
                given.extend(ips.iter().map(|one| one.ip));
                all.push(device.with(&ips, &search(view, &ready)));
            }
            Err(condition) => _ = trouble.get_or_insert(condition),
        }
    }
    if let Some(condition) = trouble {
        return Err(condition);
    }
    let at = Target { key: machine.key.clone(), uid: machine.uid.clone(), version: machine.version.clone() };
    writes.push(Write::Devices(at, all, few(given)));
    Ok(Condition::new(Reason::Writing, "a write is under way"))
}

/// What the labels ask for: the machine's own, or else those of its template.
fn selector<'a>(view: &View<'a>) -> Result<Selector<'a>, Condition> {
    let template = view.template.map(|template| &template.labels);
    let found = Selector::of(&view.machine.labels).or_else(|| Selector::of(template?));
    if planted(Flaw::EmptySelectorMatchesAll) {
        return Ok(found.unwrap_or(Selector::Labels { group: None, network: None }));
    }
    found.ok_or_else(|| {
        let on = match (&view.machine.template, template) {
            (Some(name), Some(_)) => format!("on VSphereMachineTemplate {name} or on the machine"),
            (Some(name), None) => format!("on the machine (VSphereMachineTemplate {name} does not exist)"),
            (None, _) => "on the machine (no annotation names its template)".to_owned(),
        };
        let message = format!(
            "no label names a pool, so it gets no address: put {}, or {} and {}, {on}",
            words::POOL_NAME,
            words::POOL_GROUP,
            words::NETWORK_NAME
        );
        Condition::new(Reason::NoSelector, message)
    })
}

/// The addresses of a device: one of each family of its pools.
fn of_device(
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
                let message = format!("there is a claim {name} that is not this machine's: delete it, or rename the machine");
                Err(Condition::new(Reason::NameTaken, message))
            }
            None => {
                let key = Key { namespace: machine.key.namespace.clone(), name: name.clone() };
                let parent = Parent::of(machine);
                let pool = pool.reference.clone();
                let new = NewClaim { key, parent, cluster: cluster.clone(), device: place, pool };
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
            crate::words::POOL_NAMESPACE
        ),
    };
    Condition::new(Reason::NoPool, format!("device {place}: no {own} is named by {words}: correct the labels, or make the pool"))
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
            Some(said) => Condition::new(Reason::of_claim(said.reason.name()), format!("claim {name}: {}", said.message)),
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
        let message = format!("{entry:?} in the annotation {} of {} is no address: correct it", words::NAMESERVERS, pool.reference);
        Condition::new(Reason::InvalidRequest, message)
    })?;
    let gateway = pool.gateway;
    Ok(Ready { given: Given { ip, prefix, gateway, nameservers }, search: pool.search.clone() })
}

/// The search domains: of the machine, else of its template, else of the pools.
fn search(view: &View<'_>, ready: &[Ready]) -> Vec<Box<str>> {
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
