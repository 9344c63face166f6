//! The control plane's Lease and the local API server: the core's calls, the watch, the health.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::health;
use crate::api::{Events, LeaseApi, LeaseSettings, Regarding, Servers, WatchHandle, Watched, Write};
use crate::cluster::Cluster;
use crate::core::control_plane::{Call, Input};
use crate::lease_watch::{LeaseWatchAdapter, Shown, failure, write_failure};
use crate::settings::Settings;

/// The time limit for opening a watch, and for the list before one.
const WATCH_WITHIN: Duration = Duration::from_secs(5);

pub struct LeaseClient {
    lease: LeaseApi,
    servers: Servers,
    settings: Arc<Settings>,
    /// Where this node's API server is, as far as it is found.
    found: watch::Receiver<health::Found>,
    /// The addresses of the VIPs' interface: an answer of the own API server is told by them as well.
    interface: Vec<IpAddr>,
    vips: watch::Sender<Vec<IpAddr>>,
    answers: mpsc::Sender<Input>,
    cluster: Cluster,
    watch: WatchHandle,
    prober: AbortHandle,
}

impl Drop for LeaseClient {
    fn drop(&mut self) {
        self.prober.abort();
    }
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
        let (vips, known_vips) = watch::channel(Vec::new());
        let (find, found) = watch::channel(health::Found::new());
        let sources = health::Sources { listed: cluster.listed(), vips: known_vips };
        let prober = health::follow(settings.clone(), servers.clone(), sources, find, answers.clone());
        let prober = tokio::spawn(prober).abort_handle();
        let (settings, interface) = (settings.clone(), Vec::new());
        Self { lease, servers, settings, found, interface, vips, answers, cluster, watch, prober }
    }

    /// The VIPs that should exist.
    pub fn set_vips(&self, vips: &[IpAddr]) {
        self.vips.send_replace(vips.to_vec());
    }

    /// The node's own addresses on the VIPs' interface.
    pub fn set_interface(&mut self, addresses: Vec<IpAddr>) {
        self.interface = addresses;
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
            let creates = write.base.is_none();
            let result = lease.write(&write, within).await.map_err(|error| write_failure(&error, creates));
            let _ = answers.send(Input::Wrote { id, result }).await;
        });
    }

    /// Asks the peers' API servers and the own one for their health.
    fn ask_peers(&self, id: u64, within: Duration) {
        let (servers, answers) = (self.servers.clone(), self.answers.clone());
        let (url, own) = (health::own_url(&self.settings, &self.found.borrow()), self.interface.clone());
        tokio::spawn(async move {
            let is_ready = async {
                match &url {
                    Some(url) => servers.probe(url, within).await.is_ok(),
                    None => false,
                }
            };
            let (all, own_is_ready) = tokio::join!(servers.probe_peers(within), is_ready);
            let mut healthy: Vec<IpAddr> = all.into_iter().filter_map(|(peer, ready)| ready.then_some(peer)).collect();
            if own_is_ready {
                healthy.extend(own);
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
