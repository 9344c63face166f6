//! The kinds that a Cluster names, with the schemas that their providers give them: the API server takes off what they do not know.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::server::{Server, documents};
use crate::assets::{self, Project};

/// The group of infrastructure clusters.
pub const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
/// The group of control planes.
pub const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
/// The version of Kamaji's kinds.
pub const KAMAJI_VERSION: &str = "v1alpha2";

/// An object with any fields.
#[must_use]
pub fn free() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A kind with these versions, each with the schema of its spec; the last one is stored. The status has any fields, and a
/// subresource. Lists are replaced as a whole.
#[must_use]
pub fn crd(group: &str, kind: &str, versions: &[(&str, Value)]) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let stored = versions.last().map(|(name, _)| *name);
    let version = |(name, spec): &(&str, Value)| {
        json!({"name": name, "served": true, "storage": stored == Some(*name), "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": free()}}}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": versions.iter().map(version).collect::<Vec<_>>()},
    })
}

/// `VSphereCluster`, as its provider's v1.14 has it. `v1beta1` wants host and port together; `v1beta2` wants one of them.
#[must_use]
pub fn infrastructure_kind() -> Value {
    let text = json!({"type": "string", "minLength": 1, "maxLength": 1_024});
    let spec = |endpoint: Value| {
        let identity =
            json!({"type": "object", "required": ["kind", "name"], "properties": {"kind": text, "name": text}});
        json!({"type": "object", "required": ["server"], "properties": {
            "server": text, "thumbprint": text, "identityRef": identity, "disableClusterModule": {"type": "boolean"},
            "controlPlaneEndpoint": endpoint}})
    };
    let old = json!({"type": "object", "required": ["host", "port"],
        "properties": {"host": {"type": "string"}, "port": {"type": "integer", "format": "int32"}}});
    let new = json!({"type": "object", "minProperties": 1, "properties": {
        "host": {"type": "string", "minLength": 1, "maxLength": 512},
        "port": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65_535}}});
    crd(INFRASTRUCTURE, "VSphereCluster", &[("v1beta1", spec(old)), ("v1beta2", spec(new))])
}

/// `KamajiControlPlane`, as far as it is about versions and the network.
#[must_use]
pub fn kamaji_kind() -> Value {
    let text = json!({"type": "string"});
    let texts = json!({"type": "array", "items": text});
    let map = json!({"type": "object", "additionalProperties": text});
    let network = json!({"type": "object", "default": {"serviceType": "LoadBalancer"}, "properties": {
        "serviceType": {"type": "string", "default": "LoadBalancer", "enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
        "serviceAddress": text, "certSANs": texts, "dnsServiceIPs": texts, "serviceLabels": map, "serviceAnnotations": map}});
    let spec = json!({"type": "object", "required": ["version"], "properties": {
        "version": text, "replicas": {"type": "integer", "format": "int32", "default": 2}, "dataStoreName": text,
        "registry": {"type": "string", "default": "registry.k8s.io"}, "network": network}});
    crd(CONTROL_PLANE, "KamajiControlPlane", &[("v1alpha1", spec.clone()), (KAMAJI_VERSION, spec)])
}

/// Installs these kinds, and `KubeadmControlPlane` from Cluster API's own module.
///
/// # Errors
/// The module cannot be had, or a kind is refused.
pub async fn install(server: &Server) -> Result<()> {
    let files = tokio::task::spawn_blocking(|| assets::crds(Project::KubeadmControlPlane)).await??;
    let mut all = vec![infrastructure_kind(), kamaji_kind()];
    for file in files {
        all.extend(documents(&file)?);
    }
    for one in all {
        server.apply(&one).await.context("a kind is refused")?;
        server.established(one["metadata"]["name"].as_str().unwrap_or_default()).await?;
    }
    Ok(())
}
