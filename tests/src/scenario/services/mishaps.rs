//! Mishaps: nodes that boot, are cordoned or cut off, endpoints that flap, an address that is in use.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::fault::Way;
use crate::observe::now;
use crate::observe::timeline::total;
use crate::rig::worker::{SOON, WorkerRig, vip, vip6};
use crate::runner::{Ctx, Test};
use crate::scenario::rig::pass;
use crate::scenario::story;

/// How long two nodes may have a VIP after they hear each other again, on a busy machine.
const HEARD: Duration = Duration::from_secs(2);

/// How long two nodes may have a VIP during a handover, on a busy machine.
const HANDOVER: Duration = Duration::from_millis(500);

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("services", rebooted, "rebooted-node-comes-back", 4),
        story!("services", cordoned, "cordon-moves-nothing-and-takes-nothing", 4),
        story!("services", partitioned, "partitioned-node-yields", 4),
        story!("services", flapping, "flapping-endpoints-never-leave-a-vip-alone", 4).counting(),
        story!("services", duplicate, "ipv6-address-in-use-is-not-taken", 4),
    ]
}

/// Where each VIP is.
async fn holders(rig: &WorkerRig) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for vip in rig.vips() {
        all.push(rig.settled(*vip).await?);
    }
    Ok(all)
}

async fn rebooted(ctx: &mut Ctx<()>) -> Result<()> {
    let mut rig = WorkerRig::serving(ctx, 3, 6).await?;
    pass(5).await;
    let from = now();
    let victim = rig.settled(vip(0)).await?;
    rig.crash(&victim)?;
    for vip in rig.vips() {
        rig.settled_but(*vip, &[&victim]).await?;
    }
    let had = holders(&rig).await?;
    rig.revive(&victim)?;
    // The node takes part again, and takes no VIP from another node.
    let deadline = now() + 2 * SOON;
    loop {
        let next = rig.status(&had[0]).await?.services.map(|all| all.vips).unwrap_or_default();
        if next.iter().all(|one| one.holder == victim || one.next.contains(&victim)) && !next.is_empty() {
            break;
        }
        ensure!(now() < deadline, "{victim} does not take part: {next:?}; {}", rig.logs());
        pass(1).await;
    }
    pass(3).await;
    ensure!(holders(&rig).await? == had, "they moved; {}", rig.logs());
    // The node gets a VIP when another node needs a successor.
    for node in rig.nodes.iter().filter(|node| **node != victim) {
        let drain = json!({"metadata": {"annotations": {"mooring.dev/drain": "true"}}});
        rig.server.merge(&format!("/api/v1/nodes/{node}"), &drain).await?;
    }
    let others: Vec<&str> = rig.nodes.iter().filter(|node| **node != victim).map(String::as_str).collect();
    for vip in rig.vips() {
        ensure!(rig.settled_but(*vip, &others).await? == victim);
        rig.never_shared(*vip, from)?;
    }
    Ok(())
}

async fn cordoned(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::set(ctx, 3, 9, true).await?;
    rig.start_agents(&WorkerRig::options())?;
    for n in 0..3 {
        rig.make(n, "Cluster").await?;
    }
    for n in 0..3 {
        rig.settled(vip(n)).await?;
    }
    let (from, holder) = (now(), rig.settled(vip(0)).await?);
    let cordon = json!({"spec": {"unschedulable": true}});
    rig.server.merge(&format!("/api/v1/nodes/{holder}"), &cordon).await?;
    pass(4).await;
    for n in 0..3 {
        rig.never_gone(vip(n), from)?;
        ensure!(rig.timeline(vip(n)).holds().len() == 1, "it moved; {}", rig.logs());
    }
    // New VIPs go to other nodes, as long as there are other nodes.
    for n in 3..6 {
        rig.make(n, "Cluster").await?;
    }
    for n in 3..6 {
        let new = rig.settled(vip(n)).await?;
        ensure!(new != holder, "{} went to a node that is cordoned; {}", vip(n), rig.logs());
    }
    for node in rig.nodes.iter().filter(|node| **node != holder) {
        rig.server.merge(&format!("/api/v1/nodes/{node}"), &cordon).await?;
    }
    for n in 6..9 {
        rig.make(n, "Cluster").await?;
    }
    // A state that all nodes share excludes none of them.
    for n in 6..9 {
        rig.settled(vip(n)).await?;
    }
    Ok(())
}

/// A node is cut off from all others: the others carry its VIPs; the node carries them too until it hears the others.
async fn partitioned(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::serving(ctx, 3, 6).await?;
    pass(5).await;
    let alone = rig.settled(vip(0)).await?;
    let had = rig.carried_by(&alone);
    let from = now();
    let mut rest = rig.lab().control_planes();
    rest.extend(rig.nodes.iter().filter(|node| **node != alone).cloned());
    rest.extend(["client".to_owned(), "gateway".to_owned()]);
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    rig.lab().partition(&[&alone], &rest, Way::Both)?;
    let deadline = now() + 2 * SOON;
    for vip in &had {
        while rig.timeline(*vip).holders_at(now()).iter().all(|node| *node == alone) {
            ensure!(now() < deadline, "{vip} is with {alone} only; {}", rig.logs());
            pass(1).await;
        }
    }
    let prober = rig.prober(vip(0))?;
    prober.answer_after(now(), None, SOON).await?;
    pass(5).await;
    let healed = rig.lab().heal_all()?;
    for vip in &had {
        rig.settled_but(*vip, &[&alone]).await?;
    }
    pass(3).await;
    for vip in rig.vips() {
        rig.settled(*vip).await?;
        let shared = rig.timeline(*vip).two_owners(healed, now());
        ensure!(total(&shared) < HEARD, "{vip} had two owners: {shared:?}; {}", rig.logs());
    }
    let kept = rig.vips().iter().filter(|vip| !had.contains(vip));
    for vip in kept {
        rig.never_gone(*vip, from)?;
    }
    Ok(())
}

async fn flapping(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::set(ctx, 3, 1, true).await?;
    rig.start_agents(&WorkerRig::options())?;
    rig.make(0, "Local").await?;
    rig.endpoints(0, &[("w1", true)]).await?;
    ensure!(rig.settled(vip(0)).await? == "w1");
    let from = now();
    let nodes = ["w1", "w2", "w3"];
    // Faster than a handover; at times no endpoint is ready at all.
    for n in 0..40 {
        let ready = nodes[n % 3];
        let all = nodes.map(|node| (node, node == ready && n % 5 != 4));
        rig.endpoints(0, &all).await?;
        tokio::time::sleep(Duration::from_millis(80)).await;
    }
    rig.endpoints(0, &[("w1", false), ("w2", true), ("w3", false)]).await?;
    ensure!(rig.settled_but(vip(0), &["w1", "w3"]).await? == "w2");
    rig.recorded_as(0, "w2").await?;
    // A node that gets the VIP back while it is about to release the VIP first releases it, and takes it again in the
    // same moment.
    let gone = rig.timeline(vip(0)).nobody(from, now());
    ensure!(total(&gone) < HANDOVER, "nobody had it: {gone:?}; {}", rig.logs());
    // During each handover two nodes have the VIP for a moment, so that no packet is lost.
    let shared = rig.timeline(vip(0)).two_owners(from, now());
    let longest = shared.iter().map(|interval| interval.to.since(interval.from)).max().unwrap_or_default();
    ensure!(longest < HANDOVER, "two owners for {longest:?}; {}", rig.logs());
    let moves = rig.timeline(vip(0)).holds().len();
    ctx.note(&format!("it moved {moves} times"));
    pass(4).await;
    ensure!(rig.timeline(vip(0)).holds().len() == moves, "it does not come to rest; {}", rig.logs());
    Ok(())
}

/// The result that duplicate address detection would have; the kernel does not run it, because the kernel would leave
/// the address on the interface, unusable.
async fn duplicate(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::set(ctx, 2, 1, true).await?;
    let vip = vip6();
    rig.lab().stranger(vip, true)?;
    rig.start_agents(&WorkerRig::options())?;
    rig.make_address_of("six", vip, &json!({"mooring.dev/advertise": "true"}), &json!({})).await?;
    let deadline = now() + SOON;
    let conflict =
        |object: &Value| object["metadata"]["annotations"]["mooring.dev/conflict"].as_str().map(str::to_owned);
    while conflict(&rig.server.get(&WorkerRig::address_path("six")).await?).is_none() {
        ensure!(now() < deadline, "the conflict is not told; {}", rig.logs());
        pass(1).await;
    }
    pass(3).await;
    ensure!(rig.timeline(vip).holds().is_empty(), "taken from a stranger; {}", rig.logs());
    // Other VIPs work.
    rig.make(0, "Cluster").await?;
    rig.settled(crate::rig::worker::vip(0)).await?;
    rig.lab().stranger_leaves(vip)?;
    let holder = rig.settled(vip).await?;
    let came = rig.addresses.events().into_iter().find(|event| event.address == vip).context("it never came")?;
    ensure!(came.state.prefix == 128, "{came:?} on {holder}");
    usable(&rig, &holder, vip)
}

/// The address is usable: the kernel neither waits for duplicate address detection nor found a duplicate.
fn usable(rig: &WorkerRig, holder: &str, vip: IpAddr) -> Result<()> {
    let netns = rig.lab().netns(holder)?;
    let all = netns.addresses("eth0")?;
    ensure!(all.iter().any(|(address, _)| *address == vip), "{vip} is not on {holder}: {all:?}");
    let bound = netns.run(move || std::net::UdpSocket::bind((vip, 0)));
    bound.map(drop).with_context(|| format!("{vip} cannot be used on {holder}"))
}
