//! `IPAddress` objects that existed before: after `clusterctl move`, or made by hand.

use anyhow::{Context as _, Result, ensure};
use mooring_api::finalizers::{PROTECT_ADDRESS, RELEASE_ADDRESS};
use serde_json::{Value, json};

use super::both;
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{ADDRESS, CLAIM, POOL, Scope, reference};
use crate::runner::Test;

pub fn all() -> Vec<Test<()>> {
    [
        both!(moved, "moved-claim-and-address-are-linked-again", quick),
        both!(moved_address_first, "moved-address-comes-before-its-claim"),
        both!(premade, "premade-address-is-adopted"),
        both!(outside, "premade-address-out-of-the-pool-is-adopted"),
        both!(taken, "premade-address-that-is-taken-is-not-bound"),
        both!(other_pool, "premade-address-of-another-pool-is-not-bound"),
        both!(counted, "premade-address-is-never-given-to-others"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn owner(object: &Value, controller: bool) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "controller": controller, "blockOwnerDeletion": true,
    })
}

/// The result of `clusterctl move`: everything but the status, with the new uids of the owners.
async fn moved(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let pool =
        scope.create(POOL, "p", scope.range(10, 20), json!({"annotations": {"cluster.x-k8s.io/paused": ""}})).await?;
    let claim = scope.claim_with("c", POOL, "p", json!({"finalizers": [RELEASE_ADDRESS]})).await?;
    let meta = json!({"finalizers": [PROTECT_ADDRESS], "ownerReferences": [owner(&claim, true), owner(&pool, false)]});
    let made = scope.address("c", "p", &scope.ip(17), meta).await?;
    scope.merge(POOL, "p", json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}})).await?;
    let bound = scope.bound("c").await?;
    ensure!(bound.ip() == scope.ip(17), "{} in place of what was moved", bound.ip());
    ensure!(bound.address["metadata"]["uid"] == made["metadata"]["uid"], "it is another object");
    scope.counts(POOL, "p", [11, 10, 1, 0]).await?;
    scope.sound().await
}

async fn moved_address_first(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    let made = scope.address("c", "p", &scope.ip(13), json!({"finalizers": [PROTECT_ADDRESS]})).await?;
    scope.canary().await?;
    ensure!(scope.seen(ADDRESS, "c").is_some(), "it was thrown away before its claim came");
    scope.claim("c", "p").await?;
    let bound = scope.bound("c").await?;
    ensure!(bound.ip() == scope.ip(13) && bound.address["metadata"]["uid"] == made["metadata"]["uid"], "{bound:?}");
    scope.sound().await
}

async fn premade(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let pool = scope.pool("p", scope.range(10, 20)).await?;
    let made = scope.address("c", "p", &scope.ip(15), json!({"labels": {"their": "label"}})).await?;
    let claim = scope.claim("c", "p").await?;
    let bound = scope.bound("c").await?;
    let meta = &bound.address["metadata"];
    ensure!(bound.address["spec"] == made["spec"] && meta["uid"] == made["metadata"]["uid"], "{}", bound.address);
    ensure!(meta["finalizers"] == json!([PROTECT_ADDRESS]) && meta["labels"]["their"] == "label", "{meta}");
    let owners = meta["ownerReferences"].as_array().context("no owners")?;
    for (object, controller) in [(&claim, true), (&pool, false)] {
        let one = owners.iter().find(|one| one["uid"] == object["metadata"]["uid"]);
        let one = one.with_context(|| format!("not owned by the {}", object["kind"]))?;
        ensure!((one["controller"] == true) == controller && one["blockOwnerDeletion"] == true, "{one}");
    }
    scope.delete(CLAIM, "c").await?;
    scope.gone(ADDRESS, "c").await
}

async fn outside(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.address("c", "p", &scope.ip(99), json!({})).await?;
    scope.claim("c", "p").await?;
    let bound = scope.bound("c").await?;
    ensure!(bound.ip() == scope.ip(99), "{}", bound.ip());
    // The counts as the provider counts: the address is used, is out of range, and reduces the free ones.
    scope.counts(POOL, "p", [11, 10, 1, 1]).await
}

async fn taken(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.claim("first", "p").await?;
    let first = scope.bound("first").await?;
    scope.address("second", "p", first.ip(), json!({})).await?;
    scope.claim("second", "p").await?;
    let said = scope.refused("second", "AllocationFailed").await?;
    ensure!(said.contains(first.ip()) && said.contains("first"), "{said}");
    scope.canary().await?;
    let second = scope.seen(CLAIM, "second").context("it is gone")?;
    ensure!(second.pointer("/status/addressRef").is_none(), "bound: {second}");
    // The claim heals when the other one is gone.
    scope.delete(CLAIM, "first").await?;
    let second = scope.bound("second").await?;
    ensure!(second.ip() == first.ip(), "{}", second.ip());
    scope.sound().await
}

async fn other_pool(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.pool("q", scope.range(30, 40)).await?;
    scope.address("c", "q", &scope.ip(30), json!({})).await?;
    scope.claim("c", "p").await?;
    let said = scope.refused("c", "AllocationFailed").await?;
    ensure!(said.contains("IPAddress c exists"), "{said}");
    scope.delete(ADDRESS, "c").await?;
    let bound = scope.bound("c").await?;
    ensure!(bound.address["spec"]["poolRef"] == reference(POOL, "p"), "{}", bound.address);
    Ok(())
}

async fn counted(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    // The claim for the address comes later, or never.
    scope.pool("p", scope.range(10, 12)).await?;
    scope.address("later", "p", &scope.ip(10), json!({})).await?;
    scope.counts(POOL, "p", [3, 2, 1, 0]).await?;
    for name in ["a", "b"] {
        scope.claim(name, "p").await?;
        let bound = scope.bound(name).await?;
        ensure!(bound.ip() != scope.ip(10), "given to {name} too");
    }
    scope.claim("c", "p").await?;
    scope.refused("c", "PoolExhausted").await?;
    scope.delete(ADDRESS, "later").await?;
    scope.bound("c").await?;
    Ok(())
}
