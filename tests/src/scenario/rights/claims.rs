//! The allocator without Services (`manifests/allocator` with the component `claims-only`), beside Cluster API.

use anyhow::{Context as _, Result, ensure};
use mooring_api::annotations::{CONFLICT, PAUSED};
use mooring_api::finalizers::PROTECT_ADDRESS;
use serde_json::{Value, json};

use super::{exact, refused};
use crate::ipam::component;
use crate::ipam::scope::{ADDRESS, CLAIM, POOL, Scope, reference};
use crate::ipam::server::{Crds, Server};
use crate::lab::Shape;
use crate::rig::allocator::{AllocatorRig, USER};
use crate::runner::Ctx;

/// The kinds of pools that give one address or prefix to each claim here.
const POOLS: [&str; 4] = [POOL, GLOBAL, "InClusterPrefixPool", "GlobalInClusterPrefixPool"];
/// The one of them that has addresses for all that happens.
const GLOBAL: &str = "GlobalInClusterIPPool";
/// As the component's Deployment is started.
const ARGS: [&str; 1] = ["--services=off"];
/// What the service account may not read.
const OTHERS: [&str; 4] = [
    "/api/v1/services",
    "/api/v1/nodes",
    "/api/v1/namespaces/kube-system/configmaps/kubevip",
    "/apis/coordination.k8s.io/v1/namespaces/mooring-system/leases",
];

/// Claims of every kind of pool: answered, refused for want of an address, released, in conflict; addresses that another program
/// made; by two allocators of which the first ends.
pub async fn all_that_it_does(_: &mut Ctx<()>) -> Result<()> {
    let roles = component::roles("allocator/rbac.yaml", "allocator/claims-only")?;
    let server = Server::shaped(Shape::api_servers(1).audited(), Crds::ClusterApi).await?;
    let rig = AllocatorRig::confined(server, Crds::ClusterApi, &roles).await?;
    refused(&rig.server, USER, &OTHERS).await?;
    let first = rig.start_with("first", &ARGS).await?;
    let second = rig.start_with("second", &ARGS).await?;
    let scope = rig.scope().await?;

    // The name of a namespace is a label of it.
    let ours = json!({"selector": {"matchLabels": {"kubernetes.io/metadata.name": scope.ns}}});
    let rests = json!({"quarantine": {"afterConflictSeconds": 3600}, "allowedNamespaces": ours});
    let v6 = |rest: &str| json!({"prefixes": [format!("{}/64", scope.ip6(rest))], "allocationPrefixLength": 64});
    for (kind, spec) in
        POOLS.into_iter().zip([scope.range(10, 10), with(scope.range(20, 29), rests), v6("1:0:0:0:0"), v6("2:0:0:0:0")])
    {
        scope.create(kind, &name(&scope, kind), spec, json!({})).await?;
        claim(&scope, kind, "a").await?;
        scope.bound(&format!("{}-a", kind.to_lowercase())).await?;
    }
    paused(&scope).await?;
    for kind in [POOL, "InClusterPrefixPool", "GlobalInClusterPrefixPool"] {
        exhausted(&scope, kind).await?;
    }
    conflict(&scope, "globalinclusterippool-a").await?;
    adopted(&scope).await?;
    leaked(&scope).await?;

    // The first one ends, and the second one goes on.
    first.stop().await?;
    claim(&scope, GLOBAL, "b").await?;
    scope.bound("globalinclusterippool-b").await?;
    scope.sound().await?;
    for kind in POOLS {
        counted(&scope, kind).await?;
    }
    scope.leave().await?;
    for kind in POOLS {
        let what = format!("{kind} to be gone");
        rig.world.until(&what, |state| state.all(kind, "").next().is_none().then_some(())).await?;
    }
    second.stop().await?;
    exact(rig.server.lab(), (USER, "mooring-allocator"), &roles)
}

fn with(mut spec: Value, more: Value) -> Value {
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    spec
}

/// The pool of a kind.
fn name(scope: &Scope<'_>, kind: &str) -> String {
    format!("{}-{}", scope.ns, kind.to_lowercase())
}

/// A claim of the pool of a kind: `KIND-which`.
async fn claim(scope: &Scope<'_>, kind: &str, which: &str) -> Result<()> {
    let claim = format!("{}-{which}", kind.to_lowercase());
    scope.claim_with(&claim, kind, &name(scope, kind), json!({})).await.map(drop)
}

/// The pool says how many addresses are used: that is written behind all else, and a quick test would be over before.
async fn counted(scope: &Scope<'_>, kind: &'static str) -> Result<()> {
    let namespace = if kind.starts_with("Global") { "" } else { &scope.ns };
    let (pool, what) = (name(scope, kind), format!("the {kind} to be counted"));
    let counted = scope.rig.world.until(&what, |state| {
        let used = state.get(kind, namespace, &pool)?.pointer("/status/ipAddresses/used")?;
        used.as_i64().filter(|&used| used > 0).map(drop)
    });
    counted.await
}

/// The pool has no address left; a claim waits for the release of another one.
async fn exhausted(scope: &Scope<'_>, kind: &str) -> Result<()> {
    claim(scope, kind, "waits").await?;
    let waits = format!("{}-waits", kind.to_lowercase());
    scope.refused(&waits, "PoolExhausted").await?;
    scope.delete(CLAIM, &format!("{}-a", kind.to_lowercase())).await?;
    scope.bound(&waits).await.map(drop)
}

/// A Cluster is paused: its claim waits.
async fn paused(scope: &Scope<'_>) -> Result<()> {
    scope.cluster("w", json!({"paused": true})).await?;
    let spec = json!({"clusterName": "w", "poolRef": reference(GLOBAL, &name(scope, GLOBAL))});
    scope.create(CLAIM, "of-a-cluster", spec, json!({})).await?;
    scope.canary().await?;
    ensure!(scope.seen(ADDRESS, "of-a-cluster").is_none(), "it got an address");
    scope.merge_cluster("w", json!({"spec": {"paused": false}})).await?;
    scope.bound("of-a-cluster").await.map(drop)
}

/// An agent heard another host with the claim's address: the claim gets another one.
async fn conflict(scope: &Scope<'_>, claim: &str) -> Result<()> {
    let had = scope.bound(claim).await?.ip().to_owned();
    let heard = json!({"metadata": {"annotations": {CONFLICT: "52:54:00:00:00:01 at 2026-01-01T00:00:00Z"}}});
    scope.merge(ADDRESS, claim, heard).await?;
    let moved = scope.rig.world.until("the claim to get another address", |state| {
        let to = state.get(CLAIM, &scope.ns, claim)?.pointer("/status/addressRef/name")?.as_str()?;
        (state.get(ADDRESS, &scope.ns, to)?["spec"]["address"] != had).then_some(())
    });
    moved.await.context("after a conflict")
}

/// The `IPAddress` of a claim of the global pool, as another program makes it.
async fn made(scope: &Scope<'_>, claim: &str, uid: &str, last: u8) -> Result<()> {
    let spec = json!({
        "claimRef": {"name": claim}, "poolRef": reference(GLOBAL, &name(scope, GLOBAL)),
        "address": scope.ip(last), "prefix": 24,
    });
    let owner = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": CLAIM, "name": claim, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    });
    let meta = json!({"ownerReferences": [owner], "finalizers": [PROTECT_ADDRESS]});
    scope.create(ADDRESS, claim, spec, meta).await.map(drop)
}

/// A claim gets the address that another program has made for it.
async fn adopted(scope: &Scope<'_>) -> Result<()> {
    let paused = json!({"annotations": {PAUSED: ""}});
    let claim = scope.claim_with("adopted", GLOBAL, &name(scope, GLOBAL), paused).await?;
    made(scope, "adopted", claim["metadata"]["uid"].as_str().unwrap_or_default(), 28).await?;
    scope.merge(CLAIM, "adopted", json!({"metadata": {"annotations": {PAUSED: null}}})).await?;
    let has = scope.bound("adopted").await?;
    ensure!(has.ip() == scope.ip(28), "{}", has.ip());
    Ok(())
}

/// An address whose claim is gone: the claim is looked for, and the address is released.
async fn leaked(scope: &Scope<'_>) -> Result<()> {
    made(scope, "leaked", "8f6ae7a4-2c6f-4f0c-9d3e-0a0a0a0a0a0a", 29).await?;
    scope.gone(ADDRESS, "leaked").await
}
