//! The API server on the holder's own node, or elsewhere.

use std::fs;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Endpoints;
use kube::api::DeleteParams;
use kube::{Api, Client};

use super::rig::{SOON, ScenarioRig, pass};
use super::story;
use crate::agents::AgentOptions;
use crate::cluster::API_SERVER;
use crate::lab::Shape;
use crate::observe::now;
use crate::runner::{Ctx, Test};
use crate::segment::{Nic, Segment};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("health", own_api_dead, "own-api-server-dead-moves-the-vip", 3),
        story!("health", elsewhere, "api-servers-on-another-port-and-interface", 4),
        story!("health", external, "nodes-without-an-api-server", 3),
    ]
}

async fn own_api_dead(ctx: &mut Ctx<()>) -> Result<()> {
    let (rig, first) = ScenarioRig::elected(ctx, Shape::stacked(), AgentOptions::default()).await?;
    let (from, https) = (now(), rig.https()?);
    https.success_after(from, SOON).await?;
    // An agent must have found its own API server healthy before a failure of that API server counts.
    pass(3).await;
    let killed = rig.lab.stop_api(&first)?;
    let second = rig.successor(&first, Duration::from_secs(15)).await?;
    ctx.note(&format!("{second} took it {:?} after the API server of {first} died", now().since(killed)));
    https.success_after(now(), SOON).await?;
    rig.settled().await?;
    rig.never_shared(from)?;

    // Now every API server fails: no host is better than the holder, so the VIP stays.
    let holder = rig.holder().await?;
    let from = now();
    for name in rig.lab.control_planes().into_iter().filter(|name| *name != first) {
        rig.lab.stop_api(&name)?;
    }
    pass(10).await;
    rig.still(&holder, from)
}

/// VIPs on eth0, API servers on eth1 and on another port than the VIP's. The holder's API server dies: the VIP moves, because
/// each node's API server is found where `default/kubernetes` lists it.
async fn elsewhere(ctx: &mut Ctx<()>) -> Result<()> {
    const PORT: u16 = 6444;
    let rig = ScenarioRig::set(ctx, Shape::external(), AgentOptions::default()).await?;
    let network = Segment::new()?;
    let names = rig.lab.control_planes();
    for (n, name) in (1_u8..).zip(&names) {
        rig.lab.wear(name);
        let host = rig.lab.host(name)?;
        let address = Ipv4Addr::new(10, 88, 0, 10 + n);
        Nic::elsewhere(&host, 10 + n).plug(host.netns(), &network)?;
        let api = host.process(API_SERVER)?;
        // SIGTERM: it takes its old address from the list.
        api.terminate()?;
        api.ended(Duration::from_secs(90)).await?;
        let mut spec = api.spec();
        for arg in &mut spec.argv {
            if arg.starts_with("--advertise-address=") {
                *arg = format!("--advertise-address={address}");
            } else if arg.starts_with("--secure-port=") {
                *arg = format!("--secure-port={PORT}");
            }
        }
        host.start(spec)?;
    }
    let cluster = rig.lab.cluster()?;
    let (admin, server) = (cluster.pki().admin()?, format!("https://10.77.0.11:{PORT}"));
    listed_on(&cluster.client(&admin, &server).await?, names.len(), PORT).await?;
    let kubeconfig = rig.lab.dir().join("elsewhere.conf");
    fs::write(&kubeconfig, cluster.pki().kubeconfig(&admin, &server)?)?;
    let options = AgentOptions { kubeconfig: Some(kubeconfig), ..AgentOptions::default() };
    for name in &names {
        rig.lab.agent(name)?.start(options.clone())?;
    }
    let first = rig.holder().await?;
    let prober = rig.prober()?;
    prober.answer_after(now(), Some(&first), SOON).await?;
    // All take part, and every API server is listed and was found healthy.
    for name in &names {
        let log = rig.lab.agent(name)?.process()?.log().to_owned();
        let found = |text: &str| text.contains("this node's API server") && text.contains("API server is healthy");
        let deadline = now() + Duration::from_mins(1);
        while !fs::read_to_string(&log).is_ok_and(|text| found(&text)) {
            ensure!(now() < deadline, "{name} has not found its API server; {}", rig.logs());
            pass(1).await;
        }
    }
    pass(2).await;
    let from = now();
    rig.lab.stop_api(&first)?;
    let second = rig.successor(&first, Duration::from_secs(15)).await?;
    ctx.note(&format!("{second} took it {:?} after the API server of {first} died", now().since(from)));
    prober.answer_after(now(), Some(&second), SOON).await?;
    rig.never_shared(from)
}

/// Waits until `default/kubernetes` lists this many API servers on this port. An API server corrects the port only once, when
/// it starts, and not if that write meets another one's: then the list is deleted, and the API servers make a new one.
async fn listed_on(client: &Client, many: usize, port: u16) -> Result<()> {
    let lists = Api::<Endpoints>::namespaced(client.clone(), "default");
    let deadline = now() + Duration::from_mins(1);
    loop {
        let list = tokio::time::timeout(SOON, lists.get_opt("kubernetes")).await;
        let subsets = list.ok().and_then(Result::ok).flatten().and_then(|list| list.subsets).unwrap_or_default();
        let mut ports = subsets.iter().flat_map(|subset| subset.ports.iter().flatten());
        let on_port = ports.any(|one| one.port == i32::from(port));
        let listed = subsets.iter().flat_map(|subset| subset.addresses.iter().flatten()).count();
        if listed == many && on_port {
            return Ok(());
        }
        ensure!(now() < deadline, "default/kubernetes lists {subsets:?}");
        if listed == many && !on_port {
            // Another one may have deleted it, or the API server may not answer yet: the next round sees.
            tokio::time::timeout(SOON, lists.delete("kubernetes", &DeleteParams::default())).await.ok();
        }
        pass(1).await;
    }
}

/// API servers are on other hosts than the VIP: health keeps nobody from carrying it, and a crash is noticed as fast as ever.
async fn external(ctx: &mut Ctx<()>) -> Result<()> {
    let shape = Shape::api_servers(1).with_host("n1", 61).with_host("n2", 62).with_host("n3", 63);
    let mut rig = ScenarioRig::set(ctx, shape, AgentOptions::default()).await?;
    let cluster = rig.lab.cluster()?;
    let server = cluster.servers().first().cloned().context("no API server")?;
    let kubeconfig = rig.lab.dir().join("external.conf");
    fs::write(&kubeconfig, cluster.pki().kubeconfig(&cluster.pki().admin()?, &server)?)?;
    let options = AgentOptions { kubeconfig: Some(kubeconfig), ..AgentOptions::default() };
    let started = now();
    for name in ["n1", "n2", "n3"] {
        rig.observe(name)?;
        rig.lab.agent(name)?.start(options.clone())?;
    }
    let first = rig.settled().await?;
    ctx.note(&format!("{first} carries it {:?} after the start", now().since(started)));
    // The others take part by then, and have heard the holder.
    pass(3).await;
    let at = rig.crash(&first)?;
    let second = rig.successor(&first, SOON).await?;
    ctx.note(&format!("{second} took it {:?} after {first} crashed", now().since(at)));
    rig.settled().await?;
    Ok(())
}
