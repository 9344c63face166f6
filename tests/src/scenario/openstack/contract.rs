//! What consumers of Cluster API's claims rely on, for claims of floating IPs: the form of the objects, pause, deletion, and claims that
//! are not ours.

use anyhow::{Context as _, Result, ensure};
use mooring_api::finalizers::RELEASE_ADDRESS;
use mooring_api::labels::CLUSTER_NAME;
use mooring_names::openstack::{GROUP, PROTECT_ADDRESS};
use mooring_neutron::USER;
use serde_json::{Value, json};

use super::life::shown;
use super::{ARGS, KIND, claim, delete_all, place, pool, pool_is, secret, up};
use crate::ipam::audit::ready;
use crate::ipam::scope::{ADDRESS, CLAIM, Scope};
use crate::openstack::StandIn;
use crate::runner::Ctx;

pub async fn contract(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let cloud = StandIn::start(&rig.server.lab().host("client")?, 20)?;
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    secret(&scope, &cloud.clouds(USER.1)).await?;
    pool(&scope, "fips", json!({"reclaimPolicy": "Delete"})).await?;
    form(&scope).await?;
    paused(&scope, &cloud).await?;
    deleted(&scope, &cloud).await?;
    not_ours(&scope).await?;
    delete_all(&scope).await?;
    ensure!(shown(&cloud).is_empty(), "left: {:?}", shown(&cloud));
    scope.sound().await?;
    allocator.stop().await
}

fn of_pool(name: &str) -> Value {
    json!({"poolRef": {"apiGroup": GROUP, "kind": KIND, "name": name}})
}

/// The address has the claim's name, and says whose it is, to people and to the garbage collector.
async fn form(scope: &Scope<'_>) -> Result<()> {
    scope.cluster("w", json!({})).await?;
    let meta = json!({"labels": {CLUSTER_NAME: "w", "other": "label"}, "finalizers": ["example.com/theirs"]});
    let made = scope.create(CLAIM, "c", of_pool("fips"), meta).await?;
    let bound = scope.bound("c").await?;
    let (address, all) = (&bound.address, |object: &Value| object["metadata"]["finalizers"].clone());
    ensure!(address["metadata"]["name"] == "c", "{address}");
    ensure!(all(&bound.claim) == json!(["example.com/theirs", RELEASE_ADDRESS]), "{}", all(&bound.claim));
    ensure!(all(address) == json!([PROTECT_ADDRESS]), "{}", all(address));
    ensure!(address["metadata"]["labels"][CLUSTER_NAME] == "w", "{address}");
    let expected = json!({"address": bound.ip(), "prefix": 32, "claimRef": {"name": "c"},
        "poolRef": of_pool("fips")["poolRef"]});
    ensure!(address["spec"] == expected, "{}", address["spec"]);
    let owners = address["metadata"]["ownerReferences"].as_array().context("no owners")?;
    let pool = scope.rig.server.get(&format!("{}/fips", place(scope))).await?;
    let of = |owner: &Value| owners.iter().find(|one| one["uid"] == owner["metadata"]["uid"]).cloned();
    let (by_claim, by_pool) = (of(&made).context("not the claim's")?, of(&pool).context("not the pool's")?);
    ensure!(by_claim["controller"] == true && by_claim["blockOwnerDeletion"] == true, "{by_claim}");
    ensure!(by_pool["controller"] != true && by_pool["kind"] == KIND && owners.len() == 2, "{owners:?}");
    let (is, reason, message) = ready(&bound.claim).context("no condition")?;
    ensure!(is && reason == "AddressAllocated" && message.contains(bound.ip()), "{is} {reason} {message}");
    scope.merge(CLAIM, "c", json!({"metadata": {"finalizers": [RELEASE_ADDRESS]}})).await?;
    Ok(())
}

/// Nothing is made for a paused claim, and nothing of it is released.
async fn paused(scope: &Scope<'_>, cloud: &StandIn) -> Result<()> {
    let pause = json!({"annotations": {"cluster.x-k8s.io/paused": ""}});
    scope.create(CLAIM, "waits", of_pool("fips"), pause).await?;
    claim(scope, "after", "fips").await?;
    scope.bound("after").await?;
    ensure!(scope.seen(ADDRESS, "waits").is_none(), "a paused claim got an address");
    scope.merge(CLAIM, "waits", json!({"metadata": {"annotations": null}})).await?;
    let ip = scope.bound("waits").await?.ip().to_owned();
    scope.merge(CLAIM, "waits", json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}})).await?;
    scope.delete(CLAIM, "waits").await?;
    scope.delete(CLAIM, "after").await?;
    scope.gone(CLAIM, "after").await?;
    let there = |ip: &str| shown(cloud).iter().any(|one| one.address == ip);
    ensure!(there(&ip) && scope.seen(CLAIM, "waits").is_some(), "a paused claim was released");
    scope.merge(CLAIM, "waits", json!({"metadata": {"annotations": null}})).await?;
    scope.gone(CLAIM, "waits").await?;
    ensure!(!there(&ip), "{ip} was not released");
    Ok(())
}

/// The address of a living claim stays, and so does its pool.
async fn deleted(scope: &Scope<'_>, cloud: &StandIn) -> Result<()> {
    let ip = scope.bound("c").await?.ip().to_owned();
    scope.delete(ADDRESS, "c").await?;
    scope.rig.server.delete(&format!("{}/fips", place(scope))).await?;
    // Another pool goes on meanwhile.
    pool(scope, "other", json!({"reclaimPolicy": "Delete"})).await?;
    claim(scope, "d", "other").await?;
    scope.bound("d").await?;
    ensure!(scope.seen(ADDRESS, "c").is_some_and(|one| one["spec"]["address"] == ip.as_str()), "it is gone");
    ensure!(shown(cloud).iter().any(|one| one.address == ip), "{ip} was released under a claim");
    pool_is(scope, "fips", |pool| pool.is_some()).await?;
    scope.delete(CLAIM, "c").await?;
    scope.gone(CLAIM, "c").await?;
    pool_is(scope, "fips", |pool| pool.is_none()).await
}

/// Claims of another group's kind of that name are not touched.
async fn not_ours(scope: &Scope<'_>) -> Result<()> {
    let reference = json!({"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": KIND, "name": "other"}});
    let made = scope.create(CLAIM, "theirs", reference, json!({})).await?;
    claim(scope, "ours", "other").await?;
    scope.bound("ours").await?;
    let seen = scope.seen(CLAIM, "theirs").context("it is gone")?;
    ensure!(seen["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"], "touched: {seen}");
    Ok(())
}
