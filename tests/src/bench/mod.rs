//! Figures: how they are summed up, and what they are compared with.

pub mod floor;
pub mod keepalived;
pub mod stats;
