//! Claims that belong to a Cluster.

use anyhow::{Result, ensure};
use mooring_api::annotations::PAUSED;
use mooring_api::labels::CLUSTER_NAME;
use serde_json::{Value, json};

use super::rule;
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{ADDRESS, CLAIM, POOL, Scope, reference};
use crate::runner::Test;

pub fn all() -> Vec<Test<()>> {
    vec![
        rule!(by_spec, "paused-cluster-by-spec"),
        rule!(by_annotation, "paused-cluster-by-annotation"),
        rule!(by_label, "cluster-is-named-by-label-too"),
        rule!(without_label, "claim-without-a-cluster-is-served-though-clusters-are-paused"),
        rule!(not_found, "cluster-not-found"),
        rule!(not_found_deleted, "deleted-claim-of-a-missing-cluster-goes"),
        rule!(paused_deletion, "claim-of-a-paused-cluster-is-not-released"),
    ]
}

async fn claim(scope: &Scope<'_>, name: &str, cluster: &str) -> Result<Value> {
    let spec = json!({"clusterName": cluster, "poolRef": reference(POOL, "p")});
    scope.create(CLAIM, name, spec, json!({})).await
}

async fn waits(scope: &Scope<'_>, name: &str) -> Result<()> {
    scope.canary().await?;
    ensure!(scope.seen(ADDRESS, name).is_none(), "it got an address");
    Ok(())
}

async fn by_spec(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.cluster("w", json!({"paused": true})).await?;
    claim(scope, "c", "w").await?;
    waits(scope, "c").await?;
    scope.merge_cluster("w", json!({"spec": {"paused": false}})).await?;
    scope.bound("c").await?;
    Ok(())
}

async fn by_annotation(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.annotated_cluster("w", json!({PAUSED: ""}), json!({})).await?;
    claim(scope, "c", "w").await?;
    waits(scope, "c").await?;
    scope.merge_cluster("w", json!({"metadata": {"annotations": {PAUSED: null}}})).await?;
    scope.bound("c").await?;
    Ok(())
}

async fn by_label(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.cluster("w", json!({"paused": true})).await?;
    scope.claim_with("c", POOL, "p", json!({"labels": {CLUSTER_NAME: "w"}})).await?;
    waits(scope, "c").await?;
    scope.merge_cluster("w", json!({"spec": {"paused": false}})).await?;
    scope.bound("c").await?;
    Ok(())
}

/// Providers that need the VIP of a paused new Cluster first make a claim in this form.
async fn without_label(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.cluster("w", json!({"paused": true})).await?;
    scope.claim("w", "p").await?;
    scope.bound("w").await?;
    Ok(())
}

async fn not_found(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    claim(scope, "c", "none").await?;
    waits(scope, "c").await?;
    let said = scope.refused("c", "AllocationFailed").await?;
    ensure!(said.contains("Cluster none does not exist"), "{said}");
    scope.cluster("none", json!({})).await?;
    scope.bound("c").await?;
    Ok(())
}

async fn not_found_deleted(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.cluster("w", json!({})).await?;
    claim(scope, "c", "w").await?;
    scope.bound("c").await?;
    scope.delete_cluster("w").await?;
    scope.canary().await?;
    ensure!(scope.seen(ADDRESS, "c").is_some(), "the address went with the Cluster");
    scope.delete(CLAIM, "c").await?;
    scope.gone(CLAIM, "c").await?;
    scope.gone(ADDRESS, "c").await
}

async fn paused_deletion(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.cluster("w", json!({})).await?;
    claim(scope, "c", "w").await?;
    scope.bound("c").await?;
    scope.merge_cluster("w", json!({"spec": {"paused": true}})).await?;
    scope.canary().await?;
    scope.delete(CLAIM, "c").await?;
    scope.canary().await?;
    ensure!(scope.seen(ADDRESS, "c").is_some(), "it was released");
    scope.merge_cluster("w", json!({"spec": {"paused": false}})).await?;
    scope.gone(CLAIM, "c").await
}
