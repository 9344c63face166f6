//! The Kubernetes API as a control-plane agent meets it: servers, a store, calls that race, a watch. As `agent/src/api` has it.

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

use super::Elector;
use crate::settings::Settings;

/// The API.
#[derive(Debug)]
pub struct Api {
    /// API servers.
    pub servers: Servers,
    /// The Lease.
    pub store: Store,
    /// Calls, over or not.
    pub calls: Vec<Call>,
}

impl Api {
    /// At the beginning.
    #[must_use]
    pub fn new(settings: &Settings<Elector>) -> Self {
        Self { servers: Servers::new(settings), store: Store::default(), calls: vec![] }
    }
}
