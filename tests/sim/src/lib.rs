//! The agent's own cores under simulated faults: deterministic, thousands of runs a second.
//!
//! The cores are those that ship ([`mooring_agent_core`]); everything around them is simulated: an API with its watches,
//! segments, kernels with address lifetimes, hosts and their clocks, a client. The world is written once, for any
//! [`subject::Subject`]; what one core alone has (its API objects, its own faults, its checks) is in [`elector`] and in
//! [`session_vips`]. One seed gives one run, byte for byte.

#![allow(
    clippy::match_same_arms,
    clippy::collapsible_match,
    clippy::large_enum_variant,
    clippy::struct_excessive_bools,
    reason = "faults are listed one a line, each with its own reason; what is simulated is many facts, not one state"
)]

pub mod address_task;
pub mod agent;
pub mod api;
pub mod bounds;
pub mod check;
pub mod clock;
pub mod counts;
pub mod elector;
pub mod fault;
pub mod faults;
pub mod host;
pub mod kernel;
pub mod many;
pub mod network;
pub mod plan;
pub mod queue;
pub mod record;
pub mod rng;
pub mod run;
pub mod segment;
pub mod session_vips;
pub mod settings;
pub mod shrink;
pub mod subject;
pub mod svg;
pub mod world;
