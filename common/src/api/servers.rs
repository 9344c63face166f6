//! The known API servers, and the order in which to ask them.
//!
//! Preferred: the node's own over loopback, then the peers' (remembered from the `EndpointSlice` of
//! `default/kubernetes`), last the server in the kubeconfig, which may be the VIP itself. A failed server is skipped
//! for a while.

mod load;

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Uri;
use tokio::time::Instant;

use super::returned::Returned;
use super::{ApiError, Client, Observe};
use crate::backoff::jitter;
use crate::kubeconfig::{ConfigError, Loaded, Seen, Source};

/// An API server that failed once is skipped for this long, twice as long when it fails again, ...
const BAD_FIRST: Duration = Duration::from_secs(1);
/// ... but never longer than this.
const BAD_MOST: Duration = Duration::from_secs(10);
/// The sources of API servers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program's name in requests: audit logs and managedFields show it.
    pub agent: &'static str,
    /// Credentials, CA, and the server of last resort.
    pub source: Source,
    /// The node's own API server, `https://127.0.0.1:6443`. None where the node has none. It comes before the address of
    /// the Service `default/kubernetes`, which needs kube-proxy.
    pub local: Option<Uri>,
    /// If not empty: these servers and no others, in this order.
    pub listed: Vec<Uri>,
    /// The name in the certificate of a server that is reached by its address, `kubernetes` with kubeadm and k3s.
    /// None: the address must be in the certificate.
    pub server_name: Option<String>,
    /// The time limit for a TCP connection.
    pub connect_timeout: Duration,
    /// The node's name: different nodes begin with different peers.
    pub node: String,
}

impl Settings {
    /// The options for the agent of a control-plane node with its kubeconfig.
    #[must_use]
    pub fn control_plane(source: Source, node: impl Into<String>) -> Self {
        Self {
            agent: concat!("mooring-agent/", env!("CARGO_PKG_VERSION")),
            source,
            local: Some(Uri::from_static("https://127.0.0.1:6443")),
            listed: Vec::new(),
            server_name: Some("kubernetes".into()),
            connect_timeout: Duration::from_secs(1),
            node: node.into(),
        }
    }
}

/// The API servers. Clones share one state.
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

struct Inner {
    settings: Settings,
    observer: Arc<dyn Observe>,
    state: Mutex<State>,
    returned: Returned,
}

#[derive(Default)]
struct State {
    loaded: Option<Loaded>,
    /// Why the last attempt to load failed, and the state of the files at that time.
    error: Option<(ConfigError, Seen)>,
    looked: Option<Instant>,
    peers: Vec<SocketAddr>,
    own: Vec<IpAddr>,
    prefer_peers: bool,
    servers: Vec<Server>,
    current: Option<Key>,
    /// What the log names as the server in use: one that fails for a moment, and answers again, is not logged again.
    logged: Option<Key>,
    /// Built on first use; void when the credentials change.
    clients: HashMap<Key, Client>,
}

/// An API server: its URL, and the name that its certificate must have (None: the URL's host).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// Its URL.
    pub url: Uri,
    /// The name in its certificate.
    pub name: Option<String>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.to_string().trim_end_matches('/'))
    }
}

struct Server {
    key: Key,
    kind: Kind,
    failures: u32,
    bad_until: Option<Instant>,
    /// When a call last had an answer from it, whatever the answer said.
    answered: Option<Instant>,
}

/// The kinds of servers, the preferred kind first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Local,
    Listed(usize),
    Service,
    Peer(u64),
    Named,
}

/// The state of the servers, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServersStatus {
    /// The API server that answered last.
    pub current: Option<String>,
    /// All of them, in order of preference: URL, and whether the server is skipped because it failed.
    pub servers: Vec<(String, bool)>,
    /// Why there are no usable credentials, or why changed files were not loaded.
    pub error: Option<ConfigError>,
}

impl Servers {
    /// Touches no file and makes no connection.
    #[must_use]
    pub fn new(settings: Settings, observer: Arc<dyn Observe>) -> Self {
        Self(Arc::new(Inner { settings, observer, state: Mutex::default(), returned: Returned::default() }))
    }

    /// Whether the node's own API server comes first, as its health says. It does at the start.
    pub fn prefer_local(&self, yes: bool) {
        let mut state = self.state();
        if state.prefer_peers != yes {
            return;
        }
        state.prefer_peers = !yes;
        if let Some(local) = state.servers.iter_mut().find(|s| s.kind == Kind::Local).filter(|_| yes) {
            (local.failures, local.bad_until) = (0, None);
        }
    }

    /// The other nodes' API servers.
    pub fn set_peers(&self, peers: Vec<SocketAddr>) {
        let mut state = self.state();
        if state.peers != peers {
            state.peers = peers;
            self.list(&mut state);
        }
    }

    /// The node's own addresses: an API server at one of them is the local one, not a peer.
    pub fn set_own_addresses(&self, own: Vec<IpAddr>) {
        let mut state = self.state();
        if state.own != own {
            state.own = own;
            self.list(&mut state);
        }
    }

    /// The node's own addresses.
    #[must_use]
    pub fn own_addresses(&self) -> Vec<IpAddr> {
        self.state().own.clone()
    }

    /// The peers' API servers, without the node's own.
    #[must_use]
    pub fn peers(&self) -> Vec<SocketAddr> {
        let state = self.state();
        state.peers.iter().filter(|p| !state.own.contains(&p.ip())).copied().collect()
    }

    /// The current state of all servers.
    #[must_use]
    pub fn status(&self) -> ServersStatus {
        let (state, now) = (self.state(), Instant::now());
        ServersStatus {
            current: state.current.as_ref().map(Key::to_string),
            servers: state.servers.iter().map(|s| (s.key.to_string(), s.is_bad(now))).collect(),
            error: state.error.as_ref().map(|(error, _)| error.clone()),
        }
    }

    /// The API servers in the order in which to ask them now. Reads the files if they may have changed.
    pub async fn order(&self) -> Result<Vec<Key>, ApiError> {
        self.look(false).await?;
        let (state, now) = (self.state(), Instant::now());
        let mut all: Vec<_> = state.servers.iter().collect();
        // Among peers, the one that answered last stays first; a preferred kind comes first again once it is no longer
        // bad.
        let class = |kind| match kind {
            Kind::Local if state.prefer_peers => Kind::Peer(u64::MAX),
            Kind::Peer(_) => Kind::Peer(0),
            other => other,
        };
        all.sort_by_key(|s| (s.is_bad(now), class(s.kind), state.current.as_ref() != Some(&s.key), s.kind));
        Ok(all.into_iter().map(|s| s.key.clone()).collect())
    }

    /// Records that a server answered.
    pub(crate) fn good(&self, key: &Key) {
        let mut state = self.state();
        if let Some(server) = state.servers.iter_mut().find(|s| s.key == *key) {
            (server.failures, server.bad_until) = (0, None);
            server.answered = Some(Instant::now());
        }
        if state.logged.as_ref() != Some(key) {
            tracing::info!(server = %key, "API server in use changed");
            state.logged = Some(key.clone());
        }
        if state.current.as_ref() != Some(key) {
            state.current = Some(key.clone());
        }
        drop(state);
        self.0.returned.answered();
    }

    /// Waits so long before another call; not much longer than until API servers that are all away answer again.
    pub async fn pause(&self, wait: Duration) {
        self.0.returned.pause(wait).await;
    }

    /// Ends a moment after API servers that were all away for long answer again.
    pub(super) async fn returned(&self) {
        self.0.returned.after_long().await;
    }

    /// Records that a server answered, without a judgement of the answer.
    pub(crate) fn heard(&self, key: &Key) {
        if let Some(server) = self.state().servers.iter_mut().find(|s| s.key == *key) {
            server.answered = Some(Instant::now());
        }
        self.0.returned.answered();
    }

    /// Whether a call had an answer from the server within this time.
    pub(crate) fn answered_within(&self, key: &Key, time: Duration) -> bool {
        let state = self.state();
        let server = state.servers.iter().find(|s| s.key == *key);
        server.and_then(|s| s.answered).is_some_and(|at| at.elapsed() < time)
    }

    /// Records that a server could not answer.
    pub(crate) fn bad(&self, key: &Key) {
        let (mut state, now) = (self.state(), Instant::now());
        if let Some(server) = state.servers.iter_mut().find(|s| s.key == *key).filter(|s| !s.is_bad(now)) {
            let wait = BAD_FIRST.saturating_mul(1 << server.failures.min(8)).min(BAD_MOST);
            server.failures = server.failures.saturating_add(1);
            server.bad_until = Some(now + jitter(wait));
        }
        if state.current.as_ref() == Some(key) {
            state.current = None;
        }
    }

    /// Records that none answered a call that began then.
    pub(crate) fn none_answered(&self, began: Instant) {
        self.0.returned.none_answered(began);
    }

    pub(crate) fn observer(&self) -> &dyn Observe {
        self.0.observer.as_ref()
    }

    /// The key of a server that is reached by its address.
    pub(crate) fn key(&self, url: Uri) -> Key {
        let by_address = url.host().is_some_and(|h| h.trim_matches(['[', ']']).parse::<IpAddr>().is_ok());
        let name = self.0.settings.server_name.clone().filter(|_| by_address);
        Key { url, name }
    }

    /// The key of the API server at an address.
    pub(crate) fn key_at(&self, address: SocketAddr) -> Option<Key> {
        format!("https://{address}").parse().ok().map(|url| self.key(url))
    }

    /// Never held across an await. A panic elsewhere leaves nothing half done here.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    fn is_bad(&self, now: Instant) -> bool {
        self.bad_until.is_some_and(|until| now < until)
    }
}
