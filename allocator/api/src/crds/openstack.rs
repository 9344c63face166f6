//! The CRD of pools of floating IPs, for clusters without Cluster API's provider for OpenStack.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use mooring_names::openstack;
use serde_json::json;

use super::build::{Error, Kind, Version, schema};
use super::columns;
use crate::labels;
use crate::pool::{
    FLOATING_IP_POOL, FLOATING_IP_POOL_VERSION, FLOATING_IP_POOLS, FloatingIpPoolSpec, FloatingIpPoolStatus,
};
use crate::rules::floating_ip_pool;

/// The CRD of `OpenStackFloatingIPPool`. Not for a cluster with the provider for OpenStack: it has its own.
///
/// # Errors
/// See [`Error`]; a test sees to it that there are none.
pub fn openstack() -> Result<Vec<CustomResourceDefinition>, Error> {
    let version = Version {
        name: FLOATING_IP_POOL_VERSION,
        stored: true,
        deprecated: None,
        columns: json!(columns::floating_ip_pool()),
        description: "Floating IPs of OpenStack, for the claims of its namespace.",
        spec: schema::<FloatingIpPoolSpec>(FLOATING_IP_POOL, &floating_ip_pool())?,
        status: Some(schema::<FloatingIpPoolStatus>(FLOATING_IP_POOL, &vec![])?),
    };
    let labels = json!({
        labels::CLUSTERCTL: "",
        labels::MOVE_HIERARCHY: "",
        labels::CONTRACT_V1BETA1: FLOATING_IP_POOL_VERSION,
        labels::CONTRACT_V1BETA2: FLOATING_IP_POOL_VERSION,
    });
    let kind = Kind {
        group: openstack::GROUP,
        kind: FLOATING_IP_POOL,
        plural: FLOATING_IP_POOLS,
        namespaced: true,
        labels,
        versions: vec![version],
    };
    Ok(vec![kind.crd()?])
}
