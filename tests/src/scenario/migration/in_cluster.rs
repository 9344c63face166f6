//! Cluster API's in-cluster provider is replaced by Mooring.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::provider::{Before, CLUSTER, Pair, all_go, of_pool, ready_with, strangers, strangers_go, switch};
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{ADDRESS, POOL, Scope};
use crate::ipam::server::{object, place_in};

/// The kind of prefix pools.
const PREFIXES: &str = "InClusterPrefixPool";
/// Pools of all namespaces.
const GLOBAL: &str = "GlobalInClusterIPPool";

/// An address of the scope in another /24.
fn at(scope: &Scope<'_>, third: u8, last: u8) -> String {
    scope.ip(last).replacen(".0.", &format!(".{third}."), 1)
}

/// A sound cluster: pools of every kind and version, claims that are bound, one that waits and one in the middle.
pub async fn as_left(scope: &Scope<'_>, allocator: &Allocator) -> Result<()> {
    allocator.stop().await?;
    scope.cluster(CLUSTER, json!({})).await?;
    // Every field that the provider's pools have, and every form of an address.
    let spec = json!({
        "addresses": [format!("{}-{}", scope.ip(10), scope.ip(19)), scope.ip(30), format!("{}/30", scope.ip(40))],
        "prefix": 24, "gateway": scope.ip(1), "excludedAddresses": [scope.ip(15)], "allocateReservedIPAddresses": true,
    });
    let p = scope.create(POOL, "p", spec, of_pool()).await?;
    // One that was v1alpha1, as the provider's conversion stored it.
    let old = json!({
        "subnet": format!("{}/28", at(scope, 1, 0)), "start": at(scope, 1, 2), "end": at(scope, 1, 9),
        "gateway": at(scope, 1, 1),
    });
    let mut meta = of_pool();
    meta["annotations"] = json!({"cluster.x-k8s.io/conversion-data": json!({"spec": old}).to_string()});
    let spec = json!({
        "addresses": [format!("{}-{}", at(scope, 1, 2), at(scope, 1, 9))], "prefix": 28, "gateway": at(scope, 1, 1),
    });
    let converted = scope.create(POOL, "converted", spec, meta).await?;
    // One that was stored before the provider knew v1alpha2.
    let old = json!({
        "subnet": format!("{}/28", at(scope, 2, 0)), "start": at(scope, 2, 2), "end": at(scope, 2, 9),
        "gateway": at(scope, 2, 1),
    });
    let mut first = object("v1alpha1", POOL, "first", &old);
    first["metadata"]["finalizers"] = of_pool()["finalizers"].clone();
    scope.rig.server.create(&place_in("v1alpha1", POOL, &scope.ns), &first).await?;
    let first = scope.rig.server.get(&scope.path(POOL, "first")).await?;
    let name = format!("{}-global", scope.ns);
    let range = json!({"addresses": [format!("{}-{}", at(scope, 3, 10), at(scope, 3, 12))], "prefix": 24});
    let global = scope.create(GLOBAL, &name, range, of_pool()).await?;
    let spec = json!({"prefixes": [format!("{}/56", scope.ip6(""))], "allocationPrefixLength": 64});
    let prefixes = scope.create(PREFIXES, "v6", spec, of_pool()).await?;
    // The same range in two namespaces, and a claim of the same name of the pool for all.
    let other = scope.rig.scope().await?;
    other.cluster(CLUSTER, json!({})).await?;
    let tenants = json!({"addresses": [format!("{}-{}", at(scope, 4, 10), at(scope, 4, 12))], "prefix": 24});
    let mut own = Vec::new();
    for tenant in [scope, &other] {
        own.push(tenant.create(POOL, "tenants", tenants.clone(), of_pool()).await?);
    }
    for (pool, claim, ip) in [
        (&p, "a", scope.ip(10)),
        (&p, "b", scope.ip(12)),
        (&p, "c", scope.ip(30)),
        (&p, "d", scope.ip(41)),
        (&converted, "old-a", at(scope, 1, 2)),
        (&converted, "old-b", at(scope, 1, 5)),
        (&first, "first-a", at(scope, 2, 3)),
        (&global, "global", at(scope, 3, 10)),
        (&prefixes, "prefix", scope.ip6("")),
        (&own[0], "tenant", at(scope, 4, 10)),
    ] {
        Pair::of(pool, claim, &ip).leave(scope).await?;
    }
    // Consumers of older versions of Cluster API.
    let older = |pair: &mut Pair| {
        pair.claim["apiVersion"] = "ipam.cluster.x-k8s.io/v1beta1".into();
        pair.address["apiVersion"] = "ipam.cluster.x-k8s.io/v1beta1".into();
        pair.address["metadata"]["ownerReferences"][0]["apiVersion"] = "ipam.cluster.x-k8s.io/v1beta1".into();
        pair.claim["spec"]["clusterName"] = CLUSTER.into();
    };
    Pair::of(&p, "beta", &scope.ip(13)).but(older).leave(scope).await?;
    for (pool, claim, ip) in [(&global, "global", at(scope, 3, 11)), (&own[1], "tenant", at(scope, 4, 10))] {
        Pair::of(pool, claim, &ip).leave(&other).await?;
    }
    let counts = json!({"status": {"ipAddresses": {"total": 14, "free": 9, "used": 5, "outOfRange": 0}}});
    scope.rig.server.merge(&format!("{}/status", scope.path(POOL, "p")), &counts).await?;
    // One that the provider has begun, and one that it has not seen.
    let begun = |pair: &mut Pair| (pair.status, pair.address) = (Value::Null, Value::Null);
    Pair::of(&p, "begun", "").but(begun).leave(scope).await?;
    scope.claim("new", "p").await?;
    let strangers = strangers(scope).await?;

    let (before, others) = (Before::read(scope, &strangers).await?, Before::read(&other, &[]).await?);
    switch(allocator).await?;
    let bound = ["a", "b", "c", "d", "beta", "old-a", "old-b", "first-a", "global", "prefix", "tenant"];
    ready_with(scope, &bound, &before.ips()).await?;
    ready_with(&other, &["global", "tenant"], &others.ips()).await?;
    let mut new = Vec::new();
    for claim in ["begun", "new"] {
        new.push(scope.bound(claim).await?.ip().to_owned());
    }
    new.sort();
    ensure!(new == [scope.ip(11), scope.ip(14)], "{new:?}");
    scope.canary().await?;
    // A reference to an older version, which the API server will not serve for ever, is renewed; nothing else changes.
    let as_they_were: Vec<&str> = bound.into_iter().filter(|claim| *claim != "beta").collect();
    before.kept(scope, &as_they_were, false).await?;
    before.kept(scope, &["beta"], true).await?;
    is_renewed(scope, "beta").await?;
    others.kept(&other, &["global", "tenant"], false).await?;
    before.strangers_are_untouched(scope).await?;
    scope.counts(POOL, "p", [14, 7, 7, 0]).await?;
    strangers_go(scope).await?;
    scope.sound().await?;
    other.sound().await?;

    all_go(&other).await?;
    all_go(scope).await?;
    for (kind, pool, total) in
        [(POOL, "p", 14), (POOL, "converted", 8), (POOL, "first", 8), (GLOBAL, &*name, 3), (PREFIXES, "v6", 256)]
    {
        scope.counts(kind, pool, [total, total, 0, 0]).await?;
    }
    other.leave().await
}

/// The owner reference of an address names the version that is spoken.
async fn is_renewed(scope: &Scope<'_>, claim: &str) -> Result<()> {
    let address = scope.rig.server.get(&scope.path(ADDRESS, claim)).await?;
    let owner = &address["metadata"]["ownerReferences"][0];
    ensure!(owner["apiVersion"] == "ipam.cluster.x-k8s.io/v1beta2" && owner["name"] == claim, "{address}");
    Ok(())
}
