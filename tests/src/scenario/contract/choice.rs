//! Which address a claim gets, and which claims get none: beyond the behaviour of the in-cluster provider.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use mooring_api::annotations::REQUESTED_ADDRESS;
use serde_json::{Value, json};

use super::both;
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{ADDRESS, CLAIM, POOL, Scope};
use crate::runner::Test;

pub fn all() -> Vec<Test<()>> {
    [
        both!(random, "strategy-random"),
        both!(least_recently, "strategy-least-recently-used"),
        both!(kept, "pre-allocations-are-kept"),
        both!(kept_global, "pre-allocations-of-a-global-pool-name-the-namespace"),
        both!(requested, "requested-address"),
        both!(requested_badly, "requested-address-that-cannot-be-had"),
        both!(requested_later, "requested-address-that-comes-free"),
        both!(quarantined, "released-address-rests"),
        both!(rested, "rested-address-is-given-again"),
        both!(grace, "grace-period-of-the-provider"),
        both!(conflict, "address-in-conflict-is-replaced"),
        both!(namespaces, "allowed-namespaces-by-name"),
        both!(selector, "allowed-namespaces-by-label"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn with(mut spec: Value, more: Value) -> Value {
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    spec
}

async fn get(scope: &Scope<'_>, name: &str, pool: &str) -> Result<String> {
    scope.claim(name, pool).await?;
    Ok(scope.bound(name).await?.ip().to_owned())
}

async fn random(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", with(scope.range(10, 209), json!({"strategy": "Random"}))).await?;
    let mut got = Vec::new();
    for n in 0..12 {
        got.push(get(scope, &format!("c-{n}"), "p").await?);
    }
    let different: BTreeSet<&String> = got.iter().collect();
    ensure!(different.len() == 12, "{got:?}");
    // The probability that these are the twelve lowest addresses by chance is 1 in 10^20.
    ensure!(got.iter().any(|ip| ip.rsplit('.').next().and_then(|last| last.parse().ok()) > Some(21_u8)), "{got:?}");
    scope.sound().await
}

async fn least_recently(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", with(scope.range(10, 13), json!({"strategy": "LeastRecentlyUsed"}))).await?;
    for (name, last) in [("a", 10), ("b", 11), ("c", 12)] {
        ensure!(get(scope, name, "p").await? == scope.ip(last), "{name}");
    }
    for name in ["b", "a"] {
        scope.delete(CLAIM, name).await?;
        scope.gone(CLAIM, name).await?;
    }
    // First addresses that were never used; then the addresses that were released longest ago.
    for (name, last) in [("d", 13), ("e", 11), ("f", 10)] {
        let got = get(scope, name, "p").await?;
        ensure!(got == scope.ip(last), "{name}: {got}");
    }
    scope.sound().await
}

async fn kept(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", with(scope.range(10, 12), json!({"preAllocations": {"vip": scope.ip(10)}}))).await?;
    ensure!(get(scope, "a", "p").await? == scope.ip(11), "the kept one was given away");
    ensure!(get(scope, "b", "p").await? == scope.ip(12), "the kept one was given away");
    scope.claim("c", "p").await?;
    scope.refused("c", "PoolExhausted").await?;
    ensure!(get(scope, "vip", "p").await? == scope.ip(10), "it got another one");
    scope.sound().await
}

async fn kept_global(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let other = scope.rig.scope().await?;
    let kept = json!({"preAllocations": {format!("{}/vip", scope.ns): scope.ip(11)}});
    let pool = scope.global_pool(with(scope.range(10, 12), kept)).await?;
    for one in [&other, scope] {
        one.claim_with("vip", "GlobalInClusterIPPool", &pool, json!({})).await?;
    }
    let got = [other.bound("vip").await?.ip().to_owned(), scope.bound("vip").await?.ip().to_owned()];
    ensure!(got == [scope.ip(10), scope.ip(11)], "{got:?}");
    other.leave().await
}

async fn requested(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.claim_with("c", POOL, "p", json!({"annotations": {REQUESTED_ADDRESS: scope.ip(17)}})).await?;
    let bound = scope.bound("c").await?;
    ensure!(bound.ip() == scope.ip(17), "{}", bound.ip());
    ensure!(get(scope, "d", "p").await? == scope.ip(10), "it changed what others get");
    scope.sound().await
}

async fn requested_badly(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let more = json!({
        "gateway": scope.ip(1), "excludedAddresses": [scope.ip(12)], "preAllocations": {"vip": scope.ip(13)},
        "addresses": [format!("{}/24", scope.ip(0))],
    });
    scope.pool("p", with(scope.range(10, 20), more)).await?;
    scope.claim_with("has", POOL, "p", json!({"annotations": {REQUESTED_ADDRESS: scope.ip(20)}})).await?;
    scope.bound("has").await?;
    let out = format!("172.16.{}.1", scope.ip(0).split('.').nth(1).unwrap_or_default());
    let asked = [
        ("out", out, "not in the pool"),
        ("gateway", scope.ip(1), "gateway"),
        ("excluded", scope.ip(12), "excluded"),
        ("reserved", scope.ip(255), "reserved"),
        ("kept", scope.ip(13), "kept for another claim"),
        ("taken", scope.ip(20), "taken"),
        ("family", scope.ip6("1"), ""),
        ("unreadable", "10.0.0".to_owned(), "cannot be read"),
    ];
    for (name, ip, said) in &asked {
        scope.claim_with(name, POOL, "p", json!({"annotations": {REQUESTED_ADDRESS: ip}})).await?;
        scope.refused_with(name, "AllocationFailed", said).await?;
    }
    scope.canary().await?;
    for (name, ..) in &asked {
        ensure!(scope.seen(ADDRESS, name).is_none(), "{name} got one all the same");
    }
    scope.sound().await
}

async fn requested_later(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    let had = get(scope, "a", "p").await?;
    scope.claim_with("b", POOL, "p", json!({"annotations": {REQUESTED_ADDRESS: had}})).await?;
    scope.refused("b", "AllocationFailed").await?;
    scope.delete(CLAIM, "a").await?;
    let bound = scope.bound("b").await?;
    ensure!(bound.ip() == had, "{}", bound.ip());
    // An address that the pool contains only later.
    scope.claim_with("c", POOL, "p", json!({"annotations": {REQUESTED_ADDRESS: scope.ip(30)}})).await?;
    scope.refused("c", "AllocationFailed").await?;
    scope.merge(POOL, "p", json!({"spec": scope.range(10, 30)})).await?;
    let bound = scope.bound("c").await?;
    ensure!(bound.ip() == scope.ip(30), "{}", bound.ip());
    scope.sound().await
}

async fn quarantined(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", with(scope.range(10, 11), json!({"quarantine": {"afterReleaseSeconds": 3600}}))).await?;
    let had = get(scope, "a", "p").await?;
    scope.delete(CLAIM, "a").await?;
    // The address does not block the deletion of its claim, and so not the deletion of the machine.
    scope.gone(CLAIM, "a").await?;
    let next = get(scope, "b", "p").await?;
    ensure!(next != had, "{had} was given again at once");
    scope.claim("c", "p").await?;
    scope.refused("c", "PoolExhausted").await?;
    let counts = scope.rig.world.until("the count of what rests", |state| {
        let counts = state.get(POOL, &scope.ns, "p")?.pointer("/status/ipAddresses")?;
        (counts["quarantined"] == 1 && counts["used"] == 1).then(|| counts.clone())
    });
    let counts = counts.await?;
    ensure!(counts["free"] == 0 && counts["total"] == 2, "{counts}");
    scope.sound().await
}

async fn rested(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", with(scope.range(10, 10), json!({"quarantine": {"afterReleaseSeconds": 2}}))).await?;
    let had = get(scope, "a", "p").await?;
    let released = std::time::Instant::now();
    scope.delete(CLAIM, "a").await?;
    scope.gone(CLAIM, "a").await?;
    ensure!(get(scope, "b", "p").await? == had, "another one");
    // The end of the quarantine is in whole seconds.
    ensure!(released.elapsed() >= std::time::Duration::from_secs(1), "it did not rest: {:?}", released.elapsed());
    scope.sound().await
}

async fn grace(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", with(scope.range(10, 10), json!({"addressReuseGracePeriodSeconds": 2}))).await?;
    let had = get(scope, "a", "p").await?;
    let released = std::time::Instant::now();
    scope.delete(CLAIM, "a").await?;
    ensure!(get(scope, "b", "p").await? == had, "another one");
    ensure!(released.elapsed() >= std::time::Duration::from_secs(1), "it did not rest: {:?}", released.elapsed());
    scope.sound().await
}

/// An agent heard another host with the address.
async fn conflict(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    use mooring_api::annotations::CONFLICT;
    let rest = json!({"quarantine": {"afterConflictSeconds": 3600}});
    scope.pool("p", with(scope.range(10, 12), rest)).await?;
    let had = get(scope, "a", "p").await?;
    let heard = json!({"metadata": {"annotations": {CONFLICT: "52:54:00:00:00:01 at 2026-01-01T00:00:00Z"}}});
    scope.merge(ADDRESS, "a", heard).await?;
    let moved = scope.rig.world.until("the claim to get another address", |state| {
        let to = state.get(CLAIM, &scope.ns, "a")?.pointer("/status/addressRef/name")?.as_str()?;
        let ip = state.get(ADDRESS, &scope.ns, to)?["spec"]["address"].as_str()?.to_owned();
        (ip != had).then_some(ip)
    });
    let got = moved.await?;
    ensure!(got == scope.ip(11), "{got}");
    // No other claim gets the address meanwhile.
    ensure!(get(scope, "b", "p").await? == scope.ip(12), "it was given to the next one");
    scope.claim("c", "p").await?;
    scope.refused("c", "PoolExhausted").await?;
    Ok(())
}

async fn namespaces(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let other = scope.rig.scope().await?;
    let allowed = json!({"allowedNamespaces": {"names": [scope.ns]}});
    let pool = scope.global_pool(with(scope.range(10, 20), allowed)).await?;
    for one in [scope, &other] {
        one.claim_with("c", "GlobalInClusterIPPool", &pool, json!({})).await?;
    }
    scope.bound("c").await?;
    let said = other.refused("c", "AllocationFailed").await?;
    ensure!(said.contains(&other.ns), "{said}");
    let both = json!({"spec": {"allowedNamespaces": {"names": [scope.ns, other.ns]}}});
    scope.merge("GlobalInClusterIPPool", &pool, both).await?;
    other.bound("c").await?;
    other.leave().await
}

async fn selector(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let other = scope.rig.scope().await?;
    let label = |value: Value| json!({"metadata": {"labels": {"may": value}}});
    let server = &scope.rig.server;
    server.merge(&format!("/api/v1/namespaces/{}", scope.ns), &label(json!("yes"))).await?;
    let allowed = json!({"allowedNamespaces": {"selector": {"matchLabels": {"may": "yes"}}}});
    let pool = scope.global_pool(with(scope.range(10, 20), allowed)).await?;
    for one in [scope, &other] {
        one.claim_with("c", "GlobalInClusterIPPool", &pool, json!({})).await?;
    }
    scope.bound("c").await?;
    other.refused("c", "AllocationFailed").await?;
    // A namespace may get the label later.
    server.merge(&format!("/api/v1/namespaces/{}", other.ns), &label(json!("yes"))).await?;
    other.bound("c").await?;
    other.leave().await
}
