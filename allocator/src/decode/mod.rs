//! Decodes the API server's objects into the core's types.
//!
//! Only the needed fields are decoded, mostly without copying: at a start, fifty thousand claims and addresses may be
//! listed.

pub mod address;
pub mod claim;
pub mod cluster;
pub mod endpoint;
pub mod floating_ips;
pub mod frame;
pub mod kinds;
pub mod machine;
mod meta;
pub mod metal3;
pub mod names;
pub mod outside;
pub mod own_annotations;
pub mod placement_hints;
pub mod pool;
pub mod service;
pub mod surroundings;
pub mod text;
