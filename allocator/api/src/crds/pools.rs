//! The CRDs of pools.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::build::{Error, Kind, Version, schema};
use super::columns;
use crate::pool::{
    GlobalInClusterIpPool, GlobalInClusterPrefixPool, InClusterIpPool, InClusterPrefixPool, IpPoolSpec, PoolStatus,
    PrefixPoolSpec,
};
use crate::rules::{ip_pool, prefix_pool};
use crate::{GROUP, labels};

/// The CRDs of the four kinds of pools.
///
/// # Errors
/// See [`Error`]; a test sees to it that there are none.
pub fn pools() -> Result<Vec<CustomResourceDefinition>, Error> {
    Ok(vec![
        ip(InClusterIpPool::KIND, InClusterIpPool::PLURAL, false)?,
        ip(GlobalInClusterIpPool::KIND, GlobalInClusterIpPool::PLURAL, true)?,
        prefix(InClusterPrefixPool::KIND, InClusterPrefixPool::PLURAL, false)?,
        prefix(GlobalInClusterPrefixPool::KIND, GlobalInClusterPrefixPool::PLURAL, true)?,
    ])
}

/// `clusterctl` and `clusterctl move` must find the pools, and take them along though no Cluster owns them.
pub(super) fn labels(versions: &str) -> Value {
    json!({
        labels::CLUSTERCTL: "",
        labels::MOVE_HIERARCHY: "",
        labels::CONTRACT_V1BETA1: versions,
        labels::CONTRACT_V1BETA2: versions,
    })
}

fn ip(kind: &'static str, plural: &'static str, global: bool) -> Result<CustomResourceDefinition, Error> {
    let mut spec = schema::<IpPoolSpec>(kind, &ip_pool(global))?;
    only_global(&mut spec, global);
    let status = schema::<PoolStatus>(kind, &vec![])?;
    let version = |name, stored, deprecated, columns| Version {
        name,
        stored,
        deprecated,
        columns,
        description: if global {
            "Addresses for the claims of all namespaces."
        } else {
            "Addresses for the claims of its namespace."
        },
        spec: spec.clone(),
        status: Some(status.clone()),
    };
    let old = format!("ipam.cluster.x-k8s.io/v1alpha1 {kind} is deprecated: use v1alpha2, with addresses and prefix");
    let versions = vec![
        version("v1alpha1", false, Some(old), json!(columns::old_pool())),
        version("v1alpha2", true, None, json!(columns::pool("addresses", "Addresses"))),
    ];
    Kind { group: GROUP, kind, plural, namespaced: !global, labels: labels("v1alpha1_v1alpha2"), versions }.crd()
}

fn prefix(kind: &'static str, plural: &'static str, global: bool) -> Result<CustomResourceDefinition, Error> {
    let mut spec = schema::<PrefixPoolSpec>(kind, &prefix_pool(global))?;
    only_global(&mut spec, global);
    let version = Version {
        name: "v1alpha2",
        stored: true,
        deprecated: None,
        columns: json!(columns::pool("prefixes", "Prefixes")),
        description: if global {
            "IPv6 prefixes for the claims of all namespaces."
        } else {
            "IPv6 prefixes for the claims of its namespace."
        },
        spec,
        status: Some(schema::<PoolStatus>(kind, &vec![])?),
    };
    Kind { group: GROUP, kind, plural, namespaced: !global, labels: labels("v1alpha2"), versions: vec![version] }.crd()
}

/// A namespaced pool serves its namespace and no other.
fn only_global(spec: &mut Value, global: bool) {
    if !global && let Some(properties) = spec["properties"].as_object_mut() {
        properties.remove("allowedNamespaces");
    }
}
