//! Other hosts claim the address.

use anyhow::{Result, ensure};
use mooring_agent::core::time::Time;

use super::rig::{SOON, ScenarioRig, pass};
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
    let rig = ScenarioRig::set(ctx, Shape::external(), AgentOptions::default()).await?;
    let vip = rig.lab.vip();
    rig.lab.stranger(vip, true)?;
    rig.start_agents()?;
    pass(10).await;
    let holds = rig.timeline();
    ensure!(holds.holds().is_empty(), "taken from a stranger: {:?}; {}", holds.holds(), rig.logs());
    rig.event("ForeignOwner", SOON).await?;
    // The stranger leaves: the VIP is free.
    rig.lab.stranger_leaves(vip)?;
    rig.settled().await.map(drop)
}

async fn touched(ctx: &mut Ctx<()>) -> Result<()> {
    let (rig, holder) = ScenarioRig::usual(ctx).await?;
    let vip = rig.lab.vip();
    let prober = rig.prober()?;
    prober.answer_after(now(), None, SOON).await?;

    let deleted = now();
    rig.lab.delete_address(&holder, vip)?;
    rig.addresses.event("its return", deleted, SOON, |e| *e.host == *holder && e.change == Change::Added).await?;
    prober.answer_after(now(), Some(&holder), SOON).await?;
    ensure!(rig.settled().await? == holder, "it moved");
    rig.event("AddressRestored", SOON).await?;

    // A stranger claims the VIP once: the holder answers at once with its own claim.
    rig.lab.add_host("claimant", 98)?;
    let mac = rig.lab.host(&holder)?.mac();
    let claimed = rig.lab.announce("claimant", vip)?;
    let defence = |at: Time| rig.tap.announcements(vip, at, Some(mac));
    rig.tap.frame("a defence", claimed, SOON, |frame| frame.announces(vip) && frame.source == mac).await?;
    prober.answer_after(now(), Some(&holder), SOON).await?;
    rig.event("AddressDefended", SOON).await?;
    // Rate-limited: the holder does not answer each of many claims in a row (RFC 5227, 2.4: one in 10 s).
    let from = now();
    for _ in 0..50 {
        rig.lab.announce("claimant", vip)?;
    }
    pass(1).await;
    ensure!(defence(from).len() < 25, "{} announcements against 50 claims", defence(from).len());
    pass(5).await;
    prober.answer_after(now(), Some(&holder), SOON).await?;
    ensure!(rig.settled().await? == holder, "it moved");
    Ok(())
}
