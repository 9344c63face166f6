//! The CRDs of metal3's kinds, for clusters without metal3's own.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use mooring_names::metal3;
use serde_json::json;

use super::build::{Error, Kind, Version, schema};
use super::columns;
use crate::labels;
use crate::pool::{
    METAL3_ADDRESS, METAL3_ADDRESSES, METAL3_CLAIM, METAL3_CLAIMS, METAL3_POOL, METAL3_POOLS, METAL3_VERSION,
    Metal3AddressSpec, Metal3ClaimSpec, Metal3ClaimStatus, Metal3PoolSpec, Metal3PoolStatus,
};
use crate::rules::{metal3_address, metal3_claim, metal3_pool};

/// The CRDs of `IPPool`, `IPClaim` and `IPAddress`. Not for a cluster with metal3: it has its own.
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
    let kind = |kind, plural, version| Kind {
        group: metal3::GROUP,
        kind,
        plural,
        namespaced: true,
        labels: labels.clone(),
        versions: vec![version],
    };
    Ok(vec![
        kind(METAL3_POOL, METAL3_POOLS, version).crd()?,
        kind(METAL3_CLAIM, METAL3_CLAIMS, claim()?).crd()?,
        kind(METAL3_ADDRESS, METAL3_ADDRESSES, address()?).crd()?,
    ])
}

fn claim() -> Result<Version, Error> {
    let mut spec = schema::<Metal3ClaimSpec>(METAL3_CLAIM, &metal3_claim())?;
    spec["required"] = json!(["pool"]);
    spec["properties"]["pool"]["required"] = json!(["name"]);
    let mut status = schema::<Metal3ClaimStatus>(METAL3_CLAIM, &vec![])?;
    status["properties"]["address"]["x-kubernetes-map-type"] = json!("atomic");
    Ok(Version {
        name: METAL3_VERSION,
        stored: true,
        deprecated: None,
        columns: json!(columns::metal3_claim()),
        description: "Somebody wants an address of a pool of metal3's, in metal3's form.",
        spec,
        status: Some(status),
    })
}

fn address() -> Result<Version, Error> {
    let mut spec = schema::<Metal3AddressSpec>(METAL3_ADDRESS, &metal3_address())?;
    spec["required"] = json!(["address", "claim", "pool"]);
    for reference in ["claim", "pool"] {
        spec["properties"][reference]["required"] = json!(["name"]);
    }
    Ok(Version {
        name: METAL3_VERSION,
        stored: true,
        deprecated: None,
        columns: json!(columns::metal3_address()),
        description: "An address that was given to a claim of metal3's.",
        spec,
        status: None,
    })
}
