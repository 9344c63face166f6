//! This crate decides how the devices of a `VSphereMachine` get their addresses, as the static-IP adapter for Cluster API's vSphere
//! provider did. It does not know tokio, kube or a clock: it is given `now` and what was seen, and answers with what to do. The
//! program around it translates.
//!
//! Labels of a machine, or of its template, name a pool ([`selector`]). Each device without addresses gets an `IPAddressClaim`
//! for each family of its pools ([`naming`]); the allocation protocol gives the claim its `IPAddress`; and the addresses of all
//! devices are written in one write ([`device`]). The claims are released when the machine is gone ([`machine`]).
//!
//! There is no record of progress. Each step follows from what the objects say (`machine/decide.rs`), so whoever comes after
//! an interruption goes on where it was.

#![warn(missing_docs)]

pub mod device;
pub mod machine;
pub mod naming;
pub mod objects;
pub mod reason;
pub mod selector;

pub use mooring_names::machines as words;
