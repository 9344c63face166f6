//! CRDs, made from the Rust types and the rules beside them.
//!
//! `manifests/crds` has them as YAML; a test compares. There is no conversion webhook: see [`crate::pool`].

mod build;
mod columns;
mod metal3;
mod openstack;
mod outside;
mod pools;
pub mod reference;
mod standalone;
mod yaml;

pub use build::Error;
pub use metal3::metal3;
pub use openstack::openstack;
pub use outside::phpipam;
pub use pools::pools;
pub use standalone::standalone;
pub use yaml::{File, files, to_yaml};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// The CRDs of the four kinds of pools: what Mooring brings to a cluster that has Cluster API.
///
/// # Errors
/// See [`Error`]; a test sees to it that there are none.
pub fn crds() -> Result<Vec<CustomResourceDefinition>, Error> {
    pools()
}
