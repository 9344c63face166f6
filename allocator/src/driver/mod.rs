//! Connects the API server with the deciding machines: one loop over five controllers. See [`controller`].

mod change;
mod claim_writes;
mod claims;
mod controller;
mod endpoint_controller;
mod follow;
mod index;
mod listing;
mod machine_controller;
mod outside;
mod owners;
mod pace;
mod placement_hints;
mod queue;
mod run;
mod send;
mod service_controller;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use mooring_allocator_core::scope::Scope;
pub use run::{DriverError, run};
