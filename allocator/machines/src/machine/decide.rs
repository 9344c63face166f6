//! The next step for a machine's addresses: it follows from what the objects say, and from nothing else.
//!
//! The order: a claim for each device and family; their addresses; then all devices in one write. A claim that has its address
//! stays until the machine is gone, whoever deletes it and whatever the devices say by then: its virtual machine may use it.

use std::collections::BTreeMap;
use std::sync::Arc;

use mooring_allocator_core::few::few;
use mooring_allocator_core::names::PoolRef;
use mooring_allocator_core::work::Target;

use crate::device::{Device, Given};
use crate::objects::{Claim, Cluster, Pool, Template, VSphereMachine};
use crate::reason::{Condition, Reason};
use crate::selector::{Reach, Selector};
use crate::words;

use super::Write;
use super::action::Parent;
use super::flaws::{Flaw, planted};
use super::of_device::{of_device, search};
use super::restored::{Found, restored};

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
    let Found { needed: of_restored, kept, writes, trouble } = restored(view);
    needed.extend(of_restored);
    finding.writes.extend(writes);
    let fine = finding.verdict.as_ref().is_none_or(|verdict| verdict.reason == Reason::Written);
    finding.verdict = trouble.filter(|_| fine).or(finding.verdict);
    for claim in view.claims.values().filter(|claim| claim.is_of(machine) && !claim.retained.elsewhere) {
        if !kept.contains(&claim.key.name) {
            finding.writes.extend(keep(view, claim, needed.contains(&claim.key.name)));
        }
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
    let bound =
        view.claims.values().filter(|claim| claim.is_of(machine)).filter_map(|claim| Some((claim, claim.address?)));
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
pub(super) fn selector<'a>(view: &View<'a>) -> Result<Selector<'a>, Condition> {
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
