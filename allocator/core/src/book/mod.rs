//! The holders of addresses: the used addresses of each network, and the free units of each pool. A pool is a view of
//! its network.

mod counts;
mod coverage;
mod free;
mod ledger;
mod network;
#[cfg(test)]
mod tests;
mod used;

pub use counts::Counts;
pub use free::Free;
pub(crate) use free::mix;
pub use ledger::{Book, Freed, PoolId};
pub use used::{Holder, Used};
