//! `mooring-allocator`: hands out the addresses that Cluster API's claims and Services of type `LoadBalancer` ask for.
//!
//! What decides is the crate `mooring-allocator-core`, and for Services `mooring-services`. This one is the edges around it: `wire` makes the core's small types
//! of what the API server sends, [`api`] makes calls and follows objects, and [`driver`] carries words between them.

pub mod api;
pub mod cli;
pub mod clock;
pub mod driver;
pub mod election;
pub mod ops;
pub mod people;
pub mod service;
pub mod settings;
mod wire;
