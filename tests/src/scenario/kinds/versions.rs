//! One schema for all versions, without a webhook: no version drops a field.

use anyhow::{Context, Result, ensure};
use mooring_api::finalizers::PROTECT_POOL;
use mooring_api::patch::MetaChange;
use mooring_api::pool::InClusterIpPool;
use serde_json::{Value, json};

use crate::ipam::server::{Server, object, place};
use crate::runner::Ctx;

const KIND: &str = "InClusterIPPool";

pub async fn old_form(_: &mut Ctx<()>) -> Result<()> {
    let server = Server::up().await?;
    let (old, new) = (place("v1alpha1", KIND), place("v1alpha2", KIND));
    // Written in the old version, read in the new one.
    let spec = json!({"subnet": "10.0.0.0/24", "start": "10.0.0.10", "end": "10.0.0.15", "gateway": "10.0.0.1"});
    server.create(&old, &object("v1alpha1", KIND, "old", &spec)).await?;
    let seen = server.get(&format!("{new}/old")).await?;
    ensure!(seen["spec"] == spec, "cut: {}", seen["spec"]);
    let pool: InClusterIpPool = serde_json::from_value(seen)?;
    let listed = pool.spec.listed()?;
    ensure!(*listed.addresses == ["10.0.0.10-10.0.0.15"] && listed.prefix == Some(24), "{listed:?}");
    // Written to in the new version, by us.
    let patch = MetaChange::new().finalizer(PROTECT_POOL).of(&pool.metadata)?.context("no change")?;
    server.merge(&format!("{new}/old"), patch.body()).await?;
    let counts = json!({"status": {"ipAddresses": {"total": 6, "free": 6, "used": 0, "outOfRange": 0}}});
    server.merge(&format!("{new}/old/status"), &counts).await?;
    let seen = server.get(&format!("{old}/old")).await?;
    ensure!(seen["spec"] == spec && seen["status"] == counts["status"], "cut: {seen}");

    // Written in the new version with all fields, written back unchanged in the old version.
    let spec = all_fields();
    server.create(&new, &object("v1alpha2", KIND, "new", &spec)).await?;
    let mut seen = server.get(&format!("{old}/new")).await?;
    seen["metadata"]["labels"] = json!({"seen": "yes"});
    server.replace(&format!("{old}/new"), &seen).await?;
    let seen = server.get(&format!("{new}/new")).await?;
    ensure!(seen["spec"] == spec && seen["metadata"]["labels"]["seen"] == "yes", "cut: {seen}");
    // All of it is known to the types.
    let pool: InClusterIpPool = serde_json::from_value(seen.clone())?;
    ensure!(serde_json::to_value(&pool)?["spec"] == spec, "lost: {}", serde_json::to_value(&pool)?);
    Ok(())
}

/// A cluster that ran the in-cluster provider when the provider had only `v1alpha1`, and that then got our CRDs.
pub async fn taken_over(_: &mut Ctx<()>) -> Result<()> {
    let server = Server::bare().await?;
    let text = || json!({"type": "string"});
    let count = || json!({"type": "integer"});
    let theirs = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "inclusterippools.ipam.cluster.x-k8s.io"},
        "spec": {
            "group": "ipam.cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": KIND, "plural": "inclusterippools"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "subnet": text(), "start": text(), "end": text(), "gateway": text(), "prefix": count(),
                        "addresses": {"type": "array", "items": text()},
                    }},
                    "status": {"type": "object", "properties": {"ipAddresses": {"type": "object", "properties": {
                        "total": count(), "free": count(), "used": count(), "outOfRange": count(),
                    }}}},
                }}},
            }],
        },
    });
    server.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &theirs).await?;
    server.established("inclusterippools.ipam.cluster.x-k8s.io").await?;
    // The second spec is invalid by today's rules; the third has no prefix.
    let specs = [
        ("sound", json!({"subnet": "10.0.0.0/24", "gateway": "10.0.0.1"})),
        ("unsound", json!({"addresses": ["10.0.0.9-10.0.0.1", "x"], "prefix": 24, "gateway": ""})),
        ("short", json!({"addresses": ["10.0.0.1"]})),
    ];
    let (old, new) = (place("v1alpha1", KIND), place("v1alpha2", KIND));
    for (name, spec) in &specs {
        server.create(&old, &object("v1alpha1", KIND, name, spec)).await?;
    }
    server.install("crds").await?;
    for (name, spec) in &specs {
        let path = format!("{new}/{name}");
        let seen = server.get(&path).await?;
        ensure!(seen["spec"] == *spec, "{name} is cut: {}", seen["spec"]);
        // The allocator can report the error, and can add its finalizer.
        let pool: InClusterIpPool = serde_json::from_value(seen)?;
        let change = MetaChange::new().finalizer(PROTECT_POOL).of(&pool.metadata)?.context("no change")?;
        server.merge(&path, change.body()).await.with_context(|| format!("{name} takes no finalizer"))?;
        let status = json!({"status": {"ipAddresses": {"total": 0, "free": 0, "used": 0, "outOfRange": 0}, "conditions": [{
            "type": "Ready", "status": "False", "reason": "InvalidSpec", "message": "x", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}});
        server.merge(&format!("{path}/status"), &status).await.with_context(|| format!("{name} takes no status"))?;
        let seen = server.get(&path).await?;
        ensure!(seen["spec"] == *spec && seen["status"]["conditions"][0]["reason"] == "InvalidSpec", "{name}: {seen}");
    }
    Ok(())
}

/// A spec with each field that a namespaced pool has.
fn all_fields() -> Value {
    json!({
        "addresses": ["10.0.1.0/24"], "prefix": 16, "gateway": "10.0.0.1", "allocateReservedIPAddresses": true,
        "excludedAddresses": ["10.0.1.7"], "addressReuseGracePeriodSeconds": 5, "strategy": "LeastRecentlyUsed",
        "preAllocations": {"a": "10.0.1.9"}, "quarantine": {"afterReleaseSeconds": 300, "afterConflictSeconds": 3600},
        "network": "vlan-7", "subnet": "10.0.0.0/16", "start": "10.0.2.1", "end": "10.0.2.9",
    })
}
