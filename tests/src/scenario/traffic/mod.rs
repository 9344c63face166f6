//! Services of type `LoadBalancer` as users see them: allocator, agents and kube-proxy run, and a client sends requests
//! to the VIP.

mod stories;

pub use stories::all;
