//! CRDs of claims and addresses for clusters without Cluster API.
//!
//! All three versions are served without a webhook: they share one schema, so that nothing is cut off whichever is used, and
//! all of what Cluster API's webhooks check is CEL.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::build::{Error, Kind, Version, schema};
use super::columns;
use crate::address::{IpAddress, IpAddressSpec};
use crate::claim::{IpAddressClaim, IpAddressClaimSpec, IpAddressClaimStatus};
use crate::{GROUP, rules};

/// What names of objects look like.
const NAME: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// The CRDs of `IPAddress` and `IPAddressClaim`. Never for a cluster with Cluster API: it has its own.
///
/// # Errors
/// See [`Error`]; a test sees to it that there are none.
pub fn standalone() -> Result<Vec<CustomResourceDefinition>, Error> {
    let mut address = schema::<IpAddressSpec>(IpAddress::KIND, &rules::address())?;
    address["required"] = json!(["address", "claimRef", "poolRef", "prefix"]);
    reference(&mut address, "claimRef", &["name"]);
    reference(&mut address, "poolRef", &["apiGroup", "kind", "name"]);

    let mut claim = schema::<IpAddressClaimSpec>(IpAddressClaim::KIND, &rules::claim())?;
    claim["required"] = json!(["poolRef"]);
    reference(&mut claim, "poolRef", &["apiGroup", "kind", "name"]);
    let mut status = schema::<IpAddressClaimStatus>(IpAddressClaim::KIND, &vec![])?;
    reference(&mut status, "addressRef", &["name"]);

    Ok(vec![
        kind(
            IpAddress::KIND,
            IpAddress::PLURAL,
            "An address that was given to a claim.",
            &address,
            None,
            &columns::address(),
        )?,
        kind(
            IpAddressClaim::KIND,
            IpAddressClaim::PLURAL,
            "Somebody wants an address.",
            &claim,
            Some(&status),
            &columns::claim(),
        )?,
    ])
}

/// Makes the fields of a reference required, and names be names.
fn reference(schema: &mut Value, field: &str, required: &[&str]) {
    let reference = &mut schema["properties"][field];
    reference["required"] = json!(required);
    for one in ["name", "apiGroup"] {
        if required.contains(&one) {
            reference["properties"][one]["pattern"] = json!(NAME);
        }
    }
}

fn kind(
    kind: &'static str,
    plural: &'static str,
    description: &'static str,
    spec: &Value,
    status: Option<&Value>,
    columns: &[Value],
) -> Result<CustomResourceDefinition, Error> {
    let columns = json!(columns);
    let version = |name, stored, deprecated: bool| Version {
        name,
        stored,
        deprecated: deprecated.then(|| format!("ipam.cluster.x-k8s.io/{name} {kind} is deprecated: use v1beta2")),
        columns: columns.clone(),
        description,
        spec: spec.clone(),
        status: status.cloned(),
    };
    let versions =
        vec![version("v1alpha1", false, true), version("v1beta1", false, true), version("v1beta2", true, false)];
    Kind { group: GROUP, kind, plural, namespaced: true, labels: json!({}), versions }.crd()
}
