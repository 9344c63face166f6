//! The control plane's VIP is named by an `IPAddress`, not by the settings.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::json;

use super::scene::pass;
use super::services::field::{Field, SOON, vip};
use super::story;
use crate::agents::AgentOptions;
use crate::ipam::server::IPAM;
use crate::observe::now;
use crate::runner::{Ctx, Test};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![story!("named", named, "control-plane-vip-named-by-its-ipaddress", 5)]
}

/// As on a control plane's host, with a VIP that an object names.
fn options(field: &Field) -> Result<AgentOptions> {
    let api = field.lab().cluster()?.servers().first().cloned().context("no API server")?;
    let options = Field::options()
        .env("address", "ipaddress:default/api")
        .env("cp_enable", "true")
        .env("svc_enable", "false")
        .env("MOORING_API_SERVERS", &api)
        .env("MOORING_HEALTH_ADDRESS", format!("{api}/readyz"));
    Ok(AgentOptions { kubeconfig: Some(field.lab().dir().join("super-admin.conf")), ..options })
}

async fn waits_for(field: &Field, part: &str) -> Result<()> {
    let deadline = now() + 2 * SOON;
    loop {
        let waits = match field.status("w1").await {
            Ok(status) => status.waits,
            // It has only begun.
            Err(error) => vec![error.to_string()],
        };
        if waits.iter().any(|one| one.contains("IPAddress default/api") && one.contains(part)) {
            return Ok(());
        }
        ensure!(now() < deadline, "it does not wait for {part:?}, but {waits:?}; {}", field.logs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn carries(field: &Field, vip: IpAddr) -> Result<()> {
    let deadline = now() + 2 * SOON;
    while field.timeline(vip).holders_at(now()).len() != 1 {
        ensure!(now() < deadline, "{vip} is not carried; {}", field.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn named(ctx: &mut Ctx<()>) -> Result<()> {
    let field = Field::set(ctx, 2, 2, false).await?;
    field.start_agents(&options(&field)?)?;
    waits_for(&field, "no kind IPAddress").await?;
    field.install_kind().await?;
    waits_for(&field, "does not exist").await?;
    // One that may yet be withdrawn is not taken.
    let claim = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "metadata": {"name": "api"},
        "spec": {"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": "pool"}},
    });
    let claims = format!("{IPAM}/v1beta2/namespaces/default/ipaddressclaims");
    field.server.create(&claims, &claim).await?;
    field.make_address_of("api", vip(0), &json!({"mooring.dev/advertise": "true"}), &json!({})).await?;
    waits_for(&field, "take the label off").await?;
    let unlabelled = json!({"metadata": {"labels": {"mooring.dev/advertise": null}}});
    field.server.merge(&Field::address_path("api"), &unlabelled).await?;
    waits_for(&field, "not bound").await?;
    ensure!(field.timeline(vip(0)).holds().is_empty(), "carried too early; {}", field.logs());
    let bound = json!({"status": {"addressRef": {"name": "api"}}});
    field.server.merge(&format!("{claims}/api/status"), &bound).await?;
    carries(&field, vip(0)).await?;
    let holder = field.settled(vip(0)).await?;
    let status = field.status(&holder).await?;
    ensure!(status.waits.is_empty(), "{:?}", status.waits);
    // The API is away, and the agent starts anew: it knows what it was told.
    let from = now();
    let peer = field.nodes.iter().find(|node| **node != holder).context("no peer")?.clone();
    field.lab().agent(&peer)?.stop(Duration::from_secs(15)).await?;
    field.lab().stop_all_apis()?;
    let agent = field.lab().agent(&holder)?;
    agent.kill()?;
    agent.process()?.ended(SOON).await?;
    agent.start_again()?;
    pass(25).await;
    ensure!(field.settled(vip(0)).await? == holder);
    field.never_gone(vip(0), from)?;
    field.lab().start_all_apis()?;
    // An API server that has only begun denies every kind.
    let deadline = now() + SOON;
    while let Err(refused) = field.server.get(&Field::address_path("api")).await {
        ensure!(now() < deadline, "the API does not come back: {refused}");
        pass(1).await;
    }
    carries(&field, vip(0)).await?;
    // It is deleted, and made again with another address: told, and nothing moves.
    field.server.delete(&Field::address_path("api")).await?;
    field.make_address_of("api", vip(1), &json!({}), &json!({})).await?;
    told(&field, "made again with the address").await?;
    field.never_gone(vip(0), from)?;
    ensure!(field.timeline(vip(1)).holds().is_empty(), "two VIPs; {}", field.logs());
    // A new start goes by what is there.
    field.lab().agent(&holder)?.stop(Duration::from_secs(15)).await?;
    field.start_agents(&options(&field)?)?;
    carries(&field, vip(1)).await?;
    ensure!(field.timeline(vip(0)).holders_at(now()).is_empty(), "still there; {}", field.logs());
    field.never_shared(vip(1), from)
}

/// Waits for the Event; it is looked at every half minute.
async fn told(field: &Field, part: &str) -> Result<()> {
    let deadline = now() + Duration::from_mins(1);
    loop {
        let path = "/apis/events.k8s.io/v1/namespaces/default/events";
        let list = field.server.ask(Method::GET, path, None, "application/json").await?;
        let all = list["items"].as_array().cloned().unwrap_or_default();
        let notes: Vec<&str> =
            all.iter().filter(|one| one["regarding"]["name"] == "api").filter_map(|one| one["note"].as_str()).collect();
        if notes.iter().any(|note| note.contains(part)) {
            return Ok(());
        }
        ensure!(now() < deadline, "no Event with {part:?}, only {notes:?}; {}", field.logs());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
