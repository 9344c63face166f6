//! An `IPAddress` names the control plane's VIP; the settings do not.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::json;

use super::rig::pass;
use super::story;
use crate::agents::AgentOptions;
use crate::ipam::server::IPAM;
use crate::observe::now;
use crate::rig::worker::{SOON, WorkerRig, vip};
use crate::runner::{Ctx, Test};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![story!("named", named, "control-plane-vip-named-by-its-ipaddress", 5)]
}

/// As on a control plane's host, with a VIP that an object names.
fn options(rig: &WorkerRig) -> Result<AgentOptions> {
    let api = rig.lab().cluster()?.servers().first().cloned().context("no API server")?;
    let options = WorkerRig::options()
        .env("address", "ipaddress:default/api")
        .env("cp_enable", "true")
        .env("svc_enable", "false")
        .env("MOORING_API_SERVERS", &api)
        .env("MOORING_HEALTH_ADDRESS", format!("{api}/readyz"));
    Ok(AgentOptions { kubeconfig: Some(rig.lab().dir().join("super-admin.conf")), ..options })
}

async fn waits_for(rig: &WorkerRig, part: &str) -> Result<()> {
    let deadline = now() + 2 * SOON;
    loop {
        let waits = match rig.status("w1").await {
            Ok(status) => status.waits,
            // The API server has only just started.
            Err(error) => vec![error.to_string()],
        };
        if waits.iter().any(|one| one.contains("IPAddress default/api") && one.contains(part)) {
            return Ok(());
        }
        ensure!(now() < deadline, "it does not wait for {part:?}, but {waits:?}; {}", rig.logs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The part that serves Services looks for the kind in its own time, up to half a minute later.
async fn waits_no_more(rig: &WorkerRig, node: &str) -> Result<()> {
    let deadline = now() + 3 * SOON;
    loop {
        let waits = rig.status(node).await?.waits;
        if waits.is_empty() {
            return Ok(());
        }
        ensure!(now() < deadline, "{node} waits: {waits:?}; {}", rig.logs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn carries(rig: &WorkerRig, vip: IpAddr) -> Result<()> {
    let deadline = now() + 2 * SOON;
    while rig.timeline(vip).holders_at(now()).len() != 1 {
        ensure!(now() < deadline, "{vip} is not carried; {}", rig.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn named(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::set(ctx, 2, 3, false).await?;
    rig.start_agents(&options(&rig)?)?;
    waits_for(&rig, "no kind IPAddress").await?;
    rig.install_kind().await?;
    waits_for(&rig, "does not exist").await?;
    // An address that may still be withdrawn is not used.
    let claim = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "metadata": {"name": "api"},
        "spec": {"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": "pool"}},
    });
    let claims = format!("{IPAM}/v1beta2/namespaces/default/ipaddressclaims");
    rig.server.create(&claims, &claim).await?;
    // Once the part that serves Services has found the kind, it carries this one: so it has an address of its own.
    rig.make_address_of("api", vip(2), &json!({"mooring.dev/advertise": "true"}), &json!({})).await?;
    waits_for(&rig, "take the label off").await?;
    let unlabelled = json!({"metadata": {"labels": {"mooring.dev/advertise": null}}});
    rig.server.merge(&WorkerRig::address_path("api"), &unlabelled).await?;
    waits_for(&rig, "not bound").await?;
    rig.server.delete(&WorkerRig::address_path("api")).await?;
    waits_for(&rig, "does not exist").await?;
    rig.make_address_of("api", vip(0), &json!({}), &json!({})).await?;
    waits_for(&rig, "not bound").await?;
    ensure!(rig.timeline(vip(0)).holds().is_empty(), "carried too early; {}", rig.logs());
    let bound = json!({"status": {"addressRef": {"name": "api"}}});
    rig.server.merge(&format!("{claims}/api/status"), &bound).await?;
    carries(&rig, vip(0)).await?;
    let holder = rig.settled(vip(0)).await?;
    waits_no_more(&rig, &holder).await?;
    // The API is away, and the agent restarts: it still knows the VIP.
    let from = now();
    let peer = rig.nodes.iter().find(|node| **node != holder).context("no peer")?.clone();
    rig.lab().agent(&peer)?.stop(Duration::from_secs(15)).await?;
    rig.lab().stop_all_apis()?;
    let agent = rig.lab().agent(&holder)?;
    agent.kill()?;
    agent.process()?.ended(SOON).await?;
    agent.start_again()?;
    pass(25).await;
    ensure!(rig.settled(vip(0)).await? == holder);
    rig.never_gone(vip(0), from)?;
    rig.lab().start_all_apis()?;
    // An API server that has just started denies every kind.
    let deadline = now() + SOON;
    while let Err(refused) = rig.server.get(&WorkerRig::address_path("api")).await {
        ensure!(now() < deadline, "the API does not come back: {refused}");
        pass(1).await;
    }
    carries(&rig, vip(0)).await?;
    // The object is deleted, and made again with another address: the agent reports it, and nothing moves.
    rig.server.delete(&WorkerRig::address_path("api")).await?;
    rig.make_address_of("api", vip(1), &json!({}), &json!({})).await?;
    told(&rig, "made again with the address").await?;
    rig.never_gone(vip(0), from)?;
    ensure!(rig.timeline(vip(1)).holds().is_empty(), "two VIPs; {}", rig.logs());
    // A restarted agent uses the current object.
    rig.lab().agent(&holder)?.stop(Duration::from_secs(15)).await?;
    rig.start_agents(&options(&rig)?)?;
    carries(&rig, vip(1)).await?;
    ensure!(rig.timeline(vip(0)).holders_at(now()).is_empty(), "still there; {}", rig.logs());
    rig.never_shared(vip(1), from)
}

/// Waits for the Event; the agent checks the object every half minute.
async fn told(rig: &WorkerRig, part: &str) -> Result<()> {
    let deadline = now() + Duration::from_mins(1);
    loop {
        let path = "/apis/events.k8s.io/v1/namespaces/default/events";
        let list = rig.server.ask(Method::GET, path, None, "application/json").await?;
        let all = list["items"].as_array().cloned().unwrap_or_default();
        let notes: Vec<&str> =
            all.iter().filter(|one| one["regarding"]["name"] == "api").filter_map(|one| one["note"].as_str()).collect();
        if notes.iter().any(|note| note.contains(part)) {
            return Ok(());
        }
        ensure!(now() < deadline, "no Event with {part:?}, only {notes:?}; {}", rig.logs());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
