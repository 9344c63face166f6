//! Services of type `LoadBalancer` as their users see them: allocator, agents and kube-proxy run, and a client asks through the
//! VIP.

mod stories;
mod town;

pub use stories::all;
pub use town::{Programs, QUESTION, Town};
