//! IPv6, and both families at once.

use anyhow::{Result, ensure};
use mooring_agent::core::time::Time;

use super::rig::{SOON, ScenarioRig};
use super::story;
use crate::agents::AgentOptions;
use crate::lab::Shape;
use crate::observe::now;
use crate::runner::{Ctx, Test};
use crate::segment;

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![story!("families", only_ipv6, "ipv6-only", 3), story!("families", both, "ipv4-and-ipv6-move-together", 3)]
}

async fn only_ipv6(ctx: &mut Ctx<()>) -> Result<()> {
    let mut shape = Shape::external();
    shape.vips = vec![segment::ip6(100).into()];
    let (mut rig, first) = ScenarioRig::elected(ctx, shape, AgentOptions::default()).await?;
    let (vip, from) = (rig.lab.vip(), now());
    ensure!(!rig.tap.announcements(vip, Time::from_nanos(0), None).is_empty(), "no advertisement of {vip}");
    let prober = rig.prober()?;
    let crashed = rig.crash(&first)?;
    let second = rig.successor(&first, SOON).await?;
    prober.answer_after(crashed, Some(&second), SOON).await?;
    rig.https()?.success_after(now(), SOON).await?;
    rig.never_shared(from)
}

async fn both(ctx: &mut Ctx<()>) -> Result<()> {
    let shape = Shape::external();
    let options = AgentOptions::default().vips(shape.vips.clone());
    let (mut rig, first) = ScenarioRig::elected(ctx, shape, options).await?;
    let vips = rig.lab.vips().to_vec();
    for vip in &vips {
        rig.addresses.held_by(*vip, &first, SOON).await?;
    }
    let crashed = rig.crash(&first)?;
    let second = rig.successor(&first, SOON).await?;
    for vip in vips {
        rig.prober_of(vip)?.answer_after(crashed, Some(&second), SOON).await?;
    }
    ensure!(rig.settled().await? == second, "it moved once more");
    Ok(())
}
