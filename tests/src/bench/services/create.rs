//! How soon a client of a new Service is answered, one after the other and very many at once.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use super::super::Order;
use super::super::stats::{Figure, Statistic};
use super::many::{options, reach};
use crate::agents::{AGENT, AgentBinary};
use crate::observe::neighbours::forget_neighbour;
use crate::observe::now;
use crate::progress;
use crate::rig::traffic::{Programs, TrafficRig};
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

/// Time until an address is shown, which a node advertises by then; what kube-proxy adds until the first answer; a burst.
pub async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let count = order.count.unwrap_or(BURST);
    let (mut created, mut proxied, mut answered) = (vec![], vec![], vec![]);
    let (mut bursts, mut shown) = (vec![], vec![]);
    for _ in 0..order.runs {
        let logs = tempfile::tempdir()?;
        let rig = up(order, logs.path()).await?;
        for n in 0..ALONE {
            let (made, proxy) = one(&rig, &format!("alone-{n}")).await?;
            created.push(made);
            proxied.push(proxy);
            answered.push(made + proxy);
        }
        let before = spent(&rig)?;
        let (all_shown, all_answer) = burst(&rig, count).await?;
        progress::line(format_args!("  time on processors during the burst:"));
        for ((what, after), (_, before)) in spent(&rig)?.iter().zip(&before) {
            progress::line(format_args!("  {:8.1} s {what}", after.saturating_sub(*before).as_secs_f64()));
        }
        shown.push(all_shown.as_secs_f64());
        bursts.push(all_answer.as_secs_f64());
        rig.allocator.stop().await?;
    }
    let times = |name: &str, times: &[Duration]| Figure::of_times(name, times);
    let values = |name: &str, unit: &'static str, values: &[f64]| Figure::new(name, unit, values);
    Ok(vec![
        times("services-create", &created)?.goal(Statistic::P99, 500.0),
        times("services-create-proxy", &proxied)?,
        times("services-create-answered", &answered)?,
        values("services-burst", "s", &bursts)?.goal(Statistic::Max, 15.0),
        values("services-burst-shown", "s", &shown)?,
    ])
}

async fn up(order: &Order, logs: &std::path::Path) -> Result<TrafficRig> {
    let programs = Programs {
        agent: AgentBinary::Path(order.agent.clone()),
        allocator: order.allocator.clone(),
        options: options(),
    };
    let config = json!({"range-global": "10.78.0.1-10.78.15.254"});
    let rig = TrafficRig::with(logs, programs, WORKERS, &config).await?;
    reach(&rig.client()?)?;
    tokio::time::sleep(SETTLED).await;
    Ok(rig)
}

/// From its making until its status shows an address; and from then, when kube-proxy begins, to the first answer.
async fn one(rig: &TrafficRig, name: &str) -> Result<(Duration, Duration)> {
    rig.backends(name, &["w1", "w2", "w3"]).await?;
    let begin = now();
    rig.expose(name, "Cluster", &[(Protocol::Tcp, PORT)]).await?;
    let ip = rig.external_ip(name).await?;
    let shown = now();
    rig.answered(Protocol::Tcp, SocketAddr::new(ip, PORT), |_| true).await?;
    let end = now();
    Ok((shown.since(begin), end.since(shown)))
}

/// For how long each kind of program ran so far.
fn spent(rig: &TrafficRig) -> Result<Vec<(&'static str, Duration)>> {
    let lab = rig.workers.lab();
    let of = |hosts: &[String], name: &str| -> Result<Duration> {
        let each = hosts.iter().map(|host| Ok(lab.process(host, name)?.ran().unwrap_or_default()));
        each.sum::<Result<Duration>>()
    };
    let (cp, etcd) = (["cp1".to_owned()], ["etcd".to_owned()]);
    Ok(vec![
        ("kube-apiserver", of(&cp, "kube-apiserver")?),
        ("etcd", of(&etcd, "etcd")?),
        ("kube-proxy, all", of(&rig.workers.nodes, "kube-proxy")?),
        ("mooring-agent, all", of(&rig.workers.nodes, AGENT)?),
        ("mooring-allocator", rig.allocator.process().ran().unwrap_or_default()),
    ])
}

/// Until all show an address, and until all answer.
async fn burst(rig: &TrafficRig, count: usize) -> Result<(Duration, Duration)> {
    let name = |n: usize| format!("burst-{n}");
    stream::iter((0..count).map(|n| async move { rig.backends(&name(n), &["w1", "w2", "w3"]).await }))
        .buffer_unordered(WORK)
        .try_collect::<()>()
        .await?;
    let begin = now();
    stream::iter((0..count).map(|n| async move { rig.expose(&name(n), "Cluster", &[(Protocol::Tcp, PORT)]).await }))
        .buffer_unordered(WORK)
        .try_collect::<()>()
        .await?;
    // One after the other: a list of all, again and again, would be the most that the API server has to do.
    let mut addresses = Vec::new();
    for n in 0..count {
        loop {
            let service = rig.service(&name(n)).await?;
            if let Some(ip) = service.pointer("/status/loadBalancer/ingress/0/ip").and_then(Value::as_str) {
                addresses.push(ip.parse::<IpAddr>()?);
                break;
            }
            ensure!(now() < begin + LIMIT, "{n} of {count} have an address; {}", rig.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let shown = now();
    let client = rig.client()?;
    let ask = |ip: IpAddr| {
        let client = client.clone();
        async move {
            rig.answered(Protocol::Tcp, SocketAddr::new(ip, PORT), |_| true).await?;
            // All namespaces share one limit of neighbours: gc_thresh3, 1,024 unless set.
            forget_neighbour(&client, "eth0", ip)?;
            anyhow::Ok(())
        }
    };
    stream::iter(addresses.into_iter().map(ask)).buffer_unordered(WORK).try_collect::<()>().await?;
    Ok((shown.since(begin), now().since(begin)))
}
