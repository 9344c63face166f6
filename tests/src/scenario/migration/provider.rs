//! Claims and addresses as the in-cluster provider leaves them, with what the consumer of the claim adds (here Cluster API's
//! vSphere provider). And what must be as before, once Mooring serves them.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use mooring_api::finalizers::{PROTECT_ADDRESS, PROTECT_POOL, RELEASE_ADDRESS};
use mooring_api::labels::CLUSTER_NAME;
use serde_json::{Value, json};

use crate::ipam::allocators::Allocator;
use crate::ipam::audit::ready;
use crate::ipam::scope::{ADDRESS, CLAIM, Scope};
use crate::ipam::server::place_in;
use crate::rig::allocator::name;

/// With this finalizer the vSphere provider holds a claim as long as its machine exists.
pub const CONSUMER: &str = "vspherevm.infrastructure.cluster.x-k8s.io/ip-claim-protection";
/// Stands in owner references for the uid of the claim, which the API server chooses.
pub const CLAIM_UID: &str = "uid-of-the-claim";
/// The Cluster of the claims.
pub const CLUSTER: &str = "w";

/// The provider's mark on a pool.
pub fn of_pool() -> Value {
    json!({"finalizers": [PROTECT_POOL]})
}

/// An owner reference as the provider writes it.
pub fn owner(object: &Value, controller: bool) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "controller": controller, "blockOwnerDeletion": true,
    })
}

/// A claim, its status and its address. A test changes what is odd; null: there is none.
pub struct Pair {
    pub claim: Value,
    pub status: Value,
    pub address: Value,
}

impl Pair {
    /// A bound claim of a pool.
    pub fn of(pool: &Value, claim: &str, ip: &str) -> Self {
        let spec = &pool["spec"];
        let prefix = ["prefix", "allocationPrefixLength"].into_iter().find(|key| spec[key].is_number());
        let prefix = prefix.map_or_else(|| json!(28), |key| spec[key].clone());
        let reference =
            json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": pool["kind"], "name": pool["metadata"]["name"]});
        let mut address = json!({
            "claimRef": {"name": claim}, "poolRef": reference, "address": ip, "prefix": prefix,
        });
        if spec["gateway"].is_string() {
            address["gateway"] = spec["gateway"].clone();
        }
        let version = "ipam.cluster.x-k8s.io/v1beta2";
        let mut made = json!({
            "apiVersion": version, "kind": CLAIM, "spec": {"poolRef": reference},
            "metadata": {
                "name": claim, "uid": CLAIM_UID, "labels": {CLUSTER_NAME: CLUSTER},
                "finalizers": [RELEASE_ADDRESS, CONSUMER],
            },
        });
        let address = json!({
            "apiVersion": version, "kind": ADDRESS, "spec": address,
            "metadata": {
                "name": claim, "labels": {CLUSTER_NAME: CLUSTER}, "finalizers": [PROTECT_ADDRESS],
                "ownerReferences": [owner(&made, true), owner(pool, false)],
            },
        });
        if let Some(meta) = made["metadata"].as_object_mut() {
            meta.remove("uid");
        }
        made["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VSphereVM", "name": claim,
            "uid": format!("vm-{claim}"), "controller": true, "blockOwnerDeletion": true,
        }]);
        Self { claim: made, status: json!({"addressRef": {"name": claim}}), address }
    }

    /// The same with something changed.
    pub fn but(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Creates the objects.
    pub async fn leave(mut self, scope: &Scope<'_>) -> Result<()> {
        let place = |object: &Value, kind: &str| {
            let version = object["apiVersion"].as_str().and_then(|text| text.split_once('/')).map_or("", |both| both.1);
            place_in(version, kind, &scope.ns)
        };
        let server = &scope.rig.server;
        let mut path = String::new();
        if !self.claim.is_null() {
            let all = place(&self.claim, CLAIM);
            let made = server.create(&all, &self.claim).await.with_context(|| format!("{}", self.claim))?;
            path = format!("{all}/{}", name(&made));
            let owners = self.address.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
            for owner in owners.into_iter().flatten().filter(|owner| owner["uid"] == CLAIM_UID) {
                owner["uid"] = made["metadata"]["uid"].clone();
            }
        }
        if !self.address.is_null() {
            let all = place(&self.address, ADDRESS);
            server.create(&all, &self.address).await.with_context(|| format!("{}", self.address))?;
        }
        if !self.status.is_null() && !path.is_empty() {
            server.merge(&format!("{path}/status"), &json!({"status": self.status})).await?;
        }
        Ok(())
    }
}

/// Takes the finalizer of the consumer off a claim, and the claim goes: the machine is gone.
pub async fn machine_gone(scope: &Scope<'_>, claim: &str) -> Result<()> {
    let seen = scope.rig.server.get(&scope.path(CLAIM, claim)).await?;
    let left = seen["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let left: Vec<Value> = left.into_iter().filter(|one| one != CONSUMER).collect();
    scope.merge(CLAIM, claim, json!({"metadata": {"finalizers": left}})).await?;
    Ok(())
}

/// Objects before the switch.
pub struct Before {
    claims: Vec<Value>,
    addresses: Vec<Value>,
    /// Paths and objects that are nothing of Mooring's.
    strangers: Vec<(String, Value)>,
}

impl Before {
    /// Reads all claims and addresses of a namespace, and these objects of others.
    pub async fn read(scope: &Scope<'_>, strangers: &[String]) -> Result<Self> {
        let mut all = Vec::new();
        for path in strangers {
            all.push((path.clone(), scope.rig.server.get(path).await?));
        }
        Ok(Self { claims: listed(scope, CLAIM).await?, addresses: listed(scope, ADDRESS).await?, strangers: all })
    }

    /// The address that each claim of these objects has, by name.
    pub fn ips(&self) -> Vec<(String, String)> {
        let ip = |one: &Value| one["spec"]["address"].as_str().unwrap_or_default().to_owned();
        self.addresses.iter().map(|one| (name(one).to_owned(), ip(one))).collect()
    }

    /// Nobody was written to who is a stranger.
    pub async fn strangers_are_untouched(&self, scope: &Scope<'_>) -> Result<()> {
        for (path, before) in &self.strangers {
            let now = scope.rig.server.get(path).await?;
            let version = |one: &Value| one["metadata"]["resourceVersion"].clone();
            ensure!(version(&now) == version(before), "written to: {before} became {now}");
        }
        Ok(())
    }

    /// Nothing at all was written to these claims and their addresses.
    pub async fn untouched(&self, scope: &Scope<'_>, names: &[&str]) -> Result<()> {
        for (kind, all) in [(CLAIM, &self.claims), (ADDRESS, &self.addresses)] {
            for before in all.iter().filter(|one| names.contains(&name(one))) {
                let now = scope.rig.server.get(&scope.path(kind, name(before))).await?;
                let version = |one: &Value| one["metadata"]["resourceVersion"].clone();
                ensure!(version(&now) == version(before), "written to: {before} became {now}");
            }
        }
        Ok(())
    }

    /// These claims have their addresses: the same objects, and nothing was taken off claims and addresses. `relinked`: owner
    /// references to claim and pool may be new.
    pub async fn kept(&self, scope: &Scope<'_>, names: &[&str], relinked: bool) -> Result<()> {
        for (kind, all) in [(CLAIM, &self.claims), (ADDRESS, &self.addresses)] {
            for before in all.iter().filter(|one| names.contains(&name(one))) {
                let now = scope.rig.server.get(&scope.path(kind, name(before))).await?;
                let (old, new) = (&before["metadata"], &now["metadata"]);
                ensure!(old["uid"] == new["uid"], "made anew: {before} became {now}");
                ensure!(before["spec"] == now["spec"], "{before} became {now}");
                for field in ["labels", "annotations"] {
                    // Mooring's own annotations follow the claim.
                    let has = |(key, value): (&String, &Value)| {
                        new[field].get(key) == Some(value) || key.starts_with("mooring.dev/")
                    };
                    ensure!(old[field].as_object().into_iter().flatten().all(has), "{field}: {before} became {now}");
                }
                let lists = if relinked { &["finalizers"][..] } else { &["finalizers", "ownerReferences"] };
                for list in lists {
                    let now_has = new[list].as_array().cloned().unwrap_or_default();
                    let has = |one: &Value| now_has.contains(one);
                    ensure!(old[list].as_array().into_iter().flatten().all(has), "{list}: {before} became {now}");
                }
            }
        }
        Ok(())
    }
}

async fn listed(scope: &Scope<'_>, kind: &str) -> Result<Vec<Value>> {
    let list = scope.rig.server.get(&scope.place(kind)).await?;
    let mut all = list["items"].as_array().cloned().unwrap_or_default();
    for one in &mut all {
        one["kind"] = kind.into();
    }
    Ok(all)
}

/// Waits until these claims say that they are ready, each with an address of this list of names and addresses.
pub async fn ready_with(scope: &Scope<'_>, names: &[&str], ips: &[(String, String)]) -> Result<()> {
    for claim in names {
        let ip = ips.iter().find(|(name, _)| name == claim).map(|(_, ip)| ip.as_str()).context("no address")?;
        let what = format!("claim {}/{claim} to be ready with {ip}", scope.ns);
        let found = scope.rig.world.until(&what, |state| {
            let seen = state.get(CLAIM, &scope.ns, claim)?;
            let address = state.get(ADDRESS, &scope.ns, seen.pointer("/status/addressRef/name")?.as_str()?)?;
            (ready(seen)?.0 && address["spec"]["address"] == ip).then_some(())
        });
        let known = || format!("claim {:?}, address {:?}", scope.seen(CLAIM, claim), scope.seen(ADDRESS, claim));
        found.await.with_context(known)?;
    }
    Ok(())
}

/// Deletes all claims, and the machines go. In the end no claim is left, and no address.
pub async fn all_go(scope: &Scope<'_>) -> Result<()> {
    for claim in listed(scope, CLAIM).await? {
        scope.delete(CLAIM, name(&claim)).await?;
        // A claim that no machine holds may be gone already.
        let held = claim["metadata"]["finalizers"].as_array().is_some_and(|all| all.contains(&json!(CONSUMER)));
        if held {
            machine_gone(scope, name(&claim)).await?;
        }
    }
    let what = format!("{} to have neither claims nor addresses", scope.ns);
    let empty = scope.rig.world.until(&what, |state| {
        let none = |kind| state.all(kind, &scope.ns).next().is_none();
        (none(CLAIM) && none(ADDRESS)).then_some(())
    });
    let left = || {
        let names = |kind| scope.rig.world.look(|state| state.all(kind, &scope.ns).cloned().collect::<Vec<_>>());
        format!("left: {:?} {:?}", names(CLAIM), names(ADDRESS))
    };
    empty.await.with_context(left)
}

/// Deletes a claim as `kubectl delete --cascade=foreground` does.
pub async fn delete_in_the_foreground(scope: &Scope<'_>, claim: &str) -> Result<()> {
    let path = format!("{}?propagationPolicy=Foreground", scope.path(CLAIM, claim));
    scope.rig.server.ask(Method::DELETE, &path, None, "application/json").await?;
    Ok(())
}

/// The allocator starts, after the provider has left.
pub async fn switch(allocator: &Allocator) -> Result<()> {
    allocator.start_again()?;
    allocator.ready().await
}

/// Objects of others: a claim and an address of metal3's, which even names an address of ours, and the provider's Lease.
/// Returns their paths, and the Cluster's.
pub async fn strangers(scope: &Scope<'_>) -> Result<Vec<String>> {
    let pool = json!({"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": "p"});
    let meta = json!({"finalizers": ["ipam.metal3.io/ipaddressclaim"]});
    scope.create(CLAIM, "metal", json!({"poolRef": pool}), meta).await?;
    let spec = json!({"claimRef": {"name": "metal"}, "poolRef": pool, "address": scope.ip(11), "prefix": 24});
    scope.create(ADDRESS, "metal", spec, json!({"finalizers": ["ipam.metal3.io/ipaddress"]})).await?;
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", scope.ns);
    let lease = "7bb7acb4.ipam.cluster.x-k8s.io";
    let spec = json!({"holderIdentity": "caip-in-cluster-controller-manager-0_1", "leaseDurationSeconds": 15});
    let all =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": lease}, "spec": spec});
    scope.rig.server.create(&leases, &all).await?;
    Ok(vec![
        scope.path(CLAIM, "metal"),
        scope.path(ADDRESS, "metal"),
        format!("{leases}/{lease}"),
        format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{}/clusters/{CLUSTER}", scope.ns),
    ])
}

/// Takes away what [`strangers`] made.
pub async fn strangers_go(scope: &Scope<'_>) -> Result<()> {
    for kind in [CLAIM, ADDRESS] {
        scope.merge(kind, "metal", json!({"metadata": {"finalizers": null}})).await?;
        scope.delete(kind, "metal").await?;
        scope.gone(kind, "metal").await?;
    }
    Ok(())
}
