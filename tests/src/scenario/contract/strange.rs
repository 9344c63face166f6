//! Bad input, from people or programs: it affects only its own object.

use anyhow::{Result, ensure};
use mooring_api::annotations::REQUESTED_ADDRESS;
use serde_json::json;

use super::{both, rule};
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{ADDRESS, CLAIM, POOL, Scope, reference};
use crate::runner::Test;

pub fn all() -> Vec<Test<()>> {
    let mut all: Vec<Test<()>> =
        [both!(foreign, "address-by-hand-of-a-foreign-pool"), both!(flood, "claims-come-and-go-at-once")]
            .into_iter()
            .flatten()
            .collect();
    // Our CRDs refuse these themselves.
    all.push(rule!(absurd, "address-by-hand-that-makes-no-sense"));
    all.push(rule!(theirs, "pools-that-make-no-sense", "contract-theirs", Theirs));
    all.push(rule!(served, "pools-of-the-provider-are-served", "contract-theirs", Theirs));
    all
}

async fn absurd(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 12)).await?;
    let absurd = [
        ("word", "nothing".to_owned()),
        ("zone", "fe80::1%eth0".to_owned()),
        ("mapped", format!("::ffff:{}", scope.ip(10))),
        ("other-family", scope.ip6("1")),
        ("multicast", "224.0.0.1".to_owned()),
        ("unspecified", "0.0.0.0".to_owned()),
        ("broadcast", "255.255.255.255".to_owned()),
    ];
    for (name, ip) in &absurd {
        let spec = json!({"claimRef": {"name": name}, "poolRef": reference(POOL, "p"), "address": ip, "prefix": 128});
        scope.create(ADDRESS, name, spec, json!({})).await?;
    }
    // Claims of these pools get the error; the other claims are served.
    scope.claim("word", "p").await?;
    let said = scope.refused("word", "AllocationFailed").await?;
    ensure!(said.contains("cannot be read"), "{said}");
    scope.claim("c", "p").await?;
    let bound = scope.bound("c").await?;
    ensure!([10, 11, 12].map(|last| scope.ip(last)).contains(&bound.ip().to_owned()), "{}", bound.ip());
    scope.delete(CLAIM, "word").await?;
    scope.gone(CLAIM, "word").await?;
    for (name, _) in &absurd {
        // The address belongs to no claim: its maker must delete it.
        let deleted = scope.delete(ADDRESS, name).await;
        ensure!(deleted.as_ref().map_or_else(|error| error.code == 404, |_| true), "{deleted:?}");
        scope.gone(ADDRESS, name).await?;
    }
    Ok(())
}

async fn foreign(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 12)).await?;
    let pool = json!({"apiGroup": "ipam.example.com", "kind": "OtherPool", "name": "p"});
    let spec = json!({"claimRef": {"name": "x"}, "poolRef": pool, "address": scope.ip(10), "prefix": 24});
    let made = scope.create(ADDRESS, "x", spec, json!({"finalizers": ["example.com/theirs"]})).await?;
    scope.canary().await?;
    let seen = scope.seen(ADDRESS, "x");
    let version = |one: &serde_json::Value| one["metadata"]["resourceVersion"].clone();
    ensure!(seen.as_ref().map(version) == Some(version(&made)), "somebody else's was touched: {seen:?}");
    // The address does not belong to the pool, which gives out its own addresses.
    scope.claim("c", "p").await?;
    let bound = scope.bound("c").await?;
    ensure!(bound.ip() == scope.ip(10), "{}", bound.ip());
    scope.counts(POOL, "p", [3, 2, 1, 0]).await?;
    scope.merge(ADDRESS, "x", json!({"metadata": {"finalizers": null}})).await?;
    scope.delete(ADDRESS, "x").await?;
    Ok(())
}

async fn flood(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 40)).await?;
    // More claims than addresses; half of the claims are deleted at once.
    let names: Vec<String> = (0..60).map(|n| format!("c-{n}")).collect();
    let made = futures::future::join_all(names.iter().map(|name| scope.claim(name, "p"))).await;
    for one in made {
        one?;
    }
    let (go, stay) = names.split_at(30);
    for name in go {
        scope.delete(CLAIM, name).await?;
    }
    for name in stay {
        scope.bound(name).await?;
    }
    for name in go {
        scope.gone(CLAIM, name).await?;
    }
    scope.counts(POOL, "p", [31, 1, 30, 0]).await?;
    // No address is kept for the deleted claims.
    scope.claim("last", "p").await?;
    scope.bound("last").await?;
    scope.sound().await
}

/// The in-cluster provider's CRDs accept everything that the provider's webhook would have refused.
async fn theirs(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let one = |addresses: &[&str], prefix: i64| json!({"addresses": addresses, "prefix": prefix});
    let ip = scope.ip(1);
    let reversed = format!("{}-{}", scope.ip(9), scope.ip(1));
    let wrong = [
        ("word", one(&["nothing"], 24)),
        ("reversed", one(&[&reversed], 24)),
        ("mixed", one(&[&ip, "fd00::1"], 24)),
        ("elsewhere", one(&[&ip, "172.16.0.1"], 24)),
        ("long", one(&[&ip], 33)),
        ("slash", one(&["10.0.0.0/33"], 24)),
        ("empty", one(&[""], 24)),
        ("none", one(&[], 24)),
        ("gateway", json!({"addresses": [ip], "prefix": 24, "gateway": "nothing"})),
        ("gateway-family", json!({"addresses": [ip], "prefix": 24, "gateway": "fd00::1"})),
        ("excluded", json!({"addresses": [ip], "prefix": 24, "excludedAddresses": ["nothing"]})),
    ];
    for (name, spec) in &wrong {
        scope.pool(name, spec.clone()).await?;
        scope.claim(name, name).await?;
        scope.refused_with(name, "PoolNotReady", &format!("{name} cannot be used: ")).await?;
    }
    // The usable part of the pool is used; the waiting claim gets its address.
    scope.merge(POOL, "word", json!({"spec": scope.range(10, 12)})).await?;
    scope.bound("word").await?;
    let many: Vec<String> = (0..200).map(|n| scope.ip(n)).chain((0..20).map(|_| scope.ip(7))).collect();
    let more = json!({"addresses": many, "prefix": 24});
    scope.pool("many", more).await?;
    scope.claim_with("many", POOL, "many", json!({"annotations": {REQUESTED_ADDRESS: scope.ip(7)}})).await?;
    scope.bound("many").await?;
    scope.sound().await
}

/// Without Mooring's CRDs: no optional field, no condition on pools; everything else is the same.
async fn served(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let mut spec = scope.range(10, 12);
    spec["gateway"] = json!(scope.ip(1));
    scope.pool("p", spec).await?;
    for (name, last) in [("a", 10), ("b", 11)] {
        scope.claim(name, "p").await?;
        let bound = scope.bound(name).await?;
        ensure!(bound.ip() == scope.ip(last), "{}", bound.ip());
    }
    scope.counts(POOL, "p", [3, 1, 2, 0]).await?;
    let global = scope.global_pool(scope.range(20, 22)).await?;
    scope.claim_with("g", "GlobalInClusterIPPool", &global, json!({})).await?;
    scope.bound("g").await?;
    scope.delete(CLAIM, "a").await?;
    scope.gone(CLAIM, "a").await?;
    scope.counts(POOL, "p", [3, 2, 1, 0]).await?;
    scope.sound().await
}
