//! What hundreds of Services cost twenty nodes while nothing happens to them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use mooring_agent::core::time::Time;
use serde_json::{Value, json};

use super::super::stats::{Figure, Statistic};
use super::super::{Order, resident};
use super::many::options;
use crate::agents::{AGENT, AgentBinary};
use crate::ipam::server::Server;
use crate::lab::Shape;
use crate::observe::audit::{self, Request};
use crate::observe::now;
use crate::progress;
use crate::rig::allocator::AllocatorRig;
use crate::rig::worker::WorkerRig;

/// Nodes.
const NODES: u8 = 20;
/// Services for what is asked of the API, and for the time on processors.
const SERVICES: usize = 500;
/// Services for memory.
const MORE: usize = 1_000;
/// Requests at once.
const WORK: usize = 16;
/// What follows a burst is over.
const SETTLED: Duration = Duration::from_secs(40);
/// It is counted for so long.
const COUNTED: Duration = Duration::from_mins(1);
/// How long all may take to be advertised.
const LIMIT: Duration = Duration::from_mins(10);
const PATH: &str = "/api/v1/namespaces/default/services";

/// Requests of all agents and the allocator; time on processors and memory of each agent.
pub async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let (mut requests, mut writes, mut shares, mut sizes) = (vec![], vec![], vec![], vec![]);
    for _ in 0..order.runs {
        let logs = tempfile::tempdir()?;
        let shape = Shape::api_servers(1).audited().with_agent(AgentBinary::Path(order.agent.clone()));
        let workers = WorkerRig::on(logs.path(), shape, NODES, 0, true).await?;
        let rig = AllocatorRig::unwatched(Server::of(workers.lab().clone()).await?, order.allocator.clone()).await?;
        let config = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kubevip", "namespace": "kube-system"},
            "data": {"range-global": "10.78.0.1-10.78.15.254"},
        });
        rig.server.create("/api/v1/namespaces/kube-system/configmaps", &config).await?;
        let allocator = rig.start("mooring-allocator").await?;
        workers.start_agents(&options())?;

        let log = workers.lab().host("cp1")?.dir().join("audit.log");
        let made = now();
        serve(&rig, 0..SERVICES).await?;
        let served = now();
        writes.push(
            f64::from(u32::try_from(ours(&log, made, served, Request::is_write)?)?)
                / f64::from(u32::try_from(SERVICES)?),
        );
        tokio::time::sleep(SETTLED).await;
        let (from, before) = (now(), ran(&workers)?);
        tokio::time::sleep(COUNTED).await;
        let (to, after) = (now(), ran(&workers)?);
        let counted = to.since(from).as_secs_f64();
        requests.push(f64::from(u32::try_from(ours(&log, from, to, |_| true)?)?) / counted);
        shares.extend(before.iter().zip(&after).map(|(b, a)| a.saturating_sub(*b).as_secs_f64() / counted * 100.0));

        serve(&rig, SERVICES..MORE).await?;
        tokio::time::sleep(SETTLED).await;
        for node in &workers.nodes {
            sizes.push(resident(&workers.lab().process(node, AGENT)?)?);
        }
        allocator.stop().await?;
    }
    let figure = |name: &str, unit: &'static str, values: &[f64]| Figure::new(name, unit, values);
    Ok(vec![
        figure("services-api", "1/s", &requests)?.goal(Statistic::Max, 20.0),
        figure("services-writes", "", &writes)?,
        figure("services-cpu", "%", &shares)?.goal(Statistic::Max, 0.5),
        figure("services-rss", "MB", &sizes)?.goal(Statistic::Max, 12.0),
    ])
}

/// How many of the requests that agents and allocator made between two moments are such; told by kind.
fn ours(log: &Path, from: Time, to: Time, such: impl Fn(&Request) -> bool) -> Result<usize> {
    let mut all = audit::requests(log, from, to)?;
    all.retain(|one| one.agent.starts_with("mooring") && !one.is_health() && such(one));
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for one in &all {
        *kinds.entry(format!("{} {} {}", one.agent, one.verb, kind(&one.uri))).or_default() += 1;
    }
    for (what, count) in kinds {
        progress::line(format_args!("  {count:6} {what}"));
    }
    Ok(all.len())
}

/// The kind in a path, and what of it: `services/status`.
fn kind(uri: &str) -> String {
    let path = uri.split('?').next().unwrap_or_default();
    let mut parts = path.trim_start_matches('/').split('/').skip(if path.starts_with("/apis/") { 3 } else { 2 });
    let first = parts.next().unwrap_or_default();
    let kind = if first == "namespaces" { parts.nth(1).unwrap_or(first) } else { first };
    parts.nth(1).map_or_else(|| kind.to_owned(), |sub| format!("{kind}/{sub}"))
}

/// For how long each agent ran so far.
fn ran(workers: &WorkerRig) -> Result<Vec<Duration>> {
    let of = |node: &String| {
        workers.lab().process(node, AGENT)?.ran().with_context(|| format!("the agent of {node} does not run"))
    };
    workers.nodes.iter().map(of).collect()
}

/// Makes Services, and waits until all are advertised.
async fn serve(rig: &AllocatorRig, numbers: std::ops::Range<usize>) -> Result<()> {
    let all = numbers.end;
    let make = |n: usize| async move {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("steady-{n}")},
            "spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false,
                "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
        });
        rig.server.create(PATH, &service).await.map(drop)
    };
    stream::iter(numbers.map(make)).buffer_unordered(WORK).try_collect::<()>().await?;
    let deadline = now() + LIMIT;
    loop {
        let list = rig.server.get(PATH).await?;
        let items = list["items"].as_array().context("no list of Services")?;
        let shown =
            items.iter().filter(|one| one.pointer("/status/loadBalancer/ingress/0/ip").is_some_and(Value::is_string));
        let shown = shown.count();
        if shown == all {
            return Ok(());
        }
        ensure!(now() < deadline, "{shown} of {all} Services have an address");
        progress::line(format_args!("  {shown} of {all} Services have an address"));
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}
