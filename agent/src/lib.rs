//! `mooring-agent`: holds virtual IP addresses (VIPs) of a Kubernetes cluster on the nodes that should have them.
//!
//! The crate `mooring-agent-core`, here [`core`], decides. This crate has the I/O around the core ([`api`],
//! [`datapath`], [`segment`]), and the loop that connects them: [`run`].

mod address_task;
pub mod api;
pub mod catalog;
pub mod cli;
mod clocks;
mod cluster;
pub mod cluster_status;
mod control_plane;
pub mod datapath;
mod event_loop;
mod lease_vips;
mod lease_watch;
pub mod manifest;
pub mod ops;
mod reports;
pub mod rules;
pub mod run;
mod run_error;
pub mod segment;
mod segments;
mod services;
mod session_vips;
pub mod settings;
mod watches;

pub use mooring_agent_core as core;
