//! `cargo lab kubeadm`: a cluster made by kubeadm through our VIP, with containerd, kubelets and pods, and what happens to it.
//!
//! [`machine`] makes a host of the lab a machine, [`images`] are made of the lab's binaries, [`cluster`] is the cluster, and
//! [`story`] is what is done to it and judged: [`control_plane`], [`certificates`], [`services`] and [`proxies`] are its acts. [`from_pool`] makes another one, by
//! Cluster API's bootstrap data.
//! [`bare`] leaves the machines to a person.

pub mod bare;
mod certificates;
pub mod cgroups;
mod cloud_config;
pub mod cluster;
pub mod config;
pub mod containers;
mod control_plane;
mod from_pool;
pub mod image;
pub mod images;
pub mod machine;
mod making;
mod proxies;
pub mod proxy;
mod proxy_image;
pub mod run;
pub mod services;
pub mod story;
mod verdict;

pub use story::{Act, tell};
