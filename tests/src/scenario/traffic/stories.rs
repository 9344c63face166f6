//! What is told of clients and Services.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::town::{QUESTION, Town};
use crate::observe::now;
use crate::runner::{Ctx, Test};
use crate::scenario::scene::pass;
use crate::scenario::services::field::{SOON, vip};
use crate::scenario::story;
use crate::traffic::{Protocol, Stream};

const HTTP: u16 = 80;
/// A node that died may be missed for so long on a busy machine.
const MOVED: Duration = Duration::from_secs(8);

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("traffic", exposed, "the-tutorials-service-answers", 4),
        story!("traffic", local, "local-policy-keeps-the-clients-address", 4),
        story!("traffic", both, "tcp-and-udp-on-one-port", 4),
        story!("traffic", crashed, "client-goes-on-when-the-holder-dies", 4, alone: true),
        story!("traffic", steered, "what-a-pool-says-moves-its-vips", 4),
        story!("traffic", allocator_away, "client-goes-on-without-the-allocator", 4, alone: true),
        story!("traffic", drained, "client-notices-no-drain", 4, alone: true),
    ]
}

/// `kubectl expose --type=LoadBalancer`: pending, then the address of `cidr-global`, then the client is answered.
async fn exposed(ctx: &mut Ctx<()>) -> Result<()> {
    let only = vip(0);
    let town = Town::set(&ctx.dir, 2, &json!({"cidr-global": format!("{only}/32")})).await?;
    town.backends("web", &["w1", "w2"]).await?;
    let begin = now();
    town.expose("web", "Cluster", &[(Protocol::Tcp, HTTP)]).await?;
    let shown = town.external_ip("web").await?;
    ensure!(shown == only, "it is {shown}, of a pool of {only} alone");
    let to = SocketAddr::new(shown, HTTP);
    town.answered(Protocol::Tcp, to, |_| true).await?;
    ctx.note(&format!("{to} answers {} ms after the Service was made", now().since(begin).as_millis()));
    let ingress = town.service("web").await?["status"]["loadBalancer"]["ingress"][0].clone();
    ensure!(ingress["ipMode"] == "VIP", "{ingress}");
    // Both backends are reached by the one address.
    let mut met = BTreeSet::new();
    while met.len() < 2 {
        let answer = town.answered(Protocol::Tcp, to, |answer| !met.contains(&answer.backend)).await?;
        met.insert(answer.backend);
    }
    // There is no second address: the next Service waits, and is served when the first one goes.
    town.backends("more", &["w1"]).await?;
    town.expose("more", "Cluster", &[(Protocol::Tcp, HTTP)]).await?;
    pass(2).await;
    let second = town.service("more").await?;
    ensure!(second["status"]["loadBalancer"]["ingress"].is_null(), "a second Service has the address: {second}");
    town.delete("web").await?;
    let shown = town.external_ip("more").await?;
    ensure!(shown == only, "it is {shown}");
    town.answered(Protocol::Tcp, to, |answer| answer.backend == "w1").await?;
    town.allocator.stop().await
}

/// `externalTrafficPolicy: Local`: the VIP is where an endpoint is, and the endpoint sees who asks.
async fn local(ctx: &mut Ctx<()>) -> Result<()> {
    let town = Town::set(&ctx.dir, 3, &range()).await?;
    town.backends("web", &["w2"]).await?;
    town.expose("web", "Local", &[(Protocol::Tcp, HTTP)]).await?;
    let shown = town.external_ip("web").await?;
    let client = town.client_ip()?;
    let to = SocketAddr::new(shown, HTTP);
    let answer = town.answered(Protocol::Tcp, to, |_| true).await?;
    ensure!(answer.backend == "w2" && answer.sees == client, "{answer:?}");
    ensure!(town.field.settled(shown).await? == "w2", "it is not where the endpoint is");
    // The endpoints move: so does the VIP.
    town.backends("web", &["w3"]).await?;
    let answer = town.answered(Protocol::Tcp, to, |answer| answer.backend == "w3").await?;
    ensure!(answer.sees == client, "{answer:?}");
    ensure!(town.field.settled_but(shown, &["w2"]).await? == "w3", "it is not where the endpoint is");
    town.allocator.stop().await
}

async fn both(ctx: &mut Ctx<()>) -> Result<()> {
    const DNS: u16 = 53;
    let town = Town::set(&ctx.dir, 2, &range()).await?;
    town.backends("dns", &["w1", "w2"]).await?;
    town.expose("dns", "Cluster", &[(Protocol::Tcp, DNS), (Protocol::Udp, DNS)]).await?;
    let to = SocketAddr::new(town.external_ip("dns").await?, DNS);
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        town.answered(protocol, to, |_| true).await?;
    }
    town.allocator.stop().await
}

async fn crashed(ctx: &mut Ctx<()>) -> Result<()> {
    let mut town = Town::set(&ctx.dir, 3, &range()).await?;
    town.expose("web", "Cluster", &[(Protocol::Tcp, HTTP)]).await?;
    let shown = town.external_ip("web").await?;
    let holder = town.field.settled(shown).await?;
    // The endpoints are elsewhere: what is measured is the VIP.
    let others: Vec<String> = town.field.nodes.iter().filter(|node| **node != holder).cloned().collect();
    town.backends("web", &others.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let to = SocketAddr::new(shown, HTTP);
    town.answered(Protocol::Tcp, to, |_| true).await?;
    // Watchers have to have heard the holder before.
    pass(5).await;
    let stream = Stream::start(&town.client()?, Protocol::Tcp, to, QUESTION)?;
    let crash = town.field.crash(&holder)?;
    let deadline = now() + SOON;
    let back = loop {
        pass(1).await;
        let answered = stream.asked().into_iter().find(|one| one.at > crash && one.answer.is_ok());
        if let Some(first) = answered.filter(|_| stream.answered(crash).len() > 100) {
            break first.at.since(crash);
        }
        ensure!(now() < deadline, "nobody answers any more; {}", town.logs());
    };
    ctx.note(&format!("the client was without its Service for {} ms", back.as_millis()));
    ensure!(back < MOVED, "away for {back:?}; {}", town.logs());
    town.allocator.stop().await
}

/// A Service with a backend on each worker: where it answers, and who carries its VIP.
async fn web(town: &Town) -> Result<(SocketAddr, String)> {
    town.backends("web", &["w1", "w2", "w3"]).await?;
    town.expose("web", "Cluster", &[(Protocol::Tcp, HTTP)]).await?;
    let shown = town.external_ip("web").await?;
    let holder = town.field.settled(shown).await?;
    let to = SocketAddr::new(shown, HTTP);
    town.answered(Protocol::Tcp, to, |_| true).await?;
    Ok((to, holder))
}

async fn drained(ctx: &mut Ctx<()>) -> Result<()> {
    let town = Town::set(&ctx.dir, 3, &range()).await?;
    let (to, holder) = web(&town).await?;
    pass(5).await;
    let stream = Stream::start(&town.client()?, Protocol::Tcp, to, Duration::from_secs(5))?;
    pass(1).await;
    let from = now();
    town.field.lab().agent(&holder)?.process()?.terminate()?;
    let next = town.field.settled_but(to.ip(), &[&holder]).await?;
    pass(2).await;
    let (lost, answered) = (stream.unanswered(from), stream.answered(from).len());
    ctx.note(&format!("{answered} questions answered on the way from {holder} to {next}"));
    ensure!(lost.is_empty() && answered > 50, "{} of {answered} were not: {lost:?}; {}", lost.len(), town.logs());
    town.allocator.stop().await
}

/// A pool says which nodes may hold its addresses: the VIP goes there, and the client notices nothing.
async fn steered(ctx: &mut Ctx<()>) -> Result<()> {
    const POOL: &str = "/apis/ipam.cluster.x-k8s.io/v1alpha2/globalinclusterippools/kubevip-global-ipv4";
    let town = Town::set(&ctx.dir, 3, &range()).await?;
    let nodes = ["w1", "w2", "w3"];
    town.backends("web", &nodes).await?;
    town.expose("web", "Cluster", &[(Protocol::Tcp, HTTP)]).await?;
    let shown = town.external_ip("web").await?;
    let from = now();
    let holder = town.field.settled(shown).await?;
    let other = nodes.into_iter().find(|node| *node != holder).unwrap_or_default();
    let label = json!({"metadata": {"labels": {"example.com/edge": "yes"}}});
    town.stage.server.merge(&format!("/api/v1/nodes/{other}"), &label).await?;
    let say = |text: &str| json!({"metadata": {"annotations": {"mooring.dev/node-selector": text}}});
    town.stage.server.merge(POOL, &say("example.com/edge=yes")).await?;
    ensure!(town.field.settled_but(shown, &[&holder]).await? == other, "not where its pool says; {}", town.logs());
    // What makes no sense changes nothing.
    town.stage.server.merge(POOL, &say("example.com/edge in (no)")).await?;
    pass(3).await;
    ensure!(town.field.settled(shown).await? == other, "it moved; {}", town.logs());
    town.field.never_gone(shown, from)?;
    // One that comes later is there too.
    town.stage.server.merge(POOL, &say("example.com/edge")).await?;
    town.backends("more", &nodes).await?;
    town.expose("more", "Cluster", &[(Protocol::Tcp, HTTP)]).await?;
    let more = town.external_ip("more").await?;
    ensure!(town.field.settled(more).await? == other, "not where its pool says; {}", town.logs());
    let held = town.field.timeline(more).holds().len();
    ensure!(held == 1, "it was elsewhere before; {}", town.logs());
    town.allocator.stop().await
}

/// What is advertised stays, and moves from node to node, while there is no allocator.
async fn allocator_away(ctx: &mut Ctx<()>) -> Result<()> {
    let town = Town::set(&ctx.dir, 3, &range()).await?;
    let (to, holder) = web(&town).await?;
    pass(3).await;
    let stream = Stream::start(&town.client()?, Protocol::Tcp, to, Duration::from_secs(5))?;
    let from = now();
    town.allocator.kill().await?;
    pass(5).await;
    town.field.lab().agent(&holder)?.process()?.terminate()?;
    let next = town.field.settled_but(to.ip(), &[&holder]).await?;
    // Nobody gets a new address meanwhile, and whoever waits for one gets it afterwards.
    town.backends("more", &["w1"]).await?;
    town.expose("more", "Cluster", &[(Protocol::Tcp, HTTP)]).await?;
    pass(3).await;
    ensure!(town.service("more").await?["status"]["loadBalancer"]["ingress"].is_null(), "who gave it one?");
    town.allocator.start_again()?;
    town.external_ip("more").await?;
    let deadline = now() + SOON;
    while town.service("web").await?["metadata"]["annotations"]["kube-vip.io/vipHost"] != json!(next) {
        ensure!(now() < deadline, "it does not say that {next} holds it; {}", town.logs());
        pass(1).await;
    }
    ensure!(town.external_ip("web").await? == to.ip(), "it has another address");
    let (lost, answered) = (stream.unanswered(from), stream.answered(from).len());
    ensure!(lost.is_empty() && answered > 50, "{} of {answered} were not: {lost:?}; {}", lost.len(), town.logs());
    town.field.never_gone(to.ip(), from)?;
    town.allocator.stop().await
}

fn range() -> serde_json::Value {
    json!({"range-global": format!("{}-{}", vip(0), vip(3))})
}
