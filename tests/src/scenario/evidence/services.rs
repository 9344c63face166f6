//! The same faults where nodes hold VIPs of Services: a node watches others, and ends the sessions of those that fall silent.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::busy;
use crate::fault::Probes;
use crate::observe::now;
use crate::rig::worker::{SOON, WorkerRig, vip};
use crate::runner::{Ctx, Test};
use crate::scenario::rig::pass;
use crate::scenario::story;

/// What the agent of a node says whose session another node ended.
const SESSION_ENDED: &str = "reason=\"SessionEnded\"";
/// A crash is noticed in this time: a session lasts 15 s without a renewal.
const EARLY: Duration = Duration::from_secs(8);

/// The stories of this theme. They cost as much time as those of the control plane, and one change serves both.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("evidence", mute, "services-mute-node-ends-no-session", 4).counting().nightly(),
        story!("evidence", filtered, "services-filter-by-arp-sender", 4).nightly(),
        story!("evidence", suppressed, "services-arp-suppression-and-a-crash", 4).nightly(),
    ]
}

/// The mute node's own VIPs move, as nobody can find them any more. It ends no session of a node that lives.
async fn mute(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::serving(ctx, 3, 6).await?;
    pass(5).await;
    let mute = rig.nodes.first().context("no node")?;
    let mut had = Vec::new();
    for vip in rig.vips() {
        let node = rig.settled(*vip).await?;
        if node != *mute {
            had.push((*vip, node, rig.prober(*vip)?));
        }
    }
    ensure!(!had.is_empty(), "{mute} carries all VIPs");
    for (_, _, prober) in &had {
        prober.answer_after(now(), None, SOON).await?;
    }
    let talk = busy(rig.lab(), &[])?;
    let from = rig.lab().mute(mute)?;
    ctx.note(&format!("{mute} is mute"));
    pass(20).await;
    drop(talk);
    none_ended(&rig, &[mute])?;
    for (vip, node, prober) in had {
        let timeline = rig.timeline(vip);
        let taken: Vec<_> = timeline.holds().iter().filter(|hold| hold.host != node).collect();
        ensure!(taken.is_empty(), "{vip} of {node} was taken: {taken:?}; {}", rig.logs());
        rig.never_gone(vip, from)?;
        rig.nothing_lost(prober)?;
    }
    Ok(())
}

/// Nothing moves while all live, with a gateway that has many hosts to ask for. A crash is noticed.
async fn filtered(ctx: &mut Ctx<()>) -> Result<()> {
    let mut rig = WorkerRig::set(ctx, 3, 3, true).await?;
    for node in &rig.nodes {
        let own = rig.lab().host(node)?.ip4();
        rig.lab().let_speak(node, &[rig.vips(), &[own.into()]].concat())?;
    }
    rig.start_agents(&WorkerRig::options())?;
    for n in 0..3 {
        rig.make(n, "Cluster").await?;
    }
    for vip in rig.vips() {
        rig.settled(*vip).await?;
    }
    let _talk = busy(rig.lab(), &[])?;
    pass(20).await;
    none_ended(&rig, &[])?;
    for vip in rig.vips() {
        let holds = rig.timeline(*vip).holds().len();
        ensure!(holds == 1, "{vip} moved: {holds} holds; {}", rig.logs());
    }
    crash(ctx, &mut rig).await
}

/// The switch answers for a node that crashed.
async fn suppressed(ctx: &mut Ctx<()>) -> Result<()> {
    let mut rig = WorkerRig::serving(ctx, 3, 3).await?;
    rig.lab().suppress_arp(Probes::Answered)?;
    pass(5).await;
    none_ended(&rig, &[])?;
    crash(ctx, &mut rig).await
}

/// A node crashes, and others carry its VIPs soon.
async fn crash(ctx: &Ctx<()>, rig: &mut WorkerRig) -> Result<()> {
    let victim = rig.settled(vip(0)).await?;
    let had = rig.carried_by(&victim);
    let crashed = rig.crash(&victim)?;
    for vip in had {
        let next = rig.settled_but(vip, &[&victim]).await?;
        let took = now().since(crashed);
        ctx.note(&format!("{next} carries {vip} {took:?} after {victim} crashed"));
        ensure!(took < EARLY, "{vip} came back after {took:?}; {}", rig.logs());
    }
    none_ended(rig, &[&victim])
}

/// Fails when the session of a node other than these was ended.
fn none_ended(rig: &WorkerRig, but: &[&str]) -> Result<()> {
    for node in rig.nodes.iter().filter(|node| !but.contains(&node.as_str())) {
        let log = fs::read_to_string(rig.lab().agent(node)?.process()?.log())?;
        ensure!(!log.contains(SESSION_ENDED), "the session of {node} was ended; {}", rig.logs());
    }
    Ok(())
}
