//! Bad luck: nodes that boot, are cordoned or cut off, endpoints that flap, an address that is in use.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::field::{Field, SOON, vip, vip6};
use crate::fault::Way;
use crate::observe::now;
use crate::observe::timeline::total;
use crate::runner::{Ctx, Test};
use crate::scenario::scene::pass;
use crate::scenario::story;

/// How long two may have a VIP once they hear each other again, on a busy machine.
const HEARD: Duration = Duration::from_secs(2);

/// How long two may have it while one hands it over, on a busy machine.
const HANDOVER: Duration = Duration::from_millis(500);

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("services", rebooted, "rebooted-node-comes-back", 4),
        story!("services", cordoned, "cordon-moves-nothing-and-takes-nothing", 4),
        story!("services", partitioned, "partitioned-node-yields", 4),
        story!("services", flapping, "flapping-endpoints-never-leave-a-vip-alone", 4, alone: true),
        story!("services", duplicate, "ipv6-address-in-use-is-not-taken", 4),
    ]
}

/// Where each VIP is.
async fn holders(field: &Field) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for vip in field.vips() {
        all.push(field.settled(*vip).await?);
    }
    Ok(all)
}

async fn rebooted(ctx: &mut Ctx<()>) -> Result<()> {
    let mut field = Field::serving(ctx, 3, 6).await?;
    pass(5).await;
    let from = now();
    let victim = field.settled(vip(0)).await?;
    field.crash(&victim)?;
    for vip in field.vips() {
        field.settled_but(*vip, &[&victim]).await?;
    }
    let had = holders(&field).await?;
    field.revive(&victim)?;
    // It takes part again, and takes nothing from anybody.
    let deadline = now() + 2 * SOON;
    loop {
        let next = field.status(&had[0]).await?.services.map(|all| all.vips).unwrap_or_default();
        if next.iter().all(|one| one.holder == victim || one.next.contains(&victim)) && !next.is_empty() {
            break;
        }
        ensure!(now() < deadline, "{victim} does not take part: {next:?}; {}", field.logs());
        pass(1).await;
    }
    pass(3).await;
    ensure!(holders(&field).await? == had, "they moved; {}", field.logs());
    // Until it is needed.
    for node in field.nodes.iter().filter(|node| **node != victim) {
        let drain = json!({"metadata": {"annotations": {"mooring.dev/drain": "true"}}});
        field.server.merge(&format!("/api/v1/nodes/{node}"), &drain).await?;
    }
    let others: Vec<&str> = field.nodes.iter().filter(|node| **node != victim).map(String::as_str).collect();
    for vip in field.vips() {
        ensure!(field.settled_but(*vip, &others).await? == victim);
        field.never_shared(*vip, from)?;
    }
    Ok(())
}

async fn cordoned(ctx: &mut Ctx<()>) -> Result<()> {
    let field = Field::set(ctx, 3, 9, true).await?;
    field.start_agents(&Field::options())?;
    for n in 0..3 {
        field.make(n, "Cluster").await?;
    }
    for n in 0..3 {
        field.settled(vip(n)).await?;
    }
    let (from, holder) = (now(), field.settled(vip(0)).await?);
    let cordon = json!({"spec": {"unschedulable": true}});
    field.server.merge(&format!("/api/v1/nodes/{holder}"), &cordon).await?;
    pass(4).await;
    for n in 0..3 {
        field.never_gone(vip(n), from)?;
        ensure!(field.timeline(vip(n)).holds().len() == 1, "it moved; {}", field.logs());
    }
    // What comes now goes elsewhere, as long as there is an elsewhere.
    for n in 3..6 {
        field.make(n, "Cluster").await?;
    }
    for n in 3..6 {
        let new = field.settled(vip(n)).await?;
        ensure!(new != holder, "{} went to a node that is cordoned; {}", vip(n), field.logs());
    }
    for node in field.nodes.iter().filter(|node| **node != holder) {
        field.server.merge(&format!("/api/v1/nodes/{node}"), &cordon).await?;
    }
    for n in 6..9 {
        field.make(n, "Cluster").await?;
    }
    // What all share keeps nobody off.
    for n in 6..9 {
        field.settled(vip(n)).await?;
    }
    Ok(())
}

/// Cut off from everybody: the others carry its VIPs, it does so too until it hears them.
async fn partitioned(ctx: &mut Ctx<()>) -> Result<()> {
    let field = Field::serving(ctx, 3, 6).await?;
    pass(5).await;
    let alone = field.settled(vip(0)).await?;
    let had = field.carried_by(&alone);
    let from = now();
    let mut rest = field.lab().control_planes();
    rest.extend(field.nodes.iter().filter(|node| **node != alone).cloned());
    rest.extend(["client".to_owned(), "gateway".to_owned()]);
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    field.lab().partition(&[&alone], &rest, Way::Both)?;
    let deadline = now() + 2 * SOON;
    for vip in &had {
        while field.timeline(*vip).holders_at(now()).iter().all(|node| *node == alone) {
            ensure!(now() < deadline, "{vip} is with {alone} only; {}", field.logs());
            pass(1).await;
        }
    }
    let prober = field.prober(vip(0))?;
    prober.answer_after(now(), None, SOON).await?;
    pass(5).await;
    let healed = field.lab().heal_all()?;
    for vip in &had {
        field.settled_but(*vip, &[&alone]).await?;
    }
    pass(3).await;
    for vip in field.vips() {
        field.settled(*vip).await?;
        let shared = field.timeline(*vip).two_owners(healed, now());
        ensure!(total(&shared) < HEARD, "{vip} had two owners: {shared:?}; {}", field.logs());
    }
    let kept = field.vips().iter().filter(|vip| !had.contains(vip));
    for vip in kept {
        field.never_gone(*vip, from)?;
    }
    Ok(())
}

async fn flapping(ctx: &mut Ctx<()>) -> Result<()> {
    let field = Field::set(ctx, 3, 1, true).await?;
    field.start_agents(&Field::options())?;
    field.make(0, "Local").await?;
    field.endpoints(0, &[("w1", true)]).await?;
    ensure!(field.settled(vip(0)).await? == "w1");
    let from = now();
    let nodes = ["w1", "w2", "w3"];
    // Faster than a hand-over; now and then no endpoint is ready at all.
    for n in 0..40 {
        let ready = nodes[n % 3];
        let all = nodes.map(|node| (node, node == ready && n % 5 != 4));
        field.endpoints(0, &all).await?;
        tokio::time::sleep(Duration::from_millis(80)).await;
    }
    field.endpoints(0, &[("w1", false), ("w2", true), ("w3", false)]).await?;
    ensure!(field.settled_but(vip(0), &["w1", "w3"]).await? == "w2");
    field.recorded_as(0, "w2").await?;
    // Who gets it back while it is still about to let go lets go, and takes it again in the same moment.
    let gone = field.timeline(vip(0)).nobody(from, now());
    ensure!(total(&gone) < HANDOVER, "nobody had it: {gone:?}; {}", field.logs());
    // Each hand-over has two for a moment, so that nothing is lost.
    let shared = field.timeline(vip(0)).two_owners(from, now());
    let longest = shared.iter().map(|interval| interval.to.since(interval.from)).max().unwrap_or_default();
    ensure!(longest < HANDOVER, "two owners for {longest:?}; {}", field.logs());
    let moves = field.timeline(vip(0)).holds().len();
    ctx.note(&format!("it moved {moves} times"));
    pass(4).await;
    ensure!(field.timeline(vip(0)).holds().len() == moves, "it does not come to rest; {}", field.logs());
    Ok(())
}

/// As duplicate address detection would find it; the kernel is not asked, for it would leave the address on and dead.
async fn duplicate(ctx: &mut Ctx<()>) -> Result<()> {
    let field = Field::set(ctx, 2, 1, true).await?;
    let vip = vip6();
    field.lab().stranger(vip, true)?;
    field.start_agents(&Field::options())?;
    field.make_address_of("six", vip, &json!({"mooring.dev/advertise": "true"}), &json!({})).await?;
    let deadline = now() + SOON;
    let conflict =
        |object: &Value| object["metadata"]["annotations"]["mooring.dev/conflict"].as_str().map(str::to_owned);
    while conflict(&field.server.get(&Field::address_path("six")).await?).is_none() {
        ensure!(now() < deadline, "the conflict is not told; {}", field.logs());
        pass(1).await;
    }
    pass(3).await;
    ensure!(field.timeline(vip).holds().is_empty(), "taken from a stranger; {}", field.logs());
    // Others work.
    field.make(0, "Cluster").await?;
    field.settled(super::field::vip(0)).await?;
    field.lab().stranger_leaves(vip)?;
    let holder = field.settled(vip).await?;
    let came = field.addresses.events().into_iter().find(|event| event.address == vip).context("it never came")?;
    ensure!(came.state.prefix == 128, "{came:?} on {holder}");
    usable(&field, &holder, vip)
}

/// The kernel does not wait for duplicate address detection, nor did it fail.
fn usable(field: &Field, holder: &str, vip: IpAddr) -> Result<()> {
    let netns = field.lab().netns(holder)?;
    let all = netns.addresses("eth0")?;
    ensure!(all.iter().any(|(address, _)| *address == vip), "{vip} is not on {holder}: {all:?}");
    let bound = netns.run(move || std::net::UdpSocket::bind((vip, 0)));
    bound.map(drop).with_context(|| format!("{vip} cannot be used on {holder}"))
}
