//! One API server, worker hosts with agents for VIPs of Services, objects made by hand, and observers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use mooring_agent::core::session::Holder;
use mooring_agent::core::time::Time;
use mooring_agent::ops::status::Status;
use mooring_agent::ops::status_client;
use serde_json::{Value, json};

use crate::agents::{AGENT, AgentOptions};
use crate::ipam::server::{IPAM, Server, documents_in};
use crate::lab::{Lab, Shape};
use crate::observe::addresses::Addresses;
use crate::observe::echo::{self, Echo};
use crate::observe::now;
use crate::observe::prober::Prober;
use crate::observe::timeline::{Timeline, total};
use crate::progress;
use crate::rig::shared;
use crate::runner::Ctx;
use crate::segment;

/// The limit for anything that takes well below a second on an idle machine; a busy machine needs longer.
pub const SOON: Duration = Duration::from_secs(15);
/// Between the starts of two agents, where many start on one machine.
const APART: Duration = Duration::from_millis(250);
/// Two owners for longer than this is a failure.
const SHARED: Duration = Duration::from_millis(500);
/// The user that the manifests' service account is.
pub const USER: &str = "system:serviceaccount:kube-system:mooring-agent";
/// The namespace of objects made by hand.
const NAMESPACE: &str = "default";

pub struct WorkerRig {
    /// Its API server.
    pub server: Server,
    /// When each VIP came and went where.
    pub addresses: Addresses,
    /// The hosts with agents.
    pub nodes: Vec<String>,
    vips: Vec<IpAddr>,
    echoes: BTreeMap<String, Vec<Echo>>,
    /// The hosts that crashed: when, and until when.
    down: Vec<(String, Time, Option<Time>)>,
    dir: PathBuf,
    /// Whether the kind `IPAddress` is there.
    crds: AtomicBool,
    /// Whether the next test may have the lab.
    shared: bool,
}

/// The n-th VIP.
pub fn vip(n: u8) -> IpAddr {
    segment::ip4(200 + n).into()
}

/// A VIP of the other family.
pub fn vip6() -> IpAddr {
    segment::ip6(200).into()
}

/// The n-th VIP's `IPAddress` and a Service that has it, on any cluster.
pub async fn create(server: &Server, n: u8, policy: &str) -> Result<()> {
    let labels = json!({"mooring.dev/service-family": "ipv4"});
    create_address(server, &format!("a{n}"), vip(n), &labels, &json!({})).await?;
    create_service(server, n, policy).await
}

async fn create_address(server: &Server, name: &str, ip: IpAddr, labels: &Value, annotations: &Value) -> Result<()> {
    let object = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddress",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {
            "address": ip.to_string(), "prefix": 24, "claimRef": {"name": name},
            "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": "pool"},
        },
    });
    server.create(&WorkerRig::address_path(""), &object).await.map(drop).context("the IPAddress is refused")
}

async fn create_service(server: &Server, n: u8, policy: &str) -> Result<()> {
    let object = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": format!("s{n}"), "namespace": NAMESPACE,
            "annotations": {"mooring.dev/ip-addresses": format!("{NAMESPACE}/a{n}={}", vip(n))},
        },
        "spec": {
            "type": "LoadBalancer", "externalTrafficPolicy": policy, "selector": {"app": "echo"},
            "ports": [{"name": "echo", "port": echo::PORT, "protocol": "UDP"}],
        },
    });
    let path = format!("/api/v1/namespaces/{NAMESPACE}/services");
    server.create(&path, &object).await.map(drop).context("the Service is refused")
}

impl WorkerRig {
    /// So many workers, `w1` and on, and observers of so many VIPs. No agent runs. `crds`: whether the kind is there.
    pub async fn set(ctx: &Ctx<()>, workers: u8, vips: u8, crds: bool) -> Result<Self> {
        Self::shared(&ctx.dir, workers, vips, crds).await
    }

    /// On a lab that other tests have used and may use next. The test with the folder `dir` renews it.
    pub async fn shared(dir: &Path, workers: u8, vips: u8, crds: bool) -> Result<Self> {
        let (lab, has) = shared::lab(Shape::api_servers(1), crds).await?;
        let mut rig = Self::bare(dir, lab, workers, vips, has).await?;
        rig.shared = true;
        rig.furnish(crds).await?;
        Ok(rig)
    }

    /// On a lab of its own, of that shape; logs are left in `dir`.
    pub async fn on(dir: &Path, shape: Shape, workers: u8, vips: u8, crds: bool) -> Result<Self> {
        let mut rig = Self::bare(dir, Lab::up(shape).await?, workers, vips, false).await?;
        rig.furnish(crds).await?;
        Ok(rig)
    }

    async fn bare(dir: &Path, lab: Lab, workers: u8, vips: u8, crds: bool) -> Result<Self> {
        let nodes: Vec<String> = (1..=workers).map(|n| format!("w{n}")).collect();
        // Benches of growth have more of them, and no VIPs of Services, whose addresses they would have.
        let first = 121.min(u8::MAX - 1 - workers);
        let numbers = (first..u8::MAX).filter(|number| IpAddr::from(segment::ip4(*number)) != lab.vip());
        for (name, number) in nodes.iter().zip(numbers) {
            lab.add_host(name, number)?;
        }
        let server = Server::of(lab).await?;
        let vips: Vec<IpAddr> = (0..vips).map(vip).collect();
        // The control plane's as well, should an agent hold that beside them.
        let watched = [vips.clone(), vec![server.lab().vip(), vip6()]].concat();
        let addresses = Addresses::of(&watched);
        let (echoes, down, dir, crds) = (BTreeMap::new(), vec![], dir.to_owned(), AtomicBool::new(crds));
        Ok(Self { server, addresses, nodes, vips, echoes, down, dir, crds, shared: false })
    }

    /// The kinds, the rights, the nodes and what watches them.
    async fn furnish(&mut self, crds: bool) -> Result<()> {
        if crds && !self.crds.load(Ordering::Relaxed) {
            self.install_kind().await?;
        }
        // With exactly the rights that the manifests give it.
        for file in ["allocator/namespace.yaml", "agent/rbac.yaml"] {
            for object in documents_in(file)? {
                self.server.apply(&object).await.with_context(|| format!("{file} is refused"))?;
            }
        }
        let cluster = self.lab().cluster()?;
        let url = cluster.servers().first().cloned().context("no API server")?;
        let identity = cluster.pki().client(USER, &["system:serviceaccounts"], None)?;
        let kubeconfig = cluster.pki().kubeconfig(&identity, &url)?;
        for name in self.nodes.clone() {
            std::fs::write(self.lab().host(&name)?.dir().join("agent.conf"), &kubeconfig)?;
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
            self.server.create("/api/v1/nodes", &node).await?;
            self.observe(&name)?;
        }
        Ok(())
    }

    /// As [`WorkerRig::set`], with agents, and as many VIPs, each of a Service of its own and carried by one node.
    pub async fn serving(ctx: &Ctx<()>, workers: u8, vips: u8) -> Result<Self> {
        let rig = Self::set(ctx, workers, vips, true).await?;
        rig.start_agents(&Self::options())?;
        for n in 0..vips {
            rig.make(n, "Cluster").await?;
        }
        for n in 0..vips {
            rig.settled(vip(n)).await?;
        }
        Ok(rig)
    }

    /// The kind `IPAddress`.
    pub async fn install_kind(&self) -> Result<()> {
        self.crds.store(true, Ordering::Relaxed);
        self.server.install("crds").await?;
        self.server.install("crds/standalone").await
    }

    /// The lab.
    pub fn lab(&self) -> &Lab {
        self.server.lab()
    }

    fn observe(&mut self, name: &str) -> Result<()> {
        let netns = self.lab().netns(name)?;
        self.addresses.watch(name, &netns)?;
        self.echo(name)
    }

    fn echo(&mut self, name: &str) -> Result<()> {
        let netns = self.lab().netns(name)?;
        let start = |vip: &IpAddr| Echo::start(&netns, name, SocketAddr::new(*vip, echo::PORT));
        let echoes = self.vips.iter().map(start).collect::<Result<Vec<_>, _>>()?;
        self.echoes.insert(name.to_owned(), echoes);
        Ok(())
    }

    /// As the manifests' `DaemonSet` is started.
    pub fn options() -> AgentOptions {
        AgentOptions::default()
            .env("address", "")
            .env("cp_enable", "false")
            .env("MOORING_SERVICES", "on")
            .env("MOORING_RECORD", "")
            .env("RUST_BACKTRACE", "1")
    }

    /// Starts the agent of every node.
    pub fn start_agents(&self, options: &AgentOptions) -> Result<()> {
        for name in &self.nodes {
            self.start_agent(name, options)?;
        }
        Ok(())
    }

    /// Starts all agents, one after the other. So many on one machine would otherwise begin in the same second.
    pub async fn start_agents_apart(&self, options: &AgentOptions) -> Result<()> {
        for name in &self.nodes {
            self.start_agent(name, options)?;
            tokio::time::sleep(APART).await;
        }
        Ok(())
    }

    /// Starts the agent of one.
    pub fn start_agent(&self, name: &str, options: &AgentOptions) -> Result<()> {
        let agent = self.lab().agent(name)?;
        let kubeconfig = agent.host().dir().join("agent.conf");
        let kubeconfig = options.kubeconfig.clone().unwrap_or(kubeconfig);
        let socket = self.socket(name)?.display().to_string();
        let options = options.clone().env("MOORING_STATUS_SOCKET", socket);
        agent.start(AgentOptions { kubeconfig: Some(kubeconfig), ..options })?;
        Ok(())
    }

    fn socket(&self, name: &str) -> Result<PathBuf> {
        Ok(self.lab().host(name)?.dir().join("agent.sock"))
    }

    /// What `mooring-agent status` says on a node.
    pub async fn status(&self, name: &str) -> Result<Status> {
        let socket = self.socket(name)?;
        Ok(tokio::task::spawn_blocking(move || status_client::read(&socket)).await??)
    }

    /// Makes the n-th VIP's `IPAddress` and a Service that has it.
    pub async fn make(&self, n: u8, policy: &str) -> Result<()> {
        create(&self.server, n, policy).await
    }

    /// Makes the n-th VIP's `IPAddress`.
    pub async fn make_address(&self, n: u8, labels: &Value, annotations: &Value) -> Result<()> {
        self.make_address_of(&format!("a{n}"), vip(n), labels, annotations).await
    }

    /// Makes an `IPAddress`.
    pub async fn make_address_of(&self, name: &str, ip: IpAddr, labels: &Value, annotations: &Value) -> Result<()> {
        create_address(&self.server, name, ip, labels, annotations).await
    }

    /// A Service that says that it has the n-th VIP.
    pub async fn make_service(&self, n: u8, policy: &str) -> Result<()> {
        create_service(&self.server, n, policy).await
    }

    /// The endpoints of the n-th VIP's Service: nodes, and whether each is ready.
    pub async fn endpoints(&self, n: u8, nodes: &[(&str, bool)]) -> Result<()> {
        let endpoints: Vec<Value> = nodes
            .iter()
            .map(|(node, ready)| {
                json!({"addresses": ["10.244.0.9"], "nodeName": node, "conditions": {"ready": ready, "serving": ready}})
            })
            .collect();
        let name = format!("s{n}-1");
        let object = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": format!("s{n}")}},
            "endpoints": endpoints, "ports": [{"name": "echo", "port": echo::PORT, "protocol": "UDP"}],
        });
        let path = format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices");
        match self.server.create(&path, &object).await {
            Err(refused) if refused.code == 409 => {
                let change = json!({"endpoints": endpoints});
                self.server.merge(&format!("{path}/{name}"), &change).await.map(drop)?;
                Ok(())
            }
            other => other.map(drop).context("the EndpointSlice is refused"),
        }
    }

    /// Where an `IPAddress` is.
    pub fn address_path(name: &str) -> String {
        let path = format!("{IPAM}/v1beta2/namespaces/{NAMESPACE}/ipaddresses");
        if name.is_empty() { path } else { format!("{path}/{name}") }
    }

    /// An annotation of the n-th VIP's `IPAddress`.
    pub async fn annotation(&self, n: u8, name: &str) -> Result<Option<String>> {
        let object = self.server.get(&Self::address_path(&format!("a{n}"))).await?;
        Ok(object["metadata"]["annotations"][name].as_str().map(str::to_owned))
    }

    /// The node in the n-th VIP's record.
    pub async fn recorded(&self, n: u8) -> Result<Option<String>> {
        let text = self.annotation(n, "mooring.dev/holder").await?;
        let holder = text.map(|text| serde_json::from_str::<Holder>(&text)).transpose()?;
        Ok(holder.map(|holder| holder.node))
    }

    /// Waits until the n-th VIP's record names that node.
    pub async fn recorded_as(&self, n: u8, node: &str) -> Result<()> {
        let deadline = now() + SOON;
        loop {
            let named = self.recorded(n).await?;
            if named.as_deref() == Some(node) {
                return Ok(());
            }
            ensure!(now() < deadline, "the record of {} names {named:?}, not {node}; {}", vip(n), self.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until each node has its session.
    pub async fn sessions(&self, limit: Duration) -> Result<()> {
        let deadline = now() + limit;
        loop {
            let list = self.server.get("/apis/coordination.k8s.io/v1/namespaces/mooring-system/leases").await?;
            let items = list["items"].as_array().context("no list of Leases")?;
            let holders: BTreeSet<&str> =
                items.iter().filter_map(|one| one.pointer("/spec/holderIdentity").and_then(Value::as_str)).collect();
            let held = self.nodes.iter().filter(|node| holders.contains(node.as_str())).count();
            if held == self.nodes.len() {
                return Ok(());
            }
            ensure!(now() < deadline, "{held} of {} nodes have a session; {}", self.nodes.len(), self.logs());
            progress::line(format_args!("  {held} of {} nodes have a session", self.nodes.len()));
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    }

    /// The timeline of a VIP; a host that crashed has no part in it.
    pub fn timeline(&self, vip: IpAddr) -> Timeline {
        let timeline = self.addresses.timeline(vip);
        self.down.iter().fold(timeline, |timeline, (name, from, to)| timeline.without(name, *from, *to))
    }

    /// Waits until exactly one node carries the VIP, and returns it.
    pub async fn settled(&self, vip: IpAddr) -> Result<String> {
        self.settled_but(vip, &[]).await
    }

    /// Waits until exactly one node, and none of these, carries the VIP.
    pub async fn settled_but(&self, vip: IpAddr, not: &[&str]) -> Result<String> {
        let deadline = now() + SOON;
        loop {
            let timeline = self.timeline(vip);
            let holders = timeline.holders_at(now());
            if let (1, Some(holder)) = (holders.len(), holders.first())
                && !not.contains(holder)
            {
                return Ok((*holder).to_owned());
            }
            if now() > deadline {
                bail!("{vip} is on {holders:?}; {}", self.logs());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Fails when two had the VIP since then for longer than a hand-over takes.
    pub fn never_shared(&self, vip: IpAddr, from: Time) -> Result<()> {
        let shared = self.timeline(vip).two_owners(from, now());
        ensure!(total(&shared) < SHARED, "{vip} had two owners: {shared:?}; {}", self.logs());
        Ok(())
    }

    /// Fails when nobody has it, or had it since then.
    pub fn never_gone(&self, vip: IpAddr, from: Time) -> Result<()> {
        let gone = self.timeline(vip).nobody(from, now());
        ensure!(gone.is_empty(), "nobody had {vip}: {gone:?}; {}", self.logs());
        Ok(())
    }

    /// A prober of a VIP: 1,000 UDP echoes a second from the client.
    pub fn prober(&self, vip: IpAddr) -> Result<Prober> {
        Ok(Prober::start(&self.lab().netns("client")?, SocketAddr::new(vip, echo::PORT))?)
    }

    /// Fails when a prober lost anything.
    pub fn nothing_lost(&self, client: Prober) -> Result<()> {
        let probes = client.finish()?;
        ensure!(probes.answered_in_time() > 0, "no probe was answered; {}", self.logs());
        ensure!(probes.lost() == 0, "{} probes lost: {:?}; {}", probes.lost(), probes.outages(), self.logs());
        Ok(())
    }

    /// Power failure of a node.
    pub fn crash(&mut self, name: &str) -> Result<Time> {
        let at = self.lab().crash(name)?;
        self.echoes.remove(name);
        self.down.push((name.to_owned(), at, None));
        Ok(at)
    }

    /// Power is back: the node boots, and its agent is started.
    pub fn revive(&mut self, name: &str) -> Result<Time> {
        let at = self.lab().revive(name)?;
        for (_, _, to) in self.down.iter_mut().filter(|(host, ..)| host == name) {
            to.get_or_insert(at);
        }
        self.echo(name)?;
        Ok(at)
    }

    /// The VIPs that a node carries now.
    pub fn carried_by(&self, node: &str) -> Vec<IpAddr> {
        self.vips.iter().copied().filter(|vip| self.timeline(*vip).holders_at(now()).contains(node)).collect()
    }

    /// All VIPs.
    pub fn vips(&self) -> &[IpAddr] {
        &self.vips
    }

    /// The last lines of every agent's log, for errors.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for name in &self.nodes {
            if let Ok(process) = self.lab().process(name, AGENT) {
                text = format!("{text}\n--- {name}\n{}", process.log_tail(25));
            }
        }
        text
    }
}

impl Drop for WorkerRig {
    fn drop(&mut self) {
        for name in &self.nodes {
            if let Ok(agent) = self.lab().process(name, AGENT) {
                let to = self.dir.join(format!("{name}-agent.log"));
                if let Err(error) = std::fs::copy(agent.log(), &to) {
                    tracing::warn!(%error, to = %to.display(), "what an agent said is not kept");
                }
            }
        }
        if self.shared {
            shared::leave(&self.dir, self.lab().clone(), self.crds.load(Ordering::Relaxed));
        }
    }
}
