//! Claims and pools in the lab: an API server with their CRDs, allocators, and a record of the history of every claim.

pub mod allocators;
pub mod audit;
pub mod cluster_parts;
pub mod component;
pub mod endpoint;
pub mod endpoint_kinds;
pub mod machines;
pub mod managers;
pub mod phpipam;
pub mod scope;
pub mod server;
pub mod services;
pub mod table;
pub mod world;
