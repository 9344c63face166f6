//! Clusters with kubeadm control planes and addresses for their Services, and `VSphereMachine`s, come back with their pools, claims and
//! addresses. Kubernetes' own garbage collector deletes what names an owner of before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::assets;
use crate::host::{Process, Spec};
use crate::ipam::allocators::Allocator;
use crate::ipam::cluster_parts::Parts;
use crate::ipam::endpoint;
use crate::ipam::endpoint_kinds::{CONTROL_PLANE, INFRASTRUCTURE};
use crate::ipam::machines::{Machines, device, install};
use crate::ipam::scope::{ADDRESS, CLAIM, POOL, Scope};
use crate::ipam::server::Server;
use crate::ipam::services::annotation;
use crate::observe::now;
use crate::rig::allocator::name;
use crate::runner::Ctx;
use crate::scenario::dice::Dice;

/// An allocator for claims, endpoints and machines.
const ARGS: [&str; 4] = ["--leader-election=false", "--services=off", "--endpoints=on", "--machine-addresses=on"];
/// Longest time until all is as it was, on a busy machine.
const SOON: Duration = Duration::from_mins(1);
/// The Cluster.
const CLUSTER: &str = "prod";
/// Where the Cluster's addresses for Services are written.
const TARGET: &str = "lb-addresses";

/// The pools, and the last parts of their addresses. Not the lowest are in use.
const POOLS: [(&str, u8, u8); 3] = [("endpoints", 10, 20), ("workers", 40, 50), ("services", 60, 70)];

/// What else a restore does.
#[derive(Clone, Copy, Debug)]
struct With {
    /// Claims come with the status of before, after the object.
    status: bool,
    /// The Cluster comes paused, as before a move, and is unpaused when all is there.
    paused: bool,
}

/// An object of a backup.
#[derive(Clone, Debug)]
struct Piece {
    /// The path of its kind in its namespace.
    place: String,
    object: Value,
}

impl Piece {
    fn path(&self) -> String {
        format!("{}/{}", self.place, name(&self.object))
    }
}

/// What claims, machines and the Cluster's places have, by what they are called.
type Has = BTreeMap<String, Value>;

struct World<'a> {
    scope: &'a Scope<'a>,
    allocator: Allocator,
    _collector: Process,
}

impl<'a> World<'a> {
    /// A Cluster and two machines with addresses that are not the lowest of their pools.
    async fn up(scope: &'a Scope<'a>) -> Result<Self> {
        let collector = garbage_collector(&scope.rig.server)?;
        let allocator = scope.rig.start_with("allocator", &ARGS).await?;
        let world = Self { scope, allocator, _collector: collector };
        let machines = Machines { scope };
        for (pool, first, last) in POOLS {
            scope.create(POOL, pool, scope.range(first, last), json!({})).await?;
            for claim in 0..2 {
                let claim = format!("before-{pool}-{claim}");
                scope.claim(&claim, pool).await?;
                scope.bound(&claim).await?;
            }
        }
        let parts = world.parts();
        parts.create().await?;
        let host = parts.written().await?;
        parts.initialise(&host).await?;
        let target =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": TARGET}, "data": {"cidr": ""}});
        scope.rig.server.create(&world.place_of("/api/v1", "configmaps"), &target).await?;
        let wish = json!({"metadata": {"annotations": {
            "mooring.dev/service-lb-pool": format!("{POOL}/services"), "mooring.dev/service-lb-count": "2",
            "mooring.dev/service-lb-target": format!("ConfigMap/{TARGET}/cidr")}}});
        scope.merge_cluster(CLUSTER, wish).await?;
        machines.template(&json!({"cluster.x-k8s.io/ip-pool-name": "workers"})).await?;
        for machine in ["m-1", "m-2"] {
            machines.create(machine, &json!([device("vm-network")])).await?;
            machines.served(machine).await?;
        }
        world
            .settled("the target has two addresses", |has| {
                has.get("target").and_then(Value::as_str).is_some_and(|text| text.split(',').count() == 2)
            })
            .await?;
        for (pool, ..) in POOLS {
            for claim in 0..2 {
                let claim = format!("before-{pool}-{claim}");
                scope.delete(CLAIM, &claim).await?;
                scope.gone(CLAIM, &claim).await?;
            }
        }
        Ok(world)
    }

    fn parts(&self) -> Parts<'a> {
        Parts { scope: self.scope, name: CLUSTER.to_owned() }
    }

    fn server(&self) -> &Server {
        &self.scope.rig.server
    }

    fn place_of(&self, base: &str, plural: &str) -> String {
        format!("{base}/namespaces/{}/{plural}", self.scope.ns)
    }

    /// The kinds in the order in which Velero restores them: Secrets and `ConfigMap`s are of high priority there, the rest comes by name.
    fn places(&self) -> Vec<String> {
        let infrastructure =
            |version: &str, plural: &str| self.place_of(&format!("/apis/{INFRASTRUCTURE}/{version}"), plural);
        vec![
            self.place_of("/api/v1", "secrets"),
            self.place_of("/api/v1", "configmaps"),
            self.place_of("/apis/cluster.x-k8s.io/v1beta2", "clusters"),
            self.scope.place(POOL),
            self.scope.place(CLAIM),
            self.scope.place(ADDRESS),
            self.place_of(&format!("/apis/{CONTROL_PLANE}/v1beta2"), "kubeadmcontrolplanes"),
            infrastructure("v1beta2", "vsphereclusters"),
            infrastructure("v1beta2", "vspheremachines"),
            infrastructure("v1beta2", "vspheremachinetemplates"),
        ]
    }

    async fn items(&self, place: &str) -> Result<Vec<Value>> {
        let list = self.server().get(place).await.with_context(|| format!("list {place}"))?;
        let (version, kind) =
            (list["apiVersion"].clone(), list["kind"].as_str().unwrap_or_default().replace("List", ""));
        let mut all = list["items"].as_array().cloned().context("no list")?;
        for one in &mut all {
            one["apiVersion"] = version.clone();
            one["kind"] = json!(kind);
        }
        Ok(all)
    }

    /// What all have. Fails if an address is given twice.
    async fn has(&self) -> Result<Has> {
        let mut has = Has::new();
        let (addresses, claims) =
            (self.items(&self.scope.place(ADDRESS)).await?, self.items(&self.scope.place(CLAIM)).await?);
        let mut seen = BTreeSet::new();
        for address in &addresses {
            let ip = address["spec"]["address"].as_str().unwrap_or_default();
            ensure!(seen.insert(ip), "{ip} is given twice");
            let of = |claim: &&Value| claim["status"]["addressRef"]["name"] == name(address);
            match claims.iter().find(of) {
                Some(claim) => has.insert(format!("claim {}", name(claim)), json!(ip)),
                None => has.insert(format!("left over {}", name(address)), json!(ip)),
            };
        }
        // The garbage collector deletes a restored claim and its `IPAddress`, as both name owners of before. A claim that came with its
        // status is held, and has its address without an object.
        for claim in claims.iter().filter(|claim| !claim["metadata"]["deletionTimestamp"].is_null()) {
            let bound = claim["status"]["addressRef"]["name"].is_string();
            if let Some(ip) = annotation(claim, "mooring.dev/address").filter(|_| bound) {
                has.entry(format!("claim {}", name(claim))).or_insert_with(|| json!(ip));
            }
        }
        for place in self.places().iter().skip(6).chain([&self.places()[0]]) {
            for one in self.items(place).await? {
                let what = one["spec"].as_object().map_or_else(|| one["data"].clone(), |spec| json!(spec));
                has.insert(format!("{} {}", one["kind"], name(&one)), what);
            }
        }
        for one in self.items(&self.places()[1]).await?.iter().filter(|one| name(one) == TARGET) {
            has.insert("target".into(), one["data"]["cidr"].clone());
        }
        Ok(has)
    }

    async fn settled(&self, what: &str, is: impl Fn(&Has) -> bool) -> Result<Has> {
        let deadline = now() + SOON;
        loop {
            let has = self.has().await?;
            if is(&has) {
                return Ok(has);
            }
            if now() > deadline {
                let mut claims = self.items(&self.scope.place(CLAIM)).await?;
                for claim in &mut claims {
                    claim["metadata"].as_object_mut().context("no metadata")?.remove("managedFields");
                }
                let claims: Vec<_> = claims.iter().map(Value::to_string).collect();
                let log = self.allocator.process().log_tail(80);
                anyhow::bail!("{what}: they have {has:?}\nclaims: {}\n{log}", claims.join("\n"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// All that a backup has.
    async fn backup(&self) -> Result<Vec<Piece>> {
        let mut all = Vec::new();
        for place in self.places() {
            for mut object in self.items(&place).await? {
                super::without_identity(&mut object)?;
                all.push(Piece { place: place.clone(), object });
            }
        }
        Ok(all)
    }

    /// Deletes all, while no allocator runs.
    async fn wipe(&self) -> Result<()> {
        self.allocator.kill().await?;
        for place in self.places() {
            for object in self.items(&place).await? {
                super::wiped(self.server(), &format!("{place}/{}", name(&object))).await?;
            }
        }
        Ok(())
    }

    async fn again(&self) -> Result<()> {
        self.allocator.start_again()?;
        self.allocator.ready().await
    }

    async fn restore(&self, pieces: &[Piece], with: With, dice: &mut Dice) -> Result<()> {
        let starts = if dice.roll(2) == 0 { 0 } else { dice.roll(pieces.len()) };
        for (at, piece) in pieces.iter().enumerate() {
            if at == starts {
                self.again().await?;
            }
            let mut object = piece.object.clone();
            let status = object.as_object_mut().and_then(|one| one.remove("status"));
            let is_cluster = object["kind"] == "Cluster";
            if is_cluster && with.paused {
                object["spec"]["paused"] = json!(true);
            }
            // What the allocator has made already is left as it is.
            let made = match self.server().create(&piece.place, &object).await {
                Err(refused) if refused.code == 409 => false,
                answer => answer.map(|_| true).with_context(|| format!("refused: {object}"))?,
            };
            let shown = made && (is_cluster || object["kind"] == CLAIM && with.status);
            if let Some(status) = status.filter(|_| shown) {
                tokio::time::sleep(Duration::from_millis(dice.roll(3) as u64 * 50)).await;
                let answer = self.server().merge(&format!("{}/status", piece.path()), &json!({"status": status})).await;
                ensure!(answer.as_ref().err().is_none_or(|no| no.code == 404), "{}: {answer:?}", piece.path());
            }
            // Some come at once, others after the allocator has long done what it could.
            match dice.roll(8) {
                0 => tokio::time::sleep(Duration::from_millis(1500)).await,
                1 | 2 => tokio::time::sleep(Duration::from_millis(200)).await,
                _ => {}
            }
        }
        if with.paused {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.scope.merge_cluster(CLUSTER, json!({"spec": {"paused": null}})).await?;
        }
        Ok(())
    }

    /// Wipes and restores all, and waits until all have what they had, and keep it.
    async fn round(&self, what: &str, pieces: &[Piece], with: With, dice: &mut Dice, had: &Has) -> Result<()> {
        let order: Vec<_> =
            pieces.iter().map(|piece| format!("{} {}", piece.object["kind"], name(&piece.object))).collect();
        let what = format!("{what}, {with:?}: {}", order.join(", "));
        self.wipe().await?;
        self.restore(pieces, with, dice).await.with_context(|| what.clone())?;
        if let Err(error) = self.settled(&what, |has| has == had).await {
            let has = self.has().await?;
            let other = |key: &&String| has.get(*key) != had.get(*key);
            let keys: BTreeSet<&String> = has.keys().chain(had.keys()).filter(other).collect();
            let all: Vec<_> =
                keys.iter().map(|key| format!("{key}: {:?}, was {:?}", has.get(*key), had.get(*key))).collect();
            return Err(error.context(all.join("\n")));
        }
        self.nothing_is_free(had).await.context(what)
    }

    /// New claims get no address that was anybody's before.
    async fn nothing_is_free(&self, had: &Has) -> Result<()> {
        let had: BTreeSet<&str> = had.values().filter_map(Value::as_str).collect();
        let all = POOLS.map(|(pool, ..)| [format!("new-{pool}-0"), format!("new-{pool}-1"), format!("new-{pool}-2")]);
        for (claims, (pool, ..)) in all.iter().zip(POOLS) {
            for claim in claims {
                self.scope.claim(claim, pool).await?;
            }
        }
        for claim in all.iter().flatten() {
            let bound = self.scope.bound(claim).await?;
            ensure!(!had.contains(bound.ip()), "claim {claim} got {}, which was another's", bound.ip());
        }
        for claim in all.iter().flatten() {
            self.scope.delete(CLAIM, claim).await?;
        }
        Ok(())
    }
}

/// Kubernetes' own garbage collector, and no other controller.
fn garbage_collector(server: &Server) -> Result<Process> {
    let (lab, cluster) = (server.lab(), server.lab().cluster()?);
    let url = cluster.servers().first().cloned().context("no API server")?;
    let kubeconfig = lab.dir().join("garbage-collector.conf");
    fs::write(&kubeconfig, cluster.pki().kubeconfig(&cluster.pki().super_admin()?, &url)?)?;
    let binary = assets::one(assets::Product::KubeControllerManager)?.path;
    let spec = Spec::new("garbage-collector", binary).args([
        format!("--kubeconfig={}", kubeconfig.display()),
        "--controllers=garbage-collector-controller".to_owned(),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
    ]);
    Ok(lab.host("client")?.start(spec)?)
}

/// The order of a backup tool and its reverse, and as many random orders.
pub(super) async fn in_orders(ctx: &mut Ctx<()>, random: usize) -> Result<()> {
    let seed = super::seed(ctx);
    let rig = endpoint::up().await?;
    install(&rig.server).await?;
    let scope = rig.scope().await?;
    let world = World::up(&scope).await?;
    let had = world.has().await?;
    ensure!(had.keys().filter(|key| key.starts_with("claim")).count() == 5, "{had:#?}");
    let pieces = world.backup().await?;
    let mut dice = Dice(seed);
    for (status, paused) in [(false, false), (true, true)] {
        let with = With { status, paused };
        world.round("as Velero does", &pieces, with, &mut dice, &had).await?;
        let mut reverse = pieces.clone();
        reverse.reverse();
        world.round("in reverse", &reverse, with, &mut dice, &had).await?;
    }
    for round in 0..random {
        let order = super::shuffled(&pieces, &mut dice);
        let with = With { status: round % 2 == 0, paused: round % 4 < 2 };
        world.round(&format!("order {round} of seed {seed}"), &order, with, &mut dice, &had).await?;
    }
    world.allocator.stop().await
}
