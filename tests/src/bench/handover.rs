//! The holder's agent is told to end: packets that a client loses while the VIP moves.

use std::time::Duration;

use anyhow::Result;

use super::Order;
use super::rig::{Memory, Rig};
use super::stats::{Figure, Statistic};
use crate::agents::AgentOptions;
use crate::lab::Shape;

/// Longer than any hand-over takes.
const LIMIT: Duration = Duration::from_secs(30);
/// The client goes on for this long after the VIP moved.
const AFTER: Duration = Duration::from_secs(2);

/// SIGTERM to the holder's agent.
pub(super) async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let mut rig = Rig::up(order, Shape::external(), AgentOptions::default()).await?;
    let runs = rig.warm_runs(order, Memory::Kept, async |rig, holder, prober| {
        let agent = rig.lab.agent(&holder)?;
        let told = agent.terminate()?;
        rig.successor(&holder, LIMIT).await?;
        agent.process()?.ended(LIMIT).await?;
        tokio::time::sleep(AFTER).await;
        let seen = prober.finish()?;
        agent.start_again()?;
        Ok(seen.all().iter().filter(|probe| probe.sent >= told && probe.answer.is_none()).count())
    });
    let lost = runs.await?;
    Ok(vec![Figure::of_counts("handover", "packets", &lost)?.goal(Statistic::Max, 0.0)])
}
