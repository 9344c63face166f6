//! Agents that publish no member objects are replaced, node by node, by agents that do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mooring_agent::core::session::{End, EndCause};
use mooring_names::sessions::{ENDED, LABEL, MEMBER, MEMBER_PREFIX, PREFIX, PUBLISHED};
use serde_json::Value;

use crate::agents::AgentOptions;
use crate::assets::{self, BEFORE_MEMBERS, earlier_agent};
use crate::observe::now;
use crate::rig::worker::{SOON, WorkerRig, vip};
use crate::runner::{Ctx, Skip, Test};
use crate::scenario::rig::pass;
use crate::scenario::story;

/// How long the end of a process may take.
const STOPPED: Duration = Duration::from_secs(20);
/// VIPs; more than nodes.
const VIPS: u8 = 8;
/// So many of them are there from the beginning. One of the others belongs to the first node that is upgraded: it has none after that.
const EARLY: u8 = 4;
/// The others see on the segment that a node died, and do not wait for its session to expire after 15 s. Far more than they need, for
/// machines that are slow.
const FOUND: Duration = Duration::from_secs(8);
/// Leases, and those of sessions among them.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/mooring-system/leases";
/// All member objects.
const MEMBERS: &str = "/api/v1/namespaces/mooring-system/configmaps";

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
    for n in 0..EARLY {
        rig.make(n, "Cluster").await?;
    }
    for n in 0..EARLY {
        rig.settled(vip(n)).await?;
    }
    publish(&rig, &[]).await?;
    pass(5).await;
    let from = now();
    let prober = rig.prober(vip(0))?;
    prober.answer_after(now(), None, SOON).await?;
    replace(&rig, "w1").await?;
    // The others see by its Lease that it ended, and that it is back.
    takes_part_in(&rig, "w1", "w2", EARLY).await?;
    for n in 0..EARLY {
        rig.settled(vip(n)).await?;
        rig.never_gone(vip(n), from)?;
    }
    rig.nothing_lost(prober)?;
    publish(&rig, &["w1"]).await?;

    // It dies while nobody but agents of before can end its session.
    for n in EARLY..VIPS {
        rig.make(n, "Cluster").await?;
    }
    for vip in rig.vips() {
        rig.settled(*vip).await?;
    }
    crashed(ctx, &mut rig, "w1", &["w1"]).await?;
    back(&mut rig, "w1", "w2").await?;
    publish(&rig, &["w1"]).await?;

    replaced(&rig, "w2", "w3").await?;
    publish(&rig, &["w1", "w2"]).await?;
    // Of each kind one dies while the other kind is there.
    for victim in ["w4", "w1"] {
        crashed(ctx, &mut rig, victim, &["w1", "w2"]).await?;
        back(&mut rig, victim, "w2").await?;
        takes_part(&rig, victim, "w3").await?;
        publish(&rig, &["w1", "w2"]).await?;
    }

    replaced(&rig, "w3", "w2").await?;
    publish(&rig, &["w1", "w2", "w3"]).await?;
    replaced(&rig, "w4", "w2").await?;
    let all = ["w1", "w2", "w3", "w4"];
    publish(&rig, &all).await?;
    for vip in rig.vips() {
        rig.never_shared(*vip, from)?;
    }
    let victim = rig.settled(vip(0)).await?;
    crashed(ctx, &mut rig, &victim, &all).await?;
    for vip in rig.vips() {
        rig.never_shared(*vip, from)?;
    }
    Ok(())
}

/// A node dies, another one ends its session, and others carry its VIPs soon. `publishing`: the nodes whose agents are not of before.
async fn crashed(ctx: &mut Ctx<()>, rig: &mut WorkerRig, victim: &str, publishing: &[&str]) -> Result<()> {
    let had = rig.carried_by(victim);
    ensure!(!had.is_empty(), "{victim} carries nothing; {}", rig.logs());
    let crash = rig.crash(victim)?;
    let mut holders = Vec::new();
    for vip in &had {
        holders.push(rig.settled_but(*vip, &[victim]).await?);
    }
    let took = now().since(crash);
    for (vip, holder) in had.iter().zip(&holders) {
        rig.prober(*vip)?.answer_after(now(), Some(holder.as_str()), SOON).await?;
    }

    let lease = rig.server.get(&format!("{LEASES}/{PREFIX}{victim}")).await?;
    let end = lease["metadata"]["annotations"][ENDED].as_str().with_context(|| format!("nobody ended it: {lease}"))?;
    let end: End = serde_json::from_str(end)?;
    ctx.note(&format!("{} VIPs of {victim} moved within {} ms, {end:?}", had.len(), took.as_millis()));
    ensure!(took < FOUND, "the VIPs of {victim} moved after {} ms; {}", took.as_millis(), rig.logs());
    ensure!(end.cause == EndCause::Abandoned && end.by != victim && rig.nodes.contains(&end.by), "{lease}");
    ensure!(lease["spec"]["holderIdentity"] == "", "{lease}");
    // One of before takes the mark off, and then all nodes see the Lease. Others leave it as it is.
    let marked = [victim, &end.by].iter().all(|node| publishing.contains(node));
    let mark = if marked { PUBLISHED } else { "" };
    ensure!(lease["metadata"]["labels"][LABEL] == mark, "{} has ended it: {lease}", end.by);
    for node in rig.nodes.iter().filter(|node| *node != victim) {
        is_out(rig, victim, node).await?;
    }
    Ok(())
}

/// Power is back. Then a node starts what is installed there: the agent that it had.
async fn back(rig: &mut WorkerRig, node: &str, of: &str) -> Result<()> {
    rig.revive(node)?;
    takes_part(rig, node, of).await
}

/// A node gets the new agent, and no VIP is without a holder meanwhile. It and another one see each other then.
async fn replaced(rig: &WorkerRig, node: &str, other: &str) -> Result<()> {
    for vip in rig.vips() {
        rig.settled(*vip).await?;
    }
    let from = now();
    let prober = rig.prober(vip(0))?;
    prober.answer_after(now(), None, SOON).await?;
    replace(rig, node).await?;
    takes_part(rig, node, other).await?;
    takes_part(rig, other, node).await?;
    for vip in rig.vips() {
        rig.settled(*vip).await?;
        rig.never_gone(*vip, from)?;
    }
    rig.nothing_lost(prober)
}

/// As a `DaemonSet` does it: SIGTERM, and then the new program.
async fn replace(rig: &WorkerRig, node: &str) -> Result<()> {
    rig.lab().agent(node)?.stop(STOPPED).await?;
    rig.start_agent(node, &WorkerRig::options())
}

/// Waits until a node ranks another one for each VIP, or that one holds it.
async fn takes_part(rig: &WorkerRig, node: &str, of: &str) -> Result<()> {
    takes_part_in(rig, node, of, VIPS).await
}

/// The same while so many VIPs are there.
async fn takes_part_in(rig: &WorkerRig, node: &str, of: &str, count: u8) -> Result<()> {
    let deadline = now() + 2 * SOON;
    loop {
        let vips = rig.status(of).await?.services.map(|all| all.vips).unwrap_or_default();
        let told = vips.iter().all(|one| one.holder == node || one.next.iter().any(|next| next == node));
        if told && vips.len() == usize::from(count) {
            return Ok(());
        }
        ensure!(now() < deadline, "for {of}, {node} does not take part: {vips:?}; {}", rig.logs());
        pass(1).await;
    }
}

/// Waits until a node neither ranks another one for any VIP, nor takes it for a holder.
async fn is_out(rig: &WorkerRig, node: &str, of: &str) -> Result<()> {
    let deadline = now() + SOON;
    loop {
        let vips = rig.status(of).await?.services.map(|all| all.vips).unwrap_or_default();
        let out = vips.iter().all(|one| one.holder != node && one.next.iter().all(|next| next != node));
        if out && vips.len() == usize::from(VIPS) {
            return Ok(());
        }
        ensure!(now() < deadline, "for {of}, {node} still takes part: {vips:?}; {}", rig.logs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until exactly these nodes have a member object, and their Leases say so.
async fn publish(rig: &WorkerRig, nodes: &[&str]) -> Result<()> {
    let mark = |node: &String| (node.clone(), if nodes.contains(&node.as_str()) { PUBLISHED } else { "" }.to_owned());
    let wanted: BTreeMap<String, String> = rig.nodes.iter().map(mark).collect();
    let deadline = now() + SOON;
    loop {
        let (members, marks) = (members(rig).await?, marks(rig).await?);
        if members.iter().map(String::as_str).eq(nodes.iter().copied()) && marks == wanted {
            return Ok(());
        }
        ensure!(
            now() < deadline,
            "{nodes:?} should publish, the member objects are {members:?}, the marks {marks:?}; {}",
            rig.logs()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The nodes that have a member object.
async fn members(rig: &WorkerRig) -> Result<BTreeSet<String>> {
    let list = rig.server.get(&format!("{MEMBERS}?labelSelector={MEMBER}")).await?;
    let items = list["items"].as_array().context("no list of ConfigMaps")?;
    let names = items.iter().filter_map(|one| one.pointer("/metadata/name").and_then(Value::as_str));
    Ok(names.filter_map(|name| name.strip_prefix(MEMBER_PREFIX)).map(str::to_owned).collect())
}

/// By node, what its session's Lease says of a member object.
async fn marks(rig: &WorkerRig) -> Result<BTreeMap<String, String>> {
    let list = rig.server.get(&format!("{LEASES}?labelSelector={LABEL}")).await?;
    let items = list["items"].as_array().context("no list of Leases")?;
    let mark = |one: &Value| {
        let node = one.pointer("/metadata/name")?.as_str()?.strip_prefix(PREFIX)?;
        Some((node.to_owned(), one["metadata"]["labels"][LABEL].as_str()?.to_owned()))
    };
    Ok(items.iter().filter_map(mark).collect())
}
