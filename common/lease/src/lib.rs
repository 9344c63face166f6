//! The Lease as its electors see it: its record and Mooring's annotations on it ([`lease`]), what time has proved about
//! it ([`observation`]), and leader election by it ([`leader`]). The agent's core and the allocator's election use this
//! crate. This crate does not depend on tokio, kube, a clock or a socket.

#![warn(missing_docs)]

pub mod failure;
pub mod leader;
pub mod lease;
pub mod mac;
pub mod observation;
pub mod planted;
pub mod time;

pub use failure::Failure;
