//! Control-plane endpoints of Clusters: how soon a Cluster that is created paused has its address everywhere and goes on.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use super::Order;
use super::stats::{Figure, Statistic, percentile};
use crate::ipam::cluster_parts::Parts;
use crate::ipam::endpoint::{ARGS, kill_again_and_again, prepare};
use crate::ipam::endpoint_kinds::INFRASTRUCTURE;
use crate::ipam::scope::{ADDRESS, CLAIM, POOL, Scope};
use crate::ipam::server::Crds;
use crate::observe::now;
use crate::rig::allocator::AllocatorRig;

/// Clusters one after the other.
const ALONE: usize = 100;
/// Clusters at once, when nobody says how many.
const AT_ONCE: usize = 500;
/// Clusters during whose time the allocator is killed again and again.
const KILLED: usize = 200;
/// Requests at once, of who creates the Clusters.
const CREATING: usize = 16;
/// Longest time of all Clusters.
const LIMIT: Duration = Duration::from_mins(20);

/// One after the other, many at once, and with an allocator that is killed again and again.
pub(super) async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let (mut middle, mut late, mut at_once, mut killed) = (vec![], vec![], vec![], vec![]);
    for _ in 0..order.runs {
        let rig = AllocatorRig::with(Crds::ClusterApi, order.allocator.clone(), true).await?;
        prepare(&rig).await?;
        let allocator = rig.start_with("allocator", &ARGS).await?;

        let scope = pooled(&rig).await?;
        let mut times = Vec::new();
        for parts in clusters(&scope, ALONE) {
            let begin = now();
            parts.create().await?;
            parts.unpaused(Duration::from_millis(2)).await?;
            times.push(now().since(begin).as_secs_f64() * 1_000.0);
        }
        complete(&scope, ALONE).await?;
        released(&scope, ALONE).await?;
        times.sort_unstable_by(f64::total_cmp);
        middle.extend(percentile(&times, 50));
        late.extend(percentile(&times, 99));

        let scope = pooled(&rig).await?;
        let count = order.count.unwrap_or(AT_ONCE);
        let begin = now();
        create(&scope, count).await?;
        at_rest(&scope, count).await?;
        at_once.push(now().since(begin).as_secs_f64());
        complete(&scope, count).await?;
        released(&scope, count).await?;

        let scope = pooled(&rig).await?;
        let work = async {
            let begin = now();
            create(&scope, KILLED).await?;
            at_rest(&scope, KILLED).await?;
            let took = now().since(begin).as_secs_f64();
            complete(&scope, KILLED).await?;
            released(&scope, KILLED).await?;
            Ok::<_, anyhow::Error>(took)
        };
        tokio::select! {
            took = work => killed.push(took?),
            ended = kill_again_and_again(&allocator) => ended?,
        }
        if allocator.process().is_running() {
            allocator.stop().await?;
        }
    }
    Ok(vec![
        Figure::new("endpoint", "ms", &middle)?,
        Figure::new("endpoint-p99", "ms", &late)?.goal(Statistic::Max, 1_000.0),
        Figure::new("endpoint-at-once", "s", &at_once)?.goal(Statistic::Max, 60.0),
        Figure::new("endpoint-killed", "s", &killed)?.goal(Statistic::Max, 120.0),
    ])
}

/// A namespace with a pool of endpoints.
pub(super) async fn pooled(rig: &AllocatorRig) -> Result<Scope<'_>> {
    let scope = rig.scope().await?;
    let network = scope.ip(0).trim_end_matches(".0").trim_end_matches(".0").to_owned();
    scope
        .create(POOL, "endpoints", json!({"addresses": [format!("{network}.0.0/16")], "prefix": 16}), json!({}))
        .await?;
    Ok(scope)
}

fn clusters<'a>(scope: &'a Scope<'a>, count: usize) -> impl Iterator<Item = Parts<'a>> {
    (0..count).map(move |number| Parts { scope, name: format!("c{number}") })
}

async fn create(scope: &Scope<'_>, count: usize) -> Result<()> {
    let all = stream::iter(clusters(scope, count)).map(|parts| async move { parts.create().await });
    all.buffer_unordered(CREATING).try_collect().await
}

/// Waits until no Cluster is paused.
pub(super) async fn at_rest(scope: &Scope<'_>, count: usize) -> Result<()> {
    let deadline = now() + LIMIT;
    let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{}/clusters", scope.ns);
    loop {
        let list = scope.rig.server.get(&path).await?;
        let all = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let waiting = all.iter().filter(|one| one["spec"]["paused"] == true).count();
        if all.len() == count && waiting == 0 {
            return Ok(());
        }
        ensure!(now() < deadline, "{waiting} of {} Clusters are still paused", all.len());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Each Cluster has an address of its own in every place, and nothing is left over.
async fn complete(scope: &Scope<'_>, count: usize) -> Result<()> {
    let mut hosts = BTreeSet::new();
    for parts in clusters(scope, count) {
        hosts.insert(parts.written().await?);
    }
    ensure!(hosts.len() == count, "an address twice: {} for {count} Clusters", hosts.len());
    let infrastructure = format!("/apis/{INFRASTRUCTURE}/v1beta2/namespaces/{}/vsphereclusters", scope.ns);
    for path in [scope.place(CLAIM), scope.place(ADDRESS), infrastructure] {
        let found = items(scope, &path).await?.len();
        ensure!(found == count, "{found} objects at {path}, and {count} Clusters");
    }
    let addresses = items(scope, &scope.place(ADDRESS)).await?;
    let given: BTreeSet<&str> = addresses.iter().filter_map(|one| one["spec"]["address"].as_str()).collect();
    ensure!(given.iter().copied().eq(hosts.iter().map(String::as_str)), "the IPAddresses are not the hosts: {given:?}");
    // At no time either.
    scope.sound().await
}

async fn items(scope: &Scope<'_>, path: &str) -> Result<Vec<Value>> {
    let list = scope.rig.server.get(path).await?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// All Clusters go, then their claims, which Kubernetes' garbage collector would delete; and nothing of both kinds stays.
async fn released(scope: &Scope<'_>, count: usize) -> Result<()> {
    for parts in clusters(scope, count) {
        scope.delete_cluster(&parts.name).await?;
        scope.delete(CLAIM, &parts.name).await?;
    }
    let deadline = now() + LIMIT;
    for kind in [CLAIM, ADDRESS] {
        loop {
            let left = items(scope, &scope.place(kind)).await?.len();
            if left == 0 {
                break;
            }
            ensure!(now() < deadline, "{left} of kind {kind} are left");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}
