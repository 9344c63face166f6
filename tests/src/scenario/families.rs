//! IPv6, and both families at once.

use anyhow::{Result, ensure};
use mooring_agent::core::time::Time;

use super::scene::{SOON, Scene};
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
    let (mut scene, first) = Scene::elected(ctx, shape, AgentOptions::default()).await?;
    let (vip, from) = (scene.lab.vip(), now());
    ensure!(!scene.tap.announcements(vip, Time::from_nanos(0), None).is_empty(), "no advertisement of {vip}");
    let prober = scene.prober()?;
    let crashed = scene.crash(&first)?;
    let second = scene.successor(&first, SOON).await?;
    prober.answer_after(crashed, Some(&second), SOON).await?;
    scene.https()?.success_after(now(), SOON).await?;
    scene.never_shared(from)
}

async fn both(ctx: &mut Ctx<()>) -> Result<()> {
    let shape = Shape::external();
    let options = AgentOptions::default().vips(shape.vips.clone());
    let (mut scene, first) = Scene::elected(ctx, shape, options).await?;
    let vips = scene.lab.vips().to_vec();
    for vip in &vips {
        scene.addresses.held_by(*vip, &first, SOON).await?;
    }
    let crashed = scene.crash(&first)?;
    let second = scene.successor(&first, SOON).await?;
    for vip in vips {
        scene.prober_of(vip)?.answer_after(crashed, Some(&second), SOON).await?;
    }
    ensure!(scene.settled().await? == second, "it moved once more");
    Ok(())
}
