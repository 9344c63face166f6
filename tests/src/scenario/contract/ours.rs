//! The address that a claim gets, and the form of the objects.

use anyhow::{Context as _, Result, ensure};
use mooring_api::finalizers::{PROTECT_ADDRESS, PROTECT_POOL, RELEASE_ADDRESS};
use mooring_api::labels::CLUSTER_NAME;
use serde_json::{Value, json};

use super::both;
use crate::ipam::allocators::Allocator;
use crate::ipam::audit::ready;
use crate::ipam::scope::{ADDRESS, CLAIM, POOL, Scope, reference};
use crate::runner::Test;

pub fn all() -> Vec<Test<()>> {
    [
        both!(named_as_claim, "address-has-the-claims-name"),
        both!(spec_of_address, "address-says-pool-claim-prefix-and-gateway"),
        both!(owners, "address-is-owned-by-claim-and-pool"),
        both!(finalizers, "finalizers-are-those-of-the-provider"),
        both!(label, "cluster-name-label-is-copied"),
        both!(told, "claim-says-ready", quick),
        both!(not_ours, "claims-of-other-kinds-and-groups-are-not-touched"),
        both!(same_name, "claims-of-one-name-in-two-namespaces-are-two"),
        both!(global, "a-global-pool-serves-all-namespaces"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

async fn named_as_claim(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.claim("the-claim", "p").await?;
    let bound = scope.bound("the-claim").await?;
    ensure!(bound.claim.pointer("/status/addressRef/name") == Some(&json!("the-claim")), "{}", bound.claim);
    ensure!(bound.address["metadata"]["name"] == "the-claim", "{}", bound.address);
    scope.sound().await
}

async fn spec_of_address(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let mut spec = scope.range(10, 20);
    spec["gateway"] = json!(scope.ip(1));
    scope.pool("p", spec).await?;
    scope.pool("q", scope.range(30, 30)).await?;
    scope.claim("c", "p").await?;
    scope.claim("d", "q").await?;
    let expected = json!({
        "address": scope.ip(10), "prefix": 24, "gateway": scope.ip(1),
        "claimRef": {"name": "c"}, "poolRef": reference(POOL, "p"),
    });
    let seen = scope.bound("c").await?.address;
    ensure!(seen["spec"] == expected, "{}", seen["spec"]);
    // Without a gateway the field is missing.
    let seen = scope.bound("d").await?.address;
    ensure!(seen["spec"]["gateway"].is_null() && seen["spec"]["address"] == scope.ip(30), "{}", seen["spec"]);
    Ok(())
}

async fn owners(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let pool = scope.pool("p", scope.range(10, 20)).await?;
    let claim = scope.claim("c", "p").await?;
    let seen = scope.bound("c").await?.address;
    let owners = seen["metadata"]["ownerReferences"].as_array().context("no owners")?;
    let of = |owner: &Value| owners.iter().find(|one| one["uid"] == owner["metadata"]["uid"]).cloned();
    let by_claim = of(&claim).context("the claim does not own it")?;
    ensure!(by_claim["controller"] == true && by_claim["blockOwnerDeletion"] == true, "{by_claim}");
    ensure!(by_claim["kind"] == CLAIM && by_claim["name"] == "c", "{by_claim}");
    ensure!(by_claim["apiVersion"].as_str().is_some_and(|v| v.starts_with("ipam.cluster.x-k8s.io/")), "{by_claim}");
    let by_pool = of(&pool).context("the pool does not own it")?;
    // The value false may be left out.
    ensure!(by_pool["controller"] != true && by_pool["blockOwnerDeletion"] == true, "{by_pool}");
    ensure!(by_pool["kind"] == POOL && by_pool["name"] == "p", "{by_pool}");
    ensure!(owners.len() == 2, "{owners:?}");
    Ok(())
}

async fn finalizers(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.claim_with("c", POOL, "p", json!({"finalizers": ["example.com/theirs"]})).await?;
    let bound = scope.bound("c").await?;
    let all = |object: &Value| object["metadata"]["finalizers"].clone();
    ensure!(all(&bound.claim) == json!(["example.com/theirs", RELEASE_ADDRESS]), "{}", all(&bound.claim));
    ensure!(all(&bound.address) == json!([PROTECT_ADDRESS]), "{}", all(&bound.address));
    let pool = scope.rig.world.until("the pool's finalizer", |state| {
        let pool = state.get(POOL, &scope.ns, "p")?;
        (all(pool) == json!([PROTECT_POOL])).then_some(())
    });
    pool.await?;
    ensure!(RELEASE_ADDRESS == "ipam.cluster.x-k8s.io/ReleaseAddress", "another word");
    ensure!(PROTECT_ADDRESS == "ipam.cluster.x-k8s.io/ProtectAddress", "another word");
    ensure!(PROTECT_POOL == "ipam.cluster.x-k8s.io/ProtectPool", "another word");
    scope.merge(CLAIM, "c", json!({"metadata": {"finalizers": [RELEASE_ADDRESS]}})).await?;
    Ok(())
}

async fn label(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    // Without a Cluster of that name a claim beside Cluster API waits.
    scope.cluster("w", json!({})).await?;
    // One of the claims finds an existing address.
    scope.address("d", "p", &scope.ip(15), json!({})).await?;
    for name in ["c", "d"] {
        scope.claim_with(name, POOL, "p", json!({"labels": {CLUSTER_NAME: "w", "other": "label"}})).await?;
        let labels = scope.bound(name).await?.address["metadata"]["labels"].clone();
        ensure!(labels[CLUSTER_NAME] == "w", "{name} has the labels {labels}");
    }
    Ok(())
}

async fn told(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.claim("c", "p").await?;
    let bound = scope.bound("c").await?;
    let (is, reason, message) = ready(&bound.claim).context("no condition")?;
    ensure!(is && reason == "AddressAllocated" && message.contains(bound.ip()), "{is} {reason} {message}");
    let one = &bound.claim["status"]["conditions"][0];
    ensure!(one["lastTransitionTime"].is_string(), "{one}");
    Ok(())
}

async fn not_ours(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    for (name, reference) in [
        ("kind", reference("PHPIPAMIPPool", "p")),
        ("group", json!({"apiGroup": "ipam.example.com", "kind": POOL, "name": "p"})),
    ] {
        let made = scope.create(CLAIM, name, json!({"poolRef": reference}), json!({})).await?;
        scope.canary().await?;
        let seen = scope.seen(CLAIM, name).context("it is gone")?;
        ensure!(seen["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"], "touched: {seen}");
        ensure!(scope.seen(ADDRESS, name).is_none(), "it got an address");
    }
    for name in ["kind", "group"] {
        scope.delete(CLAIM, name).await?;
    }
    Ok(())
}

async fn same_name(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let other = scope.rig.scope().await?;
    let name = scope.global_pool(scope.range(10, 20)).await?;
    for one in [scope, &other] {
        one.claim_with("c", "GlobalInClusterIPPool", &name, json!({})).await?;
    }
    let (first, second) = (scope.bound("c").await?, other.bound("c").await?);
    ensure!(first.ip() != second.ip(), "both have {}", first.ip());
    other.leave().await
}

async fn global(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let name = scope.global_pool(scope.range(10, 20)).await?;
    scope.claim_with("c", "GlobalInClusterIPPool", &name, json!({})).await?;
    let bound = scope.bound("c").await?;
    ensure!(bound.ip() == scope.ip(10), "{}", bound.address);
    ensure!(bound.address["metadata"]["namespace"] == scope.ns.as_str(), "{}", bound.address);
    scope.counts("GlobalInClusterIPPool", &name, [11, 10, 1, 0]).await
}
