//! OpenStack in the lab, on loopback of a host: the real Keystone and Neutron, and a stand-in.

mod admin;
mod real;
mod rest;
mod stand_in;

pub use admin::{Admin, FloatingIp, clouds};
pub use real::Real;
pub use rest::{Reply, Rest};
pub use stand_in::StandIn;

/// Keystone's URL on its host.
pub const KEYSTONE: &str = "http://127.0.0.1:5000";
/// Neutron's URL on its host.
pub const NEUTRON: &str = "http://127.0.0.1:9696";
/// The user and project that the allocator has, and the user's password.
pub const USER: (&str, &str) = ("k8s", "of-k8s");

/// The administrator's password.
const ADMIN: &str = "of-the-administrator";
/// The password of Neutron's own user.
const SERVICE: &str = "of-neutron";
