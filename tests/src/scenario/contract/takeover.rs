//! A cluster in which the in-cluster provider ran: the allocator takes over its objects unchanged.

use anyhow::{Result, ensure};
use mooring_api::finalizers::{PROTECT_ADDRESS, PROTECT_POOL, RELEASE_ADDRESS};
use serde_json::{Value, json};

use super::super::story;
use crate::ipam::scope::{ADDRESS, Bound, CLAIM, POOL, Scope, reference};
use crate::ipam::server::Crds;
use crate::rig::allocator::AllocatorRig;
use crate::runner::{Ctx, Test};

pub fn all() -> Vec<Test<()>> {
    vec![
        story!("contract-theirs", with_theirs, "objects-of-the-provider-are-taken-over", 5),
        story!("contract-theirs", with_ours, "objects-of-the-provider-are-taken-over-by-our-crds", 5),
    ]
}

fn owner(object: &Value, controller: bool) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "controller": controller, "blockOwnerDeletion": true,
    })
}

/// The state in which the provider leaves a bound claim.
async fn bound(scope: &Scope<'_>, pool: &Value, name: &str, ip: &str) -> Result<()> {
    let meta = json!({"finalizers": [RELEASE_ADDRESS], "labels": {"cluster.x-k8s.io/cluster-name": "w"}});
    let claim = scope.claim_with(name, POOL, "p", meta).await?;
    let meta = json!({
        "finalizers": [PROTECT_ADDRESS], "labels": {"cluster.x-k8s.io/cluster-name": "w"},
        "ownerReferences": [owner(&claim, true), owner(pool, false)],
    });
    let spec = json!({
        "claimRef": {"name": name}, "poolRef": reference(POOL, "p"), "address": ip, "prefix": 24, "gateway": scope.ip(1),
    });
    scope.create(ADDRESS, name, spec, meta).await?;
    let status = json!({"status": {"addressRef": {"name": name}}});
    scope.rig.server.merge(&format!("{}/status", scope.path(CLAIM, name)), &status).await?;
    Ok(())
}

async fn with_theirs(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::Theirs).await?;
    run(&rig, false).await
}

async fn with_ours(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::Theirs).await?;
    run(&rig, true).await
}

async fn run(rig: &AllocatorRig, ours: bool) -> Result<()> {
    let scope = rig.scope().await?;
    scope.cluster("w", json!({})).await?;
    let mut spec = scope.range(10, 14);
    spec["gateway"] = json!(scope.ip(1));
    let pool = scope.create(POOL, "p", spec, json!({"finalizers": [PROTECT_POOL]})).await?;
    for (name, last) in [("a", 10), ("b", 12)] {
        bound(&scope, &pool, name, &scope.ip(last)).await?;
    }
    // One claim in the middle of its allocation, one that waits, and one that is being deleted.
    scope.claim_with("half", POOL, "p", json!({"finalizers": [RELEASE_ADDRESS]})).await?;
    scope.claim("new", "p").await?;
    bound(&scope, &pool, "going", &scope.ip(13)).await?;
    scope.delete(CLAIM, "going").await?;
    let status = json!({"status": {"ipAddresses": {"total": 5, "free": 2, "used": 3, "outOfRange": 0}}});
    rig.server.merge(&format!("{}/status", scope.path(POOL, "p")), &status).await?;
    let before: Vec<Value> = ["a", "b"].iter().filter_map(|name| scope.seen(ADDRESS, name)).collect();
    ensure!(before.len() == 2, "{before:?}");
    if ours {
        rig.server.install("crds").await?;
    }
    let allocator = rig.start("allocator").await?;
    scope.gone(CLAIM, "going").await?;
    let got = [scope.bound("half").await?, scope.bound("new").await?];
    let mut got: Vec<&str> = got.iter().map(Bound::ip).collect();
    got.sort_unstable();
    // .13 may be free again by then, and is not the lowest.
    ensure!(got == [scope.ip(11), scope.ip(13)] || got == [scope.ip(11), scope.ip(14)], "{got:?}");
    scope.counts(POOL, "p", [5, 1, 4, 0]).await?;
    let after: Vec<Value> = ["a", "b"].iter().filter_map(|name| scope.seen(ADDRESS, name)).collect();
    for (before, after) in before.iter().zip(&after) {
        ensure!(before["spec"] == after["spec"], "{before} became {after}");
        ensure!(before["metadata"]["uid"] == after["metadata"]["uid"], "{before} was made anew");
    }
    // The claims now report that they are ready.
    for name in ["a", "b"] {
        let said = rig.world.until("the condition", |state| {
            crate::ipam::audit::ready(state.get(CLAIM, &scope.ns, name)?).filter(|(is, ..)| *is)
        });
        said.await?;
    }
    scope.sound().await?;
    for name in ["a", "b", "half", "new"] {
        scope.delete(CLAIM, name).await?;
        scope.gone(CLAIM, name).await?;
        scope.gone(ADDRESS, name).await?;
    }
    allocator.stop().await
}
