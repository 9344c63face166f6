//! The CRDs of pools of outside systems: a component each, for those who use the system.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use super::build::{Error, Kind, Version, schema};
use super::{columns, pools};
use crate::GROUP;
use crate::pool::{PhpIpamIpPool, PhpIpamIpPoolSpec, PoolStatus};
use crate::rules::php_ipam_pool;

/// The CRD of phpIPAM's pools.
///
/// # Errors
/// See [`Error`]; a test sees to it that there are none.
pub fn phpipam() -> Result<Vec<CustomResourceDefinition>, Error> {
    let kind = PhpIpamIpPool::KIND;
    let version = Version {
        name: "v1alpha1",
        stored: true,
        deprecated: None,
        columns: json!(columns::outside_pool()),
        description: "Addresses that phpIPAM gives, for the claims of all namespaces.",
        spec: schema::<PhpIpamIpPoolSpec>(kind, &php_ipam_pool())?,
        status: Some(schema::<PoolStatus>(kind, &vec![])?),
    };
    let labels = pools::labels("v1alpha1");
    Ok(vec![
        Kind { group: GROUP, kind, plural: PhpIpamIpPool::PLURAL, namespaced: false, labels, versions: vec![version] }
            .crd()?,
    ])
}
