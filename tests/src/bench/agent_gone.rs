//! The holder's agent is killed or frozen; its node lives, and its kernel keeps the address until the fence ends.

use std::time::Duration;

use anyhow::{Context, Result};

use super::Order;
use super::rig::{Memory, Rig};
use super::stats::{Figure, Statistic};
use crate::agents::AgentOptions;
use crate::lab::Shape;
use crate::observe::now;
use crate::observe::timeline::total;

/// The Lease and the fence run out, and then some.
const LIMIT: Duration = Duration::from_secs(45);
/// Longer than any fence set before the kill lasts.
const AFTER: Duration = Duration::from_secs(20);
/// How long the agent is frozen.
const FROZEN: Duration = Duration::from_secs(40);
/// The fight after a thaw, if there is one.
const THAWED: Duration = Duration::from_secs(10);

/// Killed and back within five seconds: packets lost.
pub(super) async fn restart(order: &Order) -> Result<Vec<Figure>> {
    let mut rig = Rig::up(order, Shape::external(), AgentOptions::default()).await?;
    let runs = rig.warm_runs(order, Memory::Kept, async |rig, holder, prober| {
        let agent = rig.lab.agent(&holder)?;
        let killed = agent.kill()?;
        agent.process()?.ended(LIMIT).await?;
        tokio::time::sleep(Duration::from_millis(500 + now().as_nanos() % 4_000)).await;
        agent.start_again()?;
        tokio::time::sleep(AFTER).await;
        let end = now();
        Ok(prober.finish()?.between(killed, end).lost())
    });
    let lost = runs.await?;
    Ok(vec![Figure::of_counts("agent-restart", "packets", &lost)?.goal(Statistic::Max, 0.0)])
}

/// Killed for good: from the end of the fence to the first answer of the next holder.
pub(super) async fn dead(order: &Order) -> Result<Vec<Figure>> {
    let mut rig = Rig::up(order, Shape::external(), AgentOptions::default()).await?;
    let runs = rig.runs(order, Memory::Fresh, async |rig, holder, prober| {
        let killed = rig.lab.agent(&holder)?.kill()?;
        let next = rig.successor(&holder, LIMIT).await?;
        let (heard, _) = prober.answer_after(killed, Some(&next), LIMIT).await?;
        let timeline = rig.timeline();
        let held = timeline.holds().iter().rfind(|hold| hold.host == holder && hold.from < killed);
        let fenced = held.and_then(|hold| hold.to).with_context(|| format!("{holder} still has the VIP"))?;
        prober.finish()?;
        rig.lab.agent(&holder)?.start_again()?;
        Ok(heard.since(fenced))
    });
    let times = runs.await?;
    Ok(vec![Figure::of_times("agent-dead", &times)?.goal(Statistic::Max, 1_500.0)])
}

/// Frozen, and thawed when another holds: for how long there were two owners, in all and before the thaw.
pub(super) async fn frozen(order: &Order) -> Result<Vec<Figure>> {
    let rig = Rig::up(order, Shape::external(), AgentOptions::default()).await?;
    let (mut all, mut early) = (Vec::new(), Vec::new());
    for run in 0..order.runs {
        let holder = if run == 0 { rig.settled().await? } else { rig.fresh().await? };
        let agent = rig.lab.agent(&holder)?;
        let froze = agent.freeze()?;
        tokio::time::sleep(FROZEN).await;
        let thawed = agent.thaw()?;
        tokio::time::sleep(THAWED).await;
        let timeline = rig.timeline();
        all.push(total(&timeline.two_owners(froze, now())));
        early.push(total(&timeline.two_owners(froze, thawed)));
    }
    let before = "freeze-two-owners-before-thaw";
    Ok(vec![
        Figure::of_times("freeze-two-owners", &all)?.goal(Statistic::Max, 100.0),
        Figure::of_times(before, &early)?.goal(Statistic::Max, 0.0),
    ])
}
