//! This crate decides which Service of type `LoadBalancer` gets which address. It does not know tokio, kube or a clock: it is
//! given `now` and what was seen, and answers with what to do. The program around it translates.
//!
//! A Service becomes an `IPAddressClaim` for each family ([`machine`]); the allocation protocol gives the claim its
//! `IPAddress`; a node that advertises it writes itself onto that; and all of it comes back to the Service as annotations,
//! `status.loadBalancer` and a condition. What people may write: [`notes`], [`request`], [`sharing`], [`class`], and the
//! `ConfigMap` of kube-vip's cloud provider, [`configmap`].

#![warn(missing_docs)]

pub mod class;
pub mod configmap;
pub mod families;
pub mod invitations;
pub mod machine;
pub mod members;
pub mod naming;
pub mod notes;
pub mod objects;
pub mod ports;
pub mod reason;
pub mod record;
pub mod request;
pub mod select;
pub mod sharing;
pub mod told;
pub mod utc;

pub use mooring_names::services as words;
