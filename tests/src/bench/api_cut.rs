//! The holder is cut from the API, and only from it; other candidates are not. The Lease moves, and the VIP with it.

use std::time::Duration;

use anyhow::Result;

use super::Order;
use super::rig::{Memory, Rig, longest_gap};
use super::stats::{Figure, Statistic};
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
    let mut rig = Rig::up(order, Shape::external(), AgentOptions::default()).await?;
    let runs = rig.warm_runs(order, Memory::Fresh, async |rig, holder, prober| {
        let cut = rig.lab.cut_api(&holder, ApiCut::Everywhere)?;
        rig.successor(&holder, LIMIT).await?;
        tokio::time::sleep(AFTER).await;
        let end = now();
        let gap = longest_gap(&prober.finish()?, cut, end);
        let two = total(&rig.timeline().two_owners(cut, end));
        rig.lab.heal_api(&holder)?;
        Ok((gap, two))
    });
    let (gaps, two): (Vec<_>, Vec<_>) = runs.await?.into_iter().unzip();
    Ok(vec![
        Figure::of_times("api-cut", &gaps)?.goal(Statistic::Max, 100.0),
        Figure::of_times("api-cut-two-owners", &two)?.goal(Statistic::Max, 100.0),
    ])
}
