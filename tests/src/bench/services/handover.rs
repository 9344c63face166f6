//! A node is drained of hundreds of VIPs, gets them back, and its agent is told to end: packets that a client loses.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::super::Order;
use super::super::stats::{Figure, Statistic};
use super::many::{Many, vip};
use crate::observe::now;
use crate::observe::probes::Probes;
use crate::progress;

/// VIPs of the node.
const VIPS: usize = 250;
/// For what is done behind a hand-over.
const SETTLED: Duration = Duration::from_secs(5);
/// Longer than any hand-over takes.
const LIMIT: Duration = Duration::from_mins(1);

/// Lost of each VIP: the worst one of each hand-over.
pub async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let mut lost = Vec::new();
    for _ in 0..order.runs {
        let logs = tempfile::tempdir()?;
        let preferred = json!({"mooring.dev/preferred-nodes": "w1=100"});
        let many = Many::up(order, logs.path(), 3, VIPS, &preferred).await?;
        many.carried(Some("w1")).await?;
        tokio::time::sleep(SETTLED).await;

        // Drained.
        let swarm = many.swarm().await?;
        many.annotate("w1", "mooring.dev/drain", Some("true")).await?;
        let away = async {
            let begin = now();
            while swarm.all_answered(now(), Some("w1"), Duration::from_millis(500)).await.is_err() {
                ensure!(now() < begin + LIMIT, "w1 keeps some; {}", many.workers.logs());
            }
            Ok(())
        };
        away.await?;
        tokio::time::sleep(SETTLED).await;
        lost.push(worst("drain", &swarm.finish()?));

        // Back, each by its preference.
        let swarm = many.swarm().await?;
        many.annotate("w1", "mooring.dev/drain", None).await?;
        // The others know that it stays when it has said so.
        tokio::time::sleep(SETTLED).await;
        for node in ["w2", "w3"] {
            many.annotate(node, "mooring.dev/rebalance", Some("1")).await?;
        }
        many.carried(Some("w1")).await?;
        tokio::time::sleep(SETTLED).await;
        lost.push(worst("rebalance", &swarm.finish()?));

        // Its agent ends.
        let swarm = many.swarm().await?;
        many.workers.lab().agent("w1")?.stop(LIMIT).await?;
        tokio::time::sleep(SETTLED).await;
        lost.push(worst("SIGTERM", &swarm.finish()?));
    }
    let name = "services-handover";
    Ok(vec![Figure::of_counts(name, "packets", &lost)?.goal(Statistic::Max, 0.0)])
}

/// The most that one VIP lost; what it was is told, where anything was lost.
fn worst(what: &str, seen: &[Probes]) -> usize {
    let most = seen.iter().enumerate().max_by_key(|(_, one)| one.lost());
    if let Some((nth, one)) = most.filter(|(_, one)| one.lost() > 0) {
        let some = seen.iter().filter(|one| one.lost() > 0).count();
        progress::line(format_args!("  {what}: {some} VIPs lost packets, {} most: {:?}", vip(nth), one.outages()));
    }
    most.map_or(0, |(_, one)| one.lost())
}
