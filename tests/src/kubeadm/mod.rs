//! `cargo lab kubeadm`: a cluster made by kubeadm through our VIP, with containerd, kubelets and pods, and what happens to it.
//!
//! [`machine`] makes a host of the lab a machine, [`images`] are made of the lab's binaries, [`cluster`] is the cluster, and
//! [`story`] is what is done to it and judged: [`control_plane`] and [`services`] are its acts. [`bare`] leaves it to a person.

pub mod bare;
pub mod cgroups;
pub mod cluster;
pub mod config;
mod control_plane;
pub mod image;
pub mod images;
pub mod machine;
pub mod run;
mod services;
mod story;

pub use story::{Act, tell};
