//! What Mooring's programs, Cluster API and people say to each other: kinds, labels, annotations, finalizers, conditions.
//!
//! - Kinds of Cluster API that Mooring meets: [`claim::IpAddressClaim`], [`address::IpAddress`], [`cluster::Cluster`]. Typed as
//!   far as Mooring uses them: never write one back whole, use [`patch`].
//! - Pools of Mooring's own, the same kinds as those of Cluster API's in-cluster provider: [`pool`].
//! - Their CRDs, made from the Rust types: [`crds`].
//!
//! The group is [`GROUP`] for all but [`cluster::Cluster`].

#![warn(missing_docs)]

pub mod address;
pub mod claim;
pub mod cluster;
pub mod conditions;
pub mod crds;
mod kind;
pub mod patch;
pub mod pool;
mod rules;
pub mod versions;

pub use mooring_names::{GROUP, annotations, finalizers, labels};
