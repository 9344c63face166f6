//! The lab of Mooring: real etcd, kube-apiserver and agents on hosts that are namespaces, every fault that a segment can
//! have, and what is measured in it. It never touches the machine's own network, and all of it ends with the process that
//! made it.

pub mod agents;
pub mod assets;
pub mod bench;
pub mod chaos;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod demo;
pub mod fault;
pub mod guard;
pub mod host;
pub mod image;
pub mod ipam;
pub mod kubeadm;
pub mod lab;
pub mod observe;
pub mod openstack;
pub mod pki;
pub mod progress;
pub mod release;
pub mod report;
pub mod rig;
pub mod runner;
pub mod scenario;
pub mod segment;
pub mod shipped;
pub mod traffic;
pub mod userns;

pub use lab::{Lab, Shape, Topology};
