//! A restore on a real API server: namespaces, Services, pools, claims and `IPAddress` objects come back one by one, with new uids and
//! without status, in the order of a backup tool, in the reverse, and at random, under an allocator that runs and is started again.
//! Who had an address has it again, nothing is given twice, and nothing is left over.

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
use crate::runner::{Ctx, Test};
use crate::scenario::dice::Dice;
use crate::scenario::story;

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("restore", in_some_orders, "in-each-order-of-kinds-and-at-random", 8),
        story!("restore", in_many_orders, "in-200-random-orders", 60).nightly(),
    ]
}

/// Longest time until all is as it was.
const SOON: Duration = Duration::from_secs(45);
/// The namespaces; a pool selects the first one by its label.
const NAMESPACES: [&str; 2] = ["restore-a", "restore-b"];
/// The plurals of what is backed up, in the order in which Velero restores them: Services are of high priority there, the rest comes by
/// name.
const KINDS: [(&str, &str); 5] = [
    ("/api/v1", "services"),
    ("v1alpha2", "globalinclusterippools"),
    ("v1alpha2", "inclusterippools"),
    ("v1beta2", "ipaddressclaims"),
    ("v1beta2", "ipaddresses"),
];

fn place(kind: (&str, &str), namespace: Option<&str>) -> String {
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
    Object((&'static str, &'static str), Box<Value>),
    /// The label of a namespace. (No namespace is ever gone where no controller deletes it.)
    Label,
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
        for namespace in NAMESPACES {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            rig.server.create("/api/v1/namespaces", &object).await?;
        }
        let allocator = rig.start("allocator").await?;
        let all = Self { rig, allocator };
        all.label(true).await?;
        let default = json!({"mooring.dev/service-default": "true"});
        let team = json!({"selector": {"matchLabels": {"net": "x"}}});
        all.pool(KINDS[1], "services", None, &default, &json!({"addresses": ["10.9.1.1-10.9.1.20"], "prefix": 24}))
            .await?;
        let spec = json!({"addresses": ["10.9.2.1-10.9.2.20"], "prefix": 24, "allowedNamespaces": team});
        all.pool(KINDS[1], "team", None, &default, &spec).await?;
        let spec = json!({"addresses": ["10.9.3.1-10.9.3.20"], "prefix": 24});
        all.pool(KINDS[2], "machines", Some(NAMESPACES[1]), &json!({}), &spec).await?;
        let gone = ["c-1", "c-3"];
        for claim in ["c-1", "c-2", "c-3", "c-5", "c-4"] {
            all.claim(claim).await?;
            all.settled(|has| has.contains_key(&(KINDS[3].1, NAMESPACES[1].into(), claim.into()))).await?;
        }
        for namespace in NAMESPACES {
            for service in ["s-1", "s-3", "s-2"] {
                all.service(namespace, service).await?;
                all.settled(|has| has.contains_key(&(KINDS[0].1, namespace.into(), service.into()))).await?;
            }
            all.server().delete(&format!("{}/s-1", place(KINDS[0], Some(namespace)))).await?;
        }
        for claim in gone {
            all.server().delete(&format!("{}/{claim}", place(KINDS[3], Some(NAMESPACES[1])))).await?;
        }
        all.settled(|has| has.len() == 7 + 4).await?;
        Ok(all)
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

    async fn pool(
        &self,
        kind: (&str, &str),
        name: &str,
        namespace: Option<&str>,
        notes: &Value,
        spec: &Value,
    ) -> Result<()> {
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
        self.server().create(&place(KINDS[3], Some(NAMESPACES[1])), &object).await?;
        Ok(())
    }

    async fn service(&self, namespace: &str, name: &str) -> Result<()> {
        let object = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {
                "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false,
                "ports": [{"name": "p", "port": 80, "protocol": "TCP"}],
            },
        });
        self.server().create(&place(KINDS[0], Some(namespace)), &object).await?;
        Ok(())
    }

    async fn items(&self, kind: (&'static str, &'static str)) -> Result<Vec<Value>> {
        let list = self.server().get(&place(kind, None)).await?;
        let mut all = list["items"].as_array().cloned().context("no list")?;
        all.retain(|one| name(one) != "kubernetes");
        Ok(all)
    }

    /// What claims and Services have. Fails if an address is given twice.
    async fn has(&self) -> Result<Has> {
        let addresses = self.items(KINDS[4]).await?;
        let mut seen = BTreeSet::new();
        let mut has = Has::new();
        for claim in self.items(KINDS[3]).await? {
            let Some(bound) = claim.pointer("/status/addressRef/name").and_then(Value::as_str) else { continue };
            let namespace = claim["metadata"]["namespace"].as_str().unwrap_or_default();
            let its = addresses.iter().find(|one| name(one) == bound && one["metadata"]["namespace"] == namespace);
            let Some(address) = its.and_then(|one| one["spec"]["address"].as_str()) else { continue };
            ensure!(seen.insert(address), "{address} is given twice");
            // The claims of Services are named after uids.
            if claim["metadata"]["labels"].get("mooring.dev/service-family").is_none() {
                has.insert((KINDS[3].1, namespace.into(), name(&claim).into()), address.into());
            } else {
                has.insert((KINDS[4].1, String::new(), address.into()), address.into());
            }
        }
        if addresses.len() > seen.len() {
            has.insert((KINDS[4].1, String::new(), "left over".into()), String::new());
        }
        for service in self.items(KINDS[0]).await? {
            let Some(record) = annotation(&service, "mooring.dev/ip-addresses") else { continue };
            let Some((object, address)) = record.split_once('=') else { continue };
            // A record alone is no address: its object must be there.
            let there = addresses.iter().any(|one| {
                let key = format!("{}/{}", one["metadata"]["namespace"].as_str().unwrap_or_default(), name(one));
                key == object && one["spec"]["address"] == address
            });
            let namespace = service["metadata"]["namespace"].as_str().unwrap_or_default();
            if there {
                has.insert((KINDS[0].1, namespace.into(), name(&service).into()), address.into());
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
                let log = self.allocator.process().log_tail(15);
                anyhow::bail!("they have {has:?}: {}{log}", self.said().await?);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// What the conditions of claims and Services say.
    async fn said(&self) -> Result<String> {
        let mut said = String::new();
        for kind in [KINDS[0], KINDS[3]] {
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

    /// All that a backup has: neither uids nor status.
    async fn backup(&self) -> Result<Vec<Piece>> {
        let mut all = vec![Piece::Label];
        for kind in KINDS {
            for mut object in self.items(kind).await? {
                let meta = object["metadata"].as_object_mut().context("no metadata")?;
                for key in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
                    meta.remove(key);
                }
                object.as_object_mut().context("no object")?.remove("status");
                if let Some(spec) = object["spec"].as_object_mut().filter(|_| kind == KINDS[0]) {
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
                // One that was being deleted is gone without its finalizers.
                let freed = self.server().merge(&path, &json!({"metadata": {"finalizers": Value::Null}})).await;
                for answer in [freed, self.server().delete(&path).await] {
                    ensure!(answer.as_ref().err().is_none_or(|no| no.code == 404), "{path}: {answer:?}");
                }
            }
        }
        self.label(false).await
    }

    async fn again(&self) -> Result<()> {
        self.allocator.start_again()?;
        self.allocator.ready().await
    }

    /// Restores all in that order. `owners`: whether owner references come along, with the uids of before.
    async fn restore(&self, pieces: &[Piece], owners: bool, dice: &mut Dice) -> Result<()> {
        let starts = if dice.roll(2) == 0 { 0 } else { dice.roll(pieces.len()) };
        for (at, piece) in pieces.iter().enumerate() {
            if at == starts {
                self.again().await?;
            }
            match piece {
                Piece::Label => self.label(true).await?,
                Piece::Object(kind, object) => {
                    let mut object = object.clone();
                    if !owners && let Some(meta) = object["metadata"].as_object_mut() {
                        meta.remove("ownerReferences");
                    }
                    let path = place(*kind, object["metadata"]["namespace"].as_str());
                    match self.server().create(&path, &object).await {
                        // What is there already is left as it is.
                        Err(refused) if refused.code == 409 => {}
                        answer => drop(answer.with_context(|| format!("refused: {object}"))?),
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
    async fn round(&self, what: &str, pieces: &[Piece], owners: bool, dice: &mut Dice, had: &Has) -> Result<()> {
        self.wipe().await?;
        self.restore(pieces, owners, dice).await?;
        let has = self.settled(|has| has == had).await;
        has.with_context(|| format!("{what}, owners {owners}"))?;
        Ok(())
    }
}

async fn in_some_orders(ctx: &mut Ctx<()>) -> Result<()> {
    in_orders(ctx, 3).await
}

async fn in_many_orders(ctx: &mut Ctx<()>) -> Result<()> {
    in_orders(ctx, 200).await
}

/// The order of a backup tool and its reverse, and as many random orders. `MOORING_RESTORE_SEED` chooses them.
async fn in_orders(ctx: &mut Ctx<()>, random: usize) -> Result<()> {
    let seed = std::env::var("MOORING_RESTORE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    ctx.note(&format!("seed {seed}"));
    let cluster = Cluster::up().await?;
    let had = cluster.has().await?;
    let pieces = cluster.backup().await?;
    ensure!(had.values().all(|address| address.parse::<IpAddr>().is_ok()), "{had:?}");
    let mut dice = Dice(seed);
    for owners in [true, false] {
        cluster.round("as Velero does", &pieces, owners, &mut dice, &had).await?;
        let mut reverse = pieces.clone();
        reverse.reverse();
        cluster.round("in reverse", &reverse, owners, &mut dice, &had).await?;
    }
    for round in 0..random {
        let mut left = pieces.clone();
        let mut order = Vec::new();
        while !left.is_empty() {
            order.push(left.swap_remove(dice.roll(left.len())));
        }
        cluster.round(&format!("order {round} of seed {seed}"), &order, round % 2 == 0, &mut dice, &had).await?;
    }
    cluster.allocator.stop().await
}
