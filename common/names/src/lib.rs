//! Names of annotations, labels, finalizers and groups, letter by letter. Each is spelled here and nowhere else.

#![warn(missing_docs)]

pub mod annotations;
pub mod endpoints;
pub mod finalizers;
pub mod kube_vip;
pub mod labels;
pub mod machines;
pub mod mark;
pub mod metal3;
pub mod metallb;
pub mod openstack;
mod read;
pub mod record;
#[cfg(test)]
mod reference;
pub mod services;
pub mod sessions;

/// The group of claims, addresses and pools. Cluster API and its in-cluster provider share it.
pub const GROUP: &str = "ipam.cluster.x-k8s.io";
