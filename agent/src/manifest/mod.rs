//! Manifests: the ones that `mooring-agent manifest` prints, and the ones of kube-vip's that it reads.
//!
//! [`source`] reads the settings of a manifest, [`report`] says what becomes of each, [`pod`] and [`rbac`] print ours,
//! [`command`] is `manifest` and `config --from` on the command line.

pub mod command;
mod container;
pub mod pod;
pub mod rbac;
pub mod report;
pub mod source;
mod yaml;

/// Stands for the name of whatever node a manifest is used on: the kubelet fills it in.
pub const SOME_NODE: &str = "some-node";
