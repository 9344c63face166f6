//! Workers with an agent, kube-proxy and a backend each; an allocator that knows kube-vip's `ConfigMap`; a client.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::agents::{AgentBinary, AgentOptions};
use crate::assets::{self, Profile};
use crate::host::{Netns, Process};
use crate::ipam::allocators::Allocator;
use crate::ipam::server::Server;
use crate::lab::Shape;
use crate::observe::now;
use crate::rig::allocator::AllocatorRig;
use crate::rig::worker::{SOON, WorkerRig};
use crate::runner::Skip;
use crate::traffic::{Answer, Backend, Protocol, ask, start_proxy};

/// Where the backends listen.
const PORT: u16 = 9_080;
/// VIPs that are observed.
const VIPS: u8 = 4;
/// For one question.
pub const QUESTION: Duration = Duration::from_secs(1);
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// What runs in a [`TrafficRig`].
pub struct Programs {
    /// The agent.
    pub agent: AgentBinary,
    /// The allocator.
    pub allocator: PathBuf,
    /// The agents' settings.
    pub options: AgentOptions,
}

impl Programs {
    /// Those of the clone, as they are built for tests.
    ///
    /// # Errors
    /// [`Skip`] where kube-proxy cannot work; or a program cannot be built.
    pub async fn built() -> Result<Self> {
        let nft = tokio::task::spawn_blocking(|| assets::ensure("nft", "nftables")).await?;
        nft.map_err(|error| Skip(format!("kube-proxy needs nft: {error}")))?;
        let allocator = tokio::task::spawn_blocking(|| assets::allocator(Profile::Dev)).await??;
        Ok(Self { agent: AgentBinary::default(), allocator, options: WorkerRig::options() })
    }
}

pub struct TrafficRig {
    /// The agents and their observers.
    pub workers: WorkerRig,
    /// What the allocator works on.
    pub allocators: AllocatorRig,
    /// The allocator.
    pub allocator: Allocator,
    proxies: Vec<Process>,
    _backends: Vec<Backend>,
}

impl TrafficRig {
    /// So many workers, and these entries of kube-vip's `ConfigMap`, on a lab that tests hand on: that whose folder `dir` is
    /// settles it.
    pub async fn set(dir: &Path, workers: u8, config: &Value) -> Result<Self> {
        let programs = Programs::built().await?;
        Self::around(WorkerRig::shared(dir, workers, VIPS, true).await?, programs, config).await
    }

    /// On a lab of its own, with these programs; logs are left in `dir`.
    pub async fn with(dir: &Path, programs: Programs, workers: u8, config: &Value) -> Result<Self> {
        let shape = Shape::api_servers(1).with_agent(programs.agent.clone());
        Self::around(WorkerRig::on(dir, shape, workers, VIPS, true).await?, programs, config).await
    }

    async fn around(workers: WorkerRig, programs: Programs, config: &Value) -> Result<Self> {
        let proxy = tokio::task::spawn_blocking(assets::kube_proxy).await??;
        let allocators = AllocatorRig::unwatched(Server::of(workers.lab().clone()).await?, programs.allocator).await?;
        let config = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kubevip", "namespace": "kube-system"},
            "data": config,
        });
        allocators.server.create("/api/v1/namespaces/kube-system/configmaps", &config).await?;
        let allocator = allocators.start("mooring-allocator").await?;
        workers.start_agents(&programs.options)?;
        let cluster = workers.lab().cluster()?;
        let url = cluster.servers().first().cloned().context("no API server")?;
        let identity = cluster.pki().client("system:kube-proxy", &[], None)?;
        let kubeconfig = cluster.pki().kubeconfig(&identity, &url)?;
        let (mut proxies, mut backends) = (Vec::new(), Vec::new());
        for name in &workers.nodes {
            let host = workers.lab().host(name)?;
            let address = host.ip4();
            let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": address.to_string()}]}});
            allocators.server.merge(&format!("/api/v1/nodes/{name}/status"), &status).await?;
            let file = host.dir().join("kube-proxy.conf");
            std::fs::write(&file, &kubeconfig).with_context(|| format!("write {}", file.display()))?;
            proxies.push(start_proxy(&host, &proxy.path, &file)?);
            backends.push(Backend::start(host.netns(), name, SocketAddr::new(address.into(), PORT))?);
        }
        Ok(Self { workers, allocators, allocator, proxies, _backends: backends })
    }

    /// As `kubectl expose --type=LoadBalancer` does, with these ports in front of the backends.
    pub async fn expose(&self, name: &str, policy: &str, ports: &[(Protocol, u16)]) -> Result<()> {
        let ports: Vec<Value> = ports
            .iter()
            .map(|(protocol, port)| {
                let name = word(*protocol).to_lowercase();
                json!({"name": name, "protocol": word(*protocol), "port": port, "targetPort": PORT})
            })
            .collect();
        let object = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {
                "type": "LoadBalancer", "externalTrafficPolicy": policy, "selector": {"app": name}, "ports": ports,
                "allocateLoadBalancerNodePorts": false,
            },
        });
        self.allocators.server.create(SERVICES, &object).await.map(drop).context("the Service is refused")
    }

    /// The backends of a Service are those on these nodes.
    pub async fn backends(&self, service: &str, nodes: &[&str]) -> Result<()> {
        let mut endpoints = Vec::new();
        for node in nodes {
            let address = self.workers.lab().host(node)?.ip4().to_string();
            let conditions = json!({"ready": true, "serving": true, "terminating": false});
            endpoints.push(json!({"addresses": [address], "nodeName": node, "conditions": conditions}));
        }
        let ports: Vec<Value> = [Protocol::Tcp, Protocol::Udp]
            .map(|one| json!({"name": word(one).to_lowercase(), "protocol": word(one), "port": PORT}))
            .into();
        let labels = json!({"kubernetes.io/service-name": service});
        let object = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": service, "labels": labels}, "endpoints": endpoints, "ports": ports,
        });
        let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        match self.allocators.server.create(path, &object).await {
            Err(refused) if refused.code == 409 => {
                let change = json!({"endpoints": endpoints});
                self.allocators.server.merge(&format!("{path}/{service}"), &change).await?;
            }
            other => drop(other.context("the EndpointSlice is refused")?),
        }
        Ok(())
    }

    /// A Service as it is.
    pub async fn service(&self, name: &str) -> Result<Value> {
        Ok(self.allocators.server.get(&format!("{SERVICES}/{name}")).await?)
    }

    /// Deletes a Service.
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.allocators.server.delete(&format!("{SERVICES}/{name}")).await?;
        Ok(())
    }

    /// Waits until the Service's status names an address: `kubectl get service` shows it as EXTERNAL-IP.
    pub async fn external_ip(&self, name: &str) -> Result<IpAddr> {
        let deadline = now() + SOON;
        loop {
            let service = self.service(name).await?;
            if let Some(ip) = service.pointer("/status/loadBalancer/ingress/0/ip").and_then(Value::as_str) {
                return Ok(ip.parse()?);
            }
            ensure!(now() < deadline, "{name} stays pending: {service}; {}", self.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The client's namespace.
    pub fn client(&self) -> Result<Netns> {
        Ok(self.workers.lab().netns("client")?)
    }

    /// The client's address.
    pub fn client_ip(&self) -> Result<IpAddr> {
        Ok(self.workers.lab().host("client")?.ip4().into())
    }

    /// Asks until the wanted node answers.
    pub async fn answered(
        &self,
        protocol: Protocol,
        to: SocketAddr,
        mut wanted: impl FnMut(&Answer) -> bool,
    ) -> Result<Answer> {
        let deadline = now() + SOON;
        loop {
            let client = self.client()?;
            let answer = tokio::task::spawn_blocking(move || ask(&client, protocol, to, QUESTION)).await??;
            match answer {
                Ok(answer) if wanted(&answer) => return Ok(answer),
                other => ensure!(now() < deadline, "{protocol:?} {to}: {other:?}; {}", self.logs()),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The last lines of every log, for errors.
    pub fn logs(&self) -> String {
        let mut text = self.workers.logs();
        for process in self.proxies.iter().chain([self.allocator.process()]) {
            text = format!("{text}\n--- {} {}\n{}", process.host(), process.name(), process.log_tail(15));
        }
        text
    }
}

const fn word(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
    }
}
