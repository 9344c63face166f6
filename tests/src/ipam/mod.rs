//! Claims and pools in the lab: an API server with their CRDs, allocators, and a record of the history of every claim.

pub mod allocators;
pub mod audit;
pub mod component;
pub mod scope;
pub mod server;
pub mod services;
pub mod table;
pub mod world;
