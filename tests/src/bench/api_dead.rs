//! The API server of the holder's node dies; node, agent and the other API servers live.

use std::time::Duration;

use anyhow::Result;

use super::rig::Rig;
use super::stats::{Figure, Statistic};
use super::{Order, some};
use crate::agents::AgentOptions;
use crate::lab::Shape;
use crate::observe::https::{Outage, outages};
use crate::observe::now;

/// Longer than health takes to fail, and a hand-over.
const WATCHED: Duration = Duration::from_secs(15);

/// HTTPS through the VIP is away, and packets lost meanwhile.
pub(super) async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let rig = Rig::up(order, Shape::stacked(), AgentOptions::default()).await?;
    let (mut times, mut lost) = (Vec::new(), Vec::new());
    for _ in 0..order.runs {
        let holder = rig.settled().await?;
        let (prober, https) = (rig.stage.prober()?, rig.stage.https()?);
        https.success_after(now(), WATCHED).await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let killed = rig.stage.lab.stop_api(&holder)?;
        tokio::time::sleep(WATCHED).await;
        let end = now();
        let gaps = outages(&https.finish()?);
        times.push(gaps.iter().filter(|gap| gap.to > killed).map(Outage::length).max().unwrap_or_default());
        lost.push(prober.finish()?.between(killed, end).lost());
        rig.stage.lab.start_api(&holder)?;
        rig.apis_ready().await?;
    }
    let packets = "api-dead-on-holder-lost";
    Ok(vec![
        some(Figure::of_times("api-dead-on-holder", &times), "api-dead-on-holder")?.goal(Statistic::Max, 3_000.0),
        some(Figure::of_counts(packets, "packets", &lost), packets)?.goal(Statistic::Max, 0.0),
    ])
}
