//! VIPs by kube-vip's Leases, one for each Service (`svc_election=true`): a node of ours loses its power with all Leases it
//! holds. Until each of its VIPs answers again; the Leases themselves would last for 15 s.

use anyhow::{Context as _, Result};

use super::super::Order;
use super::super::stats::{Figure, Statistic, percentile};
use super::crash::{SETTLED, power_lost};
use super::many::Many;

/// VIPs of all nodes, when nobody says how many.
const VIPS: usize = 50;

/// The last one, and the one in the middle, of the node that held the most.
pub async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let (mut last, mut middle, mut held) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..order.runs {
        let logs = tempfile::tempdir()?;
        let mut many = Many::by_leases(order, logs.path(), 3, order.count.unwrap_or(VIPS)).await?;
        many.leased().await?;
        let swarm = many.swarm().await?;
        tokio::time::sleep(SETTLED).await;
        let holders = many.leased().await?;
        let of = |node: &str| holders.iter().filter(|holder| *holder == node).count();
        let victim = many.workers.nodes.iter().max_by_key(|node| of(node)).cloned().context("no node")?;
        held.push(of(&victim));
        let times = power_lost(&mut many, swarm, &victim, |vip| holders.get(vip) == Some(&victim)).await?;
        last.extend(times.last());
        middle.extend(percentile(&times, 50));
    }
    let figure = |name: &str, values: &[f64]| Figure::new(name, "ms", values);
    Ok(vec![
        figure("services-lease-crash", &last)?.goal(Statistic::Max, 1_500.0),
        figure("services-lease-crash-median", &middle)?,
        Figure::of_counts("services-lease-crash-vips", "VIPs", &held)?,
    ])
}
