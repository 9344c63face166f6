//! Stories of VIPs of Services.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::agents::AgentOptions;
use crate::observe::now;
use crate::rig::worker::{SOON, WorkerRig, vip, vip6};
use crate::runner::{Ctx, Test};
use crate::scenario::rig::pass;
use crate::scenario::story;

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("services", comes_up, "service-vip-comes-up", 4).quick(),
        story!("services", crashed, "crashed-nodes-vips-move", 4),
        story!("services", restarted, "restarted-agent-adopts", 4).counting(),
        story!("services", drained, "drain-and-sigterm-lose-nothing", 5).counting(),
        story!("services", local, "local-policy-follows-endpoints", 5),
        story!("services", conflict, "conflict-is-told", 4).quick(),
        story!("services", outage, "api-outage-keeps-every-vip", 5).counting(),
        story!("services", interfaces, "interfaces-and-families", 4),
        story!("services", no_kind, "no-crds-yet", 4),
    ]
}

async fn comes_up(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::set(ctx, 3, 2, true).await?;
    rig.start_agents(&WorkerRig::options())?;
    // An address without a Service is not advertised, bound or not.
    rig.make_address(0, &json!({"mooring.dev/service-family": "ipv4"}), &json!({})).await?;
    pass(3).await;
    ensure!(rig.timeline(vip(0)).holds().is_empty(), "advertised before a Service had it; {}", rig.logs());
    let from = now();
    rig.make_service(0, "Cluster").await?;
    let holder = rig.settled(vip(0)).await?;
    ctx.note(&format!("{holder} carries {} after {} ms", vip(0), now().since(from).as_millis()));
    rig.recorded_as(0, &holder).await?;
    let prober = rig.prober(vip(0))?;
    prober.answer_after(now(), Some(&holder), SOON).await?;
    drop(prober);
    // Every node reports the holder and the successor.
    for node in &rig.nodes {
        let status = rig.status(node).await?.services.context("nothing about Services")?;
        let one = status.vips.iter().find(|one| one.address == vip(0)).context("the VIP is not shown")?;
        let here = one.carried.as_deref() == Some("recorded");
        ensure!(one.holder == holder && here == (*node == holder) && one.services == ["default/s0"], "{one:?}");
        ensure!(one.next.len() == 2 && !one.next.contains(&holder) && !one.why.is_empty(), "{one:?}");
    }
    // An address without a Service, advertised by its label.
    rig.make_address(1, &json!({"mooring.dev/advertise": "true"}), &json!({})).await?;
    let other = rig.settled(vip(1)).await?;
    rig.recorded_as(1, &other).await?;
    pass(5).await;
    for n in [0, 1] {
        rig.never_shared(vip(n), from)?;
        ensure!(rig.timeline(vip(n)).holds().len() == 1, "it moved: {:?}", rig.timeline(vip(n)).holds());
    }
    // The Service is deleted: the VIP is removed.
    rig.server.delete("/api/v1/namespaces/default/services/s0").await?;
    let deadline = now() + SOON;
    while !rig.timeline(vip(0)).holders_at(now()).is_empty() {
        ensure!(now() < deadline, "still carried; {}", rig.logs());
        pass(1).await;
    }
    Ok(())
}

async fn crashed(ctx: &mut Ctx<()>) -> Result<()> {
    let mut rig = WorkerRig::serving(ctx, 3, 12).await?;
    // The watching nodes must have heard the holder first.
    pass(5).await;
    let from = now();
    let victim = rig.settled(vip(0)).await?;
    let had = rig.carried_by(&victim);
    let crash = rig.crash(&victim)?;
    for vip in &had {
        rig.settled_but(*vip, &[&victim]).await?;
    }
    ctx.note(&format!("{} VIPs of {victim} moved within {} ms", had.len(), now().since(crash).as_millis()));
    ensure!(now().since(crash) < Duration::from_secs(8), "they moved late; {}", rig.logs());
    pass(3).await;
    for vip in rig.vips() {
        rig.settled(*vip).await?;
        rig.never_shared(*vip, from)?;
    }
    let holders: BTreeSet<String> = rig.nodes.iter().filter(|n| !rig.carried_by(n).is_empty()).cloned().collect();
    ensure!(!holders.contains(&victim) && holders.len() == 2, "they went to {holders:?}");
    Ok(())
}

async fn restarted(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::serving(ctx, 2, 6).await?;
    let (from, holder) = (now(), rig.settled(vip(0)).await?);
    let had = rig.carried_by(&holder);
    let prober = rig.prober(vip(0))?;
    prober.answer_after(now(), Some(&holder), SOON).await?;
    let agent = rig.lab().agent(&holder)?;
    agent.kill()?;
    agent.process()?.ended(SOON).await?;
    pass(2).await;
    agent.start_again()?;
    pass(20).await;
    ensure!(rig.carried_by(&holder) == had, "they moved; {}", rig.logs());
    for vip in rig.vips() {
        rig.never_gone(*vip, from)?;
        rig.never_shared(*vip, from)?;
    }
    rig.nothing_lost(prober)
}

async fn drained(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::serving(ctx, 3, 9).await?;
    pass(3).await;
    let (from, first) = (now(), rig.settled(vip(0)).await?);
    let prober = rig.prober(vip(0))?;
    prober.answer_after(now(), Some(&first), SOON).await?;
    // An annotation on its node asks the agent to release its VIPs.
    let drain = json!({"metadata": {"annotations": {"mooring.dev/drain": "true"}}});
    rig.server.merge(&format!("/api/v1/nodes/{first}"), &drain).await?;
    for vip in rig.carried_by(&first) {
        rig.settled_but(vip, &[&first]).await?;
    }
    let second = rig.settled_but(vip(0), &[&first]).await?;
    pass(2).await;
    // The same at the end of its process.
    rig.lab().agent(&second)?.stop(Duration::from_secs(20)).await?;
    for vip in rig.vips() {
        let holder = rig.settled_but(*vip, &[&first, &second]).await?;
        rig.never_gone(*vip, from)?;
        rig.never_shared(*vip, from)?;
        ensure!(holder != first && holder != second);
    }
    pass(2).await;
    rig.nothing_lost(prober)
}

async fn local(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::set(ctx, 3, 1, true).await?;
    rig.start_agents(&WorkerRig::options())?;
    rig.make(0, "Local").await?;
    // No endpoint, no holder.
    pass(4).await;
    ensure!(rig.timeline(vip(0)).holds().is_empty(), "nobody may carry it; {}", rig.logs());
    rig.endpoints(0, &[("w2", true)]).await?;
    ensure!(rig.settled(vip(0)).await? == "w2");
    let (from, prober) = (now(), rig.prober(vip(0))?);
    prober.answer_after(now(), Some("w2"), SOON).await?;
    // A rolling update: a new endpoint starts elsewhere before the old one ends.
    rig.endpoints(0, &[("w2", true), ("w3", true)]).await?;
    pass(2).await;
    ensure!(rig.settled(vip(0)).await? == "w2", "it moved without need");
    rig.endpoints(0, &[("w2", false), ("w3", true)]).await?;
    ensure!(rig.settled_but(vip(0), &["w2"]).await? == "w3");
    rig.recorded_as(0, "w3").await?;
    pass(2).await;
    // The last endpoint goes: the VIP never moves from a holder to no holder.
    rig.endpoints(0, &[]).await?;
    pass(5).await;
    ensure!(rig.settled(vip(0)).await? == "w3");
    rig.never_gone(vip(0), from)?;
    rig.never_shared(vip(0), from)?;
    rig.nothing_lost(prober)
}

async fn conflict(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::set(ctx, 2, 1, true).await?;
    rig.lab().stranger(vip(0), true)?;
    rig.start_agents(&WorkerRig::options())?;
    rig.make(0, "Cluster").await?;
    let deadline = now() + SOON;
    let told = loop {
        if let Some(told) = rig.annotation(0, "mooring.dev/conflict").await? {
            break told;
        }
        ensure!(now() < deadline, "the conflict is not told; {}", rig.logs());
        pass(1).await;
    };
    ensure!(told.contains("answers for it, heard by w"), "{told}");
    pass(3).await;
    ensure!(rig.timeline(vip(0)).holds().is_empty(), "taken from a stranger; {}", rig.logs());
    ensure!(rig.recorded(0).await?.is_none(), "somebody is in the record");
    // The stranger leaves: the VIP is free.
    rig.lab().stranger_leaves(vip(0))?;
    let holder = rig.settled(vip(0)).await?;
    rig.recorded_as(0, &holder).await
}

async fn outage(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::serving(ctx, 3, 9).await?;
    let from = now();
    let prober = rig.prober(vip(0))?;
    prober.answer_after(now(), None, SOON).await?;
    let had: Vec<_> = rig.nodes.iter().map(|node| rig.carried_by(node)).collect();
    rig.lab().stop_all_apis()?;
    pass(45).await;
    rig.lab().start_all_apis()?;
    pass(20).await;
    let have: Vec<_> = rig.nodes.iter().map(|node| rig.carried_by(node)).collect();
    ensure!(had == have, "they moved: {had:?} -> {have:?}; {}", rig.logs());
    for vip in rig.vips() {
        rig.never_gone(*vip, from)?;
        rig.never_shared(*vip, from)?;
    }
    rig.nothing_lost(prober)
}

async fn interfaces(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::set(ctx, 2, 1, true).await?;
    // On the same segment as the first interface: both answer for the VIP, and no agent takes the second for another
    // owner.
    for node in &rig.nodes {
        rig.lab().add_nic(node, 1)?;
    }
    rig.start_agents(&WorkerRig::options())?;
    let from = now();
    let advertise = json!({"mooring.dev/advertise": "true"});
    rig.make_address(0, &advertise, &json!({"mooring.dev/interface": "eth1"})).await?;
    rig.make_address_of("six", vip6(), &advertise, &json!({"mooring.dev/interface": "auto"})).await?;
    let holder = rig.settled(vip(0)).await?;
    let eth1 = rig.lab().netns(&holder)?.index("eth1")?;
    let events = rig.addresses.events();
    let came = events.iter().find(|event| event.address == vip(0)).context("it never came")?;
    ensure!(came.interface == eth1 && came.state.prefix == 32, "{came:?}");
    let prober = rig.prober(vip(0))?;
    prober.answer_after(now(), Some(&holder), SOON).await?;
    let holder6 = rig.settled(vip6()).await?;
    let events = rig.addresses.events();
    let came = events.iter().find(|event| event.address == vip6()).context("it never came")?;
    ensure!(came.state.prefix == 128 && came.state.preferred == 0, "{came:?}");
    ctx.note(&format!("{} on {holder}, {} on {holder6}", vip(0), vip6()));
    pass(6).await;
    for vip in [vip(0), vip6()] {
        rig.never_shared(vip, from)?;
        ensure!(rig.timeline(vip).holds().len() == 1, "it moved: {:?}; {}", rig.timeline(vip).holds(), rig.logs());
    }
    ensure!(!rig.logs().contains("AddressContested"), "an own answer is taken for another's; {}", rig.logs());
    Ok(())
}

async fn no_kind(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::set(ctx, 1, 1, false).await?;
    // The control plane's VIP in the same process.
    let control_plane = rig.lab().vip();
    let api = rig.lab().cluster()?.servers().first().cloned().context("no API server")?;
    let options = WorkerRig::options()
        .env("address", control_plane.to_string())
        .env("cp_enable", "true")
        .env("MOORING_API_SERVERS", &api)
        .env("MOORING_HEALTH_ADDRESS", format!("{api}/readyz"));
    let admin = rig.lab().dir().join("super-admin.conf");
    let options = AgentOptions { kubeconfig: Some(admin), ..options };
    rig.start_agents(&options)?;
    ensure!(rig.settled(control_plane).await? == "w1");
    // If the API server did not answer at first, the agent asks it for the kind again after five seconds.
    let deadline = now() + SOON;
    while !rig.logs().contains("no kind IPAddress") {
        ensure!(now() < deadline, "it does not say what it misses: {}", rig.logs());
        pass(1).await;
    }
    let from = now();
    rig.install_kind().await?;
    rig.make(0, "Cluster").await?;
    // The agent looks again every ten seconds.
    let deadline = now() + Duration::from_secs(30);
    while rig.timeline(vip(0)).holders_at(now()).is_empty() {
        ensure!(now() < deadline, "not carried; {}", rig.logs());
        pass(1).await;
    }
    rig.recorded_as(0, "w1").await?;
    rig.never_gone(control_plane, from)?;
    asks_for_the_control_planes(&rig, "w1", control_plane).await?;
    // The same as kube-vip places VIPs.
    rig.lab().agent("w1")?.stop(Duration::from_secs(20)).await?;
    rig.server.delete("/apis/events.k8s.io/v1/namespaces/default/events").await?;
    rig.start_agent("w1", &options.env("MOORING_SERVICES_PLACEMENT", "global-lease"))?;
    ensure!(rig.settled(control_plane).await? == "w1");
    told_of_the_control_planes(&rig, "w1", control_plane).await
}

/// A Service asks for the control plane's VIP: it is told so, and the VIP stays what it is.
async fn asks_for_the_control_planes(rig: &WorkerRig, node: &str, vip: IpAddr) -> Result<()> {
    let object = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "greedy", "annotations": {"kube-vip.io/loadbalancerIPs": vip.to_string()}},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "allocateLoadBalancerNodePorts": false},
    });
    rig.server.create("/api/v1/namespaces/default/services", &object).await?;
    told_of_the_control_planes(rig, node, vip).await
}

async fn told_of_the_control_planes(rig: &WorkerRig, node: &str, vip: IpAddr) -> Result<()> {
    let deadline = now() + SOON;
    loop {
        let events = rig.server.get("/apis/events.k8s.io/v1/namespaces/default/events").await?;
        let all = events["items"].as_array().cloned().unwrap_or_default();
        let told =
            all.iter().any(|one| one["reason"] == "AddressOfControlPlane" && one["regarding"]["name"] == "greedy");
        // The agent may have begun a moment ago.
        let status = rig.status(node).await.ok().and_then(|status| status.services);
        let rows: Vec<_> = status.into_iter().flat_map(|status| status.vips).filter(|one| one.address == vip).collect();
        let said = rows.len() == 1
            && rows.iter().all(|row| {
                row.services == ["default/greedy"] && row.carried.is_none() && row.why.contains("no Service gets it")
            });
        if told && said {
            break;
        }
        ensure!(now() < deadline, "told: {told}, {rows:?}; {}", rig.logs());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let service = rig.server.get("/api/v1/namespaces/default/services/greedy").await?;
    ensure!(service["status"]["loadBalancer"]["ingress"].is_null(), "it is served: {service}");
    ensure!(rig.settled(vip).await? == node);
    Ok(())
}
