//! Pools of OpenStack's floating IPs, against a stand-in that answers as the real ones do, and against the real Keystone and
//! Neutron.

mod contract;
mod faults;
mod life;
mod real;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mooring_names::openstack::GROUP;
use serde_json::{Value, json};

use super::outside::{delete_all, none_left};
use super::{outside, story};
use crate::ipam::allocators::Allocator;
use crate::ipam::audit::ready;
use crate::ipam::scope::{ADDRESS, CLAIM, Scope};
use crate::ipam::server::{Crds, documents_in};
use crate::rig::allocator::{AllocatorRig, USER};
use crate::runner::Test;

/// The kind of pool.
const KIND: &str = "OpenStackFloatingIPPool";
/// The Secret with clouds.yaml.
const SECRET: &str = "cloud";
/// The arguments of the allocator.
pub const ARGS: [&str; 3] = ["--leader-election=false", "--services=off", "--openstack=on"];
/// Longest wait.
const LONGEST: Duration = Duration::from_mins(2);

/// The stories of this theme.
#[must_use]
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("openstack", life::claim_to_release, "claim-to-release", 5).quick(),
        story!("openstack", contract::contract, "claims-keep-the-contract", 5),
        story!("openstack", life::list, "list-comes-first-and-stays", 5),
        story!("openstack", life::kept, "kept-and-given-again", 5),
        story!("openstack", faults::trouble, "credentials-tokens-and-neutron-away", 5),
        story!("openstack", faults::killed, "killed-at-every-call", 5).nightly(),
        // Installing them takes a minute, and setting them up another.
        story!("openstack", real::real, "real-keystone-and-neutron", 15).nightly(),
    ]
}

/// A floating IP, as either of both has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    address: String,
    description: String,
    tags: Vec<String>,
}

/// A rig with the kind and the rights of the manifests.
async fn up() -> Result<AllocatorRig> {
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    install(&rig).await?;
    Ok(rig)
}

/// The kind, and the rights of the manifests.
pub async fn install(rig: &AllocatorRig) -> Result<()> {
    rig.server.install("crds/openstack").await?;
    for object in documents_in("allocator/openstack/rbac.yaml")? {
        rig.server.apply(&object).await?;
    }
    Ok(())
}

/// The Secret, and the right to get it, as the page of the book gives it.
pub async fn secret(scope: &Scope<'_>, clouds: &Value) -> Result<()> {
    let (role, about) = ("mooring-allocator-cloud", json!({"name": "mooring-allocator-cloud", "namespace": scope.ns}));
    for object in [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": scope.ns},
            "stringData": {"clouds.yaml": clouds.to_string()}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": about,
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET], "verbs": ["get"]}]}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": about,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}]}),
    ] {
        scope.rig.server.apply(&object).await?;
    }
    Ok(())
}

fn place(scope: &Scope<'_>) -> String {
    format!("/apis/{GROUP}/v1alpha1/namespaces/{}/openstackfloatingippools", scope.ns)
}

/// Makes a pool; `spec` beside the identity.
pub async fn pool(scope: &Scope<'_>, name: &str, mut spec: Value) -> Result<()> {
    spec["identityRef"] = json!({"name": SECRET, "cloudName": "openstack"});
    let object =
        json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": KIND, "metadata": {"name": name}, "spec": spec});
    scope.rig.server.create(&place(scope), &object).await?;
    Ok(())
}

pub async fn claim(scope: &Scope<'_>, name: &str, pool: &str) -> Result<Value> {
    let spec = json!({"poolRef": {"apiGroup": GROUP, "kind": KIND, "name": pool}});
    scope.create(CLAIM, name, spec, json!({})).await
}

/// Waits until a pool is so; None: it is gone.
async fn pool_is(scope: &Scope<'_>, name: &str, is: impl Fn(Option<&Value>) -> bool) -> Result<()> {
    outside::pool_is(scope.rig, &format!("{}/{name}", place(scope)), LONGEST, is).await
}

/// Waits until a claim has its address, and returns it: longer than the scope waits, for a slow Neutron.
async fn has_address(scope: &Scope<'_>, name: &str) -> Result<String> {
    let what = format!("claim {name} to be bound");
    let found = scope.rig.world.until_within(LONGEST, &what, |state| {
        let to = state.get(CLAIM, &scope.ns, name)?["status"]["addressRef"]["name"].as_str()?;
        Some(state.get(ADDRESS, &scope.ns, to)?["spec"]["address"].as_str()?.to_owned())
    });
    found.await
}

/// Waits until a claim says why it waits, as long.
async fn waits(scope: &Scope<'_>, name: &str, reason: &str, part: &str) -> Result<()> {
    let what = format!("claim {name} to say {reason}: {part}");
    let found = scope.rig.world.until_within(LONGEST, &what, |state| {
        let (is, why, message) = ready(state.get(CLAIM, &scope.ns, name)?)?;
        (!is && why == reason && message.contains(part)).then_some(())
    });
    found.await
}

/// Waits until this many claims of a namespace have an address. Returns claims' uids by address; no two have the same one.
async fn bound(scope: &Scope<'_>, many: usize) -> Result<Vec<(String, String)>> {
    let what = format!("{many} claims to be bound");
    let all = scope.rig.world.until_within(LONGEST, &what, |state| {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let of = |claim: &Value| {
            let name = claim["status"]["addressRef"]["name"].as_str()?;
            let address = state.get(ADDRESS, &scope.ns, name)?;
            Some((text(&address["spec"]["address"])?, text(&claim["metadata"]["uid"])?))
        };
        let all: Vec<(String, String)> = state.all(CLAIM, &scope.ns).filter_map(of).collect();
        (all.len() == many).then_some(all)
    });
    let all = all.await?;
    let distinct: BTreeSet<&String> = all.iter().map(|(address, _)| address).collect();
    ensure!(distinct.len() == many, "an address is given twice: {all:?}");
    Ok(all)
}

/// Each address of [`bound`] is a floating IP that names its claim, and no other names one.
fn are_named(claims: &[(String, String)], there: &[Shown]) -> Result<()> {
    for (address, uid) in claims {
        let one = there.iter().find(|one| one.address == *address);
        let one = one.with_context(|| format!("{address} is not there: {there:?}"))?;
        ensure!(one.description.contains(&format!("claim={uid} ")), "{address} is not {uid}'s: {one:?}");
    }
    let marks = there.iter().filter(|one| one.description.contains("claim=")).count();
    ensure!(marks == claims.len(), "{marks} floating IPs name a claim, of {}: {there:?}", claims.len());
    Ok(())
}

/// No secret is on an object or in the log.
async fn nothing_is_told(scope: &Scope<'_>, allocator: &Allocator, secrets: &[&str]) -> Result<()> {
    let log = std::fs::read_to_string(allocator.process().log())?;
    let mut said = vec![("the log", log)];
    for path in [place(scope), scope.place(CLAIM), format!("/apis/events.k8s.io/v1/namespaces/{}/events", scope.ns)] {
        said.push(("an object", scope.rig.server.get(&path).await?.to_string()));
    }
    for (what, text) in said {
        ensure!(secrets.iter().all(|secret| !text.contains(secret)), "{what} has a secret: {text}");
    }
    Ok(())
}
