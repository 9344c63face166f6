//! The Kubernetes API as an agent meets it: servers, a store, calls that race, a watch. As `agent/src/api` has it.

mod call;
mod client;
mod server;
mod store;
mod watch;

pub use call::{Answer, Call, Kind};
pub use client::Client;
pub use server::{Server, Servers};
pub use store::{Change, Store};
pub use watch::{Message, Watch};
