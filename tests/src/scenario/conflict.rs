//! Others touch the address.

use anyhow::{Result, ensure};
use mooring_agent::core::time::Time;

use super::scene::{SOON, Scene, pass};
use super::story;
use crate::agents::AgentOptions;
use crate::lab::Shape;
use crate::observe::addresses::Change;
use crate::observe::now;
use crate::runner::{Ctx, Test};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("conflict", foreign_before, "foreign-owner-before", 3),
        story!("conflict", touched, "address-deleted-then-claimed", 3),
    ]
}

async fn foreign_before(ctx: &mut Ctx<()>) -> Result<()> {
    let scene = Scene::set(ctx, Shape::external(), AgentOptions::default()).await?;
    let vip = scene.lab.vip();
    scene.lab.stranger(vip, true)?;
    scene.start_agents()?;
    pass(10).await;
    let holds = scene.timeline();
    ensure!(holds.holds().is_empty(), "taken from a stranger: {:?}; {}", holds.holds(), scene.logs());
    scene.told("ForeignOwner", SOON).await?;
    // It leaves: the VIP is free.
    scene.lab.stranger_leaves(vip)?;
    scene.settled().await.map(drop)
}

async fn touched(ctx: &mut Ctx<()>) -> Result<()> {
    let (scene, holder) = Scene::usual(ctx).await?;
    let vip = scene.lab.vip();
    let prober = scene.prober()?;
    prober.answer_after(now(), None, SOON).await?;

    let deleted = now();
    scene.lab.delete_address(&holder, vip)?;
    scene.addresses.event("its return", deleted, SOON, |e| *e.host == *holder && e.change == Change::Added).await?;
    prober.answer_after(now(), Some(&holder), SOON).await?;
    ensure!(scene.settled().await? == holder, "it moved");
    scene.told("AddressRestored", SOON).await?;

    // A stranger that claims it once: the holder says at once that it is his.
    scene.lab.add_host("claimant", 98)?;
    let mac = scene.lab.host(&holder)?.mac();
    let claimed = scene.lab.announce("claimant", vip)?;
    let defence = |at: Time| scene.tap.announcements(vip, at, Some(mac));
    scene.tap.frame("a defence", claimed, SOON, |frame| frame.announces(vip) && frame.source == mac).await?;
    prober.answer_after(now(), Some(&holder), SOON).await?;
    scene.told("AddressDefended", SOON).await?;
    // Rate-limited: claims as fast as they come are not answered one by one (RFC 5227, 2.4: one in 10 s).
    let from = now();
    for _ in 0..50 {
        scene.lab.announce("claimant", vip)?;
    }
    pass(1).await;
    ensure!(defence(from).len() < 25, "{} announcements against 50 claims", defence(from).len());
    pass(5).await;
    prober.answer_after(now(), Some(&holder), SOON).await?;
    ensure!(scene.settled().await? == holder, "it moved");
    Ok(())
}
