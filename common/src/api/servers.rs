//! The known API servers, and the order in which to ask them.
//!
//! Preferred: the node's own over loopback, then the peers' (remembered from the `EndpointSlice` of
//! `default/kubernetes`), last the server in the kubeconfig, which may be the VIP itself. A failed server is skipped
//! for a while.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Uri;
use tokio::time::Instant;

use super::{ApiError, Client, Observe};
use crate::backoff::jitter;
use crate::connection::Options;
use crate::kubeconfig::{ConfigError, Loaded, Seen, Source};

/// An API server that failed once is skipped for this long, twice as long when it fails again, ...
const BAD_FIRST: Duration = Duration::from_secs(1);
/// ... but never longer than this.
const BAD_MOST: Duration = Duration::from_secs(10);
/// How often valid files are checked, at most.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The sources of API servers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program's name in requests: audit logs and managedFields show it.
    pub agent: &'static str,
    /// Credentials, CA, and the server of last resort.
    pub source: Source,
    /// The node's own API server, `https://127.0.0.1:6443`. None where the node has none. Not used in a pod with a
    /// service account ([`Source::InCluster`]): there the Service's address comes first.
    pub local: Option<Uri>,
    /// If not empty: these servers and no others, in this order.
    pub listed: Vec<Uri>,
    /// The name in the certificate of a server that is reached by its address, `kubernetes` with kubeadm and k3s.
    /// None: the address must be in the certificate.
    pub server_name: Option<String>,
    /// To establish a TCP connection.
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
}

#[derive(Default)]
struct State {
    loaded: Option<Loaded>,
    /// What the last attempt to load failed with, and the file's state at that time.
    error: Option<(ConfigError, Seen)>,
    looked: Option<Instant>,
    peers: Vec<SocketAddr>,
    own: Vec<IpAddr>,
    prefer_peers: bool,
    servers: Vec<Server>,
    current: Option<Key>,
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
}

/// In the order of preference.
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
        Self(Arc::new(Inner { settings, observer, state: Mutex::default() }))
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

    /// How things stand.
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

    /// The client for one of them, or for any other server of this cluster.
    pub(crate) fn client(&self, key: &Key) -> Result<Client, ConfigError> {
        let mut state = self.state();
        if let Some(client) = state.clients.get(key) {
            return Ok(client.clone());
        }
        let Some(loaded) = &state.loaded else {
            return Err(ConfigError::Credentials { what: "none are loaded".into() });
        };
        let client = self.build(&loaded.config, key)?;
        // Peers come and go; left-over clients are dropped before they add up.
        if state.clients.len() >= 32 {
            state.clients.clear();
        }
        state.clients.insert(key.clone(), client.clone());
        Ok(client)
    }

    /// It makes no connection before it is used, does not retry, and keeps at most two idle connections.
    fn build(&self, config: &kube::Config, key: &Key) -> Result<Client, ConfigError> {
        let Settings { agent, connect_timeout, .. } = self.0.settings;
        let mut config = config.clone();
        config.cluster_url.clone_from(&key.url);
        config.tls_server_name.clone_from(&key.name);
        Client::new(config, Options { agent, connect_timeout, idle: 2 })
    }

    /// Records that a server answered.
    pub(crate) fn good(&self, key: &Key) {
        let mut state = self.state();
        if let Some(server) = state.servers.iter_mut().find(|s| s.key == *key) {
            (server.failures, server.bad_until) = (0, None);
        }
        if state.current.as_ref() != Some(key) {
            tracing::info!(server = %key, "API server in use changed");
            state.current = Some(key.clone());
        }
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

    /// The credentials were refused: the files may have newer ones. True if they had.
    pub(crate) async fn renew(&self) -> bool {
        self.look(true).await.unwrap_or(false)
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

    /// Loads the files if they were not loaded or have changed. True if so.
    pub(crate) async fn look(&self, at_once: bool) -> Result<bool, ConfigError> {
        {
            let (mut state, now) = (self.state(), Instant::now());
            let recent = state.looked.is_some_and(|then| now.duration_since(then) < LOOK_EVERY);
            if state.loaded.is_some() && recent && !at_once {
                return Ok(false);
            }
            state.looked = Some(now);
            let unchanged = match (&state.error, &state.loaded) {
                (Some((error, seen)), loaded) if !seen.changed() => match loaded {
                    None => return Err(error.clone()),
                    Some(_) => true,
                },
                (None, Some(loaded)) => !loaded.changed(),
                _ => false,
            };
            if unchanged {
                return Ok(false);
            }
        }
        let seen = self.0.settings.source.seen();
        let fresh = self.0.settings.source.load().await;
        let mut state = self.state();
        match fresh {
            Ok(loaded) => {
                tracing::info!(config = ?loaded, "kubeconfig read");
                state.loaded = Some(loaded);
                state.error = None;
                state.clients.clear();
                self.list(&mut state);
                Ok(true)
            }
            Err(error) => {
                if state.error.as_ref().is_none_or(|(before, _)| *before != error) {
                    tracing::warn!(%error, keeps_old = state.loaded.is_some(), "kubeconfig cannot be used; read again when it changes");
                }
                // A file that the kubeconfig names may appear later while the kubeconfig stays unchanged.
                let seen = if let ConfigError::Unreadable { path, .. } = &error { seen.and(path) } else { seen };
                state.error = Some((error.clone(), seen));
                // The valid configuration stays in use: the new file may be half written.
                if state.loaded.is_some() { Ok(false) } else { Err(error) }
            }
        }
    }

    /// Rebuilds the list; the state of a server that stays is kept.
    fn list(&self, state: &mut State) {
        let Some(loaded) = &state.loaded else { return };
        let settings = &self.0.settings;
        let named = Key { url: loaded.config.cluster_url.clone(), name: loaded.config.tls_server_name.clone() };
        let mut wanted: Vec<(Kind, Key)> = Vec::new();
        if settings.listed.is_empty() {
            let peers = state.peers.iter().filter(|p| !state.own.contains(&p.ip()));
            let peers = peers.filter_map(|p| Some((Kind::Peer(spread(&settings.node, *p)), self.key_at(*p)?)));
            match settings.source {
                Source::InCluster => wanted.push((Kind::Service, named)),
                Source::File(_) => {
                    wanted.extend(settings.local.clone().map(|url| (Kind::Local, self.key(url))));
                    wanted.push((Kind::Named, named));
                }
            }
            wanted.extend(peers);
        } else {
            wanted.extend(settings.listed.iter().enumerate().map(|(n, url)| (Kind::Listed(n), self.key(url.clone()))));
        }
        wanted.sort_by_key(|(kind, _)| *kind);
        let mut old = std::mem::take(&mut state.servers);
        for (kind, key) in wanted {
            if state.servers.iter().any(|s| s.key.url.authority() == key.url.authority()) {
                continue;
            }
            let known = old.iter().position(|s| s.key == key).map(|at| old.swap_remove(at));
            let (failures, bad_until) = known.map_or((0, None), |s| (s.failures, s.bad_until));
            state.servers.push(Server { key, kind, failures, bad_until });
        }
        let State { servers, clients, .. } = state;
        clients.retain(|key, _| servers.iter().any(|s| s.key == *key));
    }
}

impl Server {
    fn is_bad(&self, now: Instant) -> bool {
        self.bad_until.is_some_and(|until| now < until)
    }
}

/// A number that is equal for the same node and peer, and otherwise differs.
fn spread(node: &str, peer: SocketAddr) -> u64 {
    let mut hasher = DefaultHasher::new();
    (node, peer).hash(&mut hasher);
    hasher.finish() >> 1
}
