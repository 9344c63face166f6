//! The agent is killed, frozen or terminated; its host keeps running.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::rig::{SOON, ScenarioRig, pass};
use super::story;
use crate::observe::now;
use crate::runner::{Ctx, Test};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("process", killed_and_back, "killed-and-back", 3).counting(),
        story!("process", handover, "sigterm-hands-over", 3).counting().quick(),
        story!("process", frozen, "frozen-for-40-seconds", 4),
        story!("process", dead, "dead-for-good", 3),
    ]
}

async fn killed_and_back(ctx: &mut Ctx<()>) -> Result<()> {
    let (rig, holder) = ScenarioRig::usual(ctx).await?;
    let (from, prober) = (now(), rig.prober()?);
    prober.answer_after(from, None, SOON).await?;
    let agent = rig.lab.agent(&holder)?;
    agent.kill()?;
    agent.process()?.ended(SOON).await?;
    pass(3).await;
    agent.start_again()?;
    pass(20).await;
    rig.still(&holder, from)?;
    rig.nothing_lost(&prober.finish()?)
}

async fn handover(ctx: &mut Ctx<()>) -> Result<()> {
    let (rig, first) = ScenarioRig::usual(ctx).await?;
    // At once: perhaps no other agent has announced yet that it takes part.
    let (from, prober) = (now(), rig.prober()?);
    prober.answer_after(from, None, SOON).await?;
    rig.lab.agent(&first)?.stop(Duration::from_secs(15)).await?;
    let second = rig.successor(&first, SOON).await?;
    prober.answer_after(now(), Some(&second), SOON).await?;
    ensure!(rig.settled().await? == second, "it moved once more");
    rig.never_shared(from)?;
    rig.nothing_lost(&prober.finish()?)
}

async fn frozen(ctx: &mut Ctx<()>) -> Result<()> {
    let (rig, first) = ScenarioRig::usual(ctx).await?;
    let from = now();
    let agent = rig.lab.agent(&first)?;
    agent.freeze()?;
    pass(40).await;
    let second = rig.successor(&first, SOON).await?;
    // The kernel answered for the VIP, so no other host took the VIP before the fence removed it.
    let shared = rig.timeline().two_owners(from, now());
    ensure!(shared.is_empty(), "two owners: {shared:?}; {}", rig.logs());
    let thawed = agent.thaw()?;
    pass(10).await;
    rig.still(&second, thawed)?;
    rig.never_shared(from)
}

async fn dead(ctx: &mut Ctx<()>) -> Result<()> {
    let (rig, first) = ScenarioRig::usual(ctx).await?;
    let (from, prober) = (now(), rig.prober()?);
    rig.lab.agent(&first)?.kill()?;
    let second = rig.successor(&first, Duration::from_secs(30)).await?;
    prober.answer_after(now(), Some(&second), SOON).await?;
    let shared = rig.timeline().two_owners(from, now());
    ensure!(shared.is_empty(), "two owners: {shared:?}; {}", rig.logs());
    Ok(())
}
