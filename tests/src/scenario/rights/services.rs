//! VIPs of Services: the allocator (`manifests/allocator`), and the agents of a `DaemonSet` (`manifests/agent`).

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{asked, refused};
use crate::ipam::component;
use crate::ipam::server::{Crds, Server, documents_in};
use crate::ipam::services::{GLOBAL, ingress};
use crate::lab::Shape;
use crate::observe::page::page;
use crate::observe::rights::{Right, wrong};
use crate::observe::{echo, now};
use crate::rig::allocator::{AllocatorRig, USER};
use crate::rig::worker::{self, SOON, WorkerRig, vip};
use crate::runner::Ctx;

/// For what takes several steps of several programs.
const LONG: Duration = Duration::from_mins(1);
const SERVICES: &str = "/api/v1/namespaces/default/services";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/mooring-system/roles";
/// Where agents serve `/readyz` by default.
const METRICS: u16 = 2112;
const CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps";
/// What neither service account may read.
const OTHERS: [&str; 3] = [
    "/api/v1/secrets",
    "/api/v1/namespaces/default/configmaps",
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
];

/// What agents ask seldom: an `IPAddress` after a link came up or a take-over that is in doubt, a Lease after a write that one API
/// server did not answer while another says that the Lease has changed, and a member object after a write that met a newer version.
const SELDOM: [&str; 3] = [
    r#"not needed: get ipaddresses of "ipam.cluster.x-k8s.io""#,
    r#"not needed: get leases of "coordination.k8s.io" in mooring-system"#,
    r#"not needed: get configmaps of "" in mooring-system"#,
];

/// A pool from kube-vip's `ConfigMap`; Services that get addresses, whose nodes fail and come back; another host with a VIP; Services
/// and the pool that go.
pub async fn all_that_they_do(ctx: &mut Ctx<()>) -> Result<()> {
    let mut rig = WorkerRig::on(&ctx.dir, Shape::api_servers(1).audited(), 3, 3, true).await?;
    let roles = documents_in("allocator/rbac.yaml")?;
    let allocators = AllocatorRig::confined(Server::of(rig.lab().clone()).await?, Crds::Standalone, &roles).await?;
    for user in [USER, worker::USER] {
        refused(&rig.server, user, &OTHERS).await?;
    }
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kubevip", "namespace": "kube-system"},
        "data": {"range-global": format!("{}-{}", vip(0), vip(2))},
    });
    rig.server.create(CONFIG, &config).await?;
    let allocator = allocators.start("allocator").await?;
    rig.start_agents(&WorkerRig::options())?;

    // A Service of each policy, and one that shares an address; the third address is another host's.
    rig.lab().stranger(vip(0), true)?;
    for (n, policy, port) in [(0, "Cluster", echo::PORT), (1, "Local", echo::PORT), (2, "Local", 80)] {
        let annotations = if n == 0 { json!({}) } else { json!({"mooring.dev/sharing-key": "both"}) };
        let spec = json!({
            "type": "LoadBalancer", "selector": {"app": "echo"}, "externalTrafficPolicy": policy,
            "ports": [{"name": "echo", "port": port, "protocol": "UDP"}],
        });
        let metadata = json!({"name": format!("s{n}"), "annotations": annotations});
        let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
        rig.server.create(SERVICES, &object).await?;
    }
    for n in [1, 2] {
        rig.endpoints(n, &[("w1", true), ("w2", true)]).await?;
    }
    let given = [shown(&rig, 0).await?, shown(&rig, 1).await?];
    ensure!(shown(&rig, 2).await? == given[1], "they share no address");
    ensure!(!given.contains(&vip(0)), "another host has {}: {given:?}", vip(0));
    rig.lab().stranger_leaves(vip(0))?;

    // The node that has the second one fails, and comes back.
    let holder = rig.settled(given[1]).await?;
    rig.settled(given[0]).await?;
    rig.crash(&holder)?;
    rig.settled_but(given[1], &[&holder]).await?;
    rig.settled_but(given[0], &[&holder]).await?;
    rig.revive(&holder)?;

    for n in [0, 1, 2] {
        rig.server.delete(&format!("{SERVICES}/s{n}")).await?;
    }
    allocators
        .world
        .until("the claims to be gone", |all| all.all("IPAddressClaim", "").next().is_none().then_some(()))
        .await?;
    rig.server.delete(&format!("{CONFIG}/kubevip")).await?;
    allocators.world.until("the pool to be gone", |all| all.all(GLOBAL, "").next().is_none().then_some(())).await?;
    allocator.stop().await?;
    for node in rig.nodes.clone() {
        rig.lab().agent(&node)?.stop(SOON).await?;
    }

    let of_agents = Right::all(&documents_in("agent/rbac.yaml")?);
    let of_agents = wrong(&of_agents, &asked(rig.lab(), worker::USER, "mooring-agent")?);
    let of_agents: Vec<_> = of_agents.into_iter().filter(|one| !SELDOM.contains(&one.as_str())).collect();
    ensure!(of_agents.is_empty(), "the roles of the agents: {of_agents:#?}");
    // What claims need has a test of its own.
    let for_claims = Right::all(&component::roles("allocator/rbac.yaml", "allocator/claims-only")?);
    let for_services: Vec<Right> = Right::all(&roles).into_iter().filter(|right| !for_claims.contains(right)).collect();
    ensure!(for_services.len() > 10, "{for_services:?}");
    let of_allocator = wrong(&for_services, &asked(rig.lab(), USER, "mooring-allocator")?);
    ensure!(of_allocator.is_empty(), "the roles of the allocator: {of_allocator:#?}");
    Ok(())
}

/// Someone upgrades the agents' image before their rights: they carry nothing, and say what is missing, until the rights come.
pub async fn before_the_new_rights(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::on(&ctx.dir, Shape::api_servers(1), 2, 1, true).await?;
    let (path, kind) = (format!("{ROLES}/mooring-agent"), "configmaps");
    let role = rig.server.get(&path).await?;
    let (_, before): (Vec<Value>, Vec<Value>) = role["rules"]
        .as_array()
        .context("a Role without rules")?
        .iter()
        .cloned()
        .partition(|rule| rule["resources"] == json!([kind]));
    ensure!(before.len() == 1, "{role}");
    rig.server.merge(&path, &json!({"rules": before})).await?;
    rig.start_agents(&WorkerRig::options())?;
    rig.make(0, "Cluster").await?;
    for node in &rig.nodes {
        let said = ready(&rig, node, |code, said| code != 200 && said.contains("mooring-member")).await?;
        ensure!(said.contains(&format!("mooring-member.{node}")) && said.contains(kind), "{node}: {said}");
    }
    ensure!(rig.timeline(vip(0)).holds().is_empty(), "carried by nodes that none is told of; {}", rig.logs());
    rig.server.merge(&path, &json!({"rules": role["rules"]})).await?;
    rig.settled(vip(0)).await?;
    for node in &rig.nodes {
        ready(&rig, node, |code, _| code == 200).await?;
    }
    Ok(())
}

/// Waits until an agent's `/readyz` says this.
async fn ready(rig: &WorkerRig, node: &str, this: impl Fn(u16, &str) -> bool) -> Result<String> {
    let (netns, deadline) = (rig.lab().netns(node)?, now() + LONG);
    loop {
        let answer = page(&netns, METRICS, "/readyz").await;
        if let Some((_, said)) = answer.as_ref().ok().filter(|(code, said)| this(*code, said)) {
            return Ok(said.clone());
        }
        ensure!(now() < deadline, "{node}: {answer:?}; {}", rig.logs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until a node carries the address in a Service's status.
async fn shown(rig: &WorkerRig, n: u8) -> Result<IpAddr> {
    let deadline = now() + LONG;
    loop {
        let service = rig.server.get(&format!("{SERVICES}/s{n}")).await?;
        if let Some(ip) = ingress(&service).first() {
            return ip.parse().context("no address");
        }
        ensure!(now() < deadline, "s{n} stays pending: {service}; {}", rig.logs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
