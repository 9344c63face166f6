//! Services that change, with agents and an allocator: each change of address is followed, in every placement, and a Service
//! never loses one address before it has the next.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mooring_agent::core::time::Time;
use serde_json::{Value, json};

use crate::agents::{AGENT, AgentOptions};
use crate::assets::{self, Profile};
use crate::host::Process;
use crate::ipam::allocators::Allocator;
use crate::ipam::server::{IPAM, Server, kube_vip_placement_roles};
use crate::ipam::services::{ADDRESSES, annotation, ingress, said};
use crate::observe::echo;
use crate::observe::now;
use crate::observe::timeline::{longest, total};
use crate::rig::allocator::AllocatorRig;
use crate::rig::worker::{SOON, WorkerRig, vip};
use crate::runner::{Ctx, Test};
use crate::scenario::dice::Dice;
use crate::scenario::rig::pass;
use crate::scenario::story;

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("services", by_session, "changes-are-followed-by-sessions", 6),
        story!("services", by_lease, "changes-are-followed-by-the-shared-lease", 6),
        story!("services", by_leases, "changes-are-followed-by-a-lease-per-service", 6),
        story!("services", at_random, "changes-in-random-order", 20).nightly(),
    ]
}

/// VIPs that are observed. The pool `main` has the first four, `other` the rest.
const VIPS: u8 = 8;
/// Longest time without either address while a Service moves: what a busy machine may add to none.
const NEITHER: Duration = Duration::from_millis(500);
/// Longest time without a VIP that goes over from one Lease to another.
const BY_ANOTHER_LEASE: Duration = Duration::from_secs(3);
pub(super) const SERVICES: &str = "/api/v1/namespaces/default/services";
pub(super) const POOLS: &str = "globalinclusterippools";

async fn by_session(ctx: &mut Ctx<()>) -> Result<()> {
    followed(ctx, "session").await
}

async fn by_lease(ctx: &mut Ctx<()>) -> Result<()> {
    followed(ctx, "global-lease").await
}

async fn by_leases(ctx: &mut Ctx<()>) -> Result<()> {
    followed(ctx, "lease-per-service").await
}

/// Agents and an allocator, and pools.
pub(super) struct Both {
    pub(super) rig: WorkerRig,
    pub(super) allocator: Allocator,
    pub(super) options: AgentOptions,
    /// The longest time that a change took.
    slowest: Duration,
}

impl Both {
    pub(super) async fn set(ctx: &Ctx<()>, placement: &str) -> Result<Self> {
        let rig = WorkerRig::set(ctx, 2, VIPS, true).await?;
        for object in kube_vip_placement_roles(placement == "lease-per-service")? {
            rig.server.apply(&object).await.context("the role is refused")?;
        }
        let binary = tokio::task::spawn_blocking(|| assets::allocator(Profile::Dev)).await??;
        let allocators = AllocatorRig::unwatched(Server::of(rig.lab().clone()).await?, binary).await?;
        for (name, first, last, meta) in [
            ("main", 0, 3, json!({"annotations": {"mooring.dev/service-default": "true"}})),
            ("other", 4, VIPS - 1, json!({})),
        ] {
            let mut object = json!({
                "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "kind": "GlobalInClusterIPPool", "metadata": meta,
                "spec": {"addresses": [format!("{}-{}", vip(first), vip(last))], "prefix": 24},
            });
            object["metadata"]["name"] = name.into();
            rig.server.create(&format!("{IPAM}/v1alpha2/{POOLS}"), &object).await.context("the pool is refused")?;
        }
        let allocator = allocators.start("allocator").await?;
        let options = WorkerRig::options().env("MOORING_SERVICES_PLACEMENT", placement);
        rig.start_agents(&options)?;
        Ok(Self { rig, allocator, options, slowest: Duration::ZERO })
    }

    pub(super) fn logs(&self) -> String {
        format!("{}\n--- allocator{}", self.rig.logs(), self.allocator.process().log_tail(15))
    }

    fn agents(&self) -> Result<Vec<Process>> {
        self.rig.nodes.iter().map(|name| Ok(self.rig.lab().process(name, AGENT)?)).collect()
    }

    pub(super) async fn make(&self, name: &str, port: u16, annotations: Value) -> Result<()> {
        let object = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "type": "LoadBalancer", "selector": {"app": "echo"}, "allocateLoadBalancerNodePorts": false,
                "ports": [{"name": "echo", "port": port, "protocol": "UDP"}],
            },
        });
        self.rig.server.create(SERVICES, &object).await.map(drop).context("the Service is refused")
    }

    pub(super) async fn get(&self, name: &str) -> Result<Value> {
        Ok(self.rig.server.get(&format!("{SERVICES}/{name}")).await?)
    }

    async fn edit(&self, name: &str, change: Value) -> Result<Time> {
        let at = now();
        self.rig.server.merge(&format!("{SERVICES}/{name}"), &change).await.context("the edit is refused")?;
        Ok(at)
    }

    /// Waits until the Service shows these addresses and names no others.
    pub(super) async fn shows(&self, name: &str, addresses: &[IpAddr]) -> Result<()> {
        let wanted: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let deadline = now() + SOON;
        loop {
            let service = self.get(name).await?;
            let settled = annotation(&service, "mooring.dev/moving-ip-addresses").is_none();
            let says = annotation(&service, ADDRESSES).unwrap_or_default() == wanted.join(",");
            if ingress(&service) == wanted && settled && says {
                return Ok(());
            }
            ensure!(now() < deadline, "{name} is not at {wanted:?}: {service}; {}", self.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until its status shows an address.
    pub(super) async fn served(&self, name: &str) -> Result<IpAddr> {
        let deadline = now() + SOON;
        loop {
            let service = self.get(name).await?;
            if let Some(ip) = ingress(&service).first() {
                return Ok(ip.parse()?);
            }
            ensure!(now() < deadline, "{name} stays pending: {service}; {}", self.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the allocator has taken back all that it wrote. What people ask for stays.
    async fn bare(&self, name: &str, asked: IpAddr) -> Result<()> {
        let deadline = now() + SOON;
        loop {
            let service = self.get(name).await?;
            let notes =
                ["mooring.dev/ip-addresses", "mooring.dev/moving-ip-addresses", "mooring.dev/requested-addresses"];
            if notes.iter().all(|key| annotation(&service, key).is_none()) && said(&service).is_none() {
                let asks = annotation(&service, ADDRESSES);
                ensure!(asks == Some(&*asked.to_string()), "{name} asks for {asks:?}: {service}; {}", self.logs());
                return Ok(());
            }
            ensure!(now() < deadline, "it keeps what was written: {service}; {}", self.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until no claim names the Service.
    async fn unclaimed(&self, name: &str) -> Result<()> {
        let deadline = now() + SOON;
        let of_it = format!("/{name}=");
        loop {
            let claims = self.rig.server.get(&format!("{IPAM}/v1beta2/namespaces/default/ipaddressclaims")).await?;
            let names =
                |claim: &&Value| annotation(claim, "mooring.dev/services").is_some_and(|text| text.contains(&of_it));
            let Some(left) = claims["items"].as_array().into_iter().flatten().find(names) else { return Ok(()) };
            ensure!(now() < deadline, "its claim is left: {left}; {}", self.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until no node has the address.
    pub(super) async fn gone(&self, address: IpAddr) -> Result<()> {
        let deadline = now() + SOON;
        while !self.rig.timeline(address).holders_at(now()).is_empty() {
            ensure!(now() < deadline, "{address} is still carried; {}", self.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Judges a change since that moment: the Service is at `to` alone, `from` is gone, and at no time it had neither.
    pub(super) async fn moved(&mut self, name: &str, from: IpAddr, to: IpAddr, since: Time) -> Result<()> {
        self.rig.settled(to).await.context("the new address does not answer")?;
        self.shows(name, &[to]).await?;
        self.gone(from).await?;
        self.slowest = self.slowest.max(now().since(since));
        for address in [from, to] {
            self.rig.never_shared(address, since)?;
        }
        let (old, new) = (self.rig.timeline(from), self.rig.timeline(to));
        let left = old.holds().iter().filter_map(|hold| hold.to).max().context("it never left")?;
        let neither = new.nobody(left, now());
        ensure!(longest(&neither) < NEITHER, "{name} had neither {from} nor {to}: {neither:?}; {}", self.logs());
        let before = old.nobody(since, left);
        ensure!(longest(&before) < NEITHER, "{from} was gone before {to} was there: {before:?}; {}", self.logs());
        Ok(())
    }

    pub(super) async fn asks(&self, name: &str, address: IpAddr) -> Result<Time> {
        self.edit(name, json!({"metadata": {"annotations": {ADDRESSES: address.to_string()}}})).await
    }
}

/// One Service and one that joins it live through every kind of change.
async fn followed(ctx: &mut Ctx<()>, placement: &str) -> Result<()> {
    let mut both = Both::set(ctx, placement).await?;
    both.make("web", echo::PORT, json!({})).await?;
    both.shows("web", &[vip(0)]).await?;
    both.rig.settled(vip(0)).await?;

    what_people_write(&mut both).await?;
    programs_away(&mut both).await?;
    with_another(&mut both).await?;

    another_class(&mut both, vip(2)).await?;

    // It is no load balancer for a while; then it is deleted in the middle of a change, and made again.
    let has = vip(2);
    both.edit("web", json!({"spec": {"type": "ClusterIP", "allocateLoadBalancerNodePorts": null}})).await?;
    both.gone(has).await?;
    both.bare("web", has).await?;
    let back = json!({"spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false}});
    both.edit("web", back).await?;
    both.shows("web", &[has]).await?;
    both.asks("web", vip(3)).await?;
    both.rig.server.delete(&format!("{SERVICES}/web")).await?;
    for address in [has, vip(3)] {
        both.gone(address).await?;
    }
    // The addresses from before may still be on their way back to the pool.
    both.make("web", echo::PORT, json!({})).await?;
    let has = both.served("web").await?;
    both.rig.settled(has).await?;
    both.shows("web", &[has]).await?;
    ctx.note(&format!("the slowest change took {} ms", both.slowest.as_millis()));
    both.allocator.stop().await
}

/// Another controller's class for a while, and back: both edits of each change at once. The address goes back to its pool, and the
/// Service gets it again. At last the allocator is away while the class changes.
async fn another_class(both: &mut Both, has: IpAddr) -> Result<()> {
    let changes = |class: Value| {
        let plain = json!({"type": "ClusterIP", "allocateLoadBalancerNodePorts": null, "loadBalancerClass": null});
        let classed =
            json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "loadBalancerClass": class});
        [plain, classed].map(|spec| json!({"spec": spec}))
    };
    for round in 0..6 {
        if round == 5 {
            both.allocator.kill().await?;
        }
        for change in changes(json!("other.io/lb")) {
            both.edit("web", change).await?;
        }
        if round == 5 {
            both.allocator.start_again()?;
            both.allocator.ready().await?;
        }
        // It goes back in the middle, or once all is taken off.
        if round % 2 == 1 {
            both.gone(has).await?;
            both.bare("web", has).await?;
            both.unclaimed("web").await?;
        }
        let at = now();
        for change in changes(Value::Null) {
            both.edit("web", change).await?;
        }
        both.rig.settled(has).await?;
        both.shows("web", &[has]).await.with_context(|| format!("round {round}"))?;
        both.slowest = both.slowest.max(now().since(at));
    }
    Ok(())
}

/// The annotation, the field, the pool, and `mooring.dev/reallocate`; ports and policy move nothing.
async fn what_people_write(both: &mut Both) -> Result<()> {
    let at = both.asks("web", vip(1)).await?;
    both.moved("web", vip(0), vip(1), at).await?;
    let field = json!({"metadata": {"annotations": {ADDRESSES: null}}, "spec": {"loadBalancerIP": vip(2).to_string()}});
    let at = both.edit("web", field).await?;
    both.moved("web", vip(1), vip(2), at).await?;
    let pool = json!({"metadata": {"annotations": {"mooring.dev/pool": "other"}}, "spec": {"loadBalancerIP": null}});
    let at = both.edit("web", pool).await?;
    both.moved("web", vip(2), vip(4), at).await?;
    let smaller = json!({"spec": {"addresses": [format!("{}-{}", vip(5), vip(VIPS - 1))]}});
    both.rig.server.merge(&format!("{IPAM}/v1alpha2/{POOLS}/other"), &smaller).await?;
    let at = both.edit("web", json!({"metadata": {"annotations": {"mooring.dev/reallocate": "1"}}})).await?;
    both.moved("web", vip(4), vip(5), at).await?;
    let at = both
        .edit("web", json!({"metadata": {"annotations": {"mooring.dev/pool": null, ADDRESSES: vip(0).to_string()}}}));
    let at = at.await?;
    both.moved("web", vip(5), vip(0), at).await?;

    // A port, and the policy, with an endpoint on each node.
    let from = now();
    let port = json!([{"name": "echo", "port": echo::PORT + 1, "protocol": "UDP"}]);
    both.edit("web", json!({"spec": {"ports": port}})).await?;
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "endpoints": both.rig.nodes.iter().map(|node| json!({"addresses": ["10.244.0.9"], "nodeName": node})).collect::<Vec<_>>(),
        "ports": [{"name": "echo", "port": echo::PORT, "protocol": "UDP"}],
    });
    both.rig.server.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice).await?;
    both.edit("web", json!({"spec": {"externalTrafficPolicy": "Local"}})).await?;
    let at = both.asks("web", vip(1)).await?;
    both.moved("web", vip(0), vip(1), at).await?;
    ensure!(total(&both.rig.timeline(vip(0)).nobody(from, at)) < NEITHER, "it moved without need; {}", both.logs());
    both.edit("web", json!({"spec": {"externalTrafficPolicy": "Cluster"}})).await?;
    both.shows("web", &[vip(1)]).await
}

/// The allocator or the agents lag, are away, and start again in the middle of a change.
async fn programs_away(both: &mut Both) -> Result<()> {
    // The agents hang: it stays where it is until they are back.
    for agent in both.agents()? {
        agent.freeze()?;
    }
    let at = both.asks("web", vip(2)).await?;
    named(both, vip(2)).await?;
    ensure!(ingress(&both.get("web").await?) == [vip(1).to_string()], "it moved to nobody");
    for agent in both.agents()? {
        agent.thaw()?;
    }
    both.moved("web", vip(1), vip(2), at).await?;
    // The allocator dies in the middle, with the agents, and they come back in another order.
    let at = both.asks("web", vip(3)).await?;
    named(both, vip(3)).await?;
    both.allocator.kill().await?;
    let agent = both.rig.lab().agent("w1")?;
    agent.kill()?;
    agent.process()?.ended(SOON).await?;
    agent.start_again()?;
    both.allocator.start_again()?;
    both.allocator.ready().await?;
    both.moved("web", vip(2), vip(3), at).await?;
    // All agents are away, and it changes its mind meanwhile.
    for node in &both.rig.nodes {
        both.rig.lab().agent(node)?.stop(Duration::from_secs(20)).await?;
    }
    for address in [vip(1), vip(2)] {
        both.asks("web", address).await?;
        named(both, address).await?;
    }
    ensure!(ingress(&both.get("web").await?) == [vip(3).to_string()], "it moved to nobody");
    both.rig.start_agents(&both.options)?;
    both.rig.settled(vip(2)).await?;
    both.shows("web", &[vip(2)]).await?;
    for address in [vip(1), vip(3)] {
        both.gone(address).await?;
    }
    Ok(())
}

/// Waits until the Service names an address for agents.
async fn named(both: &Both, address: IpAddr) -> Result<()> {
    let deadline = now() + SOON;
    loop {
        let service = both.get("web").await?;
        let texts =
            ["mooring.dev/ip-addresses", "mooring.dev/moving-ip-addresses"].map(|key| annotation(&service, key));
        if texts.into_iter().flatten().any(|text| text.contains(&format!("={address}"))) {
            return Ok(());
        }
        ensure!(now() < deadline, "agents are not told of {address}: {service}; {}", both.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Another Service joins it, and leaves; who was there first loses nothing.
async fn with_another(both: &mut Both) -> Result<()> {
    let from = now();
    let key = json!({"mooring.dev/sharing-key": "both"});
    both.edit("web", json!({"metadata": {"annotations": key}})).await?;
    both.make("dns", 53, key).await?;
    both.shows("dns", &[vip(2)]).await?;
    both.edit(
        "dns",
        json!({"metadata": {"annotations": {"mooring.dev/sharing-key": null, ADDRESSES: vip(3).to_string()}}}),
    )
    .await?;
    both.rig.settled(vip(3)).await?;
    both.shows("dns", &[vip(3)]).await?;
    both.shows("web", &[vip(2)]).await?;
    ensure!(total(&both.rig.timeline(vip(2)).nobody(from, now())) < NEITHER, "lost by sharing; {}", both.logs());
    // Who was there first leaves: by a Lease for each Service, what stays goes over to another Lease.
    let back = json!({"mooring.dev/sharing-key": "both", ADDRESSES: vip(2).to_string()});
    both.edit("dns", json!({"metadata": {"annotations": back}})).await?;
    both.shows("dns", &[vip(2)]).await?;
    both.gone(vip(3)).await?;
    let from = now();
    let away = json!({"mooring.dev/sharing-key": null, ADDRESSES: vip(3).to_string()});
    both.edit("web", json!({"metadata": {"annotations": away}})).await?;
    both.rig.settled(vip(3)).await?;
    both.shows("web", &[vip(3)]).await?;
    both.rig.settled(vip(2)).await?;
    let without = longest(&both.rig.timeline(vip(2)).nobody(from, now()));
    ensure!(without < BY_ANOTHER_LEASE, "what stayed was on no node for {without:?}; {}", both.logs());
    both.rig.server.delete(&format!("{SERVICES}/dns")).await?;
    both.gone(vip(2)).await?;
    let at = both.asks("web", vip(2)).await?;
    both.moved("web", vip(3), vip(2), at).await
}

/// Changes in random order, with programs that lag or start again meanwhile. `MOORING_CHANGES_SEED` repeats one.
async fn at_random(ctx: &mut Ctx<()>) -> Result<()> {
    let seed = std::env::var("MOORING_CHANGES_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    ctx.note(&format!("seed {seed}"));
    let mut dice = Dice(seed);
    let four = [vip(0), vip(1), vip(2), vip(3)];
    for placement in ["session", "global-lease", "lease-per-service"] {
        let both = Both::set(ctx, placement).await?;
        both.make("web", echo::PORT, json!({})).await?;
        both.shows("web", &[vip(0)]).await?;
        for round in 0..25 {
            let from = now();
            let asked = *dice.pick(&four).context("none")?;
            both.asks("web", asked).await?;
            match dice.roll(6) {
                0 => {
                    both.allocator.kill().await?;
                    both.allocator.start_again()?;
                    both.allocator.ready().await?;
                }
                1 => {
                    let agent = both.rig.lab().agent(&both.rig.nodes[dice.roll(2)])?;
                    agent.kill()?;
                    agent.process()?.ended(SOON).await?;
                    agent.start_again()?;
                }
                2 => {
                    for agent in both.agents()? {
                        agent.freeze()?;
                    }
                    pass(1).await;
                    for agent in both.agents()? {
                        agent.thaw()?;
                    }
                }
                3 => drop(both.asks("web", *dice.pick(&four).context("none")?).await?),
                4 => {
                    both.rig.server.delete(&format!("{SERVICES}/web")).await?;
                    both.make("web", echo::PORT, json!({ADDRESSES: asked.to_string()})).await?;
                }
                _ => {}
            }
            let wanted = both.get("web").await?;
            let wanted: IpAddr = annotation(&wanted, ADDRESSES).context("it asks for nothing")?.parse()?;
            both.shows("web", &[wanted]).await.with_context(|| format!("round {round}, {placement}, seed {seed}"))?;
            both.rig.settled(wanted).await?;
            for address in four {
                both.rig.never_shared(address, from)?;
                if address != wanted {
                    both.gone(address).await?;
                }
            }
            let ready = said(&both.get("web").await?).is_some_and(|(ready, ..)| ready);
            ensure!(ready, "its condition is not true; {}", both.logs());
        }
        both.allocator.stop().await?;
    }
    Ok(())
}
