//! Information for people: conditions of pools, Events, metrics.

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::both;
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{ADDRESS, CLAIM, POOL, Scope};
use crate::ipam::world::SOON;
use crate::observe::now;
use crate::runner::Test;

pub fn all() -> Vec<Test<()>> {
    [
        both!(pool_ready, "pool-says-ready"),
        both!(misplaced, "wrong-pre-allocations-stop-their-claims-alone"),
        both!(duplicates, "duplicates-are-found-and-told"),
        both!(events, "events-of-allocation-and-release"),
        both!(metrics, "metrics"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

async fn pool_ready(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    let (reason, _) = scope.pool_says(POOL, "p", "Ready", true).await?;
    ensure!(reason == "PoolReady", "{reason}");
    scope.pool_says(POOL, "p", "Exhausted", false).await?;
    scope.pool_says(POOL, "p", "Duplicates", false).await?;
    scope.pool_says(POOL, "p", "OutOfRange", false).await?;
    Ok(())
}

/// Mistakes that the API server cannot see: one address for two claims, and an address that the pool does not have. They stop the
/// claims that they name, and no other.
async fn misplaced(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let wrong = [
        ("twice", 10, json!({"a": scope.ip(10), "b": scope.ip(10)}), scope.ip(11), "can be one claim's only"),
        ("outside", 30, json!({"a": scope.ip(99)}), scope.ip(30), "not in the pool"),
    ];
    for (name, first, kept, others, said) in wrong {
        let mut spec = scope.range(first, first + 9);
        spec["preAllocations"] = kept;
        scope.pool(name, spec).await?;
        let (reason, message) = scope.pool_says(POOL, name, "PreAllocationsInvalid", true).await?;
        ensure!(reason == "PreAllocationRefused" && message.contains(said), "{name}: {reason} {message}");
        scope.pool_says(POOL, name, "Ready", true).await?;
        let told = event(scope, name, "PreAllocationRefused").await?;
        ensure!(told["type"] == "Warning" && told["note"].to_string().contains(said), "{told}");
        scope.claim("a", name).await?;
        scope.refused_with("a", "AllocationFailed", said).await?;
        let other = format!("other-{name}");
        scope.claim(&other, name).await?;
        let bound = scope.bound(&other).await?;
        ensure!(bound.ip() == others, "{}", bound.ip());
        scope.merge(POOL, name, json!({"spec": {"preAllocations": null}})).await?;
        scope.bound("a").await?;
        scope.pool_says(POOL, name, "PreAllocationsInvalid", false).await?;
        scope.delete(CLAIM, "a").await?;
        scope.gone(ADDRESS, "a").await?;
    }
    Ok(())
}

/// Two claims bound to one address: only a human can cause this.
async fn duplicates(scope: &Scope<'_>, allocator: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.claim("a", "p").await?;
    let first = scope.bound("a").await?;
    scope.claim_with("b", POOL, "p", json!({"annotations": {"cluster.x-k8s.io/paused": ""}})).await?;
    scope.address("b", "p", first.ip(), json!({})).await?;
    let bind = json!({"status": {"addressRef": {"name": "b"}}});
    scope.rig.server.merge(&format!("{}/status", scope.path(CLAIM, "b")), &bind).await?;
    scope.merge(CLAIM, "b", json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}})).await?;
    let (reason, message) = scope.pool_says(POOL, "p", "Duplicates", true).await?;
    ensure!(reason == "DuplicatesFound" && message.contains(first.ip()), "{reason} {message}");
    let found = allocator.metric("mooring_allocator_duplicates_total", &[]).await?;
    ensure!(found.is_some_and(|found| found >= 1.0), "the metric says {found:?}");
    scope.delete(CLAIM, "b").await?;
    scope.pool_says(POOL, "p", "Duplicates", false).await?;
    Ok(())
}

/// Waits for an Event about a claim, or a pool.
pub(super) async fn event(scope: &Scope<'_>, claim: &str, reason: &str) -> Result<Value> {
    let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", scope.ns);
    let deadline = now() + SOON;
    loop {
        let all = scope.rig.server.get(&path).await?["items"].as_array().cloned().unwrap_or_default();
        let about = |one: &&Value| one["regarding"]["name"] == claim && one["reason"] == reason;
        if let Some(one) = all.iter().find(about) {
            return Ok(one.clone());
        }
        if now() > deadline {
            let seen: Vec<String> =
                all.iter().map(|one| format!("{} {}", one["regarding"]["name"], one["reason"])).collect();
            bail!("no Event {reason} about {claim}; there are {seen:?}");
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

async fn events(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 10)).await?;
    scope.claim("c", "p").await?;
    let bound = scope.bound("c").await?;
    let told = event(scope, "c", "AddressAllocated").await?;
    ensure!(told["type"] == "Normal" && told["note"].to_string().contains(bound.ip()), "{told}");
    ensure!(told["regarding"]["kind"] == CLAIM && told["regarding"]["uid"] == bound.claim["metadata"]["uid"], "{told}");
    scope.claim("d", "p").await?;
    scope.refused("d", "PoolExhausted").await?;
    let told = event(scope, "d", "PoolExhausted").await?;
    ensure!(told["type"] == "Warning", "{told}");
    scope.delete(CLAIM, "c").await?;
    scope.gone(CLAIM, "c").await?;
    let told = event(scope, "c", "AddressReleased").await?;
    ensure!(told["note"].to_string().contains(bound.ip()), "{told}");
    Ok(())
}

/// Waits until so many claims wait because their pool is exhausted, as the metric says it.
async fn waiting(allocator: &Allocator, wanted: u8) -> Result<()> {
    let deadline = now() + SOON;
    loop {
        let shown = allocator.metric("mooring_allocator_claims_waiting", &["PoolExhausted"]).await?;
        if shown == Some(wanted.into()) {
            return Ok(());
        }
        ensure!(now() < deadline, "{shown:?} claims wait, not {wanted}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

async fn metrics(scope: &Scope<'_>, allocator: &Allocator) -> Result<()> {
    let count = async |name: &str| Ok::<f64, anyhow::Error>(allocator.metric(name, &[]).await?.unwrap_or_default());
    let allocated = count("mooring_allocator_allocations_total").await?;
    let released = count("mooring_allocator_releases_total").await?;
    let timed = count("mooring_allocator_allocation_seconds_count").await?;
    scope.pool("p", scope.range(10, 11)).await?;
    for name in ["a", "b"] {
        scope.claim(name, "p").await?;
        scope.bound(name).await?;
    }
    scope.claim("c", "p").await?;
    scope.refused("c", "PoolExhausted").await?;
    waiting(allocator, 1).await?;
    scope.delete(CLAIM, "a").await?;
    scope.bound("c").await?;
    waiting(allocator, 0).await?;
    scope.counts(POOL, "p", [2, 0, 2, 0]).await?;
    let allocated = count("mooring_allocator_allocations_total").await? - allocated;
    let released = count("mooring_allocator_releases_total").await? - released;
    let timed = count("mooring_allocator_allocation_seconds_count").await? - timed;
    ensure!(
        format!("{allocated} {released} {timed}") == "3 1 3",
        "{allocated} allocated, {released} released, {timed} timed"
    );
    let failed = allocator.metric("mooring_allocator_failures_total", &["PoolExhausted"]).await?;
    ensure!(failed.is_some_and(|failed| failed >= 1.0), "failures: {failed:?}");
    let ours = format!("namespace=\"{}\"", scope.ns);
    for (state, value) in [("used", 2.0), ("free", 0.0), ("total", 2.0)] {
        let state = format!("state=\"{state}\"");
        let seen = allocator.metric("mooring_allocator_pool_addresses", &[&ours, "pool=\"p\"", &state]).await?;
        ensure!(seen == Some(value), "{state}: {seen:?}");
    }
    let timed = allocator.metric("mooring_allocator_api_call_seconds_count", &[]).await?;
    ensure!(timed.is_some_and(|timed| timed > 0.0), "API requests: {timed:?}");
    Ok(())
}
