//! Namespaces, Services, pools, claims and `IPAddress` objects come back. Some Services share: by a key, by the `ConfigMap`, and across
//! namespaces by invitation. One claim had its address from another provider.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::assets::{self, Profile};
use crate::ipam::allocators::Allocator;
use crate::ipam::server::{Crds, IPAM, Server};
use crate::ipam::services::annotation;
use crate::observe::now;
use crate::rig::allocator::{AllocatorRig, name};
use crate::runner::Ctx;
use crate::scenario::dice::Dice;

/// Longest time until all is as it was.
const SOON: Duration = Duration::from_secs(45);
/// The namespaces; a pool selects the first one by its label.
const NAMESPACES: [&str; 2] = ["restore-a", "restore-b"];
/// The namespace whose pool, and the leave to share, are in the `ConfigMap`.
const CONFIGURED: &str = "restore-c";
/// Where the pool of the claims is.
const MACHINES: &str = NAMESPACES[1];
/// The plurals of what is backed up, in the order in which Velero restores them: Services are of high priority there, the rest comes by
/// name.
const KINDS: [Kind; 6] = [SERVICES, CONFIGS, GLOBAL_POOLS, POOLS, CLAIMS, ADDRESSES];
const SERVICES: Kind = ("/api/v1", "services");
const CONFIGS: Kind = ("/api/v1", "configmaps");
const GLOBAL_POOLS: Kind = ("v1alpha2", "globalinclusterippools");
const POOLS: Kind = ("v1alpha2", "inclusterippools");
const CLAIMS: Kind = ("v1beta2", "ipaddressclaims");
const ADDRESSES: Kind = ("v1beta2", "ipaddresses");

/// Version (or the path of the core group) and plural.
type Kind = (&'static str, &'static str);

fn place(kind: Kind, namespace: Option<&str>) -> String {
    let (version, plural) = kind;
    let base = if version.starts_with('/') { version.to_owned() } else { format!("{IPAM}/{version}") };
    match namespace.filter(|_| !plural.starts_with("global")) {
        Some(namespace) => format!("{base}/namespaces/{namespace}/{plural}"),
        None => format!("{base}/{plural}"),
    }
}

/// What comes back.
#[derive(Clone, Debug)]
enum Piece {
    Object(Kind, Box<Value>),
    /// The label of a namespace. (No namespace is ever gone where no controller deletes it.)
    Label,
}

/// What else a backup tool brings back.
#[derive(Clone, Copy, Debug)]
struct With {
    /// Owner references, with the uids of before.
    owners: bool,
    /// The status of Services and claims, after the objects.
    status: bool,
}

struct Cluster {
    rig: AllocatorRig,
    allocator: Allocator,
}

/// What each claim and each Service has, by kind, namespace and name.
type Has = BTreeMap<(&'static str, String, String), String>;

impl Cluster {
    /// A cluster in which claims and Services of two namespaces have addresses that are not the lowest of their pools.
    async fn up() -> Result<Self> {
        let binary = tokio::task::spawn_blocking(|| assets::allocator(Profile::Dev)).await??;
        let rig = AllocatorRig::with(Crds::Standalone, binary, false).await?;
        for namespace in [NAMESPACES[0], NAMESPACES[1], CONFIGURED] {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            rig.server.create("/api/v1/namespaces", &object).await?;
        }
        let allocator = rig.start("allocator").await?;
        let all = Self { rig, allocator };
        all.label(true).await?;
        all.pools().await?;
        let gone = ["c-1", "c-3"];
        for claim in ["c-1", "c-2", "c-3", "c-5", "c-4"] {
            all.claim(claim).await?;
            all.settled(|has| has.contains_key(&(CLAIMS.1, MACHINES.into(), claim.into()))).await?;
        }
        for namespace in NAMESPACES {
            for service in ["s-1", "s-3", "s-2"] {
                all.service(namespace, service, 80, &json!({})).await?;
            }
            all.server().delete(&format!("{}/s-1", place(SERVICES, Some(namespace)))).await?;
        }
        for claim in gone {
            all.server().delete(&format!("{}/{claim}", place(CLAIMS, Some(MACHINES)))).await?;
        }
        all.settled(|has| has.len() == 3 + 2 * 4).await?;
        all.share().await?;
        all.taken_over("c-6").await?;
        all.settled(|has| has.len() == 3 + 2 * 4 + 3 * 3 + 1).await?;
        Ok(all)
    }

    async fn pools(&self) -> Result<()> {
        let default = json!({"mooring.dev/service-default": "true"});
        let team = json!({"selector": {"matchLabels": {"net": "x"}}});
        let spec = json!({"addresses": ["10.9.1.1-10.9.1.20"], "prefix": 24});
        self.pool(GLOBAL_POOLS, "services", None, &default, &spec).await?;
        let spec = json!({"addresses": ["10.9.2.1-10.9.2.20"], "prefix": 24, "allowedNamespaces": team});
        self.pool(GLOBAL_POOLS, "team", None, &default, &spec).await?;
        let spec = json!({"addresses": ["10.9.3.1-10.9.3.20"], "prefix": 24});
        self.pool(POOLS, "machines", Some(MACHINES), &json!({}), &spec).await?;
        let data =
            json!({format!("range-{CONFIGURED}"): "10.9.4.1-10.9.4.20", format!("allow-share-{CONFIGURED}"): "true"});
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kubevip"}, "data": data});
        self.server().create(&place(CONFIGS, Some("kube-system")), &config).await?;
        Ok(())
    }

    /// Pairs of Services with one address: by a key, by invitation, and by the `ConfigMap`.
    async fn share(&self) -> Result<()> {
        let [host, guest] = NAMESPACES;
        let key = json!({"mooring.dev/sharing-key": "web"});
        let open = json!({
            "mooring.dev/sharing-key": format!("{host}/dns"), "mooring.dev/sharing-namespaces": guest,
            "mooring.dev/pool": "GlobalInClusterIPPool/services",
        });
        let mut invited = open.clone();
        invited.as_object_mut().context("no annotations")?.remove("mooring.dev/sharing-namespaces");
        for (first, second, notes, others) in [
            ((host, "key-1"), (host, "key-2"), &key, &key),
            ((host, "dns"), (guest, "dns"), &open, &invited),
            ((CONFIGURED, "one"), (CONFIGURED, "two"), &json!({}), &json!({})),
        ] {
            let first = self.service(first.0, first.1, 80, notes).await?;
            let second = self.service(second.0, second.1, 81, others).await?;
            ensure!(first == second, "they do not share: {first}, {second}");
        }
        Ok(())
    }

    /// A claim whose address is from another provider, which left no annotation.
    async fn taken_over(&self, claim: &str) -> Result<()> {
        self.allocator.kill().await?;
        let pool = json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "machines"});
        let object = json!({
            "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "spec": {"poolRef": pool},
            "metadata": {"name": claim, "finalizers": ["ipam.cluster.x-k8s.io/ReleaseAddress"]},
        });
        let path = place(CLAIMS, Some(MACHINES));
        let made = self.server().create(&path, &object).await?;
        let object = json!({
            "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddress",
            "spec": {"address": "10.9.3.17", "prefix": 24, "claimRef": {"name": claim}, "poolRef": pool},
            "metadata": {
                "name": claim, "finalizers": ["ipam.cluster.x-k8s.io/ProtectAddress"],
                "ownerReferences": [{
                    "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "name": claim,
                    "uid": made["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
                }],
            },
        });
        self.server().create(&place(ADDRESSES, Some(MACHINES)), &object).await?;
        let status = json!({"status": {"addressRef": {"name": claim}}});
        self.server().merge(&format!("{path}/{claim}/status"), &status).await?;
        self.again().await?;
        let deadline = now() + SOON;
        while annotation(&self.server().get(&format!("{path}/{claim}")).await?, "mooring.dev/address").is_none() {
            ensure!(now() < deadline, "{claim} does not say which address it has");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    fn server(&self) -> &Server {
        &self.rig.server
    }

    async fn label(&self, is: bool) -> Result<()> {
        let value = if is { json!("x") } else { Value::Null };
        let path = format!("/api/v1/namespaces/{}", NAMESPACES[0]);
        self.server().merge(&path, &json!({"metadata": {"labels": {"net": value}}})).await?;
        Ok(())
    }

    async fn pool(&self, kind: Kind, name: &str, namespace: Option<&str>, notes: &Value, spec: &Value) -> Result<()> {
        let word = if kind.1.starts_with("global") { "GlobalInClusterIPPool" } else { "InClusterIPPool" };
        let object = json!({
            "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "kind": word,
            "metadata": {"name": name, "annotations": notes}, "spec": spec,
        });
        self.server().create(&place(kind, namespace), &object).await.with_context(|| format!("pool {name}"))?;
        Ok(())
    }

    async fn claim(&self, name: &str) -> Result<()> {
        let object = json!({
            "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "metadata": {"name": name},
            "spec": {"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "machines"}},
        });
        self.server().create(&place(CLAIMS, Some(MACHINES)), &object).await?;
        Ok(())
    }

    /// Makes a Service, and waits for its address.
    async fn service(&self, namespace: &str, name: &str, port: u16, notes: &Value) -> Result<String> {
        let object = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "annotations": notes},
            "spec": {
                "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false,
                "ports": [{"name": "p", "port": port, "protocol": "TCP"}],
            },
        });
        self.server().create(&place(SERVICES, Some(namespace)), &object).await?;
        let key = (SERVICES.1, namespace.to_owned(), name.to_owned());
        let has = self.settled(|has| has.contains_key(&key)).await?;
        has.get(&key).cloned().context("no address")
    }

    async fn items(&self, kind: Kind) -> Result<Vec<Value>> {
        let list = self.server().get(&place(kind, None)).await?;
        let mut all = list["items"].as_array().cloned().context("no list")?;
        all.retain(|one| name(one) != "kubernetes" && (kind != CONFIGS || name(one) == "kubevip"));
        Ok(all)
    }

    /// What claims and Services have. Fails if an address is given twice.
    async fn has(&self) -> Result<Has> {
        let addresses = self.items(ADDRESSES).await?;
        let (mut seen, mut bound) = (BTreeSet::new(), BTreeSet::new());
        let mut has = Has::new();
        for claim in self.items(CLAIMS).await? {
            let Some(object) = claim.pointer("/status/addressRef/name").and_then(Value::as_str) else { continue };
            let namespace = claim["metadata"]["namespace"].as_str().unwrap_or_default();
            let its = addresses.iter().find(|one| name(one) == object && one["metadata"]["namespace"] == namespace);
            let Some(address) = its.and_then(|one| one["spec"]["address"].as_str()) else { continue };
            ensure!(seen.insert(address), "{address} is given twice");
            bound.insert((address, object.to_owned()));
            // The claims of Services are named after uids.
            if claim["metadata"]["labels"].get("mooring.dev/service-family").is_none() {
                has.insert((CLAIMS.1, namespace.into(), name(&claim).into()), address.into());
            } else {
                has.insert((ADDRESSES.1, String::new(), address.into()), address.into());
            }
        }
        for one in addresses
            .iter()
            .filter(|one| one["spec"]["address"].as_str().is_none_or(|ip| !bound.contains(&(ip, name(one).to_owned()))))
        {
            has.insert((ADDRESSES.1, "left over".into(), name(one).into()), String::new());
        }
        for service in self.items(SERVICES).await? {
            let Some(record) = annotation(&service, "mooring.dev/ip-addresses") else { continue };
            let Some((object, address)) = record.split_once('=') else { continue };
            // A record alone is no address: its object must be there.
            let there = addresses.iter().any(|one| {
                let key = format!("{}/{}", one["metadata"]["namespace"].as_str().unwrap_or_default(), name(one));
                key == object && one["spec"]["address"] == address
            });
            let namespace = service["metadata"]["namespace"].as_str().unwrap_or_default();
            if there {
                has.insert((SERVICES.1, namespace.into(), name(&service).into()), address.into());
            }
        }
        Ok(has)
    }

    async fn settled(&self, is: impl Fn(&Has) -> bool) -> Result<Has> {
        let deadline = now() + SOON;
        loop {
            let has = self.has().await?;
            if is(&has) {
                return Ok(has);
            }
            if now() > deadline {
                let log = self.allocator.process().log_tail(120);
                anyhow::bail!("they have {has:?}: {}{log}", self.said().await?);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// What the conditions of claims and Services say.
    async fn said(&self) -> Result<String> {
        let mut said = String::new();
        for kind in [SERVICES, CLAIMS] {
            for one in self.items(kind).await? {
                let record = annotation(&one, "mooring.dev/ip-addresses");
                let conditions = one.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
                let all: Vec<_> =
                    conditions.filter_map(|one| Some((one["reason"].as_str()?, one["message"].as_str()?))).collect();
                writeln!(said, "{} {}: {all:?} {record:?}", kind.1, name(&one))?;
            }
        }
        Ok(said)
    }

    /// All that a backup has: no uids.
    async fn backup(&self) -> Result<Vec<Piece>> {
        let mut all = vec![Piece::Label];
        for kind in KINDS {
            for mut object in self.items(kind).await? {
                super::without_identity(&mut object)?;
                if kind == SERVICES {
                    // As agents' VIPs are shown: none run here.
                    let shown = annotation(&object, "mooring.dev/ip-addresses")
                        .and_then(|record| record.split_once('='))
                        .map(|(_, ip)| json!([{"ip": ip}]));
                    object["status"]["loadBalancer"]["ingress"] = shown.unwrap_or_default();
                }
                if let Some(spec) = object["spec"].as_object_mut().filter(|_| kind == SERVICES) {
                    spec.remove("clusterIP");
                    spec.remove("clusterIPs");
                }
                all.push(Piece::Object(kind, Box::new(object)));
            }
        }
        Ok(all)
    }

    /// Deletes all, while no allocator runs.
    async fn wipe(&self) -> Result<()> {
        self.allocator.kill().await?;
        for kind in KINDS {
            for object in self.items(kind).await? {
                let path = format!("{}/{}", place(kind, object["metadata"]["namespace"].as_str()), name(&object));
                super::wiped(self.server(), &path).await?;
            }
        }
        self.label(false).await
    }

    async fn again(&self) -> Result<()> {
        self.allocator.start_again()?;
        self.allocator.ready().await
    }

    /// Restores all in that order.
    async fn restore(&self, pieces: &[Piece], with: With, dice: &mut Dice) -> Result<()> {
        let starts = if dice.roll(2) == 0 { 0 } else { dice.roll(pieces.len()) };
        for (at, piece) in pieces.iter().enumerate() {
            if at == starts {
                self.again().await?;
            }
            match piece {
                Piece::Label => self.label(true).await?,
                Piece::Object(kind, object) => {
                    let mut object = object.clone();
                    if !with.owners
                        && let Some(meta) = object["metadata"].as_object_mut()
                    {
                        meta.remove("ownerReferences");
                    }
                    let status = object.as_object_mut().and_then(|one| one.remove("status")).filter(|_| with.status);
                    let path = place(*kind, object["metadata"]["namespace"].as_str());
                    // What is there already is left as it is.
                    let made = match self.server().create(&path, &object).await {
                        Err(refused) if refused.code == 409 => false,
                        answer => answer.map(|_| true).with_context(|| format!("refused: {object}"))?,
                    };
                    if let Some(status) = status.filter(|_| made && [SERVICES, CLAIMS].contains(kind)) {
                        tokio::time::sleep(Duration::from_millis(dice.roll(2) as u64 * 100)).await;
                        let path = format!("{path}/{}/status", name(&object));
                        let shown = self.server().merge(&path, &json!({"status": status})).await;
                        ensure!(shown.as_ref().err().is_none_or(|no| no.code == 404), "{path}: {shown:?}");
                    }
                }
            }
            // Some come at once, others after the allocator has long done what it could.
            match dice.roll(8) {
                0 => tokio::time::sleep(Duration::from_millis(1500)).await,
                1 if at > starts => {
                    self.allocator.kill().await?;
                    self.again().await?;
                }
                2 | 3 => tokio::time::sleep(Duration::from_millis(100)).await,
                _ => {}
            }
        }
        Ok(())
    }

    /// Wipes and restores all, and waits until all have what they had.
    async fn round(&self, what: &str, pieces: &[Piece], with: With, dice: &mut Dice, had: &Has) -> Result<()> {
        self.wipe().await?;
        self.restore(pieces, with, dice).await?;
        let has = self.settled(|has| has == had).await;
        has.with_context(|| format!("{what}, {with:?}: {}", order(pieces)))?;
        Ok(())
    }
}

/// The names of what comes back, in that order.
fn order(pieces: &[Piece]) -> String {
    let names = pieces.iter().map(|piece| match piece {
        Piece::Object(kind, object) => format!("{} {}", kind.1, name(object)),
        Piece::Label => "the label".to_owned(),
    });
    names.collect::<Vec<_>>().join(", ")
}

/// The order of a backup tool and its reverse, and as many random orders.
pub(super) async fn in_orders(ctx: &mut Ctx<()>, random: usize) -> Result<()> {
    let seed = super::seed(ctx);
    let cluster = Cluster::up().await?;
    let had = cluster.has().await?;
    let pieces = cluster.backup().await?;
    ensure!(had.values().all(|address| address.parse::<IpAddr>().is_ok()), "{had:?}");
    let mut dice = Dice(seed);
    for (owners, status) in [(true, false), (false, true)] {
        let with = With { owners, status };
        cluster.round("as Velero does", &pieces, with, &mut dice, &had).await?;
        let mut reverse = pieces.clone();
        reverse.reverse();
        cluster.round("in reverse", &reverse, with, &mut dice, &had).await?;
    }
    for round in 0..random {
        let order = super::shuffled(&pieces, &mut dice);
        let with = With { owners: round % 2 == 0, status: round % 4 < 2 };
        cluster.round(&format!("order {round} of seed {seed}"), &order, with, &mut dice, &had).await?;
    }
    cluster.allocator.stop().await
}
