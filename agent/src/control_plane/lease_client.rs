//! The control plane's Lease and the local API server: the core's calls, the watch, the health.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use tokio::sync::mpsc;

use crate::api::{
    Events, HealthError, LeaseApi, LeaseSettings, Prober, Regarding, Servers, WatchHandle, Watched, Write,
};
use crate::cluster::Cluster;
use crate::core::control_plane::{Call, Input};
use crate::core::health::Health;
use crate::lease_watch::{LeaseWatchAdapter, Shown, failure};
use crate::settings::Settings;

/// The time limit for opening a watch, and for the list before one.
const WATCH_WITHIN: Duration = Duration::from_secs(5);

pub struct LeaseClient {
    lease: LeaseApi,
    servers: Servers,
    /// The URL for the health of the local API server.
    health: Uri,
    answers: mpsc::Sender<Input>,
    cluster: Cluster,
    watch: WatchHandle,
    _prober: Prober,
}

impl LeaseClient {
    /// Begins to watch the Lease and to probe the local API server.
    pub fn start(settings: &Arc<Settings>, answers: mpsc::Sender<Input>, cluster: Cluster) -> Self {
        let servers = cluster.servers.clone();
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
        tokio::spawn(follow_lease(watched, answers.clone()));
        let (results, health) = mpsc::channel(4);
        let prober = Prober::start(
            servers.clone(),
            settings.health.address.clone(),
            settings.health.interval,
            settings.health.timeout,
            results,
        );
        let counted = Health::new(u32::from(settings.health.rise), u32::from(settings.health.fall));
        tokio::spawn(follow_health(health, counted, answers.clone(), servers.clone()));
        Self { lease, servers, health: settings.health.address.clone(), answers, cluster, watch, _prober: prober }
    }

    /// Makes the core's call. The answer is an [`Input`].
    pub fn call(&self, call: Call) {
        match call {
            Call::Read { id, within } => self.read(id, within),
            Call::Write { id, base, record, notes, within } => self.write(id, Write { base, record, notes }, within),
            Call::AskPeers { id, within } => self.ask_peers(id, within),
        }
    }

    fn read(&self, id: u64, within: Duration) {
        let (lease, answers) = (self.lease.clone(), self.answers.clone());
        tokio::spawn(async move {
            let result = lease.read(within).await.map(|read| read.view).map_err(|error| failure(&error, "read"));
            // An error means that the event loop has ended: no receiver is left.
            let _ = answers.send(Input::Read { id, result }).await;
        });
    }

    /// Reopens the watch after a read showed something the watch had not: the watch may hang on one API server while
    /// another answers.
    pub fn distrust_watch(&self) {
        self.watch.kick();
    }

    fn write(&self, id: u64, write: Write, within: Duration) {
        let (lease, answers) = (self.lease.clone(), self.answers.clone());
        tokio::spawn(async move {
            let result = lease.write(&write, within).await.map_err(|error| failure(&error, "write"));
            let _ = answers.send(Input::Wrote { id, result }).await;
        });
    }

    /// Asks the peers' API servers and the own one for their health.
    fn ask_peers(&self, id: u64, within: Duration) {
        let (servers, answers, local) = (self.servers.clone(), self.answers.clone(), self.health.clone());
        tokio::spawn(async move {
            let (all, own) = tokio::join!(servers.probe_peers(within), servers.probe(&local, within));
            let mut healthy: Vec<IpAddr> = all.into_iter().filter_map(|(peer, ready)| ready.then_some(peer)).collect();
            if own.is_ok() {
                healthy.extend(servers.own_addresses());
            }
            let _ = answers.send(Input::Peers { id, healthy }).await;
        });
    }

    /// The API servers.
    #[must_use]
    pub const fn servers(&self) -> &Servers {
        &self.servers
    }

    /// The sender of Events.
    #[must_use]
    pub fn events(&self) -> &Events {
        &self.cluster.events
    }

    /// The object that the Events are about.
    #[must_use]
    pub fn regarding(&self, settings: &Settings) -> Regarding {
        let (namespace, name) = (settings.lease.namespace.clone(), settings.lease.name.clone());
        Regarding::Lease { namespace, name, uid: self.lease.uid() }
    }
}

async fn follow_lease(mut watched: mpsc::Receiver<Watched>, answers: mpsc::Sender<Input>) {
    let mut adapter = LeaseWatchAdapter::default();
    while let Some(watched) = watched.recv().await {
        let input = match adapter.translate(watched) {
            Some(Shown::Lease(view)) => Input::Seen(view),
            Some(Shown::WatchLost) => Input::WatchLost,
            None => continue,
        };
        if answers.send(input).await.is_err() {
            return;
        }
    }
}

async fn follow_health(
    mut results: mpsc::Receiver<Result<(), HealthError>>,
    mut health: Health,
    answers: mpsc::Sender<Input>,
    servers: Servers,
) {
    while let Some(result) = results.recv().await {
        let Some(verdict) = health.result(result.is_ok()) else { continue };
        match result {
            Ok(()) => tracing::info!("the local API server is healthy"),
            Err(error) => tracing::warn!(%error, "the local API server is not healthy"),
        }
        servers.prefer_local(verdict);
        if answers.send(Input::Health(verdict)).await.is_err() {
            return;
        }
    }
}
