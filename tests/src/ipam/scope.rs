//! One test's namespace, with addresses that no other test has.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::audit::{at_rest, ready, twice};
use super::server::{Crds, Refused, place_in};
use crate::host::lock;
use crate::rig::allocator::{AllocatorRig, name};

/// The kind of pool that most tests use.
pub const POOL: &str = "InClusterIPPool";
/// Claims.
pub const CLAIM: &str = "IPAddressClaim";
/// Addresses.
pub const ADDRESS: &str = "IPAddress";

pub struct Scope<'a> {
    /// The API server and the allocators.
    pub rig: &'a AllocatorRig,
    /// The namespace.
    pub ns: String,
    net: u8,
    canaries: std::sync::Mutex<u8>,
}

/// A claim that has its address, and the address.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The claim.
    pub claim: Value,
    /// The `IPAddress`.
    pub address: Value,
}

impl Bound {
    /// `spec.address`.
    #[must_use]
    pub fn ip(&self) -> &str {
        self.address["spec"]["address"].as_str().unwrap_or_default()
    }
}

impl<'a> Scope<'a> {
    pub(crate) fn new(rig: &'a AllocatorRig, ns: &str, net: u8) -> Self {
        Self { rig, ns: ns.to_owned(), net, canaries: std::sync::Mutex::new(0) }
    }

    /// An address of this scope.
    #[must_use]
    pub fn ip(&self, last: u8) -> String {
        format!("10.{}.0.{last}", self.net)
    }

    /// An IPv6 address of this scope, `fd00:N::rest`.
    #[must_use]
    pub fn ip6(&self, rest: &str) -> String {
        format!("fd00:{:x}::{rest}", self.net)
    }

    /// The spec of a pool with these addresses (by their last part) in a /24.
    #[must_use]
    pub fn range(&self, first: u8, last: u8) -> Value {
        json!({"addresses": [format!("{}-{}", self.ip(first), self.ip(last))], "prefix": 24})
    }

    /// The path of the objects of a kind, in the stored version.
    #[must_use]
    pub fn place(&self, kind: &str) -> String {
        place_in(version(kind), kind, &self.ns)
    }

    /// The path of one object.
    #[must_use]
    pub fn path(&self, kind: &str, name: &str) -> String {
        format!("{}/{name}", self.place(kind))
    }

    /// Creates a namespaced pool.
    pub async fn pool(&self, name: &str, spec: Value) -> Result<Value> {
        self.create(POOL, name, spec, json!({})).await
    }

    /// Creates any object of the group; `meta` is merged into its metadata.
    pub async fn create(&self, kind: &str, name: &str, spec: Value, meta: Value) -> Result<Value> {
        let object = self.object(kind, name, spec, meta);
        self.rig.server.create(&self.place(kind), &object).await.with_context(|| format!("{kind} {name} is refused"))
    }

    /// The object that [`Scope::create`] sends.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "as json! makes it")]
    pub fn object(&self, kind: &str, name: &str, spec: Value, meta: Value) -> Value {
        let mut object = json!({
            "apiVersion": format!("ipam.cluster.x-k8s.io/{}", version(kind)), "kind": kind,
            "metadata": {"name": name}, "spec": spec,
        });
        if let (Some(to), Value::Object(more)) = (object["metadata"].as_object_mut(), meta) {
            to.extend(more);
        }
        object
    }

    /// Creates a claim of a namespaced pool.
    pub async fn claim(&self, name: &str, pool: &str) -> Result<Value> {
        self.claim_with(name, POOL, pool, json!({})).await
    }

    /// Creates a claim; `meta` is merged into its metadata.
    pub async fn claim_with(&self, name: &str, kind: &str, pool: &str, meta: Value) -> Result<Value> {
        self.create(CLAIM, name, json!({"poolRef": reference(kind, pool)}), meta).await
    }

    /// Creates an `IPAddress` as a user would.
    pub async fn address(&self, name: &str, pool: &str, ip: &str, meta: Value) -> Result<Value> {
        let spec = json!({"claimRef": {"name": name}, "poolRef": reference(POOL, pool), "address": ip, "prefix": 24});
        self.create(ADDRESS, name, spec, meta).await
    }

    /// Waits until a claim has its address.
    pub async fn bound(&self, name: &str) -> Result<Bound> {
        let what = format!("claim {}/{name} to be bound", self.ns);
        let found = self.rig.world.until(&what, |state| {
            let claim = state.get(CLAIM, &self.ns, name)?;
            let to = claim.pointer("/status/addressRef/name")?.as_str()?;
            state.get(ADDRESS, &self.ns, to)?;
            Some((claim.clone(), to.to_owned()))
        });
        let (claim, to) = found.await.with_context(|| self.known(name))?;
        // Each kind has a watch of its own: the shown address may be older than the claim.
        let address = self.rig.server.get(&self.path(ADDRESS, &to)).await?;
        Ok(Bound { claim, address })
    }

    /// Waits until a claim's `Ready` is false for that reason; returns the message.
    pub async fn refused(&self, name: &str, reason: &str) -> Result<String> {
        self.refused_with(name, reason, "").await
    }

    /// As [`Scope::refused`], and the message must contain this part: the request of a claim may be seen later.
    pub async fn refused_with(&self, name: &str, reason: &str, part: &str) -> Result<String> {
        let what = format!("claim {}/{name} to say {reason}: {part}", self.ns);
        let found = self.rig.world.until(&what, |state| {
            let (is, why, message) = ready(state.get(CLAIM, &self.ns, name)?)?;
            (!is && why == reason && message.contains(part)).then_some(message)
        });
        found.await.with_context(|| self.known(name))
    }

    /// Waits until a pool's condition is `is`; returns reason and message.
    pub async fn pool_says(&self, kind: &'static str, name: &str, type_: &str, is: bool) -> Result<(String, String)> {
        let ns = if kind.starts_with("Global") { "" } else { &self.ns };
        let what = format!("pool {name} to say {type_} {is}");
        let found = self.rig.world.until(&what, |state| {
            let all = state.get(kind, ns, name)?.pointer("/status/conditions")?.as_array()?;
            let one = all.iter().find(|one| one["type"] == type_)?;
            let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
            ((one["status"] == "True") == is).then(|| (text("reason"), text("message")))
        });
        let known = || self.rig.world.look(|state| format!("it is {:?}", state.get(kind, ns, name)));
        found.await.with_context(known)
    }

    /// Waits until a pool's `status.ipAddresses` has these counts: total, free, used, outOfRange.
    pub async fn counts(&self, kind: &'static str, name: &str, wanted: [i64; 4]) -> Result<()> {
        let ns = if kind.starts_with("Global") { "" } else { &self.ns };
        let what = format!("pool {name} to have total, free, used, outOfRange {wanted:?}");
        let read = |object: Option<&Value>| -> Option<[i64; 4]> {
            let counts = object?.pointer("/status/ipAddresses")?;
            let mut read = [0; 4];
            for (place, key) in ["total", "free", "used", "outOfRange"].iter().enumerate() {
                read[place] = counts[key].as_i64()?;
            }
            Some(read)
        };
        let found =
            self.rig.world.until(&what, |state| (read(state.get(kind, ns, name)) == Some(wanted)).then_some(()));
        let known = || self.rig.world.look(|state| format!("it has {:?}", read(state.get(kind, ns, name))));
        found.await.with_context(known)
    }

    /// Waits until an object is gone.
    pub async fn gone(&self, kind: &'static str, name: &str) -> Result<()> {
        let ns = if kind.starts_with("Global") { "" } else { &self.ns };
        let what = format!("{kind} {name} to be gone");
        let gone = self.rig.world.until(&what, |state| state.get(kind, ns, name).is_none().then_some(()));
        gone.await.with_context(|| self.rig.world.look(|state| format!("it is {:?}", state.get(kind, ns, name))))
    }

    /// An object of the namespace, as last shown.
    #[must_use]
    pub fn seen(&self, kind: &'static str, name: &str) -> Option<Value> {
        self.rig.world.look(|state| state.get(kind, &self.ns, name).cloned())
    }

    /// Merges a patch into an object.
    pub async fn merge(&self, kind: &str, name: &str, patch: Value) -> Result<Value, Refused> {
        self.rig.server.merge(&self.path(kind, name), &patch).await
    }

    /// Deletes an object.
    pub async fn delete(&self, kind: &str, name: &str) -> Result<Value, Refused> {
        self.rig.server.delete(&self.path(kind, name)).await
    }

    /// Creates a Cluster; without Cluster API, does nothing.
    pub async fn cluster(&self, name: &str, spec: Value) -> Result<()> {
        self.annotated_cluster(name, json!({}), spec).await
    }

    /// As [`Scope::cluster`], with annotations from the beginning: a watch of Clusters may be slower than that of claims.
    ///
    /// # Errors
    /// It is refused.
    pub async fn annotated_cluster(&self, name: &str, annotations: Value, spec: Value) -> Result<()> {
        if self.rig.crds == Crds::Standalone {
            return Ok(());
        }
        // The spec must not be empty.
        let mut all = json!({"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}});
        if let (Some(all), Value::Object(spec)) = (all.as_object_mut(), spec) {
            all.extend(spec);
        }
        let object = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name, "annotations": annotations}, "spec": all,
        });
        self.rig.server.create(&self.clusters(), &object).await.context("the Cluster is refused")?;
        Ok(())
    }

    /// Merges a patch into a Cluster.
    pub async fn merge_cluster(&self, name: &str, patch: Value) -> Result<Value, Refused> {
        self.rig.server.merge(&format!("{}/{name}", self.clusters()), &patch).await
    }

    /// Deletes a Cluster.
    pub async fn delete_cluster(&self, name: &str) -> Result<Value, Refused> {
        self.rig.server.delete(&format!("{}/{name}", self.clusters())).await
    }

    fn clusters(&self) -> String {
        format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{}/clusters", self.ns)
    }

    /// Creates a pool for all namespaces; returns its name, which is unique.
    pub async fn global_pool(&self, spec: Value) -> Result<String> {
        let name = format!("{}-global", self.ns);
        self.create("GlobalInClusterIPPool", &name, spec, json!({})).await?;
        Ok(name)
    }

    /// Deletes all Services, which would make new claims otherwise, then all claims, and waits until the claims and their
    /// addresses are gone. Paused claims and claims held by others are released first. Deletes the pools last.
    pub async fn leave(self) -> Result<()> {
        self.no_services().await?;
        let names = |kind: &'static str| {
            self.rig.world.look(|state| state.all(kind, &self.ns).map(|one| name(one).to_owned()).collect::<Vec<_>>())
        };
        for claim in names(CLAIM) {
            // The claim may be gone already.
            let freed = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}});
            for done in [self.merge(CLAIM, &claim, freed).await, self.delete(CLAIM, &claim).await] {
                ensure!(done.as_ref().map_or_else(|error| error.code == 404, |_| true), "{done:?}");
            }
        }
        let what = format!("{} to be empty", self.ns);
        let empty = self.rig.world.until(&what, |state| state.all(CLAIM, &self.ns).next().is_none().then_some(()));
        empty.await.with_context(|| format!("left are {:?}", names(CLAIM)))?;
        let ns = format!("{}-", self.ns);
        for kind in ["InClusterIPPool", "InClusterPrefixPool"] {
            for pool in names(kind) {
                self.delete(kind, &pool).await?;
            }
        }
        for kind in ["GlobalInClusterIPPool", "GlobalInClusterPrefixPool"] {
            let all =
                self.rig.world.look(|state| state.all(kind, "").map(|one| name(one).to_owned()).collect::<Vec<_>>());
            for pool in all.iter().filter(|pool| pool.starts_with(&ns)) {
                self.delete(kind, pool).await?;
            }
        }
        Ok(())
    }

    /// Returns when the allocator has handled everything that existed before: a new claim has its address, and after it a
    /// second one.
    pub async fn canary(&self) -> Result<()> {
        let number = {
            let mut number = lock(&self.canaries);
            *number += 1;
            *number
        };
        let pool = format!("canary-{number}");
        let ip = |last: u8| format!("10.{}.250.{last}", self.net);
        let (first, last) = (number * 2, number * 2 + 1);
        ensure!(number < 120, "too many canaries");
        self.pool(&pool, json!({"addresses": [format!("{}-{}", ip(first), ip(last))], "prefix": 24})).await?;
        self.cluster(&pool, json!({})).await?;
        for name in [format!("{pool}-a"), format!("{pool}-b")] {
            // The claims belong to a Cluster, so that the watch of Clusters is up to date as well.
            let mut spec = json!({"poolRef": reference(POOL, &pool)});
            if self.rig.crds != Crds::Standalone {
                spec["clusterName"] = json!(pool);
            }
            self.create(CLAIM, &name, spec, json!({})).await?;
            self.bound(&name).await?;
        }
        Ok(())
    }

    /// Waits until everything in this namespace is at rest, and checks that no address was given twice.
    ///
    /// Each kind has a watch of its own, so a claim may be shown before its address is.
    pub async fn sound(&self) -> Result<()> {
        let ours = &self.ns;
        let what = format!("{ours} to be at rest");
        let rest = self.rig.world.until(&what, |state| at_rest(state, ours).is_empty().then_some(()));
        rest.await.with_context(|| self.rig.world.look(|state| format!("in {ours} {:?}", at_rest(state, ours))))?;
        let wrong = self.rig.world.look(|state| {
            let history: Vec<_> = state.history.iter().filter(|one| one.id.1 == *ours).cloned().collect();
            twice(&history)
        });
        ensure!(wrong.is_empty(), "in {ours} {wrong:?}");
        Ok(())
    }

    fn known(&self, claim: &str) -> String {
        self.rig.world.look(|state| {
            let claim_is = state.get(CLAIM, &self.ns, claim);
            format!("it is {claim_is:?}, its address {:?}", state.get(ADDRESS, &self.ns, claim))
        })
    }
}

/// A `poolRef`.
#[must_use]
pub fn reference(kind: &str, pool: &str) -> Value {
    json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": kind, "name": pool})
}

fn version(kind: &str) -> &'static str {
    if kind.ends_with("Pool") { "v1alpha2" } else { "v1beta2" }
}
