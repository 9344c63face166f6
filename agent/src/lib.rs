//! `mooring-agent`: holds virtual IP addresses (VIPs) of a Kubernetes cluster on the nodes that should have them.
//!
//! The library is a pure [`core`] and the edges around it.

pub mod api;
pub mod core;
