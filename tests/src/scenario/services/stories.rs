//! What is told of VIPs of Services.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::field::{Field, SOON, vip, vip6};
use crate::agents::AgentOptions;
use crate::observe::now;
use crate::runner::{Ctx, Test};
use crate::scenario::scene::pass;
use crate::scenario::story;

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("services", comes_up, "service-vip-comes-up", 4),
        story!("services", crashed, "crashed-nodes-vips-move", 4),
        story!("services", restarted, "restarted-agent-adopts", 4, alone: true),
        story!("services", drained, "drain-and-sigterm-lose-nothing", 5, alone: true),
        story!("services", local, "local-policy-follows-endpoints", 5),
        story!("services", conflict, "conflict-is-told", 4),
        story!("services", outage, "api-outage-keeps-every-vip", 5, alone: true),
        story!("services", interfaces, "interfaces-and-families", 4),
        story!("services", no_kind, "no-crds-yet", 4),
    ]
}

async fn comes_up(ctx: &mut Ctx<()>) -> Result<()> {
    let field = Field::set(ctx, 3, 2, true).await?;
    field.start_agents(&Field::options())?;
    // Bound or not, an address that no Service has is nobody's to advertise.
    field.make_address(0, &json!({"mooring.dev/service-family": "ipv4"}), &json!({})).await?;
    pass(3).await;
    ensure!(field.timeline(vip(0)).holds().is_empty(), "advertised before a Service had it; {}", field.logs());
    let from = now();
    field.make_service(0, "Cluster").await?;
    let holder = field.settled(vip(0)).await?;
    ctx.note(&format!("{holder} carries {} after {} ms", vip(0), now().since(from).as_millis()));
    field.recorded_as(0, &holder).await?;
    let prober = field.prober(vip(0))?;
    prober.answer_after(now(), Some(&holder), SOON).await?;
    drop(prober);
    // Every node says who has it, and who would be next.
    for node in &field.nodes {
        let status = field.status(node).await?.services.context("nothing about Services")?;
        let one = status.vips.iter().find(|one| one.address == vip(0)).context("the VIP is not shown")?;
        let here = one.carried.as_deref() == Some("recorded");
        ensure!(one.holder == holder && here == (*node == holder) && one.services == ["default/s0"], "{one:?}");
        ensure!(one.next.len() == 2 && !one.next.contains(&holder) && !one.why.is_empty(), "{one:?}");
    }
    // One that no Service has, by its label.
    field.make_address(1, &json!({"mooring.dev/advertise": "true"}), &json!({})).await?;
    let other = field.settled(vip(1)).await?;
    field.recorded_as(1, &other).await?;
    pass(5).await;
    for n in [0, 1] {
        field.never_shared(vip(n), from)?;
        ensure!(field.timeline(vip(n)).holds().len() == 1, "it moved: {:?}", field.timeline(vip(n)).holds());
    }
    // The Service goes: so does the VIP.
    field.server.delete("/api/v1/namespaces/default/services/s0").await?;
    let deadline = now() + SOON;
    while !field.timeline(vip(0)).holders_at(now()).is_empty() {
        ensure!(now() < deadline, "still carried; {}", field.logs());
        pass(1).await;
    }
    Ok(())
}

async fn crashed(ctx: &mut Ctx<()>) -> Result<()> {
    let mut field = Field::serving(ctx, 3, 12).await?;
    // Watchers have to have heard it before.
    pass(5).await;
    let from = now();
    let victim = field.settled(vip(0)).await?;
    let had = field.carried_by(&victim);
    let crash = field.crash(&victim)?;
    for vip in &had {
        field.settled_but(*vip, &[&victim]).await?;
    }
    ctx.note(&format!("{} VIPs of {victim} moved within {} ms", had.len(), now().since(crash).as_millis()));
    ensure!(now().since(crash) < Duration::from_secs(8), "they moved late; {}", field.logs());
    pass(3).await;
    for vip in field.vips() {
        field.settled(*vip).await?;
        field.never_shared(*vip, from)?;
    }
    let holders: BTreeSet<String> = field.nodes.iter().filter(|n| !field.carried_by(n).is_empty()).cloned().collect();
    ensure!(!holders.contains(&victim) && holders.len() == 2, "they went to {holders:?}");
    Ok(())
}

async fn restarted(ctx: &mut Ctx<()>) -> Result<()> {
    let field = Field::serving(ctx, 2, 6).await?;
    let (from, holder) = (now(), field.settled(vip(0)).await?);
    let had = field.carried_by(&holder);
    let prober = field.prober(vip(0))?;
    prober.answer_after(now(), Some(&holder), SOON).await?;
    let agent = field.lab().agent(&holder)?;
    agent.kill()?;
    agent.process()?.ended(SOON).await?;
    pass(2).await;
    agent.start_again()?;
    pass(20).await;
    ensure!(field.carried_by(&holder) == had, "they moved; {}", field.logs());
    for vip in field.vips() {
        field.never_gone(*vip, from)?;
        field.never_shared(*vip, from)?;
    }
    field.nothing_lost(prober)
}

async fn drained(ctx: &mut Ctx<()>) -> Result<()> {
    let field = Field::serving(ctx, 3, 9).await?;
    pass(3).await;
    let (from, first) = (now(), field.settled(vip(0)).await?);
    let prober = field.prober(vip(0))?;
    prober.answer_after(now(), Some(&first), SOON).await?;
    // Asked to let go by an annotation on its node.
    let drain = json!({"metadata": {"annotations": {"mooring.dev/drain": "true"}}});
    field.server.merge(&format!("/api/v1/nodes/{first}"), &drain).await?;
    for vip in field.carried_by(&first) {
        field.settled_but(vip, &[&first]).await?;
    }
    let second = field.settled_but(vip(0), &[&first]).await?;
    pass(2).await;
    // And by the end of its process.
    field.lab().agent(&second)?.stop(Duration::from_secs(20)).await?;
    for vip in field.vips() {
        let holder = field.settled_but(*vip, &[&first, &second]).await?;
        field.never_gone(*vip, from)?;
        field.never_shared(*vip, from)?;
        ensure!(holder != first && holder != second);
    }
    pass(2).await;
    field.nothing_lost(prober)
}

async fn local(ctx: &mut Ctx<()>) -> Result<()> {
    let field = Field::set(ctx, 3, 1, true).await?;
    field.start_agents(&Field::options())?;
    field.make(0, "Local").await?;
    // No endpoint, no holder.
    pass(4).await;
    ensure!(field.timeline(vip(0)).holds().is_empty(), "nobody may carry it; {}", field.logs());
    field.endpoints(0, &[("w2", true)]).await?;
    ensure!(field.settled(vip(0)).await? == "w2");
    let (from, prober) = (now(), field.prober(vip(0))?);
    prober.answer_after(now(), Some("w2"), SOON).await?;
    // A rolling update: one comes up elsewhere before the other goes.
    field.endpoints(0, &[("w2", true), ("w3", true)]).await?;
    pass(2).await;
    ensure!(field.settled(vip(0)).await? == "w2", "it moved without need");
    field.endpoints(0, &[("w2", false), ("w3", true)]).await?;
    ensure!(field.settled_but(vip(0), &["w2"]).await? == "w3");
    field.recorded_as(0, "w3").await?;
    pass(2).await;
    // The last endpoint goes: it never moves from a holder to nobody.
    field.endpoints(0, &[]).await?;
    pass(5).await;
    ensure!(field.settled(vip(0)).await? == "w3");
    field.never_gone(vip(0), from)?;
    field.never_shared(vip(0), from)?;
    field.nothing_lost(prober)
}

async fn conflict(ctx: &mut Ctx<()>) -> Result<()> {
    let field = Field::set(ctx, 2, 1, true).await?;
    field.lab().stranger(vip(0), true)?;
    field.start_agents(&Field::options())?;
    field.make(0, "Cluster").await?;
    let deadline = now() + SOON;
    let told = loop {
        if let Some(told) = field.annotation(0, "mooring.dev/conflict").await? {
            break told;
        }
        ensure!(now() < deadline, "the conflict is not told; {}", field.logs());
        pass(1).await;
    };
    ensure!(told.contains("answers for it, heard by w"), "{told}");
    pass(3).await;
    ensure!(field.timeline(vip(0)).holds().is_empty(), "taken from a stranger; {}", field.logs());
    ensure!(field.recorded(0).await?.is_none(), "somebody is in the record");
    // It leaves: the VIP is free.
    field.lab().stranger_leaves(vip(0))?;
    let holder = field.settled(vip(0)).await?;
    field.recorded_as(0, &holder).await
}

async fn outage(ctx: &mut Ctx<()>) -> Result<()> {
    let field = Field::serving(ctx, 3, 9).await?;
    let from = now();
    let prober = field.prober(vip(0))?;
    prober.answer_after(now(), None, SOON).await?;
    let had: Vec<_> = field.nodes.iter().map(|node| field.carried_by(node)).collect();
    field.lab().stop_all_apis()?;
    pass(45).await;
    field.lab().start_all_apis()?;
    pass(20).await;
    let have: Vec<_> = field.nodes.iter().map(|node| field.carried_by(node)).collect();
    ensure!(had == have, "they moved: {had:?} -> {have:?}; {}", field.logs());
    for vip in field.vips() {
        field.never_gone(*vip, from)?;
        field.never_shared(*vip, from)?;
    }
    field.nothing_lost(prober)
}

async fn interfaces(ctx: &mut Ctx<()>) -> Result<()> {
    let field = Field::set(ctx, 2, 1, true).await?;
    // On the same segment as the first: both answer for the VIP, and nobody takes that for another owner.
    for node in &field.nodes {
        field.lab().add_nic(node, 1)?;
    }
    field.start_agents(&Field::options())?;
    let from = now();
    let advertise = json!({"mooring.dev/advertise": "true"});
    field.make_address(0, &advertise, &json!({"mooring.dev/interface": "eth1"})).await?;
    field.make_address_of("six", vip6(), &advertise, &json!({"mooring.dev/interface": "auto"})).await?;
    let holder = field.settled(vip(0)).await?;
    let eth1 = field.lab().netns(&holder)?.index("eth1")?;
    let events = field.addresses.events();
    let came = events.iter().find(|event| event.address == vip(0)).context("it never came")?;
    ensure!(came.interface == eth1 && came.state.prefix == 32, "{came:?}");
    let prober = field.prober(vip(0))?;
    prober.answer_after(now(), Some(&holder), SOON).await?;
    let holder6 = field.settled(vip6()).await?;
    let events = field.addresses.events();
    let came = events.iter().find(|event| event.address == vip6()).context("it never came")?;
    ensure!(came.state.prefix == 128 && came.state.preferred == 0, "{came:?}");
    ctx.note(&format!("{} on {holder}, {} on {holder6}", vip(0), vip6()));
    pass(6).await;
    for vip in [vip(0), vip6()] {
        field.never_shared(vip, from)?;
        ensure!(
            field.timeline(vip).holds().len() == 1,
            "it moved: {:?}; {}",
            field.timeline(vip).holds(),
            field.logs()
        );
    }
    ensure!(!field.logs().contains("AddressContested"), "an own answer is taken for another's; {}", field.logs());
    Ok(())
}

async fn no_kind(ctx: &mut Ctx<()>) -> Result<()> {
    let field = Field::set(ctx, 1, 1, false).await?;
    // The control plane's VIP beside it, in one process.
    let control_plane = field.lab().vip();
    let api = field.lab().cluster()?.servers().first().cloned().context("no API server")?;
    let options = Field::options()
        .env("address", control_plane.to_string())
        .env("cp_enable", "true")
        .env("MOORING_API_SERVERS", &api)
        .env("MOORING_HEALTH_ADDRESS", format!("{api}/readyz"));
    let admin = field.lab().dir().join("super-admin.conf");
    field.start_agents(&AgentOptions { kubeconfig: Some(admin), ..options })?;
    ensure!(field.settled(control_plane).await? == "w1");
    ensure!(field.logs().contains("no kind IPAddress"), "it does not say what it misses: {}", field.logs());
    let from = now();
    field.install_kind().await?;
    field.make(0, "Cluster").await?;
    // It looks again every ten seconds.
    let deadline = now() + Duration::from_secs(30);
    while field.timeline(vip(0)).holders_at(now()).is_empty() {
        ensure!(now() < deadline, "not carried; {}", field.logs());
        pass(1).await;
    }
    field.recorded_as(0, "w1").await?;
    field.never_gone(control_plane, from)
}
