//! Many VIPs of Services whose `IPAddress` objects are made by hand, on nodes with agents.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use mooring_agent::core::session::Holder;
use rtnetlink::RouteMessageBuilder;
use serde_json::{Value, json};

use super::super::Order;
use crate::agents::{AgentBinary, AgentOptions};
use crate::host::Netns;
use crate::ipam::server::{IPAM, kube_vip_placement_roles};
use crate::lab::Shape;
use crate::observe::echo::PORT;
use crate::observe::echoes::Echoes;
use crate::observe::now;
use crate::observe::swarm::Swarm;
use crate::progress;
use crate::rig::worker::WorkerRig;

/// A network of their own, on the same segment: the segment's own has room for fifty.
pub(super) const NET: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 78, 0, 0), 20);
/// Requests at once.
const WORK: usize = 16;
/// How long all may take to be carried.
const LIMIT: Duration = Duration::from_mins(1);
/// Each VIP is asked so often.
const PACE: Duration = Duration::from_millis(25);

pub(super) struct Many {
    /// The nodes.
    pub workers: WorkerRig,
    /// The VIPs.
    pub vips: Vec<IpAddr>,
    _echoes: Vec<Echoes>,
}

/// The n-th VIP.
pub(super) fn vip(n: usize) -> IpAddr {
    let [high, low] = u16::try_from(n + 1).unwrap_or(u16::MAX).to_be_bytes();
    Ipv4Addr::new(10, 78, high, low).into()
}

impl Many {
    /// So many workers with agents, and VIPs with these annotations; the client finds them on its segment.
    pub async fn up(order: &Order, logs: &Path, workers: u8, count: usize, more: &Value) -> Result<Self> {
        Self::placed(order, logs, workers, count, more, (&options(), &[])).await
    }

    /// As [`Many::up`], with the VIPs placed by a Lease for each Service, as kube-vip does it.
    pub async fn by_leases(order: &Order, logs: &Path, workers: u8, count: usize) -> Result<Self> {
        let options = options().env("MOORING_SERVICES_PLACEMENT", "lease-per-service");
        let roles = kube_vip_placement_roles(true)?;
        Self::placed(order, logs, workers, count, &json!({}), (&options, &roles)).await
    }

    async fn placed(
        order: &Order,
        logs: &Path,
        workers: u8,
        count: usize,
        more: &Value,
        (options, roles): (&AgentOptions, &[Value]),
    ) -> Result<Self> {
        let shape = Shape::api_servers(1).with_agent(AgentBinary::Path(order.agent.clone()));
        let workers = WorkerRig::on(logs, shape, workers, 0, true).await?;
        reach(&workers.lab().netns("client")?)?;
        let mut echoes = Vec::new();
        for name in &workers.nodes {
            echoes.push(Echoes::start(&workers.lab().netns(name)?, name, PORT)?);
        }
        for object in roles {
            workers.server.apply(object).await.context("the role is refused")?;
        }
        workers.start_agents_apart(options).await?;
        if roles.is_empty() {
            // A VIP that comes before the node that it prefers goes to another one, and stays there.
            workers.sessions(LIMIT).await?;
        }
        let vips: Vec<IpAddr> = (0..count).map(vip).collect();
        let many = Self { workers, vips, _echoes: echoes };
        many.make(more).await?;
        Ok(many)
    }

    async fn make(&self, annotations: &Value) -> Result<()> {
        let make = |(n, vip): (usize, &IpAddr)| {
            let (name, vip) = (format!("m{n}"), *vip);
            async move {
                let labels = json!({"mooring.dev/service-family": "ipv4"});
                self.workers.make_address_of(&name, vip, &labels, annotations).await?;
                let service = json!({
                    "apiVersion": "v1", "kind": "Service",
                    "metadata": {"name": name, "annotations": {"mooring.dev/ip-addresses": format!("default/{name}={vip}")}},
                    "spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false,
                        "ports": [{"name": "echo", "port": PORT, "protocol": "UDP"}]},
                });
                self.workers.server.create("/api/v1/namespaces/default/services", &service).await?;
                anyhow::Ok(())
            }
        };
        stream::iter(self.vips.iter().enumerate().map(make)).buffer_unordered(WORK).try_collect().await
    }

    /// Waits until every record names a holder, and that one if it is said.
    pub async fn carried(&self, by: Option<&str>) -> Result<()> {
        let deadline = now() + LIMIT;
        loop {
            let list = self.workers.server.get(&format!("{IPAM}/v1beta2/namespaces/default/ipaddresses")).await?;
            let all = list["items"].as_array().context("no list of addresses")?;
            let held = |one: &&Value| {
                let text = one["metadata"]["annotations"]["mooring.dev/holder"].as_str()?;
                let holder: Holder = serde_json::from_str(text).ok()?;
                (holder.to.is_none() && by.is_none_or(|by| by == holder.node)).then_some(())
            };
            let carried = all.iter().filter(|one| held(one).is_some()).count();
            if carried == self.vips.len() {
                return Ok(());
            }
            let others = || {
                let others = all.iter().filter(|one| held(one).is_none()).take(5);
                others.map(|one| one["metadata"]["annotations"].to_string()).collect::<Vec<_>>().join("\n")
            };
            let count = self.vips.len();
            ensure!(now() < deadline, "{carried} of {count} VIPs are carried; {}\n{}", others(), self.workers.logs());
            progress::line(format_args!("  {carried} of {} VIPs are carried", self.vips.len()));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Waits until every VIP's Lease names a holder; returns the holders, in the order of the VIPs.
    pub async fn leased(&self) -> Result<Vec<String>> {
        let deadline = now() + LIMIT;
        loop {
            let list = self.workers.server.get("/apis/coordination.k8s.io/v1/namespaces/default/leases").await?;
            let holder = |one: &Value| {
                let nth: usize = one["metadata"]["name"].as_str()?.strip_prefix("kubevip-m")?.parse().ok()?;
                let holder = one["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty())?;
                Some((nth, holder.to_owned()))
            };
            let held: BTreeMap<usize, String> =
                list["items"].as_array().into_iter().flatten().filter_map(holder).collect();
            if held.len() == self.vips.len() {
                return Ok(held.into_values().collect());
            }
            let count = self.vips.len();
            ensure!(now() < deadline, "{} of {count} Leases have a holder; {}", held.len(), self.workers.logs());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// A client of all of them, that has heard each once.
    pub async fn swarm(&self) -> Result<Swarm> {
        let swarm = Swarm::start(&self.workers.lab().netns("client")?, &self.vips, PORT, PACE)?;
        swarm.all_answered(now(), None, Duration::from_secs(30)).await?;
        Ok(swarm)
    }

    /// An annotation on a node; nothing takes it away.
    pub async fn annotate(&self, node: &str, name: &str, value: Option<&str>) -> Result<()> {
        let change = json!({"metadata": {"annotations": {name: value}}});
        self.workers.server.merge(&format!("/api/v1/nodes/{node}"), &change).await?;
        Ok(())
    }
}

/// The agents' settings: VIPs of a subnet that no interface has.
pub(super) fn options() -> AgentOptions {
    WorkerRig::options().env("vip_servicesinterface", "eth0")
}

/// Lets a host find the VIPs on its segment.
pub(super) fn reach(host: &Netns) -> Result<()> {
    let ((net, length), index) = (NET, host.index("eth0")?);
    host.netlink("add the route of the VIPs", async move |handle| {
        let route = RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(net, length).output_interface(index);
        handle.route().add(route.build()).execute().await
    })?;
    Ok(())
}
