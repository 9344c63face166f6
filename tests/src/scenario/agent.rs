//! The agent is killed, frozen, asked to end; its host lives on.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::scene::{SOON, Scene, pass};
use super::story;
use crate::observe::now;
use crate::runner::{Ctx, Test};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("process", killed_and_back, "killed-and-back", 3, alone: true),
        story!("process", handover, "sigterm-hands-over", 3, alone: true),
        story!("process", frozen, "frozen-for-40-seconds", 4),
        story!("process", dead, "dead-for-good", 3),
    ]
}

async fn killed_and_back(ctx: &mut Ctx<()>) -> Result<()> {
    let (scene, holder) = Scene::usual(ctx).await?;
    let (from, prober) = (now(), scene.prober()?);
    prober.answer_after(from, None, SOON).await?;
    let agent = scene.lab.agent(&holder)?;
    agent.kill()?;
    agent.process()?.ended(SOON).await?;
    pass(3).await;
    agent.start_again()?;
    pass(20).await;
    scene.still(&holder, from)?;
    scene.nothing_lost(&prober.finish()?)
}

async fn handover(ctx: &mut Ctx<()>) -> Result<()> {
    let (scene, first) = Scene::usual(ctx).await?;
    // At once: nobody may have said yet that it takes part.
    let (from, prober) = (now(), scene.prober()?);
    prober.answer_after(from, None, SOON).await?;
    scene.lab.agent(&first)?.stop(Duration::from_secs(15)).await?;
    let second = scene.successor(&first, SOON).await?;
    prober.answer_after(now(), Some(&second), SOON).await?;
    ensure!(scene.settled().await? == second, "it moved once more");
    scene.never_shared(from)?;
    scene.nothing_lost(&prober.finish()?)
}

async fn frozen(ctx: &mut Ctx<()>) -> Result<()> {
    let (scene, first) = Scene::usual(ctx).await?;
    let from = now();
    let agent = scene.lab.agent(&first)?;
    agent.freeze()?;
    pass(40).await;
    let second = scene.successor(&first, SOON).await?;
    // The kernel answered for it, so nobody took it before the fence took it away.
    let shared = scene.timeline().two_owners(from, now());
    ensure!(shared.is_empty(), "two owners: {shared:?}; {}", scene.logs());
    let thawed = agent.thaw()?;
    pass(10).await;
    scene.still(&second, thawed)?;
    scene.never_shared(from)
}

async fn dead(ctx: &mut Ctx<()>) -> Result<()> {
    let (scene, first) = Scene::usual(ctx).await?;
    let (from, prober) = (now(), scene.prober()?);
    scene.lab.agent(&first)?.kill()?;
    let second = scene.successor(&first, Duration::from_secs(30)).await?;
    prober.answer_after(now(), Some(&second), SOON).await?;
    let shared = scene.timeline().two_owners(from, now());
    ensure!(shared.is_empty(), "two owners: {shared:?}; {}", scene.logs());
    Ok(())
}
