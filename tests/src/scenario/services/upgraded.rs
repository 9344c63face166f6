//! Agents that publish no member objects are replaced, node by node, by agents that do.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::agents::AgentOptions;
use crate::assets::{self, BEFORE_MEMBERS, earlier_agent};
use crate::observe::now;
use crate::rig::worker::{SOON, WorkerRig, vip};
use crate::runner::{Ctx, Skip, Test};
use crate::scenario::rig::pass;
use crate::scenario::story;

/// How long the end of a process may take.
const ENDED: Duration = Duration::from_secs(20);
/// VIPs; more than nodes.
const VIPS: u8 = 8;
/// The others see on the segment that a node died, and do not wait for its session to expire after 15 s. Far more than they need, for
/// machines that are slow.
const FOUND: Duration = Duration::from_secs(8);

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![story!("services", node_by_node, "agents-of-before-are-replaced-node-by-node", 10).counting()]
}

async fn node_by_node(ctx: &mut Ctx<()>) -> Result<()> {
    let before = tokio::task::spawn_blocking(|| earlier_agent(BEFORE_MEMBERS)).await?;
    let before = before.map_err(|error| match error {
        assets::Error::History { .. } => anyhow::Error::new(Skip(error.to_string())),
        other => other.into(),
    })?;
    let of_before = AgentOptions { binary: Some(before), ..WorkerRig::options() };
    let mut rig = WorkerRig::set(ctx, 4, VIPS, true).await?;
    rig.start_agents(&of_before)?;
    for n in 0..VIPS {
        rig.make(n, "Cluster").await?;
    }
    for vip in rig.vips() {
        rig.settled(*vip).await?;
    }
    ensure!(members(&rig).await?.is_empty(), "an agent of before has a member object");
    pass(5).await;
    let from = now();
    let prober = rig.prober(vip(0))?;
    prober.answer_after(now(), None, SOON).await?;

    replace(&rig, "w1").await?;
    // The others see by its Lease that it ended, and that it is back.
    takes_part(&rig, "w1", "w2").await?;
    replace(&rig, "w2").await?;
    takes_part(&rig, "w2", "w3").await?;
    takes_part(&rig, "w3", "w2").await?;
    for vip in rig.vips() {
        rig.settled(*vip).await?;
        rig.never_gone(*vip, from)?;
        rig.never_shared(*vip, from)?;
    }
    rig.nothing_lost(prober)?;

    // Of each kind one dies while the other kind is there.
    for victim in ["w4", "w1"] {
        let had = rig.carried_by(victim);
        ensure!(!had.is_empty(), "{victim} carries nothing; {}", rig.logs());
        crashed(ctx, &mut rig, victim, &had).await?;
        rig.revive(victim)?;
        // What has power again starts what is installed there: the agent that it had.
        takes_part(&rig, victim, "w2").await?;
        takes_part(&rig, victim, "w3").await?;
    }

    for vip in rig.vips() {
        rig.settled(*vip).await?;
    }
    let again = now();
    let prober = rig.prober(vip(0))?;
    prober.answer_after(now(), None, SOON).await?;
    for node in ["w3", "w4"] {
        replace(&rig, node).await?;
        takes_part(&rig, node, "w2").await?;
    }
    for vip in rig.vips() {
        rig.settled(*vip).await?;
        rig.never_gone(*vip, again)?;
        rig.never_shared(*vip, from)?;
    }
    rig.nothing_lost(prober)?;
    ensure!(members(&rig).await?.len() == rig.nodes.len(), "{:?}; {}", members(&rig).await?, rig.logs());
    // Now all are new.
    let victim = rig.settled(vip(0)).await?;
    let had = rig.carried_by(&victim);
    crashed(ctx, &mut rig, &victim, &had).await?;
    for vip in rig.vips() {
        rig.never_shared(*vip, from)?;
    }
    Ok(())
}

/// A node dies, and others carry its VIPs soon.
async fn crashed(ctx: &mut Ctx<()>, rig: &mut WorkerRig, victim: &str, had: &[IpAddr]) -> Result<()> {
    let crash = rig.crash(victim)?;
    for vip in had {
        rig.settled_but(*vip, &[victim]).await?;
    }
    let took = now().since(crash);
    ctx.note(&format!("{} VIPs of {victim} moved within {} ms", had.len(), took.as_millis()));
    ensure!(took < FOUND, "the VIPs of {victim} moved after {} ms; {}", took.as_millis(), rig.logs());
    Ok(())
}

/// As a `DaemonSet` does it: SIGTERM, and then the new program.
async fn replace(rig: &WorkerRig, node: &str) -> Result<()> {
    rig.lab().agent(node)?.stop(ENDED).await?;
    rig.start_agent(node, &WorkerRig::options())
}

/// Waits until a node ranks another one for each VIP, or that one holds it.
async fn takes_part(rig: &WorkerRig, node: &str, of: &str) -> Result<()> {
    let deadline = now() + 2 * SOON;
    loop {
        let vips = rig.status(of).await?.services.map(|all| all.vips).unwrap_or_default();
        let told = vips.iter().all(|one| one.holder == node || one.next.iter().any(|next| next == node));
        if told && vips.len() == usize::from(VIPS) {
            return Ok(());
        }
        ensure!(now() < deadline, "for {of}, {node} does not take part: {vips:?}; {}", rig.logs());
        pass(1).await;
    }
}

/// The names of all member objects.
async fn members(rig: &WorkerRig) -> Result<Vec<String>> {
    let list = rig.server.get("/api/v1/namespaces/mooring-system/configmaps?labelSelector=mooring.dev/member").await?;
    let items = list["items"].as_array().context("no list of ConfigMaps")?;
    Ok(items
        .iter()
        .filter_map(|one| one.pointer("/metadata/name").and_then(Value::as_str))
        .map(str::to_owned)
        .collect())
}
