//! Allocators that stop and restart.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mooring_api::labels::WATCH_FILTER;
use serde_json::{Value, json};

use super::super::story;
use crate::ipam::scope::{ADDRESS, CLAIM, POOL};
use crate::ipam::server::Crds;
use crate::rig::allocator::AllocatorRig;
use crate::runner::{Ctx, Test};

pub fn all() -> Vec<Test<()>> {
    vec![
        story!("contract", filter, "watch-filter", 5),
        story!("contract", namespace, "one-namespace-only", 5),
        story!("contract", rests_on, "quarantine-survives-a-restart", 5),
        story!("contract", api_restart, "api-server-restarts", 5),
        story!("contract", elected, "one-of-two-leads-and-the-other-takes-over", 5),
        story!("contract", server_gone, "starts-before-its-api-server", 5),
    ]
}

async fn filter(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    let filtered = rig.start_with("filtered", &["--leader-election=false", "--watch-filter=ours"]).await?;
    let scope = rig.scope().await?;
    let ours = json!({"labels": {WATCH_FILTER: "ours"}});
    scope.create(POOL, "p", scope.range(10, 20), ours.clone()).await?;
    let theirs = scope.claim_with("theirs", POOL, "p", json!({"labels": {WATCH_FILTER: "theirs"}})).await?;
    let nobodys = scope.claim("nobodys", "p").await?;
    for name in ["a", "b"] {
        scope.claim_with(name, POOL, "p", ours.clone()).await?;
        scope.bound(name).await?;
    }
    for made in [theirs, nobodys] {
        let name = made["metadata"]["name"].as_str().context("no name")?;
        let seen = scope.seen(CLAIM, name).context("it is gone")?;
        ensure!(seen["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"], "touched: {seen}");
        ensure!(scope.seen(ADDRESS, name).is_none(), "{name} got an address");
    }
    // Addresses without the label count as used all the same.
    let used = scope.bound("b").await?;
    ensure!(used.ip() == scope.ip(11), "{}", used.ip());
    scope.merge(CLAIM, "nobodys", json!({"metadata": {"labels": {WATCH_FILTER: "ours"}}})).await?;
    scope.bound("nobodys").await?;
    filtered.stop().await
}

async fn namespace(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    let (scope, other) = (rig.scope().await?, rig.scope().await?);
    let flag = format!("--namespaces={}", scope.ns);
    let allocator = rig.start_with("allocator", &["--leader-election=false", &flag]).await?;
    let theirs = [(POOL, other.pool("p", other.range(10, 20)).await?), (CLAIM, other.claim("c", "p").await?)];
    scope.pool("p", scope.range(10, 20)).await?;
    scope.claim("c", "p").await?;
    scope.bound("c").await?;
    scope.canary().await?;
    ensure!(other.seen(ADDRESS, "c").is_none(), "it looked after another namespace");
    for (kind, made) in theirs {
        let seen = other.seen(kind, made["metadata"]["name"].as_str().context("no name")?).context("it is gone")?;
        ensure!(seen["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"], "touched: {seen}");
    }
    allocator.stop().await
}

async fn rests_on(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    let allocator = rig.start("allocator").await?;
    let scope = rig.scope().await?;
    let mut spec = scope.range(10, 10);
    spec["quarantine"] = json!({"afterReleaseSeconds": 3600});
    scope.pool("p", spec).await?;
    scope.claim("a", "p").await?;
    scope.bound("a").await?;
    scope.delete(CLAIM, "a").await?;
    scope.gone(CLAIM, "a").await?;
    allocator.kill().await?;
    allocator.start_again()?;
    allocator.ready().await?;
    scope.claim("b", "p").await?;
    scope.refused("b", "PoolExhausted").await?;
    scope.canary().await?;
    ensure!(scope.seen(ADDRESS, "b").is_none(), "it was forgotten that the address rests");
    // After a user removes the quarantine, a claim gets the address.
    scope.merge(POOL, "p", json!({"spec": {"quarantine": null}})).await?;
    let resting: Vec<Value> = rig.world.look(|state| state.all(ADDRESS, &scope.ns).cloned().collect());
    let names = resting.iter().filter_map(|one| one["metadata"]["name"].as_str());
    for name in names.filter(|name| !name.starts_with("canary")) {
        scope.delete(ADDRESS, name).await?;
    }
    scope.bound("b").await?;
    allocator.stop().await
}

async fn api_restart(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    let allocator = rig.start("allocator").await?;
    let scope = rig.scope().await?;
    scope.pool("p", scope.range(10, 200)).await?;
    for n in 0..40 {
        scope.claim(&format!("before-{n}"), "p").await?;
    }
    // In the middle of its work.
    scope.bound("before-3").await?;
    let cluster = rig.server.lab().cluster()?;
    let api = cluster.api("cp1")?;
    api.kill()?;
    api.ended(Duration::from_mins(1)).await?;
    api.start()?;
    cluster.ready().await?;
    for n in 0..40 {
        scope.bound(&format!("before-{n}")).await?;
    }
    scope.claim("after", "p").await?;
    scope.bound("after").await?;
    scope.counts(POOL, "p", [191, 150, 41, 0]).await?;
    scope.sound().await?;
    ensure!(allocator.process().is_running(), "it ended with the API server");
    allocator.stop().await
}

async fn elected(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    let (first, second) = (rig.spawn("first", &[])?, rig.spawn("second", &[])?);
    let scope = rig.scope().await?;
    scope.pool("p", scope.range(10, 200)).await?;
    scope.claim("a", "p").await?;
    scope.bound("a").await?;
    // Both are there; one of them leads.
    for one in [&first, &second] {
        one.ready().await?;
    }
    let leads = async |one: &crate::ipam::allocators::Allocator| {
        Ok::<bool, anyhow::Error>(one.metric("mooring_allocator_leads", &[]).await? == Some(1.0))
    };
    let (leader, other) = match (leads(&first).await?, leads(&second).await?) {
        (true, false) => (&first, &second),
        (false, true) => (&second, &first),
        both => anyhow::bail!("leading: {both:?}"),
    };
    leader.stop().await?;
    let begin = std::time::Instant::now();
    scope.claim("b", "p").await?;
    scope.bound("b").await?;
    ctx.note(&format!("{:?} after the leader ended in order", begin.elapsed()));
    ensure!(leads(other).await?, "nobody leads");
    // The allocator stopped in order and gave its Lease back: the other one did not wait for the end of the Lease.
    ensure!(begin.elapsed() < Duration::from_secs(10), "it took {:?}", begin.elapsed());
    scope.sound().await?;
    other.stop().await
}

async fn server_gone(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    let api = rig.server.lab().cluster()?.api("cp1")?;
    api.kill()?;
    api.ended(Duration::from_mins(1)).await?;
    let allocator = rig.spawn("allocator", &["--leader-election=false"])?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    ensure!(allocator.process().is_running(), "it ended: {}", allocator.process().log_tail(5));
    api.start()?;
    rig.server.lab().cluster()?.ready().await?;
    let scope = rig.scope().await?;
    scope.pool("p", scope.range(10, 20)).await?;
    scope.claim("c", "p").await?;
    scope.bound("c").await?;
    allocator.stop().await
}
