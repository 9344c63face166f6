//! `mooring-agent`: holds virtual IP addresses (VIPs) of a Kubernetes cluster on the nodes that should have them.
//!
//! The library is a pure [`core`] and the edges around it.

pub mod cli;
pub mod core;
pub mod ops;
mod run;
pub mod settings;

pub use run::run;
