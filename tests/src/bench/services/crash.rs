//! A node with hundreds of VIPs loses its power: until each of them answers again.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;

use super::super::Order;
use super::super::stats::{Figure, Statistic, percentile};
use super::many::Many;
use crate::observe::swarm::first;

/// VIPs of the node.
const VIPS: usize = 250;
/// Watchers have to have heard it.
const SETTLED: Duration = Duration::from_secs(8);
/// Longer than a session lives without being renewed.
const LIMIT: Duration = Duration::from_mins(1);

/// The last one, and the one in the middle.
pub async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let (mut last, mut middle) = (Vec::new(), Vec::new());
    for _ in 0..order.runs {
        let logs = tempfile::tempdir()?;
        let preferred = json!({"mooring.dev/preferred-nodes": "w1=100"});
        let mut many = Many::up(order, logs.path(), 3, VIPS, &preferred).await?;
        many.carried(Some("w1")).await?;
        let swarm = many.swarm().await?;
        tokio::time::sleep(SETTLED).await;
        let crash = many.workers.crash("w1")?;
        swarm.all_answered(crash, Some("w1"), LIMIT).await.with_context(|| many.workers.logs())?;
        let seen = swarm.finish()?;
        let answered = seen.iter().filter_map(|one| first(one, crash, Some("w1")));
        let mut times: Vec<f64> = answered.map(|at| at.since(crash).as_secs_f64() * 1_000.0).collect();
        times.sort_unstable_by(f64::total_cmp);
        last.extend(times.last());
        middle.extend(percentile(&times, 50));
    }
    let figure = |name: &str, values: &[f64]| Figure::new(name, "ms", values);
    Ok(vec![
        figure("services-crash", &last)?.goal(Statistic::Max, 1_500.0),
        figure("services-crash-median", &middle)?.goal(Statistic::Max, 700.0),
    ])
}
