//! Objects that `clusterctl` moves from one cluster to another.

use anyhow::{Context as _, Result, ensure};
use mooring_api::finalizers::RELEASE_ADDRESS;
use serde_json::{Value, json};

use super::provider::{Before, CLUSTER, CONSUMER, Pair, all_go, of_pool, owner, ready_with, switch};
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{ADDRESS, CLAIM, POOL, Scope};

/// `clusterctl move`: each object is created anew in another cluster (here: another namespace), owners first, without status,
/// its owner references with the new uids, while the Cluster is paused. Then the source objects lose annotations and finalizers,
/// and are deleted.
pub async fn moved(scope: &Scope<'_>, allocator: &Allocator) -> Result<()> {
    allocator.stop().await?;
    let target = scope.rig.scope().await?;
    scope.cluster(CLUSTER, json!({})).await?;
    let range = scope.range(10, 15);
    let p = scope.create(POOL, "p", range.clone(), of_pool()).await?;
    // Some were the provider's, and Mooring has served the others.
    Pair::of(&p, "theirs", &scope.ip(12)).leave(scope).await?;
    switch(allocator).await?;
    let meta =
        || json!({"finalizers": [RELEASE_ADDRESS, CONSUMER], "labels": {"cluster.x-k8s.io/cluster-name": CLUSTER}});
    let names = ["theirs", "ours", "another"];
    for claim in &names[1..] {
        scope.claim_with(claim, POOL, "p", meta()).await?;
    }
    for claim in names {
        scope.bound(claim).await?;
    }
    scope.canary().await?;
    scope.merge_cluster(CLUSTER, json!({"spec": {"paused": true}})).await?;
    scope.canary().await?;
    let source = Before::read(scope, &[]).await?;

    target.cluster(CLUSTER, json!({"paused": true})).await?;
    // Without what the API server writes, and with owners of the target.
    let anew = |object: &Value, owners: Vec<Value>| {
        let (meta, mut new) = (&object["metadata"], object.clone());
        new["metadata"] = json!({
            "name": meta["name"], "labels": meta["labels"], "annotations": meta["annotations"],
            "finalizers": meta["finalizers"], "ownerReferences": owners,
        });
        new
    };
    let pool = scope.rig.server.get(&scope.path(POOL, "p")).await?;
    let pool = target.rig.server.create(&target.place(POOL), &anew(&pool, Vec::new())).await?;
    let mut made = Vec::new();
    for claim in names {
        let seen = scope.rig.server.get(&scope.path(CLAIM, claim)).await?;
        let owners = seen["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        made.push(target.rig.server.create(&target.place(CLAIM), &anew(&seen, owners)).await?);
    }
    target.canary().await?;
    for (claim, made) in names.iter().zip(&made) {
        let seen = scope.rig.server.get(&scope.path(ADDRESS, claim)).await?;
        let owners = vec![owner(made, true), owner(&pool, false)];
        target.rig.server.create(&target.place(ADDRESS), &anew(&seen, owners)).await?;
        target.canary().await?;
    }
    let moved = Before::read(&target, &[]).await?;
    // A newcomer of another Cluster does not get an address that has been moved.
    target.claim("new", "p").await?;
    let new = target.bound("new").await?.ip().to_owned();
    ensure!(moved.ips().iter().all(|(_, ip)| *ip != new), "{new} is given twice");
    moved.untouched(&target, &names).await?;

    // The source goes, last objects first.
    source.untouched(scope, &names).await?;
    let strip = json!({"metadata": {"finalizers": []}});
    let marked = json!([{"op": "add", "path": "/metadata/annotations", "value": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}]);
    let objects = names.iter().map(|name| (ADDRESS, *name)).chain(names.iter().map(|name| (CLAIM, *name)));
    for (kind, name) in objects.chain([(POOL, "p")]) {
        let path = scope.path(kind, name);
        let body = Some(("application/json-patch+json", &marked));
        scope.rig.server.ask(http::Method::PATCH, &path, body, "application/json").await?;
        scope.rig.server.merge(&path, &strip).await?;
        scope.delete(kind, name).await?;
        scope.gone(kind, name).await?;
    }
    target.merge_cluster(CLUSTER, json!({"spec": {"paused": false}})).await?;
    ready_with(&target, &names, &source.ips()).await?;
    moved.kept(&target, &names, false).await?;
    target.canary().await?;
    for claim in names {
        for kind in [CLAIM, ADDRESS] {
            ensure!(scope.seen(kind, claim).is_none(), "made again at the source: {:?}", scope.seen(kind, claim));
        }
    }
    target.sound().await?;
    all_go(&target).await.context("at the target")?;
    target.counts(POOL, "p", [6, 6, 0, 0]).await?;
    target.leave().await
}
