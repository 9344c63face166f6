//! Stories of clients and Services.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, ensure};
use mooring_agent::core::time::Time;
use serde_json::json;

use crate::observe::now;
use crate::rig::traffic::{QUESTION, TrafficRig};
use crate::rig::worker::{SOON, vip};
use crate::runner::{Ctx, Test};
use crate::scenario::rig::pass;
use crate::scenario::story;
use crate::traffic::{Asked, Protocol, Stream};

const HTTP: u16 = 80;
/// The lab notes the change of an address this much after the kernel made it, on a busy machine.
const NOTED: Duration = Duration::from_millis(100);
/// How long a takeover from a dead node may take on a busy machine.
const MOVED: Duration = Duration::from_secs(8);

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("traffic", exposed, "the-tutorials-service-answers", 4).quick(),
        story!("traffic", local, "local-policy-keeps-the-clients-address", 4),
        story!("traffic", both, "tcp-and-udp-on-one-port", 4),
        story!("traffic", crashed, "client-goes-on-when-the-holder-dies", 4).counting(),
        story!("traffic", steered, "what-a-pool-says-moves-its-vips", 4),
        story!("traffic", allocator_away, "client-goes-on-without-the-allocator", 4).counting(),
        story!("traffic", drained, "client-notices-no-drain", 4).counting(),
    ]
}

/// `kubectl expose --type=LoadBalancer`: pending, then the address of `cidr-global`, then the client gets an answer.
async fn exposed(ctx: &mut Ctx<()>) -> Result<()> {
    let only = vip(0);
    let rig = TrafficRig::set(&ctx.dir, 2, &json!({"cidr-global": format!("{only}/32")})).await?;
    rig.backends("web", &["w1", "w2"]).await?;
    let begin = now();
    rig.expose("web", "Cluster", &[(Protocol::Tcp, HTTP)]).await?;
    let shown = rig.external_ip("web").await?;
    ensure!(shown == only, "it is {shown}, of a pool of {only} alone");
    let to = SocketAddr::new(shown, HTTP);
    rig.answered(Protocol::Tcp, to, |_| true).await?;
    ctx.note(&format!("{to} answers {} ms after the Service was made", now().since(begin).as_millis()));
    let ingress = rig.service("web").await?["status"]["loadBalancer"]["ingress"][0].clone();
    ensure!(ingress["ipMode"] == "VIP", "{ingress}");
    // The client reaches both backends through the one address.
    let mut met = BTreeSet::new();
    while met.len() < 2 {
        let answer = rig.answered(Protocol::Tcp, to, |answer| !met.contains(&answer.backend)).await?;
        met.insert(answer.backend);
    }
    // There is no second address: the next Service waits, and is served when the first one goes.
    rig.backends("more", &["w1"]).await?;
    rig.expose("more", "Cluster", &[(Protocol::Tcp, HTTP)]).await?;
    pass(2).await;
    let second = rig.service("more").await?;
    ensure!(second["status"]["loadBalancer"]["ingress"].is_null(), "a second Service has the address: {second}");
    rig.delete("web").await?;
    let shown = rig.external_ip("more").await?;
    ensure!(shown == only, "it is {shown}");
    rig.answered(Protocol::Tcp, to, |answer| answer.backend == "w1").await?;
    rig.allocator.stop().await
}

/// `externalTrafficPolicy: Local`: the VIP is on a node with an endpoint, and the endpoint sees the client's address.
async fn local(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = TrafficRig::set(&ctx.dir, 3, &range()).await?;
    rig.backends("web", &["w2"]).await?;
    rig.expose("web", "Local", &[(Protocol::Tcp, HTTP)]).await?;
    let shown = rig.external_ip("web").await?;
    let client = rig.client_ip()?;
    let to = SocketAddr::new(shown, HTTP);
    let answer = rig.answered(Protocol::Tcp, to, |_| true).await?;
    ensure!(answer.backend == "w2" && answer.sees == client, "{answer:?}");
    ensure!(rig.workers.settled(shown).await? == "w2", "it is not where the endpoint is");
    // The endpoints move: the VIP moves with them.
    rig.backends("web", &["w3"]).await?;
    let answer = rig.answered(Protocol::Tcp, to, |answer| answer.backend == "w3").await?;
    ensure!(answer.sees == client, "{answer:?}");
    ensure!(rig.workers.settled_but(shown, &["w2"]).await? == "w3", "it is not where the endpoint is");
    rig.allocator.stop().await
}

async fn both(ctx: &mut Ctx<()>) -> Result<()> {
    const DNS: u16 = 53;
    let rig = TrafficRig::set(&ctx.dir, 2, &range()).await?;
    rig.backends("dns", &["w1", "w2"]).await?;
    rig.expose("dns", "Cluster", &[(Protocol::Tcp, DNS), (Protocol::Udp, DNS)]).await?;
    let to = SocketAddr::new(rig.external_ip("dns").await?, DNS);
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        rig.answered(protocol, to, |_| true).await?;
    }
    rig.allocator.stop().await
}

async fn crashed(ctx: &mut Ctx<()>) -> Result<()> {
    let mut rig = TrafficRig::set(&ctx.dir, 3, &range()).await?;
    rig.expose("web", "Cluster", &[(Protocol::Tcp, HTTP)]).await?;
    let shown = rig.external_ip("web").await?;
    let holder = rig.workers.settled(shown).await?;
    // The endpoints are on other nodes: the test measures only the VIP.
    let others: Vec<String> = rig.workers.nodes.iter().filter(|node| **node != holder).cloned().collect();
    rig.backends("web", &others.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let to = SocketAddr::new(shown, HTTP);
    rig.answered(Protocol::Tcp, to, |_| true).await?;
    // The watching nodes must have heard the holder first.
    pass(5).await;
    let stream = Stream::start(&rig.client()?, Protocol::Tcp, to, QUESTION)?;
    let crash = rig.workers.crash(&holder)?;
    let deadline = now() + SOON;
    let back = loop {
        pass(1).await;
        let answered = stream.asked().into_iter().find(|one| one.at > crash && one.answer.is_ok());
        if let Some(first) = answered.filter(|_| stream.answered(crash).len() > 100) {
            break first.at.since(crash);
        }
        ensure!(now() < deadline, "nobody answers any more; {}", rig.logs());
    };
    ctx.note(&format!("the client was without its Service for {} ms", back.as_millis()));
    ensure!(back < MOVED, "away for {back:?}; {}", rig.logs());
    rig.allocator.stop().await
}

/// A Service with a backend on each worker: its address, and the holder of its VIP.
async fn web(rig: &TrafficRig) -> Result<(SocketAddr, String)> {
    rig.backends("web", &["w1", "w2", "w3"]).await?;
    rig.expose("web", "Cluster", &[(Protocol::Tcp, HTTP)]).await?;
    let shown = rig.external_ip("web").await?;
    let holder = rig.workers.settled(shown).await?;
    let to = SocketAddr::new(shown, HTTP);
    rig.answered(Protocol::Tcp, to, |_| true).await?;
    Ok((to, holder))
}

async fn drained(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = TrafficRig::set(&ctx.dir, 3, &range()).await?;
    let (to, holder) = web(&rig).await?;
    pass(5).await;
    let stream = Stream::start(&rig.client()?, Protocol::Tcp, to, Duration::from_secs(5))?;
    pass(1).await;
    let from = now();
    rig.workers.lab().agent(&holder)?.process()?.terminate()?;
    let next = rig.workers.settled_but(to.ip(), &[&holder]).await?;
    pass(2).await;
    let told = all_answered(&rig, &stream, to.ip(), from)?;
    ctx.note(&format!("{told} on the way from {holder} to {next}"));
    rig.allocator.stop().await
}

/// A pool limits the nodes that may hold its addresses: the VIP moves to such a node, and the client loses nothing.
async fn steered(ctx: &mut Ctx<()>) -> Result<()> {
    const POOL: &str = "/apis/ipam.cluster.x-k8s.io/v1alpha2/globalinclusterippools/kubevip-global-ipv4";
    let rig = TrafficRig::set(&ctx.dir, 3, &range()).await?;
    let nodes = ["w1", "w2", "w3"];
    rig.backends("web", &nodes).await?;
    rig.expose("web", "Cluster", &[(Protocol::Tcp, HTTP)]).await?;
    let shown = rig.external_ip("web").await?;
    let from = now();
    let holder = rig.workers.settled(shown).await?;
    let other = nodes.into_iter().find(|node| *node != holder).unwrap_or_default();
    let label = json!({"metadata": {"labels": {"example.com/edge": "yes"}}});
    rig.allocators.server.merge(&format!("/api/v1/nodes/{other}"), &label).await?;
    let say = |text: &str| json!({"metadata": {"annotations": {"mooring.dev/node-selector": text}}});
    rig.allocators.server.merge(POOL, &say("example.com/edge=yes")).await?;
    ensure!(rig.workers.settled_but(shown, &[&holder]).await? == other, "not where its pool says; {}", rig.logs());
    // An invalid value changes nothing.
    rig.allocators.server.merge(POOL, &say("example.com/edge in (no)")).await?;
    pass(3).await;
    ensure!(rig.workers.settled(shown).await? == other, "it moved; {}", rig.logs());
    rig.workers.never_gone(shown, from)?;
    // A later Service goes to the same node.
    rig.allocators.server.merge(POOL, &say("example.com/edge")).await?;
    rig.backends("more", &nodes).await?;
    rig.expose("more", "Cluster", &[(Protocol::Tcp, HTTP)]).await?;
    let more = rig.external_ip("more").await?;
    ensure!(rig.workers.settled(more).await? == other, "not where its pool says; {}", rig.logs());
    let held = rig.workers.timeline(more).holds().len();
    ensure!(held == 1, "it was elsewhere before; {}", rig.logs());
    rig.allocator.stop().await
}

/// Without an allocator, advertised VIPs stay, and still move from node to node.
async fn allocator_away(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = TrafficRig::set(&ctx.dir, 3, &range()).await?;
    let (to, holder) = web(&rig).await?;
    pass(3).await;
    let stream = Stream::start(&rig.client()?, Protocol::Tcp, to, Duration::from_secs(5))?;
    let from = now();
    rig.allocator.kill().await?;
    pass(5).await;
    rig.workers.lab().agent(&holder)?.process()?.terminate()?;
    let next = rig.workers.settled_but(to.ip(), &[&holder]).await?;
    // No Service gets a new address meanwhile; a waiting Service gets its address afterwards.
    rig.backends("more", &["w1"]).await?;
    rig.expose("more", "Cluster", &[(Protocol::Tcp, HTTP)]).await?;
    pass(3).await;
    ensure!(rig.service("more").await?["status"]["loadBalancer"]["ingress"].is_null(), "who gave it one?");
    rig.allocator.start_again()?;
    rig.external_ip("more").await?;
    let deadline = now() + SOON;
    while rig.service("web").await?["metadata"]["annotations"]["kube-vip.io/vipHost"] != json!(next) {
        ensure!(now() < deadline, "it does not say that {next} holds it; {}", rig.logs());
        pass(1).await;
    }
    ensure!(rig.external_ip("web").await? == to.ip(), "it has another address");
    all_answered(&rig, &stream, to.ip(), from)?;
    rig.workers.never_gone(to.ip(), from)?;
    rig.allocator.stop().await
}

/// Fails when a question since `from` was not answered. One may fail: it was under way when the VIP went from one node to the next,
/// which knows nothing of a connection to the node before (conntrack is each kernel's own).
fn all_answered(rig: &TrafficRig, stream: &Stream, vip: IpAddr, from: Time) -> Result<String> {
    let (failed, answered) = (stream.unanswered(from), stream.answered(from).len());
    let moves = rig.workers.timeline(vip).two_owners(from, now());
    let at_a_move = |one: &Asked| moves.iter().any(|gap| one.at <= gap.to && gap.from <= one.until + NOTED);
    let (cut, lost): (Vec<_>, Vec<_>) = failed.into_iter().partition(at_a_move);
    let told = format!("{answered} questions answered, {} cut by the move, {} lost", cut.len(), lost.len());
    ensure!(
        lost.is_empty() && cut.len() <= 1 && answered > 50,
        "{told}: {lost:?}, {cut:?}, moves {moves:?}; {}",
        rig.logs()
    );
    Ok(told)
}

fn range() -> serde_json::Value {
    json!({"range-global": format!("{}-{}", vip(0), vip(3))})
}
