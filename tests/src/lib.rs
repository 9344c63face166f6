//! The lab of Mooring: real etcd, kube-apiserver and agents on hosts that are namespaces, and every fault that a segment
//! can have. It never touches the machine's own network, and all of it ends with the process that made it.

pub mod agents;
pub mod assets;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod fault;
pub mod guard;
pub mod host;
pub mod lab;
pub mod pki;
pub mod say;
pub mod segment;
pub mod userns;

pub use lab::{Lab, Shape, Topology};
