//! VIPs of Services, out of `IPAddress` objects made by hand: the agents' half of the contract with the allocator.

pub(in crate::scenario) mod field;
mod stories;

pub use stories::all;
