//! Reads, writes and watches of Leases; what comes of each is told.

use std::collections::BTreeMap;

use std::time::Duration;

use tokio::sync::mpsc;

use crate::api::{LeaseApi, LeaseSettings, Servers, WatchHandle, Write};
use crate::core::action::Action;
use crate::core::event::Event;
use crate::driver::api::{LeaseEar, failure};

/// To open a watch, or to list before one.
const WATCH_WITHIN: Duration = Duration::from_secs(5);

/// By Lease (NAMESPACE/NAME): what its keeper is told.
pub(super) type OfLease = (String, Event);

/// See the module's text.
pub(super) struct Hands {
    servers: Servers,
    told: mpsc::Sender<OfLease>,
    open: BTreeMap<String, Hand>,
}

struct Hand {
    lease: LeaseApi,
    watch: WatchHandle,
}

impl Hands {
    pub(super) const fn new(servers: Servers, told: mpsc::Sender<OfLease>) -> Self {
        Self { servers, told, open: BTreeMap::new() }
    }

    /// These are watched from now on.
    pub(super) fn set<'a>(&mut self, names: impl Iterator<Item = &'a str> + Clone) {
        if names.clone().eq(self.open.keys().map(String::as_str)) {
            return;
        }
        let mut before = std::mem::take(&mut self.open);
        for name in names {
            let hand = before.remove(name).unwrap_or_else(|| self.begin(name));
            self.open.insert(name.to_owned(), hand);
        }
    }

    fn begin(&self, full: &str) -> Hand {
        let (namespace, name) = full.split_once('/').unwrap_or(("default", full));
        let settings =
            LeaseSettings { namespace: namespace.to_owned(), name: name.to_owned(), annotations: BTreeMap::new() };
        let lease = LeaseApi::new(self.servers.clone(), settings);
        let (seen, mut watched) = mpsc::channel(16);
        let watch = lease.watch(seen, WATCH_WITHIN);
        let (name, told) = (full.to_owned(), self.told.clone());
        // It ends with the watch.
        tokio::spawn(async move {
            let mut ear = LeaseEar::default();
            while let Some(watched) = watched.recv().await {
                let Some(event) = ear.hear(watched) else { continue };
                if told.send((name.clone(), event)).await.is_err() {
                    return;
                }
            }
        });
        Hand { lease, watch }
    }

    /// A read showed what the watch had not.
    pub(super) fn distrust_watch(&self, name: &str) {
        if let Some(hand) = self.open.get(name) {
            hand.watch.kick();
        }
    }

    /// Does what a keeper wants of its Lease.
    pub(super) fn act(&self, name: String, action: Action) {
        let Some(hand) = self.open.get(&name) else { return };
        let (lease, told) = (hand.lease.clone(), self.told.clone());
        tokio::spawn(async move {
            let event = match action {
                Action::Read { id, within } => {
                    let result = lease.read(within).await.map(|read| read.view);
                    Event::Read { id, result: result.map_err(|error| failure(&error, "read")) }
                }
                Action::Write { id, base, record, notes, within } => {
                    let result = lease.write(&Write { base, record, notes }, within).await;
                    Event::Wrote { id, result: result.map_err(|error| failure(&error, "write")) }
                }
                // It is not an API server's health that decides about Services: everybody is as good.
                Action::AskPeers { id, .. } => Event::Peers { id, healthy: vec![] },
                _ => return,
            };
            // The driver's end: nobody is left to be told.
            let _ = told.send((name, event)).await;
        });
    }
}
