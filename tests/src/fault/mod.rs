//! Faults: everything that can happen to a host, a link or a process. Each method returns when the fault is in effect,
//! and answers with that time.

mod api;
mod arp;
mod hosts;
mod network;
mod rules;
mod suppress;
mod talk;
mod verbs;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

pub use api::ApiCut;
use api::Slow;
pub use network::Way;
use rules::Rule;
pub use suppress::Probes;
use suppress::Suppression;
pub use talk::Talk;
pub use verbs::Fault;

use crate::assets;
use crate::cluster;
use crate::host::{self, lock};
use crate::lab::Lab;
use crate::observe;

/// The state of a lab's faults.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// The rules by which the switch drops frames.
    rules: Mutex<BTreeSet<Rule>>,
    /// Hosts whose own rules cut them from the API.
    api_cuts: Mutex<BTreeSet<String>>,
    /// What answers ARP on behalf of the hosts.
    suppression: Mutex<Option<Suppression>>,
    /// Processes that are slowed down, by host and name.
    slow: Mutex<BTreeMap<(String, String), Slow>>,
    /// The programs that ran on the hosts that crashed.
    crashed: Mutex<BTreeMap<String, Vec<String>>>,
    /// Whether the cluster or one of its hosts was changed in a way that cannot simply be undone.
    pub(crate) worn: AtomicBool,
}

impl Faults {
    /// Ends the faults that run on threads of their own.
    pub fn end(&self) {
        lock(&self.slow).clear();
        *lock(&self.suppression) = None;
    }

    /// Forgets a removed host.
    pub fn forget(&self, host: &str) {
        lock(&self.crashed).remove(host);
        lock(&self.api_cuts).remove(host);
    }
}

impl Lab {
    /// Notes that a host was changed in a way that cannot simply be undone. A host that is not part of the cluster does
    /// not count: the next user of the lab gets a new one.
    pub(crate) fn wear(&self, host: &str) {
        let added = |name: &str| !self.0.shape.hosts().iter().any(|(known, _)| known == name);
        if !added(host) {
            self.0.faults.worn.store(true, Ordering::Relaxed);
        }
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
    /// A neighbour table, or a packet socket.
    #[error(transparent)]
    Observe(#[from] observe::Error),
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
