//! What an allocator refuses is carried by no agent and is never adopted, in every placement. And a drained node without which a VIP
//! would be on no node.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::changes::{Both, POOLS};
use crate::ipam::server::{IPAM, kube_vip_placement_roles};
use crate::ipam::services::{ADDRESSES, ingress, said};
use crate::observe::echo;
use crate::observe::now;
use crate::rig::worker::{SOON, WorkerRig, vip};
use crate::runner::{Ctx, Test};
use crate::scenario::rig::pass;
use crate::scenario::story;

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("services", by_session, "refused-addresses-are-not-carried-by-sessions", 5),
        story!("services", by_lease, "refused-addresses-are-not-carried-by-the-shared-lease", 5),
        story!("services", by_leases, "refused-addresses-are-not-carried-by-a-lease-per-service", 5),
        story!("services", drained_by_session, "a-drained-node-keeps-what-no-other-may-have-by-sessions", 5),
        story!("services", drained_by_leases, "a-drained-node-keeps-what-no-other-may-have-by-a-lease-per-service", 5),
    ]
}

/// How long a wrong address is looked for: agents take a free one within a second, and look again at a busy one every ten.
const WATCHED: u64 = 12;

async fn by_session(ctx: &mut Ctx<()>) -> Result<()> {
    refused(ctx, "session").await
}

async fn by_lease(ctx: &mut Ctx<()>) -> Result<()> {
    refused(ctx, "global-lease").await
}

async fn by_leases(ctx: &mut Ctx<()>) -> Result<()> {
    refused(ctx, "lease-per-service").await
}

/// The Services that are refused, each with the address that it asks for and the reason.
fn all_refused() -> [(&'static str, u8, &'static str); 4] {
    [
        ("outside", 6, "AddressNotInPool"),
        ("nowhere", 5, "PoolNotUsable"),
        ("moves", 7, "AddressNotInPool"),
        ("plane", 3, "AddressOfControlPlane"),
    ]
}

async fn refused(ctx: &mut Ctx<()>, placement: &str) -> Result<()> {
    let mut both = Both::set(ctx, placement).await?;
    // Nobody has the control plane's VIP at the moment, and a pool has it by mistake.
    let config = json!({"clusters": [{"name": "", "cluster": {"server": format!("https://{}:6443", vip(3))}}]});
    let info = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info"}, "data": {"kubeconfig": config.to_string()},
    });
    both.rig.server.create("/api/v1/namespaces/kube-public/configmaps", &info).await?;
    addresses(&both, &vip(4).to_string()).await?;
    both.make("moves", echo::PORT, json!({ADDRESSES: vip(0).to_string()})).await?;
    says(&both, "moves", "Advertised").await?;
    both.rig.settled(vip(0)).await?;

    both.make("outside", echo::PORT, json!({ADDRESSES: vip(6).to_string()})).await?;
    both.make("nowhere", echo::PORT, json!({ADDRESSES: vip(5).to_string(), "mooring.dev/pool": "nowhere"})).await?;
    both.asks("moves", vip(7)).await?;
    both.make("plane", echo::PORT, json!({ADDRESSES: vip(3).to_string()})).await?;
    stays_refused(&both).await.context("at first")?;
    // The next allocator finds what the last one said, and the next agents do.
    both.allocator.kill().await?;
    both.allocator.start_again()?;
    both.allocator.ready().await?;
    for node in &both.rig.nodes {
        both.rig.lab().agent(node)?.stop(Duration::from_secs(20)).await?;
    }
    both.rig.start_agents(&both.options)?;
    both.rig.settled(vip(0)).await?;
    stays_refused(&both).await.context("after all programs were started again")?;

    // A refusal ends when its cause does.
    addresses(&both, &format!("{}-{}", vip(4), vip(7))).await?;
    both.shows("outside", &[vip(6)]).await?;
    both.rig.settled(vip(6)).await?;
    let at = now();
    both.shows("moves", &[vip(7)]).await?;
    both.moved("moves", vip(0), vip(7), at).await?;
    both.allocator.stop().await
}

/// Edits the addresses of the pool `other`.
async fn addresses(both: &Both, all: &str) -> Result<()> {
    let spec = json!({"spec": {"addresses": [all]}});
    both.rig.server.merge(&format!("{IPAM}/v1alpha2/{POOLS}/other"), &spec).await.map(drop)?;
    Ok(())
}

/// Waits until the condition of a Service has that reason.
async fn says(both: &Both, name: &str, reason: &str) -> Result<()> {
    let deadline = now() + SOON;
    loop {
        let service = both.get(name).await?;
        if said(&service).is_some_and(|(_, why, _)| why == reason) {
            return Ok(());
        }
        ensure!(now() < deadline, "{name} does not say {reason}: {service}; {}", both.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// All are refused, and say why; no node carries their addresses, and no status shows them.
async fn stays_refused(both: &Both) -> Result<()> {
    for (name, n, reason) in all_refused() {
        says(both, name, reason).await?;
        // Before it was refused, an agent may have taken it.
        both.gone(vip(n)).await?;
    }
    let from = now();
    pass(WATCHED).await;
    for (name, n, reason) in all_refused() {
        let service = both.get(name).await?;
        ensure!(said(&service).is_some_and(|(ready, why, _)| !ready && why == reason), "{name}: {service}");
        let wrong = vip(n).to_string();
        ensure!(!ingress(&service).contains(&wrong), "the status of {name} shows {wrong}: {service}");
        carried_by_none(both, vip(n), from)?;
    }
    let service = both.get("moves").await?;
    ensure!(ingress(&service) == [vip(0).to_string()], "it does not keep its address: {service}");
    both.rig.never_gone(vip(0), from)?;
    let objects = both.rig.server.get(&format!("{IPAM}/v1beta2/ipaddresses")).await?;
    let given: Vec<IpAddr> = objects["items"]
        .as_array()
        .context("no list")?
        .iter()
        .filter_map(|one| one["spec"]["address"].as_str()?.parse().ok())
        .collect();
    ensure!(given == [vip(0)], "addresses were given: {given:?}; {}", both.logs());
    Ok(())
}

fn carried_by_none(both: &Both, address: IpAddr, from: mooring_agent::core::time::Time) -> Result<()> {
    let timeline = both.rig.timeline(address);
    let wrong: Vec<_> = timeline.holds().iter().filter(|hold| hold.to.is_none_or(|to| to > from)).collect();
    ensure!(wrong.is_empty(), "{address} was carried: {wrong:?}; {}", both.logs());
    Ok(())
}

async fn drained_by_session(ctx: &mut Ctx<()>) -> Result<()> {
    drained(ctx, "session").await
}

async fn drained_by_leases(ctx: &mut Ctx<()>) -> Result<()> {
    drained(ctx, "lease-per-service").await
}

/// The only node with an endpoint of a Service with the policy `Local` is drained: the VIP stays. With a second endpoint it moves.
async fn drained(ctx: &mut Ctx<()>, placement: &str) -> Result<()> {
    let rig = WorkerRig::set(ctx, 3, 2, true).await?;
    for object in kube_vip_placement_roles(true)? {
        rig.server.apply(&object).await.context("the role is refused")?;
    }
    rig.start_agents(&WorkerRig::options().env("MOORING_SERVICES_PLACEMENT", placement))?;
    for n in 0..2 {
        rig.make(n, "Local").await?;
        rig.endpoints(n, &[("w1", true)]).await?;
        ensure!(rig.settled(vip(n)).await? == "w1", "only w1 has an endpoint; {}", rig.logs());
    }
    let drain = |text: Option<&str>| json!({"metadata": {"annotations": {"mooring.dev/drain": text}}});
    let from = now();
    rig.server.merge("/api/v1/nodes/w1", &drain(Some("true"))).await?;
    pass(8).await;
    for n in 0..2 {
        rig.never_gone(vip(n), from)?;
        ensure!(rig.settled(vip(n)).await? == "w1", "it moved; {}", rig.logs());
    }
    // Another node may have the first now.
    rig.endpoints(0, &[("w1", true), ("w2", true)]).await?;
    ensure!(rig.settled_but(vip(0), &["w1"]).await? == "w2");
    // Only the drained node may have it: it takes it back.
    rig.endpoints(0, &[("w1", true)]).await?;
    ensure!(rig.settled_but(vip(0), &["w2"]).await? == "w1");
    rig.server.merge("/api/v1/nodes/w1", &drain(None)).await?;
    rig.never_gone(vip(1), from)?;
    for n in 0..2 {
        rig.never_shared(vip(n), from)?;
    }
    Ok(())
}
