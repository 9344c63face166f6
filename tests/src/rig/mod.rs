//! What every scenario, bench and demo begins with: a lab with its programs and observers, one rig for each kind.

pub mod allocator;
pub mod control_plane;
pub(crate) mod kube_vip;
pub(crate) mod shared;
pub(crate) mod traffic;
pub(crate) mod worker;
