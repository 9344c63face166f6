//! Services of type `LoadBalancer`: how soon they answer, what many of them cost, and what happens to all VIPs of a node.

pub mod crash;
pub mod create;
pub mod handover;
pub mod lease_crash;
mod many;
mod raw;
pub mod steady;
pub mod takeover;
