//! Reads, writes and watches of Leases. Each result is sent to the core.

use std::collections::BTreeMap;

use std::time::Duration;

use tokio::sync::mpsc;

use crate::api::{LeaseApi, LeaseSettings, Servers, WatchHandle, Write};
use crate::core::action::Action;
use crate::core::event::Event;
use crate::core::lease_vips::Call;
use crate::lease_watch::{LeaseWatchAdapter, Shown, failure, write_failure};

/// The time limit for opening a watch, and for the list before one.
const WATCH_WITHIN: Duration = Duration::from_secs(5);

/// A Lease (NAMESPACE/NAME), and an event for its Elector.
pub(super) type OfLease = (String, Event);

/// A client for each watched Lease.
pub(super) struct LeaseClients {
    servers: Servers,
    told: mpsc::Sender<OfLease>,
    open: BTreeMap<String, Client>,
}

struct Client {
    lease: LeaseApi,
    watch: WatchHandle,
}

impl LeaseClients {
    pub(super) const fn new(servers: Servers, told: mpsc::Sender<OfLease>) -> Self {
        Self { servers, told, open: BTreeMap::new() }
    }

    /// Sets which Leases are watched from now on.
    pub(super) fn set<'a>(&mut self, names: impl Iterator<Item = &'a str> + Clone) {
        if names.clone().eq(self.open.keys().map(String::as_str)) {
            return;
        }
        let mut before = std::mem::take(&mut self.open);
        for name in names {
            let client = before.remove(name).unwrap_or_else(|| self.begin(name));
            self.open.insert(name.to_owned(), client);
        }
    }

    fn begin(&self, full: &str) -> Client {
        let (namespace, name) = full.split_once('/').unwrap_or(("default", full));
        let settings =
            LeaseSettings { namespace: namespace.to_owned(), name: name.to_owned(), annotations: BTreeMap::new() };
        let lease = LeaseApi::new(self.servers.clone(), settings);
        let (seen, mut watched) = mpsc::channel(16);
        let watch = lease.watch(seen, WATCH_WITHIN);
        let (name, told) = (full.to_owned(), self.told.clone());
        // The task ends with the watch.
        tokio::spawn(async move {
            let mut adapter = LeaseWatchAdapter::default();
            while let Some(watched) = watched.recv().await {
                let event = match adapter.translate(watched) {
                    Some(Shown::Lease(view)) => Event::Seen(view),
                    Some(Shown::WatchLost) => Event::WatchLost,
                    None => continue,
                };
                if told.send((name.clone(), event)).await.is_err() {
                    return;
                }
            }
        });
        Client { lease, watch }
    }

    /// Reopens a watch after a read showed something the watch had not shown.
    pub(super) fn distrust_watch(&self, name: &str) {
        if let Some(client) = self.open.get(name) {
            client.watch.kick();
        }
    }

    /// Makes the call that an Elector requests for its Lease.
    pub(super) fn call(&self, Call { name, action }: Call) {
        let Some(client) = self.open.get(&name) else { return };
        let (lease, told) = (client.lease.clone(), self.told.clone());
        tokio::spawn(async move {
            let event = match action {
                Action::Read { id, within } => {
                    let result = lease.read(within).await.map(|read| read.view);
                    Event::Read { id, result: result.map_err(|error| failure(&error, "read")) }
                }
                Action::Write { id, base, record, notes, within } => {
                    let creates = base.is_none();
                    let result = lease.write(&Write { base, record, notes }, within).await;
                    Event::Wrote { id, result: result.map_err(|error| write_failure(&error, creates)) }
                }
                // For Services the health of a node's API server does not matter: every node is equally good.
                Action::AskPeers { id, .. } => Event::Peers { id, healthy: vec![] },
                _ => return,
            };
            // An error means that the event loop has ended: no receiver is left.
            let _ = told.send((name, event)).await;
        });
    }
}
