//! Objects as the API server sends them, and the small types of the core that are made of them.
//!
//! Only what is needed is decoded, mostly without copying: fifty thousand claims and addresses are listed at a start.

pub mod address;
pub mod claim;
pub mod cluster;
pub mod frame;
mod meta;
pub mod names;
pub mod own_annotations;
pub mod placement_hints;
pub mod pool;
pub mod service;
pub mod surroundings;
pub mod text;
