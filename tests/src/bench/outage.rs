//! The API is away for a minute, refused and then hanging: nothing may happen to traffic.

use std::time::Duration;

use anyhow::Result;

use super::Order;
use super::rig::Rig;
use super::stats::{Figure, Statistic};
use crate::agents::AgentOptions;
use crate::lab::Shape;
use crate::observe::now;

/// How long it is away: four times as long as a Lease lasts.
const AWAY: Duration = Duration::from_mins(1);
/// The return of the API is watched as well.
const AFTER: Duration = Duration::from_secs(10);

/// Each run is an outage with connections refused, and one in which they hang; packets lost in both.
pub(super) async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let rig = Rig::up(order, Shape::external(), AgentOptions::default()).await?;
    let mut lost = Vec::new();
    for _ in 0..order.runs {
        let mut both = 0;
        for hanging in [false, true] {
            rig.settled().await?;
            let prober = rig.prober()?;
            tokio::time::sleep(Duration::from_millis(500)).await;
            let begin = now();
            let lab = &rig.lab;
            if hanging { lab.freeze_all_apis() } else { lab.stop_all_apis() }?;
            tokio::time::sleep(AWAY).await;
            if hanging { lab.thaw_all_apis() } else { lab.start_all_apis() }?;
            rig.apis_ready().await?;
            tokio::time::sleep(AFTER).await;
            let end = now();
            both += prober.finish()?.between(begin, end).lost();
        }
        lost.push(both);
    }
    Ok(vec![Figure::of_counts("outage", "packets", &lost)?.goal(Statistic::Max, 0.0)])
}
