//! How an address is given back.

use anyhow::{Context as _, Result, ensure};
use mooring_api::finalizers::{PROTECT_ADDRESS, RELEASE_ADDRESS};
use serde_json::json;

use super::both;
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{ADDRESS, CLAIM, POOL, Scope};
use crate::runner::Test;

pub fn all() -> Vec<Test<()>> {
    [
        both!(deleted, "deleted-claim-releases-address-first"),
        both!(others_hold, "other-finalizers-hold-the-address"),
        both!(missing_pool, "deleted-claim-of-a-missing-pool-goes"),
        both!(never_bound, "deleted-claim-without-an-address-goes"),
        both!(deleted_by_hand, "address-deleted-by-hand-stays-with-its-claim"),
        both!(torn_out, "address-torn-out-by-hand-comes-back"),
        both!(pool_stays, "pool-stays-until-its-last-address-is-released"),
        both!(again, "claim-made-again-under-the-same-name"),
        both!(free_again, "released-address-is-free-again", quick),
    ]
    .into_iter()
    .flatten()
    .collect()
}

async fn deleted(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.claim("c", "p").await?;
    scope.bound("c").await?;
    scope.counts(POOL, "p", [11, 10, 1, 0]).await?;
    scope.delete(CLAIM, "c").await?;
    scope.gone(CLAIM, "c").await?;
    scope.gone(ADDRESS, "c").await?;
    let gone = |kind: &str| {
        scope.rig.world.look(|state| {
            let mut all = state.history.iter().rev().filter(|one| one.id.1 == scope.ns && one.id.0 == kind);
            all.find(|one| one.gone && one.id.2 == "c").map(|one| one.version)
        })
    };
    let (address, claim) = (gone(ADDRESS).context("no address")?, gone(CLAIM).context("no claim")?);
    ensure!(address < claim, "the claim went first: {claim}, the address {address}");
    scope.counts(POOL, "p", [11, 11, 0, 0]).await
}

async fn others_hold(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    // The consumer's finalizer stands for a machine that still runs.
    let theirs = json!({"finalizers": ["vspherevm.infrastructure.cluster.x-k8s.io/ip-claim-protection"]});
    scope.pool("p", scope.range(10, 10)).await?;
    scope.claim_with("machine", POOL, "p", theirs).await?;
    let had = scope.bound("machine").await?;
    scope.claim("next", "p").await?;
    scope.refused("next", "PoolExhausted").await?;
    scope.delete(CLAIM, "machine").await?;
    scope.canary().await?;
    let address = scope.seen(ADDRESS, "machine").context("the address was released while its machine runs")?;
    ensure!(address["metadata"]["deletionTimestamp"].is_null(), "it is on its way out: {address}");
    ensure!(scope.seen(ADDRESS, "next").is_none(), "the next one got it while its machine runs");
    scope.merge(CLAIM, "machine", json!({"metadata": {"finalizers": [RELEASE_ADDRESS]}})).await?;
    scope.gone(CLAIM, "machine").await?;
    let next = scope.bound("next").await?;
    ensure!(next.ip() == had.ip(), "{} and {}", next.ip(), had.ip());
    scope.sound().await
}

async fn missing_pool(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.claim_with("c", POOL, "none", json!({"finalizers": [RELEASE_ADDRESS]})).await?;
    scope.refused("c", "PoolNotReady").await?;
    scope.delete(CLAIM, "c").await?;
    scope.gone(CLAIM, "c").await
}

async fn never_bound(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 10)).await?;
    scope.claim("a", "p").await?;
    scope.bound("a").await?;
    // One claim as it was created, and one created with the finalizer.
    scope.claim("b", "p").await?;
    scope.claim_with("c", POOL, "p", json!({"finalizers": [RELEASE_ADDRESS]})).await?;
    for name in ["b", "c"] {
        scope.refused(name, "PoolExhausted").await?;
        scope.delete(CLAIM, name).await?;
        scope.gone(CLAIM, name).await?;
    }
    scope.sound().await
}

async fn deleted_by_hand(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 10)).await?;
    scope.claim("c", "p").await?;
    let before = scope.bound("c").await?;
    scope.delete(ADDRESS, "c").await?;
    scope.canary().await?;
    let after = scope.seen(ADDRESS, "c").context("it is gone, and its claim is not")?;
    ensure!(after["spec"] == before.address["spec"], "{} and {}", after["spec"], before.address["spec"]);
    ensure!(after["metadata"]["uid"] == before.address["metadata"]["uid"], "it went, and another came: {after}");
    // No other claim gets the address meanwhile.
    scope.claim("d", "p").await?;
    scope.refused("d", "PoolExhausted").await?;
    scope.delete(CLAIM, "c").await?;
    scope.gone(ADDRESS, "c").await?;
    scope.bound("d").await?;
    scope.sound().await
}

async fn torn_out(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    for name in ["a", "c", "b"] {
        scope.claim(name, "p").await?;
        scope.bound(name).await?;
    }
    // The claim gets the same address again, though a lower one is free.
    scope.delete(CLAIM, "a").await?;
    scope.gone(CLAIM, "a").await?;
    let before = scope.bound("c").await?;
    let uid = before.address["metadata"]["uid"].clone();
    scope.delete(ADDRESS, "c").await?;
    // A user who also removes the finalizer forces the deletion. (The address may be gone by itself.)
    let torn = scope.merge(ADDRESS, "c", json!({"metadata": {"uid": uid, "finalizers": null}})).await;
    ensure!(torn.as_ref().map_or_else(|error| [404, 409].contains(&error.code), |_| true), "{torn:?}");
    let back = scope.rig.world.until("the address to come back", |state| {
        let address = state.get(ADDRESS, &scope.ns, "c")?;
        let claim = state.get(CLAIM, &scope.ns, "c")?;
        let is_new = address["metadata"]["uid"] != uid && !claim["status"]["addressRef"].is_null();
        is_new.then(|| address.clone())
    });
    let back = back.await?;
    ensure!(back["spec"] == before.address["spec"], "{} and {}", back["spec"], before.address["spec"]);
    let after = scope.bound("c").await?;
    ensure!(after.address["metadata"]["finalizers"] == json!([PROTECT_ADDRESS]), "{}", after.address);
    scope.canary().await?;
    scope.sound().await
}

async fn pool_stays(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.claim("c", "p").await?;
    scope.bound("c").await?;
    scope.counts(POOL, "p", [11, 10, 1, 0]).await?;
    scope.delete(POOL, "p").await?;
    // The allocator decides about the finalizer before it writes the condition. Pools and claims are watched apart: before it says
    // so, a claim might be seen before the deletion of its pool, and have an address.
    let (reason, _) = scope.pool_says(POOL, "p", "Ready", false).await?;
    ensure!(reason == "Deleting", "{reason}");
    scope.claim("late", "p").await?;
    let said = scope.refused("late", "PoolNotReady").await?;
    ensure!(said.contains("deleted"), "{said}");
    ensure!(scope.seen(POOL, "p").is_some(), "the pool went before its address");
    ensure!(scope.seen(ADDRESS, "c").is_some(), "the address went with its pool");
    scope.delete(CLAIM, "late").await?;
    scope.gone(CLAIM, "late").await?;
    scope.delete(CLAIM, "c").await?;
    scope.gone(CLAIM, "c").await?;
    scope.gone(POOL, "p").await
}

async fn again(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    for round in 0..40 {
        let claim = scope.claim("c", "p").await?;
        // Deleted at another moment of its allocation each time.
        if round % 4 != 0 {
            let there = scope.rig.world.until("a step of the allocation", |state| match round % 4 {
                1 => state.get(CLAIM, &scope.ns, "c").map(|_| ()),
                2 => state.get(ADDRESS, &scope.ns, "c").map(|_| ()),
                _ => state.get(CLAIM, &scope.ns, "c")?.pointer("/status/addressRef").map(|_| ()),
            });
            there.await.with_context(|| format!("round {round}"))?;
        }
        scope.delete(CLAIM, "c").await?;
        let uid = claim["metadata"]["uid"].clone();
        let gone = scope.rig.world.until("the claim to be gone", |state| {
            let there = state.get(CLAIM, &scope.ns, "c");
            there.is_none_or(|one| one["metadata"]["uid"] != uid).then_some(())
        });
        gone.await.with_context(|| format!("round {round}"))?;
    }
    scope.claim("c", "p").await?;
    scope.bound("c").await?;
    scope.canary().await?;
    scope.counts(POOL, "p", [11, 10, 1, 0]).await?;
    scope.sound().await
}

async fn free_again(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    for name in ["a", "b", "c"] {
        scope.claim(name, "p").await?;
        scope.bound(name).await?;
    }
    scope.delete(CLAIM, "b").await?;
    scope.gone(CLAIM, "b").await?;
    scope.claim("d", "p").await?;
    let next = scope.bound("d").await?;
    ensure!(next.ip() == scope.ip(11), "not the lowest that is free: {}", next.ip());
    scope.sound().await
}
