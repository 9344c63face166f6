//! `mooring-agent`: holds virtual IP addresses (VIPs) of a Kubernetes cluster on the nodes that should have them.
//!
//! The library is a pure [`core`], the edges around it ([`api`], [`datapath`], [`segment`]), and the [`driver`] that carries
//! words between them.

pub mod api;
pub mod cli;
pub mod core;
pub mod datapath;
pub mod driver;
pub mod ops;
pub mod segment;
pub mod settings;
