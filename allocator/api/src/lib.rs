//! What Mooring's programs, Cluster API and people say to each other: kinds, labels, annotations, finalizers, conditions.
//!
//! - Kinds of Cluster API that Mooring meets: [`claim::IpAddressClaim`], [`address::IpAddress`], [`cluster::Cluster`]. Typed as
//!   far as Mooring uses them: never write one back whole, use [`patch`].
//! - Pools of Mooring's own, the same kinds as those of Cluster API's in-cluster provider: [`pool`].
//! - Their CRDs, made from the Rust types: [`crds`].
//!
//! The group is [`GROUP`] for all but [`cluster::Cluster`].

pub mod address;
pub mod annotations;
pub mod claim;
pub mod cluster;
pub mod conditions;
pub mod crds;
pub mod finalizers;
mod kind;
pub mod labels;
pub mod patch;
pub mod pool;
mod rules;
pub mod versions;

/// The group of claims, addresses and pools. Cluster API and its in-cluster provider share it.
pub const GROUP: &str = "ipam.cluster.x-k8s.io";
