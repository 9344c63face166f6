//! metal3's own claims on a real API server: what their users read, both kinds in one pool, taking over and handing back, and a
//! kind that may not be listed.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::metal3::{ARGS, Metal3, kinds, up, up_with};
use super::story;
use crate::ipam::scope::Scope;
use crate::ipam::server::{Crds, documents_in};
use crate::ipam::world::SOON;
use crate::observe::now;
use crate::rig::allocator::AllocatorRig;
use crate::runner::{Ctx, Test};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("metal3", used, "claims-of-metal3s-own-beside-cluster-apis", 10),
        story!("metal3", paused, "claims-of-a-pool-of-a-paused-cluster-say-so", 10),
        story!("metal3", taken_over, "metal3s-own-claims-taken-over-and-handed-back", 10),
        story!("metal3", without_rights, "without-rights-only-metal3s-claims-wait", 10),
    ]
}

/// Waits until an object of metal3's is as wanted; None: it is gone.
async fn until(
    metal3: &Metal3<'_>,
    plural: &str,
    name: &str,
    wanted: impl Fn(Option<&Value>) -> bool,
) -> Result<Value> {
    let deadline = now() + SOON;
    loop {
        let object = metal3.get(plural, name).await.ok();
        if wanted(object.as_ref()) {
            return Ok(object.unwrap_or_default());
        }
        ensure!(now() < deadline, "{plural} {name} is {object:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// The address that a claim has got, found as metal3's data templates find it.
pub(super) async fn got(metal3: &Metal3<'_>, claim: &str) -> Result<Value> {
    let has = |one: Option<&Value>| one.is_some_and(|one| one["status"]["address"]["name"].is_string());
    let claim = until(metal3, "ipclaims", claim, has).await?;
    ensure!(claim["status"]["errorMessage"].is_null(), "{claim}");
    let name = claim["status"]["address"]["name"].as_str().unwrap_or_default();
    metal3.get("ipaddresses", name).await.context("no address of the name in the claim's status")
}

async fn fails(metal3: &Metal3<'_>, claim: &str, part: &str) -> Result<()> {
    let told = |one: Option<&Value>| {
        one.and_then(|one| one["status"]["errorMessage"].as_str()?.contains(part).then_some(())).is_some()
    };
    until(metal3, "ipclaims", claim, told).await.map(drop)
}

pub(super) async fn gone(metal3: &Metal3<'_>, plural: &str, name: &str) -> Result<()> {
    until(metal3, plural, name, |one| one.is_none()).await.map(drop)
}

/// The name that metal3 gives.
fn named(scope: &Scope<'_>, last: u8) -> String {
    format!("net-{}", scope.ip(last).replace('.', "-"))
}

async fn used(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    let metal3 = Metal3(&scope);
    let entries =
        json!([{"start": scope.ip(10), "end": scope.ip(13), "gateway": scope.ip(1), "dnsServers": [scope.ip(53)]}]);
    let spec = json!({"namePrefix": "net", "prefix": 24, "pools": entries, "preAllocations": {"kept": scope.ip(11)}});
    let pool = metal3.pool("net", spec).await?;

    // As metal3's data templates claim: an owner, labels, a finalizer of their own.
    let owner = json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool", "name": "net", "uid": pool["metadata"]["uid"]});
    let meta = json!({"labels": {"cluster.x-k8s.io/cluster-name": "w"}, "ownerReferences": [owner],
        "finalizers": ["metal3data.infrastructure.cluster.x-k8s.io"]});
    let claim = metal3.own_claim("node-0", "net", meta).await?;
    let address = got(&metal3, "node-0").await?;
    ensure!(address["metadata"]["name"] == named(&scope, 10), "{address}");
    let spec = json!({"address": scope.ip(10), "prefix": 24, "gateway": scope.ip(1), "dnsServers": [scope.ip(53)],
        "claim": {"name": "node-0", "namespace": scope.ns}, "pool": {"name": "net", "namespace": scope.ns}});
    ensure!(address["spec"] == spec, "{address}");
    let meta = &address["metadata"];
    ensure!(meta["finalizers"] == json!(["ipaddress.ipam.metal3.io"]), "{meta}");
    ensure!(meta["labels"]["cluster.x-k8s.io/cluster-name"] == "w", "{meta}");
    let owners = meta["ownerReferences"].as_array().cloned().unwrap_or_default();
    ensure!(owners.iter().any(|one| one["kind"] == "IPClaim" && one["uid"] == claim["metadata"]["uid"]), "{meta}");

    // As a machine controller claims from the same pool by Cluster API, under the same name: another claim, another address.
    let machine = metal3.claimed("node-0", "net", json!({})).await?;
    ensure!(machine.ip() == scope.ip(12), "{}", machine.ip());
    metal3.own_claim("kept", "net", json!({})).await?;
    ensure!(got(&metal3, "kept").await?["spec"]["address"] == scope.ip(11), "not the address that is kept");
    metal3.own_claim("asks", "net", json!({"annotations": {"ipAddress": scope.ip(12)}})).await?;
    fails(&metal3, "asks", "node-0").await?;
    metal3.own_claim("asks-13", "net", json!({"annotations": {"ipAddress": scope.ip(13)}})).await?;
    ensure!(got(&metal3, "asks-13").await?["spec"]["address"] == scope.ip(13), "not the address that it asks for");
    metal3.own_claim("late", "net", json!({})).await?;
    fails(&metal3, "late", "PoolExhausted").await?;
    let indexes = json!({"node-0": scope.ip(10), "IPAddressClaim/node-0": scope.ip(12), "kept": scope.ip(11),
        "asks-13": scope.ip(13)});
    metal3.indexes("net", indexes).await?;

    // An address waits for its user's finalizer; then the claim that waits has it at once.
    metal3.delete("ipclaims", "node-0").await?;
    scope.canary().await?;
    metal3.get("ipaddresses", &named(&scope, 10)).await.context("its user still had it")?;
    metal3.change("ipclaims", "node-0", json!({"metadata": {"finalizers": ["ipclaim.ipam.metal3.io"]}})).await?;
    gone(&metal3, "ipclaims", "node-0").await?;
    ensure!(got(&metal3, "late").await?["spec"]["address"] == scope.ip(10), "another address");
    // Without any prefix the address has none, as with metal3.
    let bare = json!([{"start": scope.ip(50), "end": scope.ip(52)}]);
    metal3.pool("bare", json!({"namePrefix": "bare", "pools": bare})).await?;
    metal3.own_claim("without", "bare", json!({})).await?;
    let spec = got(&metal3, "without").await?["spec"].clone();
    ensure!(spec["address"] == scope.ip(50) && spec["prefix"].is_null() && spec["gateway"].is_null(), "{spec}");
    // A paused claim is left alone.
    metal3.own_claim("paused", "net", json!({"annotations": {"cluster.x-k8s.io/paused": ""}})).await?;
    scope.canary().await?;
    let paused = metal3.get("ipclaims", "paused").await?;
    ensure!(paused["status"].is_null() && paused["metadata"]["finalizers"].is_null(), "{paused}");
    for (plural, name, change, part) in [
        ("ipclaims", "late", json!({"spec": {"pool": {"name": "other"}}}), "spec.pool is immutable"),
        ("ipaddresses", &*named(&scope, 10), json!({"spec": {"address": scope.ip(99)}}), "spec.address is immutable"),
    ] {
        let error = metal3.change(plural, name, change).await.err().context("not refused")?;
        ensure!(format!("{error:#}").contains(part), "{error:#}");
    }
    scope.sound().await?;
    allocator.stop().await
}

/// Claims of a pool wait while its Cluster is paused, and say that, and not that there is an annotation.
async fn paused(_: &mut Ctx<()>) -> Result<()> {
    let rig = up_with(Crds::ClusterApi).await?;
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    let metal3 = Metal3(&scope);
    scope.cluster("prod", json!({"paused": true})).await?;
    let entries = json!([{"start": scope.ip(10), "end": scope.ip(13)}]);
    metal3.pool("net", json!({"namePrefix": "net", "prefix": 24, "pools": entries, "clusterName": "prod"})).await?;
    metal3.own_claim("a", "net", json!({})).await?;
    metal3.claim("b", "net", json!({})).await?;
    fails(&metal3, "a", "Cluster prod, which is paused").await?;
    scope.refused_with("b", "PoolNotReady", "Cluster prod, which is paused").await?;
    scope.merge_cluster("prod", json!({"spec": {"paused": false}})).await?;
    got(&metal3, "a").await?;
    scope.bound("b").await?;
    let by_hand = |value: Value| json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}});
    metal3.change("ippools", "net", by_hand(json!(""))).await?;
    metal3.own_claim("c", "net", json!({})).await?;
    fails(&metal3, "c", "annotation cluster.x-k8s.io/paused").await?;
    metal3.change("ippools", "net", by_hand(Value::Null)).await?;
    got(&metal3, "c").await?;
    scope.sound().await?;
    allocator.stop().await
}

/// What metal3's controller leaves is taken over with its addresses; and what is left for it, it would have written.
async fn taken_over(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let scope = rig.scope().await?;
    let metal3 = Metal3(&scope);
    let spec = json!({"namePrefix": "net", "prefix": 24, "pools": [{"start": scope.ip(10), "end": scope.ip(19)}]});
    let pool =
        metal3.create("ippools", "IPPool", "net", spec, json!({"finalizers": ["ippool.ipam.metal3.io"]})).await?;
    let owner = |object: &Value| {
        json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
            "uid": object["metadata"]["uid"]})
    };
    for (name, last, is_bound) in [("bound", 15, true), ("unbound", 17, false)] {
        let claim = metal3.own_claim(name, "net", json!({"finalizers": ["ipclaim.ipam.metal3.io"]})).await?;
        let meta =
            json!({"finalizers": ["ipaddress.ipam.metal3.io"], "ownerReferences": [owner(&pool), owner(&claim)]});
        let reference = |name: &str| json!({"name": name, "namespace": scope.ns});
        let spec = json!({"address": scope.ip(last), "claim": reference(name), "pool": reference("net"), "prefix": 24});
        metal3.create("ipaddresses", "IPAddress", &named(&scope, last), spec, meta).await?;
        if is_bound {
            let status = json!({"status": {"address": reference(&named(&scope, last))}});
            metal3.change("ipclaims", &format!("{name}/status"), status).await?;
        }
    }
    // metal3 never looked at it again.
    metal3.own_claim("forgotten", "net", json!({})).await?;
    metal3.change("ipclaims", "forgotten/status", json!({"status": {"errorMessage": "Exhausted IP Pools"}})).await?;

    let allocator = rig.start_with("allocator", &ARGS).await?;
    for (name, last) in [("bound", 15), ("unbound", 17), ("forgotten", 10)] {
        let has = |one: Option<&Value>| {
            one.is_some_and(|one| {
                one["status"]["address"]["name"] == named(&scope, last) && one["status"]["errorMessage"].is_null()
            })
        };
        until(&metal3, "ipclaims", name, has).await?;
    }
    metal3.own_claim("new", "net", json!({})).await?;
    ensure!(got(&metal3, "new").await?["spec"]["address"] == scope.ip(11), "another address");
    let indexes =
        json!({"bound": scope.ip(15), "unbound": scope.ip(17), "forgotten": scope.ip(10), "new": scope.ip(11)});
    metal3.indexes("net", indexes).await?;
    metal3.delete("ipclaims", "bound").await?;
    gone(&metal3, "ipclaims", "bound").await?;
    gone(&metal3, "ipaddresses", &named(&scope, 15)).await?;
    allocator.stop().await?;

    // metal3's controller finds a claim's address by the name that it would have given, takes its own finalizer off, deletes it,
    // and then takes its own finalizer off the claim. Nothing else holds either.
    for (name, last) in [("unbound", 17), ("forgotten", 10), ("new", 11)] {
        metal3.delete("ipclaims", name).await?;
        let address = metal3.get("ipaddresses", &named(&scope, last)).await?;
        ensure!(address["metadata"]["finalizers"] == json!(["ipaddress.ipam.metal3.io"]), "{address}");
        metal3.change("ipaddresses", &named(&scope, last), json!({"metadata": {"finalizers": []}})).await?;
        metal3.delete("ipaddresses", &named(&scope, last)).await?;
        let claim = metal3.get("ipclaims", name).await?;
        ensure!(claim["metadata"]["finalizers"] == json!(["ipclaim.ipam.metal3.io"]), "{claim}");
        metal3.change("ipclaims", name, json!({"metadata": {"finalizers": []}})).await?;
        gone(&metal3, "ipclaims", name).await?;
        gone(&metal3, "ipaddresses", &named(&scope, last)).await?;
    }
    Ok(())
}

/// A kind that may not be listed holds up its own claims, and no others.
async fn without_rights(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::Standalone).await?;
    kinds(&rig).await?;
    let allocator = rig.spawn("allocator", &ARGS)?;
    let scope = rig.scope().await?;
    let metal3 = Metal3(&scope);
    let spec = json!({"namePrefix": "net", "prefix": 24, "pools": [{"start": scope.ip(10), "end": scope.ip(19)}]});
    metal3.pool("net", spec).await?;
    metal3.own_claim("own", "net", json!({})).await?;
    metal3.claim("other", "net", json!({})).await?;
    scope.pool("p", scope.range(100, 110)).await?;
    scope.claim("a", "p").await?;
    scope.bound("a").await?;
    let waits = metal3.get("ipclaims", "own").await?;
    ensure!(waits["metadata"]["finalizers"].is_null(), "{waits}");
    let log = std::fs::read_to_string(allocator.process().log())?;
    ensure!(log.contains("no permission to list"), "the log does not say what is missing");
    for object in documents_in("allocator/metal3/rbac.yaml")? {
        rig.server.apply(&object).await?;
    }
    got(&metal3, "own").await?;
    scope.bound("other").await?;
    scope.sound().await?;
    allocator.stop().await
}
