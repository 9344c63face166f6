//! The API server of the holder's node dies; node, agent and the other API servers live.

use std::time::Duration;

use anyhow::Result;

use super::Order;
use super::rig::{Memory, Rig};
use super::stats::{Figure, Statistic};
use crate::agents::AgentOptions;
use crate::lab::Shape;
use crate::observe::https::{Outage, outages};
use crate::observe::now;

/// Longer than health takes to fail, and a hand-over.
const WATCHED: Duration = Duration::from_secs(15);

/// HTTPS through the VIP is away, and packets lost meanwhile.
pub(super) async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let mut rig = Rig::up(order, Shape::stacked(), AgentOptions::default()).await?;
    let runs = rig.runs(order, Memory::Kept, async |rig, holder, prober| {
        let https = rig.https()?;
        https.success_after(now(), WATCHED).await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let killed = rig.lab.stop_api(&holder)?;
        tokio::time::sleep(WATCHED).await;
        let end = now();
        let gaps = outages(&https.finish()?);
        let longest = gaps.iter().filter(|gap| gap.to > killed).map(Outage::length).max().unwrap_or_default();
        let lost = prober.finish()?.between(killed, end).lost();
        rig.lab.start_api(&holder)?;
        rig.apis_ready().await?;
        Ok((longest, lost))
    });
    let (times, lost): (Vec<_>, Vec<_>) = runs.await?.into_iter().unzip();
    let packets = "api-dead-on-holder-lost";
    Ok(vec![
        Figure::of_times("api-dead-on-holder", &times)?.goal(Statistic::Max, 3_000.0),
        Figure::of_counts(packets, "packets", &lost)?.goal(Statistic::Max, 0.0),
    ])
}
