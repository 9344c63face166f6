//! Faults: everything that can happen to a host, a link or a process. Each method returns when it is done and answers
//! when that was.

mod api;
mod hosts;
mod network;
mod rules;
mod verbs;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Mutex;

pub use api::ApiCut;
use api::Slow;
pub use network::Way;
use rules::Rule;
pub use verbs::Fault;

use crate::assets;
use crate::cluster;
use crate::host::{self, lock};

/// The state of a lab's faults.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// What the switch drops.
    rules: Mutex<BTreeSet<Rule>>,
    /// Hosts whose own rules cut them from the API.
    api_cuts: Mutex<BTreeSet<String>>,
    /// Processes that are slowed down, by host and name.
    slow: Mutex<BTreeMap<(String, String), Slow>>,
    /// What ran on the hosts that crashed.
    crashed: Mutex<BTreeMap<String, Vec<String>>>,
}

impl Faults {
    /// Ends what goes on by itself.
    pub fn end(&self) {
        lock(&self.slow).clear();
    }
}

/// A fault could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A host, a process, an interface.
    #[error(transparent)]
    Host(#[from] host::Error),
    /// An API server.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// `nft` is missing.
    #[error(transparent)]
    Assets(#[from] assets::Error),
    /// nft refused a rule.
    #[error("nft refused in {place}: {detail}\n{rules}")]
    Nft {
        /// The namespace.
        place: String,
        /// What it said.
        detail: String,
        /// The rules.
        rules: String,
    },
    /// A host cannot be cut from itself.
    #[error("cannot cut {0} from itself")]
    Itself(String),
    /// A share that is none.
    #[error("{0} percent: must be 0 to 100")]
    Percent(u8),
    /// Nobody answers for that address.
    #[error("no stranger has {0}")]
    NoStranger(IpAddr),
}
