//! The CRD of metal3's pools, for clusters without metal3's own.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use mooring_names::metal3;
use serde_json::json;

use super::build::{Error, Kind, Version, schema};
use super::columns;
use crate::labels;
use crate::pool::{METAL3_POOL, METAL3_POOLS, METAL3_VERSION, Metal3PoolSpec, Metal3PoolStatus};
use crate::rules::metal3_pool;

/// The CRD of `IPPool`. Not for a cluster with metal3: it has its own.
///
/// # Errors
/// See [`Error`]; a test sees to it that there are none.
pub fn metal3() -> Result<Vec<CustomResourceDefinition>, Error> {
    let mut spec = schema::<Metal3PoolSpec>(METAL3_POOL, &metal3_pool())?;
    spec["required"] = json!(["namePrefix"]);
    let version = Version {
        name: METAL3_VERSION,
        stored: true,
        deprecated: None,
        columns: json!(columns::metal3_pool()),
        description: "Addresses for the claims of its namespace, in metal3's form.",
        spec,
        status: Some(schema::<Metal3PoolStatus>(METAL3_POOL, &vec![])?),
    };
    let labels = json!({
        labels::CLUSTERCTL: "",
        labels::MOVE_HIERARCHY: "",
        labels::CONTRACT_V1BETA1: METAL3_VERSION,
        labels::CONTRACT_V1BETA2: METAL3_VERSION,
    });
    let kind = Kind {
        group: metal3::GROUP,
        kind: METAL3_POOL,
        plural: METAL3_POOLS,
        namespaced: true,
        labels,
        versions: vec![version],
    };
    Ok(vec![kind.crd()?])
}
