//! Networks in which nodes do not hear each other's ARP, or hear answers of those who are gone.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::agents::AgentOptions;
use crate::fault::Probes;
use crate::lab::Shape;
use crate::observe::now;
use crate::observe::timeline::total;
use crate::runner::{Ctx, Test};
use crate::scenario::rig::{SOON, ScenarioRig, pass};
use crate::scenario::story;

/// Two owners for so long where neither hears the other, at most.
const UNHEARD: Duration = Duration::from_secs(8);

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("evidence", isolated, "isolated-ports-own-api-server-dead", 4),
        story!("evidence", suppressed, "arp-suppression-and-a-crash", 3),
        story!("evidence", foreign, "foreign-owner-whom-probes-do-not-reach", 3).nightly(),
    ]
}

/// The holder's API server dies. No node hears another one; their API servers answer.
async fn isolated(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = ScenarioRig::set(ctx, Shape::stacked(), AgentOptions::default()).await?;
    let names = rig.lab.control_planes();
    rig.lab.estrange(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
    rig.start_agents()?;
    let first = rig.settled().await?;
    let (from, https) = (now(), rig.https()?);
    https.success_after(from, SOON).await?;
    rig.all_take_part().await?;
    // An agent must have found its own API server healthy before a failure of that API server counts.
    pass(3).await;
    let killed = rig.lab.stop_api(&first)?;
    let second = rig.successor(&first, Duration::from_secs(15)).await?;
    ctx.note(&format!("{second} took it {:?} after the API server of {first} died", now().since(killed)));
    https.success_after(now(), SOON).await?;
    rig.settled().await?;
    pass(5).await;
    // The old holder cannot hear that the new one is there: it goes on for a moment.
    let shared = rig.timeline().two_owners(from, now());
    ensure!(total(&shared) < UNHEARD, "two owners: {shared:?}; {}", rig.logs());
    rig.still(&second, now())
}

/// The switch answers for a holder that crashed, with its MAC address. The Lease lasts 15 s.
async fn suppressed(ctx: &mut Ctx<()>) -> Result<()> {
    let (mut rig, first) = ScenarioRig::usual(ctx).await?;
    rig.all_take_part().await?;
    let prober = rig.prober()?;
    let from = rig.lab.suppress_arp(Probes::Answered)?;
    pass(10).await;
    rig.still(&first, from)?;
    let crashed = rig.crash(&first)?;
    let second = rig.successor(&first, Duration::from_secs(8)).await?;
    ctx.note(&format!("{second} took it {:?} after {first} crashed", now().since(crashed)));
    prober.answer_after(crashed, Some(&second), SOON).await?;
    rig.never_shared(from)?;
    pass(5).await;
    rig.still(&second, now())
}

/// Probes with the sender 0.0.0.0 to everybody are dropped, as by a bridge of Linux in an EVPN fabric. A foreign host has the VIP.
async fn foreign(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = ScenarioRig::set(ctx, Shape::external(), AgentOptions::default()).await?;
    let vip = rig.lab.vip();
    rig.lab.stranger(vip, false)?;
    rig.lab.suppress_arp(Probes::Dropped)?;
    rig.start_agents()?;
    pass(10).await;
    let timeline = rig.timeline();
    ensure!(timeline.holds().is_empty(), "taken from a stranger: {:?}; {}", timeline.holds(), rig.logs());
    rig.event("ForeignOwner", SOON).await?;
    // The switch goes on answering for who has left: that is not judged here.
    rig.lab.heal_all()?;
    rig.lab.stranger_leaves(vip)?;
    rig.settled().await.map(drop)
}
