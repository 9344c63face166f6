//! Claims of Cluster API on metal3's pools, on a real API server: as metal3 serves them, without its defects.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::metal3_own::{gone, got};
use super::story;
use crate::ipam::endpoint::kill_again_and_again;
use crate::ipam::scope::{ADDRESS, Bound, CLAIM, Scope};
use crate::ipam::server::{Crds, documents_in};
use crate::ipam::world::SOON;
use crate::observe::now;
use crate::rig::allocator::AllocatorRig;
use crate::runner::{Ctx, Test};

/// metal3's group and version.
const METAL3: &str = "ipam.metal3.io/v1alpha1";

/// The arguments of an allocator that serves metal3's pools, and nothing about Services.
pub(super) const ARGS: [&str; 3] = ["--leader-election=false", "--services=off", "--metal3=on"];

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("metal3", claims, "claims-of-a-pool-of-metal3s", 10),
        story!("metal3", taken_over, "taken-over-from-metal3", 10),
        story!("metal3", killed, "killed-again-and-again-and-no-address-twice", 10).nightly(),
    ]
}

/// An API server with metal3's kinds, and the rights that the manifests give.
pub(super) async fn up() -> Result<AllocatorRig> {
    up_with(Crds::Standalone).await
}

/// The same beside other kinds.
pub(super) async fn up_with(crds: Crds) -> Result<AllocatorRig> {
    let rig = AllocatorRig::up(crds).await?;
    kinds(&rig).await?;
    for object in documents_in("allocator/metal3/rbac.yaml")? {
        rig.server.apply(&object).await.context("the rights are refused")?;
    }
    Ok(rig)
}

/// metal3's kinds.
pub(super) async fn kinds(rig: &AllocatorRig) -> Result<()> {
    for plural in ["ippools", "ipclaims", "ipaddresses"] {
        for crd in documents_in(&format!("crds/metal3/ipam.metal3.io_{plural}.yaml"))? {
            rig.server.apply(&crd).await.context("a kind is refused")?;
        }
        rig.server.established(&format!("{plural}.ipam.metal3.io")).await?;
    }
    Ok(())
}

/// metal3's objects in a namespace.
pub(super) struct Metal3<'a>(pub &'a Scope<'a>);

impl Metal3<'_> {
    fn place(&self, plural: &str) -> String {
        format!("/apis/{METAL3}/namespaces/{}/{plural}", self.0.ns)
    }

    pub async fn create(&self, plural: &str, kind: &str, name: &str, spec: Value, mut meta: Value) -> Result<Value> {
        meta["name"] = json!(name);
        let object = json!({"apiVersion": METAL3, "kind": kind, "metadata": meta, "spec": spec});
        self.0
            .rig
            .server
            .create(&self.place(plural), &object)
            .await
            .with_context(|| format!("{kind} {name} is refused"))
    }

    pub async fn pool(&self, name: &str, spec: Value) -> Result<Value> {
        self.create("ippools", "IPPool", name, spec, json!({})).await
    }

    pub async fn get(&self, plural: &str, name: &str) -> Result<Value> {
        Ok(self.0.rig.server.get(&format!("{}/{name}", self.place(plural))).await?)
    }

    pub async fn delete(&self, plural: &str, name: &str) -> Result<Value> {
        Ok(self.0.rig.server.delete(&format!("{}/{name}", self.place(plural))).await?)
    }

    /// Changes an object; for its status, `/status` stands behind its name.
    pub async fn change(&self, plural: &str, name: &str, patch: Value) -> Result<Value> {
        Ok(self.0.rig.server.merge(&format!("{}/{name}", self.place(plural)), &patch).await?)
    }

    async fn read(&self, name: &str) -> Result<Value> {
        self.get("ippools", name).await
    }

    async fn merge(&self, name: &str, patch: Value) -> Result<Value, crate::ipam::server::Refused> {
        self.0.rig.server.merge(&format!("{}/{name}", self.place("ippools")), &patch).await
    }

    /// A claim of metal3's own.
    pub async fn own_claim(&self, name: &str, pool: &str, meta: Value) -> Result<Value> {
        let spec = json!({"pool": {"name": pool, "namespace": self.0.ns}});
        self.create("ipclaims", "IPClaim", name, spec, meta).await
    }

    /// Waits until the pool's status lists these addresses.
    pub async fn indexes(&self, name: &str, wanted: Value) -> Result<()> {
        let deadline = now() + SOON;
        loop {
            let pool = self.read(name).await?;
            if pool["status"]["indexes"] == wanted && pool["status"]["lastUpdated"].is_string() {
                return Ok(());
            }
            ensure!(now() < deadline, "{name} lists {}, not {wanted}", pool["status"]);
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    pub async fn claim(&self, name: &str, pool: &str, meta: Value) -> Result<Value> {
        let reference = json!({"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": pool});
        self.0.create(CLAIM, name, json!({"poolRef": reference}), meta).await
    }

    /// A claim that has its address.
    pub async fn claimed(&self, name: &str, pool: &str, meta: Value) -> Result<Bound> {
        self.claim(name, pool, meta).await?;
        self.0.bound(name).await
    }
}

/// `address/prefix gateway`.
fn terms(bound: &Bound) -> String {
    let spec = &bound.address["spec"];
    format!("{}/{} {}", bound.ip(), spec["prefix"], spec["gateway"].as_str().unwrap_or_default())
}

async fn claims(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    let metal3 = Metal3(&scope);

    // The entries are used up in their order, each with its own terms. Nobody gets the gateway.
    let entries = json!([
        {"start": scope.ip(100), "end": scope.ip(102), "prefix": 25, "gateway": scope.ip(101)},
        {"start": scope.ip(10), "end": scope.ip(13)},
    ]);
    let spec = json!({"namePrefix": "net", "pools": entries, "prefix": 24, "gateway": scope.ip(1),
        "preAllocations": {"kept": scope.ip(10)}});
    let pool = metal3.pool("net", spec).await?;
    let first = metal3.claimed("a", "net", json!({"labels": {"cluster.x-k8s.io/cluster-name": "w"}})).await?;
    ensure!(terms(&first) == format!("{}/25 {}", scope.ip(100), scope.ip(101)), "{}", terms(&first));
    let meta = &first.address["metadata"];
    ensure!(meta["name"] == "a" && meta["finalizers"] == json!(["ipam.metal3.io/ipaddress"]), "{meta}");
    ensure!(meta["labels"]["cluster.x-k8s.io/cluster-name"] == "w", "{meta}");
    ensure!(first.claim["metadata"]["finalizers"] == json!(["ipam.metal3.io/ipaddressclaim"]), "{}", first.claim);
    let owner = json!({"apiVersion": METAL3, "kind": "IPPool", "name": "net", "uid": pool["metadata"]["uid"],
        "controller": false, "blockOwnerDeletion": true});
    ensure!(meta["ownerReferences"][1] == owner, "{meta}");
    ensure!(first.address["spec"]["poolRef"]["apiGroup"] == "ipam.metal3.io", "{}", first.address);
    let second = metal3.claimed("b", "net", json!({})).await?;
    ensure!(second.ip() == scope.ip(102), "{}", second.ip());
    let third = metal3.claimed("c", "net", json!({})).await?;
    ensure!(terms(&third) == format!("{}/24 {}", scope.ip(11), scope.ip(1)), "{}", terms(&third));
    let asked = metal3.claimed("d", "net", json!({"annotations": {"ipAddress": scope.ip(13)}})).await?;
    ensure!(asked.ip() == scope.ip(13), "{}", asked.ip());
    metal3.claim("e", "net", json!({"annotations": {"ipAddress": scope.ip(10)}})).await?;
    scope.refused_with("e", "AllocationFailed", "preAllocations").await?;
    metal3.claimed("f", "net", json!({})).await?;
    let kept = metal3.claimed("kept", "net", json!({})).await?;
    ensure!(kept.ip() == scope.ip(10), "{}", kept.ip());

    // A claim that found nothing is served as soon as there is something: metal3 never looks at it again.
    metal3.claim("late", "net", json!({})).await?;
    scope.refused("late", "PoolExhausted").await?;
    scope.delete(CLAIM, "b").await?;
    let late = scope.bound("late").await?;
    ensure!(late.ip() == scope.ip(102), "{}", late.ip());
    let indexes = json!({"a": scope.ip(100), "late": scope.ip(102), "kept": scope.ip(10), "c": scope.ip(11),
        "f": scope.ip(12), "d": scope.ip(13)});
    metal3.indexes("net", indexes).await?;
    let pool = metal3.read("net").await?;
    ensure!(pool["metadata"]["finalizers"] == json!(["ippool.ipam.metal3.io"]), "{pool}");
    ensure!(pool["metadata"]["labels"]["cluster.x-k8s.io/provider"] == "ipam-metal3", "{pool}");

    // Kept IPv6 addresses are compared as addresses; a kind of the same name in another group is not ours.
    let v6 = json!([{"start": scope.ip6("1"), "end": scope.ip6("3"), "prefix": 64}]);
    let long = format!("{}:0:0:0:0:0:0001", scope.ip6("").trim_end_matches(':'));
    metal3.pool("six", json!({"namePrefix": "six", "pools": v6, "preAllocations": {"kept6": long}})).await?;
    let other = metal3.claimed("other6", "six", json!({})).await?;
    ensure!(other.ip() == scope.ip6("2"), "{}", other.ip());
    scope.claim("foreign", "six").await?;
    scope.refused("foreign", "PoolNotReady").await?;

    // Without any prefix addresses are given as metal3 does. A wrong line in preAllocations is its claim's matter alone.
    let bare = json!([{"start": scope.ip(50), "end": scope.ip(52)}]);
    let kept = json!({"wrong": scope.ip(99), "x": scope.ip(50), "y": scope.ip(50)});
    metal3.pool("bare", json!({"namePrefix": "bare", "pools": bare, "preAllocations": kept})).await?;
    let without = metal3.claimed("without", "bare", json!({})).await?;
    ensure!(terms(&without) == format!("{}/0 ", scope.ip(51)), "{}", terms(&without));
    for (name, said) in
        [("wrong", "not in the pool"), ("x", "can be one claim's only"), ("y", "can be one claim's only")]
    {
        metal3.claim(name, "bare", json!({})).await?;
        scope.refused_with(name, "AllocationFailed", said).await?;
    }

    // A pool stays as long as it has addresses.
    rig.server.delete(&format!("{}/six", metal3.place("ippools"))).await?;
    scope.canary().await?;
    metal3.read("six").await?;
    scope.delete(CLAIM, "other6").await?;
    scope.gone(ADDRESS, "other6").await?;
    rules(&metal3).await?;
    scope.sound().await?;
    allocator.stop().await
}

/// The API server refuses what metal3's webhook refuses.
async fn rules(metal3: &Metal3<'_>) -> Result<()> {
    for (patch, part) in [
        (json!({"namePrefix": "other"}), "namePrefix is immutable"),
        (json!({"allocationStrategy": "random"}), "allocationStrategy is immutable"),
        (json!({"preAllocations": {"x": "10.0.0.x"}}), "preAllocations must be IP addresses"),
        (json!({"gateway": "none"}), "is not an IP address"),
        (json!({"pools": [{"start": "10.0.0.9", "end": "10.0.0.8"}]}), "ends before it begins"),
        (json!({"pools": [{"start": "fd00::9", "end": "fd00::8"}]}), "ends before it begins"),
        (json!({"pools": [{"start": "10.0.0.9"}]}), "no beginning or no end"),
        (json!({"pools": [{"start": "10.0.1.9", "subnet": "10.0.0.0/24"}]}), "must lie in subnet"),
        (json!({"pools": [{"subnet": "10.0.0.0"}]}), "is not a CIDR"),
    ] {
        let refused = metal3.merge("net", json!({"spec": patch})).await;
        let error = refused.err().with_context(|| format!("not refused: {patch}"))?;
        ensure!(error.to_string().contains(part), "{patch}: {error}");
    }
    Ok(())
}

/// What metal3's controller has left: an address named after its prefix, owners without flags, and addresses of its own claims.
async fn taken_over(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let scope = rig.scope().await?;
    let metal3 = Metal3(&scope);
    let spec = json!({"namePrefix": "net", "prefix": 24, "pools": [{"start": scope.ip(10), "end": scope.ip(13)}]});
    let pool =
        metal3.create("ippools", "IPPool", "net", spec, json!({"finalizers": ["ippool.ipam.metal3.io"]})).await?;
    let claim = metal3.claim("a", "net", json!({"finalizers": ["ipam.metal3.io/ipaddressclaim"]})).await?;
    let named = format!("net-{}", scope.ip(12).replace('.', "-"));
    let owner = |object: &Value| {
        json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
            "uid": object["metadata"]["uid"]})
    };
    let meta = json!({"finalizers": ["ipam.metal3.io/ipaddress"], "ownerReferences": [owner(&pool), owner(&claim)]});
    let reference = json!({"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": "net"});
    let spec = json!({"claimRef": {"name": "a"}, "poolRef": reference, "address": scope.ip(12), "prefix": 24});
    scope.create(ADDRESS, &named, spec, meta).await?;
    let bound = json!({"status": {"addressRef": {"name": named}}});
    rig.server.merge(&format!("{}/status", scope.path(CLAIM, "a")), &bound).await?;
    // metal3's own claim has the same name, as in metal3's example.
    let of_pool = json!({"name": "net", "namespace": scope.ns});
    let own = json!({"address": scope.ip(10), "claim": {"name": "a"}, "pool": of_pool, "prefix": 24});
    let own_name = format!("net-{}", scope.ip(10).replace('.', "-"));
    metal3.create("ipaddresses", "IPAddress", &own_name, own, json!({})).await?;

    let allocator = rig.start_with("allocator", &ARGS).await?;
    let what = "the address to be taken over";
    let taken = rig.world.until(what, |state| {
        let address = state.get(ADDRESS, &scope.ns, &named)?;
        let owners = address["metadata"]["ownerReferences"].as_array()?;
        owners.iter().any(|one| one["kind"] == CLAIM && one["controller"] == true).then(|| address.clone())
    });
    let taken = taken.await?;
    ensure!(taken["spec"]["address"] == scope.ip(12), "{taken}");
    let finalizers = &taken["metadata"]["finalizers"];
    ensure!(*finalizers == json!(["ipam.metal3.io/ipaddress"]), "{taken}");
    let new = metal3.claimed("b", "net", json!({})).await?;
    ensure!(new.ip() == scope.ip(11), "{}", new.ip());
    metal3.indexes("net", json!({"a": scope.ip(10), "IPAddressClaim/a": scope.ip(12), "b": scope.ip(11)})).await?;
    metal3.claim("c", "net", json!({"annotations": {"ipAddress": scope.ip(10)}})).await?;
    scope.refused_with("c", "AllocationFailed", "IPClaim").await?;
    // Once metal3's own claim is gone, its address is free; the claim that asked for it gets it.
    rig.server.delete(&format!("{}/{own_name}", metal3.place("ipaddresses"))).await?;
    ensure!(scope.bound("c").await?.ip() == scope.ip(10), "another address");
    scope.delete(CLAIM, "a").await?;
    scope.gone(CLAIM, "a").await?;
    scope.gone(ADDRESS, &named).await?;
    scope.sound().await?;
    allocator.stop().await
}

async fn killed(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    let metal3 = Metal3(&scope);
    let entries = json!([{"start": scope.ip(120), "end": scope.ip(239)}, {"start": scope.ip(10), "end": scope.ip(89)}]);
    metal3.pool("net", json!({"namePrefix": "net", "prefix": 24, "pools": entries})).await?;
    let names: Vec<String> = (0..100).map(|n| format!("c{n}")).collect();
    // Those of metal3's own have the same names.
    let own = names.clone();
    let work = async {
        for name in &names {
            metal3.claim(name, "net", json!({})).await?;
        }
        for name in &own {
            metal3.own_claim(name, "net", json!({})).await?;
        }
        let mut given = BTreeSet::new();
        for name in &names {
            given.insert(scope.bound(name).await?.ip().to_owned());
        }
        for name in &own {
            given.insert(got(&metal3, name).await?["spec"]["address"].as_str().unwrap_or_default().to_owned());
        }
        Ok::<_, anyhow::Error>(given)
    };
    let given = tokio::select! {
        ended = work => ended?,
        ended = kill_again_and_again(&allocator) => { ended?; BTreeSet::new() }
    };
    ensure!(given.len() == names.len() + own.len(), "an address twice: {given:?}");
    // They are deleted while it is killed, and all addresses come free once it lives.
    let deleted = async {
        for name in &names {
            scope.delete(CLAIM, name).await?;
            metal3.delete("ipclaims", name).await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    tokio::select! {
        ended = deleted => ended?,
        ended = kill_again_and_again(&allocator) => ended?,
    }
    // It may be dead already.
    let _ = allocator.kill().await;
    allocator.start_again()?;
    for name in &names {
        scope.gone(CLAIM, name).await?;
        scope.gone(ADDRESS, name).await?;
        gone(&metal3, "ipclaims", name).await?;
    }
    let left = metal3.get("ipaddresses", "").await?;
    ensure!(left["items"].as_array().is_some_and(Vec::is_empty), "leaked: {left}");
    scope.sound().await
}
