//! The API is away: traffic is not affected.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::rig::{SOON, ScenarioRig, pass};
use super::story;
use crate::fault::{ApiCut, Way};
use crate::observe::now;
use crate::runner::{Ctx, Test};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("outage", refused_and_hanging, "api-refuses-then-hangs", 5).counting(),
        story!("outage", holder_cut, "holder-cut-from-the-api", 3),
        story!("outage", candidate_cut, "holder-and-candidate-cut", 3),
    ]
}

async fn refused_and_hanging(ctx: &mut Ctx<()>) -> Result<()> {
    let (rig, holder) = ScenarioRig::usual(ctx).await?;
    let (from, prober) = (now(), rig.prober()?);
    prober.answer_after(from, None, SOON).await?;
    // Longer than the Lease, both times.
    rig.lab.freeze_all_apis()?;
    pass(20).await;
    rig.still(&holder, from)?;
    rig.lab.thaw_all_apis()?;
    rig.settled().await?;
    rig.lab.stop_all_apis()?;
    pass(20).await;
    rig.still(&holder, from)?;
    rig.lab.start_all_apis()?;
    ensure!(rig.settled().await? == holder, "it moved");
    rig.still(&holder, from)?;
    rig.nothing_lost(&prober.finish()?)
}

async fn holder_cut(ctx: &mut Ctx<()>) -> Result<()> {
    let (rig, first) = ScenarioRig::usual(ctx).await?;
    let from = now();
    rig.lab.cut_api(&first, ApiCut::Everywhere)?;
    // Candidates see the holder alive on the segment, and take over when its Lease has run out.
    let second = rig.successor(&first, Duration::from_secs(40)).await?;
    rig.prober()?.answer_after(now(), Some(&second), SOON).await?;
    pass(3).await;
    rig.never_shared(from)?;
    rig.lab.heal_all()?;
    pass(5).await;
    rig.never_shared(from)
}

async fn candidate_cut(ctx: &mut Ctx<()>) -> Result<()> {
    let (rig, holder) = ScenarioRig::usual(ctx).await?;
    let other = rig.other_than(&[&holder])?;
    for way in [Way::One, Way::Both] {
        // Frames from the candidate to the holder are lost; the holder renews the Lease through other API servers.
        let from = rig.lab.cut(&other, &holder, way)?;
        pass(10).await;
        rig.never_shared(from)?;
        rig.lab.heal_all()?;
        rig.settled().await?;
    }
    Ok(())
}
