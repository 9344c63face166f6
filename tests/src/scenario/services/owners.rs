//! Addresses that nodes have for themselves are asked for: as k3s's `ServiceLB` writes them into the status, in kube-vip's annotation, in
//! the field, and by an `IPAddress`. In no placement does any other node answer for them. The last node runs no agent.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mooring_agent::core::mac::Mac;
use mooring_agent::core::time::Time;
use serde_json::{Value, json};

use crate::agents::AgentOptions;
use crate::ipam::server::kube_vip_placement_roles;
use crate::observe::echo;
use crate::observe::neighbours::forget_neighbour;
use crate::observe::now;
use crate::observe::prober::Prober;
use crate::observe::tap::Tap;
use crate::rig::worker::{SOON, WorkerRig, vip};
use crate::runner::{Ctx, Test};
use crate::scenario::rig::pass;
use crate::scenario::story;

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("owners", global, "addresses-of-nodes-global-lease", 6),
        story!("owners", per_service, "addresses-of-nodes-lease-per-service", 6),
        story!("owners", sessions, "addresses-of-nodes-session", 6),
    ]
}

/// The node without an agent.
const BARE: &str = "w4";
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Four nodes, and what is seen of their addresses on the segment.
struct Owned {
    rig: WorkerRig,
    tap: Tap,
    from: Time,
}

impl Owned {
    async fn set(ctx: &Ctx<()>) -> Result<Self> {
        let rig = WorkerRig::set(ctx, 4, 1, true).await?;
        // Every frame comes in by its sender's port of the bridge.
        let tap = Tap::start(rig.lab().segment().switch(), &["br0"])?;
        for name in &rig.nodes {
            let address = rig.lab().host(name)?.ip4().to_string();
            let status = json!({"status": {"addresses": [
                {"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name},
            ]}});
            rig.server.merge(&format!("/api/v1/nodes/{name}/status"), &status).await?;
        }
        Ok(Self { rig, tap, from: now() })
    }

    fn address(&self, node: &str) -> Result<IpAddr> {
        Ok(self.rig.lab().host(node)?.ip4().into())
    }

    fn mac(&self, node: &str) -> Result<Mac> {
        Ok(self.rig.lab().host(node)?.mac())
    }

    async fn service(&self, name: &str, annotations: &Value, field: Option<IpAddr>) -> Result<()> {
        let spec = json!({
            "type": "LoadBalancer", "selector": {"app": "echo"}, "loadBalancerIP": field,
            "ports": [{"name": "echo", "port": echo::PORT, "protocol": "UDP"}],
        });
        let metadata = json!({"name": name, "namespace": "default", "annotations": annotations});
        let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
        self.rig.server.create(SERVICES, &object).await.context("the Service is refused").map(drop)
    }

    /// The Services that ask for addresses of nodes; one asks for a VIP too.
    async fn ask(&self) -> Result<()> {
        self.service("by-status", &json!({}), None).await?;
        let all = self.rig.nodes.iter().map(|node| self.address(node)).collect::<Result<Vec<_>>>()?;
        let ingress: Vec<Value> = all.iter().map(|ip| json!({"ip": ip.to_string(), "ipMode": "VIP"})).collect();
        let status = json!({"status": {"loadBalancer": {"ingress": ingress}}});
        self.rig.server.merge(&format!("{SERVICES}/by-status/status"), &status).await?;
        let both = format!("{},{}", vip(0), self.address("w2")?);
        self.service("by-annotation", &json!({"kube-vip.io/loadbalancerIPs": both}), None).await?;
        self.service("by-field", &json!({}), Some(self.address(BARE)?)).await
    }

    /// Waits for an Event about an object which says that the address is that node's.
    async fn told(&self, object: &str, node: &str) -> Result<()> {
        let address = self.address(node)?;
        let said = format!("{address} is not carried: it is an address of the node {node}");
        let deadline = now() + SOON;
        loop {
            let events = self.rig.server.get("/apis/events.k8s.io/v1/namespaces/default/events").await?;
            let all = events["items"].as_array().cloned().unwrap_or_default();
            let is_it = |event: &&Value| {
                event["reason"] == "AddressOfNode"
                    && event["regarding"]["name"] == object
                    && event["note"].as_str().is_some_and(|note| note.contains(&said))
            };
            match all.iter().filter(is_it).count() {
                0 => ensure!(now() < deadline, "no Event about {object}: {said}; {}", self.rig.logs()),
                1 => return Ok(()),
                many => anyhow::bail!("{many} Events about {object}: {said}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the status of a node's agent says so too.
    async fn shown(&self, agent: &str, node: &str) -> Result<()> {
        let address = self.address(node)?;
        let deadline = now() + SOON;
        loop {
            let status = self.rig.status(agent).await?.services.context("nothing about Services")?;
            let row = status.vips.iter().find(|one| one.address == address);
            if row.is_some_and(|row| row.carried.is_none() && row.why.contains(&format!("of the node {node}"))) {
                return Ok(());
            }
            ensure!(now() < deadline, "{agent} does not say whose {address} is: {row:?}; {}", self.rig.logs());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// A client asks for the address of each node, and only that node has ever claimed it.
    async fn judge(&self, nodes: &[&str]) -> Result<()> {
        let client = self.rig.lab().netns("client")?;
        for node in nodes {
            let (address, mac) = (self.address(node)?, self.mac(node)?);
            // It asks anew.
            forget_neighbour(&client, "eth0", address)?;
            let asked = now();
            let prober = Prober::start(&client, SocketAddr::new(address, echo::PORT))?;
            self.tap
                .frame("the owner's answer", asked, SOON, |frame| frame.claims(address) && frame.source == mac)
                .await?;
            prober.finish()?;
            let others = self.tap.between(self.from, now(), |frame| frame.claims(address) && frame.source != mac);
            ensure!(others.is_empty(), "others claim {address} of {node}: {others:?}; {}", self.rig.logs());
        }
        Ok(())
    }

    /// Waits until an agent carries the address.
    async fn carried(&self, agents: &[&str], address: IpAddr) -> Result<()> {
        let deadline = now() + Duration::from_secs(30);
        loop {
            for agent in agents {
                let status = self.rig.status(agent).await?.services.context("nothing about Services")?;
                if status.vips.iter().any(|one| one.address == address && one.carried.is_some()) {
                    return Ok(());
                }
            }
            ensure!(now() < deadline, "nobody carries {address}; {}", self.rig.logs());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The node without an agent is silent: the address stays its own until its Node is gone.
    async fn silent(&mut self, agents: &[&str]) -> Result<()> {
        let address = self.address(BARE)?;
        let crash = self.rig.crash(BARE)?;
        pass(15).await;
        let claims = self.tap.between(crash, now(), |frame| frame.claims(address));
        ensure!(claims.is_empty(), "taken from a node that is off: {claims:?}; {}", self.rig.logs());
        self.rig.server.delete(&format!("/api/v1/nodes/{BARE}")).await?;
        self.carried(agents, address).await
    }
}

async fn global(ctx: &mut Ctx<()>) -> Result<()> {
    by_lease(ctx, false).await
}

async fn per_service(ctx: &mut Ctx<()>) -> Result<()> {
    by_lease(ctx, true).await
}

async fn by_lease(ctx: &mut Ctx<()>, per_service: bool) -> Result<()> {
    let mut owned = Owned::set(ctx).await?;
    for object in kube_vip_placement_roles(per_service)? {
        owned.rig.server.apply(&object).await.context("the role is refused")?;
    }
    let kube_vips: AgentOptions =
        WorkerRig::options().env("MOORING_SERVICES", "").env("svc_enable", "true").env("prometheus_server", "");
    let options = if per_service { kube_vips.env("svc_election", "true") } else { kube_vips };
    owned.ask().await?;
    let agents = ["w1", "w2", "w3"];
    for agent in agents {
        owned.rig.start_agent(agent, &options)?;
    }
    let holder = owned.rig.settled(vip(0)).await?;
    for node in owned.rig.nodes.clone() {
        owned.told("by-status", &node).await?;
    }
    owned.told("by-annotation", "w2").await?;
    owned.told("by-field", BARE).await?;
    for agent in agents {
        for node in ["w1", "w2", "w3", BARE] {
            owned.shown(agent, node).await?;
        }
    }
    pass(5).await;
    owned.judge(&["w1", "w2", "w3", BARE]).await?;
    // Another one takes the Lease; the agent of the last holder is gone, and its kernel answers for its address.
    owned.rig.lab().agent(&holder)?.stop(Duration::from_secs(20)).await?;
    owned.rig.settled_but(vip(0), &[&holder]).await?;
    pass(5).await;
    owned.judge(&["w1", "w2", "w3", BARE]).await?;
    let others: Vec<&str> = agents.into_iter().filter(|agent| *agent != holder).collect();
    owned.silent(&others).await
}

/// Without an allocator: what Services ask for themselves counts for nothing, an `IPAddress` with the label does.
async fn sessions(ctx: &mut Ctx<()>) -> Result<()> {
    let mut owned = Owned::set(ctx).await?;
    owned.ask().await?;
    let label = json!({"mooring.dev/advertise": "true"});
    for node in ["w2", BARE] {
        owned.rig.make_address_of(&format!("of-{node}"), owned.address(node)?, &label, &json!({})).await?;
    }
    owned.rig.make_address(0, &label, &json!({})).await?;
    let agents = ["w1", "w2", "w3"];
    for agent in agents {
        owned.rig.start_agent(agent, &WorkerRig::options())?;
    }
    owned.rig.settled(vip(0)).await?;
    for node in ["w2", BARE] {
        owned.told(&format!("of-{node}"), node).await?;
        for agent in agents {
            owned.shown(agent, node).await?;
        }
    }
    pass(5).await;
    owned.judge(&["w1", "w2", "w3", BARE]).await?;
    owned.silent(&agents).await
}
