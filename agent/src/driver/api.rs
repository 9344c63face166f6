//! The API's end: calls that the core asks for, the watch, the health of the local API server.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use tokio::sync::mpsc;

use super::Told;
use super::reach::Reach;
use crate::api::{
    ApiError, Events, HealthError, LeaseApi, LeaseSettings, Prober, Regarding, Servers, WatchHandle, Watched, Write,
};
use crate::core::event::{Event, Failure};
use crate::core::health::Health;
use crate::core::lease::{Notes, Record};
use crate::settings::Settings;

/// To open a watch, or to list before one.
const WATCH_WITHIN: Duration = Duration::from_secs(5);

/// See the module's text.
pub struct ApiHands {
    lease: LeaseApi,
    servers: Servers,
    /// What is asked for the health of the local API server.
    health: Uri,
    told: mpsc::Sender<Told>,
    reach: Reach,
    watch: WatchHandle,
    _prober: Prober,
}

impl ApiHands {
    /// Begins to watch the Lease and to probe the local API server.
    pub fn start(settings: &Arc<Settings>, told: mpsc::Sender<Told>, reach: Reach) -> Self {
        let servers = reach.servers.clone();
        let lease = LeaseApi::new(
            servers.clone(),
            LeaseSettings {
                namespace: settings.lease.namespace.clone(),
                name: settings.lease.name.clone(),
                annotations: settings.lease.annotations.clone(),
            },
        );
        let (seen, watched) = mpsc::channel(16);
        let watch = lease.watch(seen, WATCH_WITHIN);
        tokio::spawn(follow_lease(watched, told.clone()));
        let (results, health) = mpsc::channel(4);
        let prober = Prober::start(
            servers.clone(),
            settings.health.address.clone(),
            settings.health.interval,
            settings.health.timeout,
            results,
        );
        let counted = Health::new(u32::from(settings.health.rise), u32::from(settings.health.fall));
        tokio::spawn(follow_health(health, counted, told.clone(), servers.clone()));
        Self { lease, servers, health: settings.health.address.clone(), told, reach, watch, _prober: prober }
    }

    /// Reads the Lease; the result is told.
    pub fn read(&self, id: u64, within: Duration) {
        let (lease, told) = (self.lease.clone(), self.told.clone());
        tokio::spawn(async move {
            let result = lease.read(within).await.map(|read| read.view).map_err(|error| failure(&error, "read"));
            // The driver's end: nobody is left to be told.
            let _ = told.send(Told::Event(Event::Read { id, result })).await;
        });
    }

    /// A read showed what the watch had not: it may hang on an API server that does, and is opened anew.
    pub fn distrust_watch(&self) {
        self.watch.kick();
    }

    /// Writes the Lease; the result is told.
    pub fn write(&self, id: u64, base: Option<String>, record: Record, notes: Notes, within: Duration) {
        let (lease, told) = (self.lease.clone(), self.told.clone());
        tokio::spawn(async move {
            let write = Write { base, record, notes };
            let result = lease.write(&write, within).await.map_err(|error| failure(&error, "write"));
            let _ = told.send(Told::Event(Event::Wrote { id, result })).await;
        });
    }

    /// Asks the peers' API servers for their health, and the own one beside them; the answer is told.
    pub fn ask_peers(&self, id: u64, within: Duration) {
        let (servers, told, local) = (self.servers.clone(), self.told.clone(), self.health.clone());
        tokio::spawn(async move {
            let (all, own) = tokio::join!(servers.probe_peers(within), servers.probe(&local, within));
            let mut healthy: Vec<IpAddr> = all.into_iter().filter_map(|(peer, ready)| ready.then_some(peer)).collect();
            if own.is_ok() {
                healthy.extend(servers.own_addresses());
            }
            let _ = told.send(Told::Event(Event::Peers { id, healthy })).await;
        });
    }

    /// The servers, for what they look like and what they should be told.
    #[must_use]
    pub const fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Sends Events.
    #[must_use]
    pub fn events(&self) -> &Events {
        &self.reach.events
    }

    /// What the Events are about.
    #[must_use]
    pub fn regarding(&self, settings: &Settings) -> Regarding {
        let (namespace, name) = (settings.lease.namespace.clone(), settings.lease.name.clone());
        Regarding::Lease { namespace, name, uid: self.lease.uid() }
    }
}

/// What the core needs to know of it; the rest is for people.
pub(super) fn failure(error: &ApiError, what: &'static str) -> Failure {
    match error {
        ApiError::Conflict { .. } => Failure::Conflict,
        // A write to a Lease that was deleted meanwhile.
        ApiError::NotFound { .. } if what == "write" => Failure::Conflict,
        _ => {
            tracing::debug!(%error, what, "the Lease");
            Failure::Away
        }
    }
}

async fn follow_lease(mut watched: mpsc::Receiver<Watched>, told: mpsc::Sender<Told>) {
    let mut ear = LeaseEar::default();
    while let Some(watched) = watched.recv().await {
        let Some(event) = ear.hear(watched) else { continue };
        if told.send(Told::Event(event)).await.is_err() {
            return;
        }
    }
}

/// What the watch of a Lease shows, as the core is told. What is wrong with it is told to people when it changes.
#[derive(Debug, Default)]
pub(super) struct LeaseEar {
    flawed: String,
    complaint: String,
}

impl LeaseEar {
    pub(super) fn hear(&mut self, watched: Watched) -> Option<Event> {
        match watched {
            Watched::Seen { view, flaws, .. } => {
                let text = flaws.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                if !text.is_empty() && text != self.flawed {
                    tracing::warn!(flaws = text, "the Lease holds what makes no sense; it is ignored");
                }
                self.flawed = text;
                self.complaint.clear();
                Some(Event::Seen(view))
            }
            // It comes from the API server's cache, whether or not the store answers: it proves nothing of the Lease.
            Watched::Alive { .. } => None,
            Watched::Lost { error, .. } => {
                if self.complaint != error.category() {
                    tracing::warn!(%error, "the Lease cannot be watched; trying again");
                    error.category().clone_into(&mut self.complaint);
                }
                Some(Event::WatchLost)
            }
        }
    }
}

async fn follow_health(
    mut results: mpsc::Receiver<Result<(), HealthError>>,
    mut health: Health,
    told: mpsc::Sender<Told>,
    servers: Servers,
) {
    while let Some(result) = results.recv().await {
        let Some(verdict) = health.result(result.is_ok()) else { continue };
        match result {
            Ok(()) => tracing::info!("the local API server is healthy"),
            Err(error) => tracing::warn!(%error, "the local API server is not healthy"),
        }
        servers.prefer_local(verdict);
        if told.send(Told::Event(Event::Health(verdict))).await.is_err() {
            return;
        }
    }
}
