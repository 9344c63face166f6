//! OpenStack's floating IPs, as an outside system of pools: the requests to Keystone and Neutron. What is asked, what an answer
//! means and what a pool allows is decided in `mooring-allocator-openstack`.

#![warn(missing_docs)]

mod http;
mod pool;
mod session;
#[cfg(test)]
mod tests;

pub use pool::FloatingPool;
pub use session::{Access, Session};
