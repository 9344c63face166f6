//! `mooring-agent`: holds virtual IP addresses (VIPs) of a Kubernetes cluster on the nodes that should have them.
//!
//! What decides is the crate `mooring-core`, here [`core`]. This one is the edges around it ([`api`], [`datapath`],
//! [`segment`]), and the [`driver`] that carries words between them.

pub mod api;
pub mod catalog;
pub mod cli;
pub mod datapath;
pub mod driver;
pub mod ops;
pub mod segment;
pub mod settings;

pub use mooring_core as core;
