//! The holder's agent is told to end: packets that a client loses while the VIP moves.

use std::time::Duration;

use anyhow::Result;

use super::rig::Rig;
use super::stats::{Figure, Statistic};
use super::{Order, some};
use crate::agents::AgentOptions;
use crate::lab::Shape;

/// Longer than any hand-over takes.
const LIMIT: Duration = Duration::from_secs(30);
/// The client goes on for this long after the VIP moved.
const AFTER: Duration = Duration::from_secs(2);

/// SIGTERM to the holder's agent.
pub(super) async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let rig = Rig::up(order, Shape::external(), AgentOptions::default()).await?;
    let mut lost = Vec::new();
    for _ in 0..order.runs {
        let holder = rig.settled().await?;
        let prober = rig.stage.prober()?;
        // So that the first packets, which look for the neighbour, are not part of it.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let agent = rig.stage.lab.agent(&holder)?;
        let told = agent.terminate()?;
        rig.stage.successor(&holder, LIMIT).await?;
        agent.process()?.ended(LIMIT).await?;
        tokio::time::sleep(AFTER).await;
        let seen = prober.finish()?;
        lost.push(seen.all().iter().filter(|probe| probe.sent >= told && probe.answer.is_none()).count());
        agent.start_again()?;
    }
    Ok(vec![some(Figure::of_counts("handover", "packets", &lost), "handover")?.goal(Statistic::Max, 0.0)])
}
