//! The holder's host loses power.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::rig::{SOON, ScenarioRig, pass};
use super::story;
use crate::observe::now;
use crate::runner::{Ctx, Test};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("crash", crash, "holder-crashes-and-comes-back", 3).quick(),
        story!("crash", without_api, "holder-crashes-in-an-api-outage", 3),
    ]
}

async fn crash(ctx: &mut Ctx<()>) -> Result<()> {
    let (mut rig, first) = ScenarioRig::usual(ctx).await?;
    let (from, prober) = (now(), rig.prober()?);
    let crashed = rig.crash(&first)?;
    let second = rig.successor(&first, SOON).await?;
    let (heard, by) = prober.answer_after(crashed, Some(&second), SOON).await?;
    ctx.note(&format!("{by} was heard {:?} after the crash", heard.since(crashed)));
    ensure!(rig.settled().await? == second, "it moved once more");
    rig.never_shared(from)?;

    // The host comes back as a candidate, and takes no VIP.
    let back = rig.revive(&first)?;
    pass(5).await;
    ensure!(rig.lab.agent(&first)?.is_running(), "the agent of {first} ended: {}", rig.logs());
    rig.still(&second, back)
}

async fn without_api(ctx: &mut Ctx<()>) -> Result<()> {
    let (mut rig, first) = ScenarioRig::usual(ctx).await?;
    // A node that knows nobody but the holder cannot tell the crash from its own being cut off.
    rig.all_take_part().await?;
    let (from, prober) = (now(), rig.prober()?);
    rig.lab.stop_all_apis()?;
    pass(3).await;
    let crashed = rig.crash(&first)?;
    let second = rig.successor(&first, Duration::from_secs(10)).await?;
    prober.answer_after(crashed, Some(&second), SOON).await?;
    pass(5).await;
    rig.never_shared(from)?;
    // The API returns: the Lease confirms the host that carries the VIP.
    for name in rig.lab.control_planes().into_iter().filter(|name| *name != first) {
        rig.lab.start_api(&name)?;
    }
    rig.settled().await?;
    rig.never_shared(from)
}
