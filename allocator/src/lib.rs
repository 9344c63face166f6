//! `mooring-allocator`: hands out the addresses that Cluster API's claims and Services of type `LoadBalancer` ask for.
//!
//! The crate `mooring-allocator-core` decides, and `mooring-allocator-services` decides for Services. This crate connects them
//! to the API server: `decode` makes the core's small types of what the API server sends, [`api`] makes calls and follows
//! objects, and [`driver`] runs the controllers between them.

pub mod api;
pub mod cli;
pub mod clock;
mod decode;
pub mod driver;
pub mod election;
pub mod events;
pub mod ops;
pub mod service;
pub mod settings;
