//! The holder is cut from the API, and only from it; other candidates are not. The Lease moves, and the VIP with it.

use std::time::Duration;

use anyhow::Result;

use super::rig::{Rig, longest_gap};
use super::stats::{Figure, Statistic};
use super::{Order, some};
use crate::agents::AgentOptions;
use crate::fault::ApiCut;
use crate::lab::Shape;
use crate::observe::now;
use crate::observe::timeline::total;

/// The Lease runs out, and then some.
const LIMIT: Duration = Duration::from_secs(45);
/// Both are watched for this long after the move.
const AFTER: Duration = Duration::from_secs(5);

/// The client's outage, and the time with two owners.
pub(super) async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let rig = Rig::up(order, Shape::external(), AgentOptions::default()).await?;
    let (mut gaps, mut two) = (Vec::new(), Vec::new());
    for run in 0..order.runs {
        let holder = if run == 0 { rig.settled().await? } else { rig.fresh().await? };
        let prober = rig.stage.prober()?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let cut = rig.stage.lab.cut_api(&holder, ApiCut::Everywhere)?;
        rig.stage.successor(&holder, LIMIT).await?;
        tokio::time::sleep(AFTER).await;
        let end = now();
        gaps.push(longest_gap(&prober.finish()?, cut, end));
        two.push(total(&rig.stage.timeline().two_owners(cut, end)));
        rig.stage.lab.heal_api(&holder)?;
    }
    Ok(vec![
        some(Figure::of_times("api-cut", &gaps), "api-cut")?.goal(Statistic::Max, 100.0),
        some(Figure::of_times("api-cut-two-owners", &two), "api-cut-two-owners")?.goal(Statistic::Max, 100.0),
    ])
}
