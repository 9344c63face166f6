//! This crate decides how a Cluster of Cluster API gets its control-plane endpoint. It does not know tokio, kube or a clock: it
//! is given `now` and what was seen, and answers with what to do. The program around it translates.
//!
//! A Cluster that asks for it becomes an `IPAddressClaim`; the allocation protocol gives the claim its `IPAddress`; and the
//! address is written to the places that need it, the infrastructure cluster's endpoint last ([`machine`]). What people may
//! write: [`notes`]. How a static pod's file is changed: [`manifest`]. Variables of a topology: [`variables`]. Addresses for the
//! cluster's Services: [`service_addresses`].
//!
//! There is no record of progress. Each step follows from what the objects say (`machine/decide.rs`), so whoever comes after
//! an interruption goes on where it was.

#![warn(missing_docs)]

pub mod machine;
pub mod manifest;
pub mod notes;
pub mod objects;
pub mod reason;
pub mod service_addresses;
pub mod variables;

pub use mooring_names::endpoints as words;
