//! The life of a claim.

use anyhow::{Context as _, Result, ensure};
use mooring_neutron::{FloatingIp, USER};
use serde_json::{Value, json};

use super::{ARGS, Shown, are_named, bound, claim, delete_all, nothing_is_told, pool, pool_is, secret, up};
use crate::ipam::scope::CLAIM;
use crate::openstack::StandIn;
use crate::runner::Ctx;

/// The floating IPs of the stand-in.
pub fn shown(cloud: &StandIn) -> Vec<Shown> {
    let of = |one: FloatingIp| Shown { address: one.address.to_string(), description: one.description, tags: one.tags };
    cloud.cloud.floating_ips().into_iter().map(of).collect()
}

/// A list of a pool's status, sorted.
fn listed(pool: Option<&Value>, field: &str) -> Vec<String> {
    let all = pool.and_then(|pool| pool["status"][field].as_array()).into_iter().flatten();
    let mut all: Vec<String> = all.filter_map(Value::as_str).map(str::to_owned).collect();
    all.sort();
    all
}

fn says(pool: Option<&Value>, type_: &str, status: &str, reason: &str) -> bool {
    let all = pool.and_then(|pool| pool["status"]["conditions"].as_array()).into_iter().flatten();
    all.into_iter().any(|one| one["type"] == type_ && one["status"] == status && one["reason"] == reason)
}

pub async fn claim_to_release(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let cloud = StandIn::start(&rig.server.lab().host("client")?, 6)?;
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    // Without the right to get the Secret the claim says what is missing.
    pool(&scope, "fips", json!({"reclaimPolicy": "Delete", "floatingIPNetwork": {"filter": {"name": "public"}}}))
        .await?;
    claim(&scope, "c0", "fips").await?;
    scope.refused_with("c0", "PoolNotReady", "grant get on it").await?;
    secret(&scope, &cloud.clouds(USER.1)).await?;
    for number in 1..6 {
        claim(&scope, &format!("c{number}"), "fips").await?;
    }
    are_named(&bound(&scope, 6).await?, &shown(&cloud))?;
    let tag = "cluster-api-provider-openstack-fip-pool-fips";
    ensure!(shown(&cloud).iter().all(|one| one.tags == [tag]), "{:?}", shown(&cloud));
    let one = scope.bound("c0").await?;
    ensure!(one.address["spec"]["prefix"] == 32, "{}", one.address);
    let finalizers = &one.address["metadata"]["finalizers"];
    ensure!(finalizers[0] == mooring_names::openstack::PROTECT_ADDRESS, "{finalizers}");
    // The network is full: the next one waits, says so, and gets the next address that is released.
    claim(&scope, "late", "fips").await?;
    scope.refused_with("late", "PoolExhausted", "No more IP addresses").await?;
    scope.delete(CLAIM, "c3").await?;
    scope.bound("late").await?;
    are_named(&bound(&scope, 6).await?, &shown(&cloud))?;
    let mut claimed: Vec<String> = shown(&cloud).into_iter().map(|one| one.address).collect();
    claimed.sort();
    pool_is(&scope, "fips", |pool| {
        let network = pool.is_some_and(|pool| pool["status"]["floatingIPNetwork"]["name"] == "public");
        let ready =
            says(pool, "Ready", "True", "PoolReady") && says(pool, "OpenstackFloatingIPPoolReady", "True", "Ready");
        listed(pool, "claimedIPs") == claimed && listed(pool, "availableIPs").is_empty() && network && ready
    })
    .await?;
    delete_all(&scope).await?;
    ensure!(shown(&cloud).is_empty(), "left: {:?}", shown(&cloud));
    nothing_is_told(&scope, &allocator, &[USER.1, "token-"]).await?;
    // A pool without addresses goes.
    rig.server.delete(&format!("{}/fips", super::place(&scope))).await?;
    pool_is(&scope, "fips", |pool| pool.is_none()).await?;
    allocator.stop().await
}

/// Those of the list are given first, in order; nothing outside it is made, and none of it is deleted.
pub async fn list(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let cloud = StandIn::start(&rig.server.lab().host("client")?, 9)?;
    let given: Vec<String> = ["Ingress of the shop", ""]
        .iter()
        .map(|text| Ok(cloud.cloud.allocate(text).context("no address")?.address.to_string()))
        .collect::<Result<_>>()?;
    let missing = "198.51.100.9".to_owned();
    let list = json!([given[0], given[1], missing]);
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    secret(&scope, &cloud.clouds(USER.1)).await?;
    pool(&scope, "list", json!({"preAllocatedFloatingIPs": list, "maxIPs": 3, "reclaimPolicy": "Delete"})).await?;
    let mut sorted = given.clone();
    sorted.sort();
    pool_is(&scope, "list", |pool| {
        listed(pool, "availableIPs") == sorted && listed(pool, "failedIPs") == [missing.clone()]
    })
    .await?;
    for (number, address) in given.iter().enumerate() {
        let name = format!("c{number}");
        claim(&scope, &name, "list").await?;
        ensure!(scope.bound(&name).await?.ip() == address, "not in the list's order");
    }
    // One of the list is not there: none is made in its place.
    claim(&scope, "late", "list").await?;
    scope.refused_with("late", "PoolExhausted", "maxIPs (3) allows no other").await?;
    scope.delete(CLAIM, "c0").await?;
    ensure!(scope.bound("late").await?.ip() == given[0], "not the one that was released");
    delete_all(&scope).await?;
    let texts: Vec<String> = shown(&cloud).into_iter().map(|one| one.description).collect();
    ensure!(texts == ["Ingress of the shop", ""], "{texts:?}");
    ensure!(cloud.cloud.asked("DELETE", "/v2.0/floatingips") == 0, "one of the list was deleted");
    let made = |(method, path): (&str, &str)| cloud.cloud.asked(method, path);
    ensure!(made(("POST", "/v2.0/floatingips")) == 0, "one outside the list was made");
    allocator.stop().await
}

/// What is kept is given again; `maxIPs` and the quota count, and a claim that waits goes on.
pub async fn kept(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let cloud = StandIn::start(&rig.server.lab().host("client")?, 9)?;
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    secret(&scope, &cloud.clouds(USER.1)).await?;
    pool(&scope, "kept", json!({"maxIPs": 2, "reclaimPolicy": "Retain"})).await?;
    for name in ["a", "b"] {
        claim(&scope, name, "kept").await?;
    }
    let first = scope.bound("a").await?.ip().to_owned();
    scope.bound("b").await?;
    claim(&scope, "c", "kept").await?;
    scope.refused_with("c", "PoolExhausted", "maxIPs is 2").await?;
    pool_is(&scope, "kept", |pool| says(pool, "OpenstackFloatingIPPoolReady", "False", "MaxIPsReached")).await?;
    scope.delete(CLAIM, "a").await?;
    ensure!(scope.bound("c").await?.ip() == first, "another one was made");
    delete_all(&scope).await?;
    let there = shown(&cloud);
    ensure!(there.len() == 2 && there.iter().all(|one| one.description.starts_with("mooring made pool=")), "{there:?}");
    // The project's quota.
    cloud.cloud.quota(Some(3));
    pool(&scope, "more", json!({"reclaimPolicy": "Delete"})).await?;
    for name in ["d", "e"] {
        claim(&scope, name, "more").await?;
    }
    let waits = |name: &str| format!("{name} waits");
    let full = async |name: &'static str| {
        scope.refused_with(name, "PoolExhausted", "Quota exceeded").await.context(waits(name))
    };
    let (one, other) = tokio::select! {
        _ = full("d") => ("d", "e"),
        _ = full("e") => ("e", "d"),
    };
    scope.delete(CLAIM, other).await?;
    scope.bound(one).await?;
    delete_all(&scope).await?;
    ensure!(shown(&cloud).len() == 2, "{:?}", shown(&cloud));
    allocator.stop().await
}
