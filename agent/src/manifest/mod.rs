//! Manifests: the ones that `mooring-agent manifest` prints, and the ones of kube-vip's that it reads.
//!
//! [`source`] reads the settings of a manifest, which may stand in another object ([`wrapped`]). [`report`] says what becomes
//! of each, [`carried`] and [`schedule`] take over what no setting says. [`pod`] and [`rbac`] print ours, [`command`] is
//! `manifest` and `config --from` on the command line.

pub mod carried;
pub mod command;
mod container;
pub mod pod;
pub mod rbac;
pub mod report;
pub mod schedule;
pub mod source;
pub mod wrapped;
mod yaml;

/// Stands for the name of whatever node a manifest is used on: the kubelet fills it in.
pub const SOME_NODE: &str = "some-node";
