//! The agent's own core under simulated faults: deterministic, thousands of runs a second.
//!
//! The cores are those that ship ([`mooring_core`]); everything around them is simulated: an API with its servers and
//! watches, a segment, kernels with address lifetimes, hosts and their clocks, a client, a kube-vip peer. One seed gives one
//! run, byte for byte.

#![allow(
    clippy::match_same_arms,
    clippy::collapsible_match,
    clippy::large_enum_variant,
    clippy::struct_excessive_bools,
    reason = "faults are told one a line, each with its own reason; what is simulated is many facts, not one state"
)]

pub mod agent;
pub mod api;
pub mod bounds;
pub mod check;
pub mod client;
pub mod clock;
pub mod counts;
pub mod fault;
pub mod faults;
pub mod fleet;
pub mod health;
pub mod host;
pub mod kernel;
pub mod many;
pub mod place;
pub mod plan;
pub mod queue;
pub mod record;
pub mod rival;
pub mod rng;
pub mod run;
pub mod segment;
pub mod settings;
pub mod shrink;
pub mod svg;
pub mod world;
