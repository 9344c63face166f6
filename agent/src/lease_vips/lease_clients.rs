//! Reads, writes and watches of Leases. Each result is sent to the core.
//!
//! Reads and writes pass a gate each: while the API is away, one call finds out for all whether it is back
//! ([`gate`](super::gate)). The two are apart, because an API that answers reads may refuse writes.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use super::calls_gate::{Answered, CallsGate};
use super::namespace_watch::NamespaceWatch;
use crate::api::{LeaseApi, LeaseSettings, Servers, Write};
use crate::core::action::Action;
use crate::core::event::{Event, Failure};
use crate::core::lease_vips::Call;
use crate::lease_watch::{failure, write_failure};

#[cfg(test)]
mod tests;

/// A Lease (NAMESPACE/NAME), and an event for its Elector.
pub(super) type OfLease = (String, Event);

/// A client for each Lease, and a watch for each of their namespaces.
pub(super) struct LeaseClients {
    servers: Servers,
    told: mpsc::Sender<OfLease>,
    open: BTreeMap<String, Client>,
    watches: BTreeMap<String, NamespaceWatch>,
    reads: CallsGate,
    writes: CallsGate,
}

/// The client of one Lease, and whether its last calls were answered.
#[derive(Clone)]
struct Client {
    lease: LeaseApi,
    reads: Answered,
    writes: Answered,
}

impl LeaseClients {
    pub(super) fn new(servers: Servers, told: mpsc::Sender<OfLease>) -> Self {
        let (reads, writes) = (CallsGate::default(), CallsGate::default());
        Self { servers, told, open: BTreeMap::new(), watches: BTreeMap::new(), reads, writes }
    }

    /// Sets which Leases are watched from now on.
    pub(super) fn set<'a>(&mut self, names: impl Iterator<Item = &'a str> + Clone) {
        if names.clone().eq(self.open.keys().map(String::as_str)) {
            return;
        }
        let mut before = std::mem::take(&mut self.open);
        for name in names {
            let client = before.remove(name).unwrap_or_else(|| self.client(name));
            self.open.insert(name.to_owned(), client);
        }
        let mut wanted: BTreeMap<&str, BTreeMap<String, LeaseApi>> = BTreeMap::new();
        for (full, client) in &self.open {
            let (namespace, name) = split(full);
            wanted.entry(namespace).or_default().insert(name.to_owned(), client.lease.clone());
        }
        self.watches.retain(|namespace, _| wanted.contains_key(namespace.as_str()));
        for (namespace, leases) in wanted {
            let (servers, reads, told) = (&self.servers, &self.reads, &self.told);
            let watch = self.watches.entry(namespace.to_owned());
            watch
                .or_insert_with(|| NamespaceWatch::start(servers.clone(), namespace, reads.clone(), told.clone()))
                .want(leases);
        }
    }

    fn client(&self, full: &str) -> Client {
        let (namespace, name) = split(full);
        let settings =
            LeaseSettings { namespace: namespace.to_owned(), name: name.to_owned(), annotations: BTreeMap::new() };
        let lease = LeaseApi::new(self.servers.clone(), settings);
        Client { lease, reads: Answered::default(), writes: Answered::default() }
    }

    /// A read showed this version, and the watch had not: the watch may hang.
    pub(super) fn distrust_watch(&self, full: &str, version: &str) {
        let (namespace, name) = split(full);
        if let Some(watch) = self.watches.get(namespace) {
            watch.distrust(name, version);
        }
    }

    /// Makes the call that an Elector requests for its Lease.
    pub(super) fn call(&self, Call { name, action }: Call) {
        let Some(Client { lease, reads: read_before, writes: wrote_before }) = self.open.get(&name).cloned() else {
            return;
        };
        let (reads, writes, told) = (self.reads.clone(), self.writes.clone(), self.told.clone());
        tokio::spawn(async move {
            let event = match action {
                Action::Read { id, within } => {
                    let read = reads.pass(&read_before, within, |left| async move { lease.read(left).await }).await;
                    let result = read.map_or(Err(Failure::Away), |result| {
                        result.map(|read| read.view).map_err(|error| failure(&error, "read"))
                    });
                    Event::Read { id, result }
                }
                Action::Write { id, base, record, notes, within } => {
                    let creates = base.is_none();
                    let write = Write { base, record, notes };
                    let answer =
                        writes.pass(&wrote_before, within, |left| async move { lease.write(&write, left).await }).await;
                    let result = answer
                        .map_or(Err(Failure::Away), |result| result.map_err(|error| write_failure(&error, creates)));
                    Event::Wrote { id, result }
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

/// The namespace and the name.
fn split(full: &str) -> (&str, &str) {
    full.split_once('/').unwrap_or(("default", full))
}
