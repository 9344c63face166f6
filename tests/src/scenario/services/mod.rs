//! VIPs of Services, out of `IPAddress` objects made by hand: the agents' half of the contract with the allocator.

pub(crate) mod field;
mod stories;

pub use stories::all;
