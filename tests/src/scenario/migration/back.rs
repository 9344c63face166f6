//! Back to kube-vip, node by node, as the book says it: no VIP is ever on two nodes, nothing of Mooring is left on a node or
//! in the way of kube-vip, and Services keep their addresses. A stand-in for kube-vip has its elector and its addresses.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::agents::AgentOptions;
use crate::assets::{self, Profile};
use crate::ipam::server::{IPAM, Server, kube_vip_placement_roles};
use crate::ipam::services::{ADDRESSES, ingress};
use crate::lab::{Lab, Shape};
use crate::observe::echo;
use crate::observe::footprint::Footprint;
use crate::observe::now;
use crate::observe::timeline::total;
use crate::rig::allocator::AllocatorRig;
use crate::rig::kube_vip::KubeVip;
use crate::rig::worker::{SOON, WorkerRig, vip};
use crate::runner::Ctx;
use crate::scenario::rig::{ScenarioRig, pass};

/// The Leases of the control plane and of all Services.
const CONTROL_PLANE: (&str, &str) = ("kube-system", "plndr-cp-lock");
const SERVICES: (&str, &str) = ("kube-system", "plndr-svcs-lock");
/// An agent's end, with its hand-over.
const ENDED: Duration = Duration::from_secs(20);
/// kube-vip looks at a Lease every 2 to 4.4 s (client-go's jitter); Mooring serves for 3 s after it gave the Lease up.
const LOOKS: Duration = Duration::from_secs(5);
/// Services.
const COUNT: u8 = 3;

/// What is on each node.
fn footprints(lab: &Lab, nodes: &[String]) -> Result<Vec<Footprint>> {
    nodes.iter().map(|node| Ok(Footprint::of(&lab.netns(node)?)?)).collect()
}

/// Fails when a node has changed, but for these VIPs on the one that has them.
fn nothing_left(before: &[Footprint], now: &[Footprint], vips: &[IpAddr]) -> Result<()> {
    for (before, now) in before.iter().zip(now) {
        let mut changes = before.changes(now);
        changes.retain(|change| !vips.iter().any(|vip| change.contains(&format!("address {vip}:"))));
        ensure!(changes.is_empty(), "left behind: {changes:#?}");
    }
    Ok(())
}

/// The VIP of the control plane: static pods are moved out, those of other nodes before the holder's.
pub async fn control_plane(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = ScenarioRig::set(ctx, Shape::external(), AgentOptions::default()).await?;
    let (nodes, vip) = (rig.lab.control_planes(), rig.lab.vip());
    let before = footprints(&rig.lab, &nodes)?;
    rig.start_agents()?;
    let holder = rig.settled().await?;
    rig.all_take_part().await?;
    let from = now();
    let order = nodes.iter().filter(|node| **node != holder).chain([&holder]);
    let mut kube_vips = Vec::new();
    for node in order {
        rig.lab.agent(node)?.stop(ENDED).await?;
        kube_vips.push((node.clone(), KubeVip::start(&rig.lab, node, CONTROL_PLANE, &[vip]).await?));
        if *node != holder {
            // Mixed: kube-vip waits while Mooring renews.
            pass(5).await;
            rig.still(&holder, from)?;
        }
    }
    let first = rig.settled().await?;
    // Longer than a Lease lasts: kube-vip renews it, whatever is written on it.
    pass(18).await;
    rig.still(&first, now())?;
    ensure!(rig.lease().await?.spec.and_then(|spec| spec.holder_identity).as_deref() == Some(&first), "not renewed");
    let gone = total(&rig.timeline().nobody(from, now()));
    ctx.note(&format!("nobody had the VIP for {} ms on the way to kube-vip", gone.as_millis()));
    ensure!(gone < LOOKS, "gone for {gone:?}; {}", rig.logs());
    nothing_left(&before, &footprints(&rig.lab, &nodes)?, &[vip])?;
    // And from kube-vip to kube-vip.
    let at = kube_vips.iter().position(|(node, _)| *node == first).context("none holds it")?;
    kube_vips.swap_remove(at).1.stop().await?;
    rig.successor(&first, ENDED).await?;
    rig.never_shared(from)?;
    for (_, kube_vip) in &kube_vips {
        kube_vip.stop().await?;
    }
    nothing_left(&before, &footprints(&rig.lab, &nodes)?, &[])
}

/// VIPs of Services: kube-vip's placement on every node, kube-vip's image, and the allocator leaves Services alone before it goes.
pub async fn services(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::set(ctx, 3, COUNT, true).await?;
    let binary = tokio::task::spawn_blocking(|| assets::allocator(Profile::Dev)).await??;
    let allocators = AllocatorRig::unwatched(Server::of(rig.lab().clone()).await?, binary).await?;
    for object in kube_vip_placement_roles(false)? {
        rig.server.apply(&object).await.context("the role is refused")?;
    }
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kubevip", "namespace": "kube-system"},
        "data": {"range-global": format!("{}-{}", vip(0), vip(COUNT - 1))},
    });
    rig.server.create("/api/v1/namespaces/kube-system/configmaps", &config).await?;
    let allocator = allocators.start("allocator").await?;
    let before = footprints(rig.lab(), &rig.nodes)?;
    rig.start_agents(&WorkerRig::options())?;
    let mut given = Vec::new();
    for n in 0..COUNT {
        let spec = json!({"type": "LoadBalancer", "selector": {"app": "echo"}, "allocateLoadBalancerNodePorts": false,
            "ports": [{"name": "echo", "port": echo::PORT, "protocol": "UDP"}]});
        let object =
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{n}")}, "spec": spec});
        rig.server.create("/api/v1/namespaces/default/services", &object).await?;
        given.push(shown(&rig, n).await?);
        rig.settled(given[usize::from(n)]).await?;
    }
    let from = now();

    // 1. kube-vip's placement, node by node.
    let as_kube_vip = WorkerRig::options().env("MOORING_SERVICES_PLACEMENT", "global-lease");
    for node in rig.nodes.clone() {
        rig.lab().agent(&node)?.stop(ENDED).await?;
        rig.start_agent(&node, &as_kube_vip)?;
        pass(3).await;
    }
    let holder = together(&rig, &given, ENDED).await?;
    // 2. kube-vip's image, on the Lease's holder last.
    let order: Vec<String> = rig.nodes.iter().filter(|node| **node != holder).chain([&holder]).cloned().collect();
    let mut kube_vips = Vec::new();
    for node in &order {
        rig.lab().agent(node)?.stop(ENDED).await?;
        kube_vips.push(KubeVip::start(rig.lab(), node, SERVICES, &given).await?);
        if *node != holder {
            pass(5).await;
            ensure!(together(&rig, &given, SOON).await? == holder, "they moved; {}", rig.logs());
        }
    }
    let kube_vip = together(&rig, &given, ENDED).await?;
    ctx.note(&format!("{kube_vip} has them by kube-vip, after {holder} by Mooring"));

    // 3. The allocator leaves Services alone, gives up what it claimed for them, and goes.
    allocator.stop().await?;
    let last = allocators.start_with("last", &["--leader-election=false", "--services=off"]).await?;
    empty(&rig.server).await?;
    last.stop().await?;
    pass(18).await;

    for (n, ip) in (0..).zip(&given) {
        let service = rig.server.get(&path(n)).await?;
        ensure!(ingress(&service) == [ip.to_string()], "s{n} had {ip}: {service}");
        ensure!(service["metadata"]["annotations"][ADDRESSES] == ip.to_string(), "kube-vip finds no {ip}: {service}");
        ensure!(service["metadata"]["finalizers"].is_null(), "who takes the finalizers off? {service}");
        rig.never_shared(*ip, from)?;
        ensure!(rig.settled(*ip).await? == kube_vip, "it moved");
    }
    nothing_left(&before, &footprints(rig.lab(), &rig.nodes)?, &given)?;
    // A Service can be deleted with nobody left to help.
    rig.server.delete(&path(0)).await?;
    let gone = rig.server.get(&path(0)).await.err().context("it stays")?;
    ensure!(gone.code == 404, "{gone}");
    for kube_vip in &kube_vips {
        kube_vip.stop().await?;
    }
    nothing_left(&before, &footprints(rig.lab(), &rig.nodes)?, &[])
}

fn path(n: u8) -> String {
    format!("/api/v1/namespaces/default/services/s{n}")
}

/// Waits for the address in a Service's status.
async fn shown(rig: &WorkerRig, n: u8) -> Result<IpAddr> {
    let deadline = now() + ENDED;
    loop {
        let service = rig.server.get(&path(n)).await?;
        if let Some(ip) = ingress(&service).first() {
            return Ok(ip.parse()?);
        }
        ensure!(now() < deadline, "s{n} stays pending: {service}; {}", rig.logs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until one node has all of them.
async fn together(rig: &WorkerRig, vips: &[IpAddr], limit: Duration) -> Result<String> {
    let deadline = now() + limit;
    loop {
        let mut holders: Vec<String> = Vec::new();
        for vip in vips {
            holders.extend(rig.timeline(*vip).holders_at(now()).into_iter().map(str::to_owned));
        }
        if holders.len() == vips.len() && holders.windows(2).all(|pair| pair[0] == pair[1]) {
            return Ok(holders.swap_remove(0));
        }
        ensure!(now() < deadline, "they are on {holders:?}; {}", rig.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Deletes the claims that were made for Services, and their pool, and waits until nothing is left that would wait for an allocator.
async fn empty(server: &Server) -> Result<()> {
    let all = async |version: &str, plural: &str| -> Result<Vec<Value>> {
        let list = server.get(&format!("{IPAM}/{version}/{plural}")).await?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    };
    let claims = all("v1beta2", "ipaddressclaims?labelSelector=mooring.dev/service-family").await?;
    ensure!(claims.len() == usize::from(COUNT), "{claims:?}");
    for claim in claims {
        let text = |key: &str| claim["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        server.delete(&format!("{IPAM}/v1beta2/namespaces/{namespace}/ipaddressclaims/{name}")).await?;
    }
    let deadline = now() + ENDED;
    let gone = async |version: &str, plural: &str| -> Result<()> {
        loop {
            let left = all(version, plural).await?;
            if left.is_empty() {
                return Ok(());
            }
            ensure!(now() < deadline, "left: {left:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    gone("v1beta2", "ipaddressclaims").await?;
    gone("v1beta2", "ipaddresses").await?;
    server.delete(&format!("{IPAM}/v1alpha2/globalinclusterippools/kubevip-global-ipv4")).await?;
    gone("v1alpha2", "globalinclusterippools").await
}
