//! A node with hundreds of VIPs loses its power: until each of them answers again.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;

use super::super::Order;
use super::super::stats::{Figure, Statistic, percentile};
use super::many::Many;
use crate::observe::swarm::{Swarm, first};

/// Nodes, when nobody says.
const NODES: u8 = 3;
/// VIPs of the node.
const VIPS: usize = 250;
/// Those that take part have to have heard of each other.
pub(super) const SETTLED: Duration = Duration::from_secs(8);
/// Longer than a session, or a Lease of kube-vip, lives without being renewed.
const LIMIT: Duration = Duration::from_mins(1);

/// The last one, and the one in the middle; for each number of nodes that is asked for.
pub async fn measure(order: &Order) -> Result<Vec<Figure>> {
    if order.nodes.is_empty() {
        return of(order, NODES, "").await;
    }
    let mut figures = Vec::new();
    for nodes in order.nodes.iter().copied() {
        figures.extend(of(order, nodes, &format!(" n={nodes}")).await?);
    }
    Ok(figures)
}

async fn of(order: &Order, nodes: u8, which: &str) -> Result<Vec<Figure>> {
    let (mut last, mut middle) = (Vec::new(), Vec::new());
    for _ in 0..order.runs {
        let logs = tempfile::tempdir()?;
        let preferred = json!({"mooring.dev/preferred-nodes": "w1=100"});
        let mut many = Many::up(order, logs.path(), nodes, VIPS, &preferred).await?;
        many.carried(Some("w1")).await?;
        let swarm = many.swarm().await?;
        tokio::time::sleep(SETTLED).await;
        let times = power_lost(&mut many, swarm, "w1", |_| true).await?;
        last.extend(times.last());
        middle.extend(percentile(&times, 50));
    }
    let figure = |name: &str, values: &[f64]| Figure::new(&format!("{name}{which}"), "ms", values);
    Ok(vec![
        figure("services-crash", &last)?.goal(Statistic::Max, 1_500.0),
        figure("services-crash-median", &middle)?.goal(Statistic::Max, 700.0),
    ])
}

/// A node loses its power: after how many milliseconds each of its VIPs answered again, in ascending order.
///
/// `is_its` says of a VIP, by its number, whether the node held it.
pub(super) async fn power_lost(
    many: &mut Many,
    swarm: Swarm,
    node: &str,
    is_its: impl Fn(usize) -> bool,
) -> Result<Vec<f64>> {
    let crash = many.workers.crash(node)?;
    swarm.all_answered(crash, Some(node), LIMIT).await.with_context(|| many.workers.logs())?;
    let seen = swarm.finish()?;
    let its = seen.iter().enumerate().filter(|(n, _)| is_its(*n));
    let answered = its.filter_map(|(_, one)| first(one, crash, Some(node)));
    let mut times: Vec<f64> = answered.map(|at| at.since(crash).as_secs_f64() * 1_000.0).collect();
    times.sort_unstable_by(f64::total_cmp);
    Ok(times)
}
