//! OpenStack in the lab: the real Keystone and Neutron, or a stand-in that answers as they do; on loopback of a host.

mod admin;
mod real;
mod rest;
mod stand_in;

pub use admin::{Admin, FloatingIp};
pub use rest::{Reply, Rest};
pub use stand_in::{Fault, StandIn};

/// Keystone's URL on its host.
pub const KEYSTONE: &str = "http://127.0.0.1:5000";
/// Neutron's URL on its host.
pub const NEUTRON: &str = "http://127.0.0.1:9696";
/// The administrator's password.
const ADMIN: &str = "of-the-administrator";
/// The password of Neutron's own user.
const SERVICE: &str = "of-neutron";
/// The user and project that the allocator has, and the user's password.
pub const USER: (&str, &str) = ("k8s", "of-k8s");

pub use real::Real;
