//! How soon a client of a new Service is answered, one after the other and very many at once.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use super::super::stats::{Figure, Statistic};
use super::super::{Order, some};
use super::many::{options, reach};
use crate::agents::AgentBinary;
use crate::observe::now;
use crate::scenario::traffic::{Programs, Town};
use crate::traffic::Protocol;

/// Hosts with an agent, kube-proxy and a backend.
const WORKERS: u8 = 3;
/// Services one after the other.
const ALONE: usize = 30;
/// Services at once, when nobody says.
const BURST: usize = 1_000;
/// Requests at once.
const WORK: usize = 16;
/// Agents know each other by then.
const SETTLED: Duration = Duration::from_secs(10);
/// How long a burst may take.
const LIMIT: Duration = Duration::from_mins(10);
const PORT: u16 = 80;

/// Time to the first answer, with kube-proxy's part of it; a burst.
pub async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let count = order.count.unwrap_or(BURST);
    let (mut created, mut proxied, mut bursts, mut shown) = (vec![], vec![], vec![], vec![]);
    for _ in 0..order.runs {
        let logs = tempfile::tempdir()?;
        let town = up(order, logs.path()).await?;
        for n in 0..ALONE {
            let (answered, proxy) = one(&town, &format!("alone-{n}")).await?;
            created.push(answered);
            proxied.push(proxy);
        }
        let (all_shown, all_answer) = burst(&town, count).await?;
        shown.push(all_shown.as_secs_f64());
        bursts.push(all_answer.as_secs_f64());
        town.allocator.stop().await?;
    }
    let times = |name: &str, times: &[Duration]| some(Figure::of_times(name, times), name);
    let values = |name: &str, unit: &'static str, values: &[f64]| some(Figure::new(name, unit, values), name);
    Ok(vec![
        times("services-create", &created)?.goal(Statistic::P99, 500.0),
        times("services-create-proxy", &proxied)?,
        values("services-burst", "s", &bursts)?.goal(Statistic::Max, 15.0),
        values("services-burst-shown", "s", &shown)?,
    ])
}

async fn up(order: &Order, logs: &std::path::Path) -> Result<Town> {
    let programs = Programs {
        agent: AgentBinary::Path(order.agent.clone()),
        allocator: order.allocator.clone(),
        options: options(),
    };
    let config = json!({"range-global": "10.78.0.1-10.78.15.254"});
    let town = Town::with(logs, programs, WORKERS, &config).await?;
    reach(&town.client()?)?;
    tokio::time::sleep(SETTLED).await;
    Ok(town)
}

/// From its making to the first answer; and from the moment its status shows an address, which kube-proxy waits for.
async fn one(town: &Town, name: &str) -> Result<(Duration, Duration)> {
    town.backends(name, &["w1", "w2", "w3"]).await?;
    let begin = now();
    town.expose(name, "Cluster", &[(Protocol::Tcp, PORT)]).await?;
    let ip = town.external_ip(name).await?;
    let shown = now();
    town.answered(Protocol::Tcp, SocketAddr::new(ip, PORT), |_| true).await?;
    let end = now();
    Ok((end.since(begin), end.since(shown)))
}

/// Until all show an address, and until all answer.
async fn burst(town: &Town, count: usize) -> Result<(Duration, Duration)> {
    let name = |n: usize| format!("burst-{n}");
    stream::iter((0..count).map(|n| async move { town.backends(&name(n), &["w1", "w2", "w3"]).await }))
        .buffer_unordered(WORK)
        .try_collect::<()>()
        .await?;
    let begin = now();
    stream::iter((0..count).map(|n| async move { town.expose(&name(n), "Cluster", &[(Protocol::Tcp, PORT)]).await }))
        .buffer_unordered(WORK)
        .try_collect::<()>()
        .await?;
    let addresses = loop {
        let list = town.stage.server.get("/api/v1/namespaces/default/services").await?;
        let all = list["items"].as_array().context("no list of Services")?;
        let ours =
            all.iter().filter(|one| one["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("burst-")));
        let shown: Vec<IpAddr> = ours
            .filter_map(|one| one.pointer("/status/loadBalancer/ingress/0/ip").and_then(Value::as_str)?.parse().ok())
            .collect();
        if shown.len() == count {
            break shown;
        }
        ensure!(now() < begin + LIMIT, "{} of {count} have an address; {}", shown.len(), town.logs());
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let shown = now();
    stream::iter(
        addresses
            .into_iter()
            .map(|ip| async move { town.answered(Protocol::Tcp, SocketAddr::new(ip, PORT), |_| true).await.map(drop) }),
    )
    .buffer_unordered(WORK)
    .try_collect::<()>()
    .await?;
    Ok((shown.since(begin), now().since(begin)))
}
