//! The API is away: nothing happens to traffic.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::scene::{SOON, Scene, pass};
use super::story;
use crate::fault::{ApiCut, Way};
use crate::observe::now;
use crate::runner::{Ctx, Test};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("outage", refused_and_hanging, "api-refuses-then-hangs", 5, alone: true),
        story!("outage", holder_cut, "holder-cut-from-the-api", 3),
        story!("outage", candidate_cut, "holder-and-candidate-cut", 3),
    ]
}

async fn refused_and_hanging(ctx: &mut Ctx<()>) -> Result<()> {
    let (scene, holder) = Scene::usual(ctx).await?;
    let (from, prober) = (now(), scene.prober()?);
    prober.answer_after(from, None, SOON).await?;
    // Longer than the Lease, both times.
    scene.lab.freeze_all_apis()?;
    pass(30).await;
    scene.still(&holder, from)?;
    scene.lab.thaw_all_apis()?;
    scene.settled().await?;
    scene.lab.stop_all_apis()?;
    pass(30).await;
    scene.still(&holder, from)?;
    scene.lab.start_all_apis()?;
    ensure!(scene.settled().await? == holder, "it moved");
    scene.still(&holder, from)?;
    scene.nothing_lost(&prober.finish()?)
}

async fn holder_cut(ctx: &mut Ctx<()>) -> Result<()> {
    let (scene, first) = Scene::usual(ctx).await?;
    let from = now();
    scene.lab.cut_api(&first, ApiCut::Everywhere)?;
    // Candidates see it alive on the segment, and take over by the Lease when it has run out.
    let second = scene.successor(&first, Duration::from_secs(40)).await?;
    scene.prober()?.answer_after(now(), Some(&second), SOON).await?;
    pass(3).await;
    scene.never_shared(from)?;
    scene.lab.heal_all()?;
    pass(5).await;
    scene.never_shared(from)
}

async fn candidate_cut(ctx: &mut Ctx<()>) -> Result<()> {
    let (scene, holder) = Scene::usual(ctx).await?;
    let other = scene.other_than(&[&holder])?;
    for way in [Way::One, Way::Both] {
        // What the candidate sends to the holder is lost; the Lease, through other API servers, is renewed.
        let from = scene.lab.cut(&other, &holder, way)?;
        pass(10).await;
        scene.never_shared(from)?;
        scene.lab.heal_all()?;
        scene.settled().await?;
    }
    Ok(())
}
