//! The holder's host loses its power.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::scene::{SOON, Scene, pass};
use super::story;
use crate::observe::now;
use crate::runner::{Ctx, Test};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("crash", crash, "holder-crashes-and-comes-back", 3),
        story!("crash", without_api, "holder-crashes-in-an-api-outage", 3),
    ]
}

async fn crash(ctx: &mut Ctx<()>) -> Result<()> {
    let (mut scene, first) = Scene::usual(ctx).await?;
    let (from, prober) = (now(), scene.prober()?);
    let crashed = scene.crash(&first)?;
    let second = scene.successor(&first, SOON).await?;
    let (heard, by) = prober.answer_after(crashed, Some(&second), SOON).await?;
    ctx.note(&format!("{by} was heard {:?} after the crash", heard.since(crashed)));
    ensure!(scene.settled().await? == second, "it moved once more");
    scene.never_shared(from)?;

    // It comes back as a candidate, and takes nothing.
    let back = scene.revive(&first)?;
    pass(5).await;
    ensure!(scene.lab.agent(&first)?.is_running(), "the agent of {first} ended: {}", scene.logs());
    scene.still(&second, back)
}

async fn without_api(ctx: &mut Ctx<()>) -> Result<()> {
    let (mut scene, first) = Scene::usual(ctx).await?;
    let (from, prober) = (now(), scene.prober()?);
    scene.lab.stop_all_apis()?;
    pass(3).await;
    let crashed = scene.crash(&first)?;
    let second = scene.successor(&first, Duration::from_secs(10)).await?;
    prober.answer_after(crashed, Some(&second), SOON).await?;
    pass(5).await;
    scene.never_shared(from)?;
    // The API returns: who carries it is confirmed by the Lease.
    for name in scene.lab.control_planes().into_iter().filter(|name| *name != first) {
        scene.lab.start_api(&name)?;
    }
    scene.settled().await?;
    scene.never_shared(from)
}
