//! What agents tell: of themselves at start, of another agent on the node, of annotations that they do not honour.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::agents::AGENT;
use crate::host::Spec;
use crate::observe::now;
use crate::rig::worker::{SOON, WorkerRig, vip};
use crate::runner::{Ctx, Test};
use crate::scenario::rig::{pass, says};
use crate::scenario::story;

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![story!("services", told, "what-agents-tell", 4)]
}

/// `status --cluster` from a host that runs no agent: as the agents' own status, and what is not allowed is named.
async fn cluster(rig: &WorkerRig) -> Result<()> {
    let host = rig.lab().host("w1")?;
    let spec = Spec::new("cluster", rig.lab().agent_binary()?)
        .args(["status", "--cluster", "-o", "json", "--kubeconfig"])
        .arg(host.dir().join("agent.conf").display().to_string());
    let process = host.start(spec)?;
    let (how, _) = process.ended(SOON).await?;
    let text = std::fs::read_to_string(process.log())?;
    let status: serde_json::Value = serde_json::from_str(&text).with_context(|| format!("{how}: {text}"))?;
    let rows = status["vips"].as_array().context("no VIPs")?;
    ensure!(rows.len() == 2, "{text}");
    for row in rows {
        let holder = row["holder"].as_str().context("no holder")?;
        ensure!(row["state"] == "carried" && row["services"][0].is_string(), "{row}");
        let mut next: Vec<_> = row["next"].as_array().into_iter().flatten().filter_map(|one| one.as_str()).collect();
        next.sort_unstable();
        let others: Vec<_> = ["w1", "w2", "w3"].into_iter().filter(|name| *name != holder).collect();
        ensure!(next == others, "{row}");
        let address: std::net::IpAddr = row["address"].as_str().context("no address")?.parse()?;
        let own = rig.status(holder).await?.services.context("its own status has no Services")?;
        ensure!(own.vips.iter().any(|one| one.address == address && one.carried.is_some()), "{row}: {own:?}");
    }
    ensure!(status["nodes"].as_array().map(Vec::len) == Some(3), "{text}");
    // The workers' account may not read the control plane's Lease.
    ensure!(status["unread"].to_string().contains("the control plane's Lease"), "{text}");
    Ok(())
}

async fn told(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::set(ctx, 3, 2, true).await?;
    rig.start_agents(&WorkerRig::options())?;
    let agents = ["w1", "w2", "w3"].map(|name| rig.lab().process(name, AGENT));
    let agents = agents.into_iter().collect::<Result<Vec<_>, _>>()?;
    for agent in &agents {
        says(agent, "mooring-agent starts").await?;
        says(agent, concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"")).await?;
        says(agent, "(environment MOORING_SERVICES)").await?;
    }

    // One Service asks for what Mooring does not do. Each agent tells it, and there is one Event.
    for n in 0..2 {
        rig.make(n, "Cluster").await?;
    }
    let vlan = json!({"metadata": {"annotations": {"kube-vip.io/serviceVLAN": "eth0.200"}}});
    rig.server.merge("/api/v1/namespaces/default/services/s0", &vlan).await?;
    for agent in &agents {
        says(agent, "kube-vip.io/serviceVLAN has no effect: ").await?;
    }
    rig.settled(vip(0)).await?;
    let told = || async {
        let events = rig.server.get("/apis/events.k8s.io/v1/namespaces/default/events").await?;
        let all = events["items"].as_array().cloned().unwrap_or_default();
        let of = all.into_iter().filter(|event| event["reason"] == "AnnotationNotHonoured");
        anyhow::Ok(
            of.map(|event| event["regarding"]["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>(),
        )
    };
    let deadline = now() + SOON;
    while told().await?.is_empty() {
        ensure!(now() < deadline, "there is no Event; {}", rig.logs());
        pass(1).await;
    }
    // Time for the other two, whose Events the API server refuses.
    pass(2).await;
    ensure!(told().await? == ["s0"], "{:?}", told().await?);

    cluster(&rig).await?;

    // A second agent on a node waits, and serves when the first has ended.
    let (host, socket) = (rig.lab().host("w1")?, rig.lab().host("w1")?.dir().join("second.sock"));
    let spec = Spec::new("second", rig.lab().agent_binary()?)
        .arg("run")
        .env("k8s_config_file", host.dir().join("agent.conf").display().to_string())
        .env("vip_nodename", "w1")
        .env("MOORING_SERVICES", "on")
        .env("MOORING_METRICS", "off")
        .env("MOORING_STATUS_SOCKET", socket.display().to_string());
    let second = host.start(spec)?;
    says(&second, "waiting: another mooring-agent (pid ").await?;
    agents[0].terminate()?;
    agents[0].ended(SOON).await?;
    says(&second, "interfaces for VIPs of Services").await?;
    second.terminate()?;
    second.ended(SOON).await?;
    Ok(())
}
