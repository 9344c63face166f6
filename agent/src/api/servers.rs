//! The API servers there are, and which of them is asked first.
//!
//! Preferred: the node's own over loopback, then the peers' (remembered from the `EndpointSlice` of `default/kubernetes`),
//! last the one the kubeconfig names, which may well be the VIP itself. One that fails is left alone for a while.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Uri;
use tokio::time::Instant;

use super::client;
use super::kubeconfig::{ConfigError, Loaded, Seen, Source};
use super::{ApiError, Observe};

/// An API server that failed once is left alone for so long, twice that when it fails again, ...
const BAD_FIRST: Duration = Duration::from_secs(1);
/// ... but never longer than this.
const BAD_MOST: Duration = Duration::from_secs(10);
/// Files that were fine are looked at so often, at most.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Where API servers are looked for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Credentials, CA, and the server of last resort.
    pub source: Source,
    /// The node's own API server, `https://127.0.0.1:6443`. None where the node has none. Not used in a pod with a
    /// service account ([`Source::InCluster`]): there the Service's address comes first.
    pub local: Option<Uri>,
    /// If not empty: these and no others, in this order.
    pub listed: Vec<Uri>,
    /// The name in the certificate of a server that is reached by its address, `kubernetes` with kubeadm and k3s.
    /// None: the address must be in the certificate.
    pub server_name: Option<String>,
    /// To establish a TCP connection.
    pub connect_timeout: Duration,
    /// The node's name: nodes begin with different peers.
    pub node: String,
}

impl Settings {
    /// For a control-plane node with its kubeconfig.
    #[must_use]
    pub fn control_plane(source: Source, node: impl Into<String>) -> Self {
        Self {
            source,
            local: Some(Uri::from_static("https://127.0.0.1:6443")),
            listed: Vec::new(),
            server_name: Some("kubernetes".into()),
            connect_timeout: Duration::from_secs(1),
            node: node.into(),
        }
    }
}

/// The API servers. Clones are the same one.
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
    /// Built when first asked for; void when the credentials change.
    clients: HashMap<Key, kube::Client>,
}

/// An API server: its URL, and the name that its certificate must have (None: the URL's host).
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) url: Uri,
    pub(crate) name: Option<String>,
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

/// How things stand, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServersStatus {
    /// The API server that answered last.
    pub current: Option<String>,
    /// All of them, in order of preference: URL, and whether it is left alone because it failed.
    pub servers: Vec<(String, bool)>,
    /// Why there is nothing to connect with, or why changed files were not taken.
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

    /// The node's own addresses: an API server behind one of them is the local one, no peer.
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
    pub(crate) async fn order(&self) -> Result<Vec<Key>, ApiError> {
        self.look(false).await?;
        let (state, now) = (self.state(), Instant::now());
        let mut all: Vec<_> = state.servers.iter().collect();
        // Among peers the one that answered last stays; a kind that is preferred is gone back to once it is no longer bad.
        let class = |kind| match kind {
            Kind::Local if state.prefer_peers => Kind::Peer(u64::MAX),
            Kind::Peer(_) => Kind::Peer(0),
            other => other,
        };
        all.sort_by_key(|s| (s.is_bad(now), class(s.kind), state.current.as_ref() != Some(&s.key), s.kind));
        Ok(all.into_iter().map(|s| s.key.clone()).collect())
    }

    /// The client for one of them, or for any other server of this cluster.
    pub(crate) fn client(&self, key: &Key) -> Result<kube::Client, ConfigError> {
        let mut state = self.state();
        if let Some(client) = state.clients.get(key) {
            return Ok(client.clone());
        }
        let Some(loaded) = &state.loaded else {
            return Err(ConfigError::Credentials { what: "none are loaded".into() });
        };
        let client = client::build(&loaded.config, &key.url, key.name.as_deref(), self.0.settings.connect_timeout)?;
        // Peers come and go; what is left over is dropped before it adds up.
        if state.clients.len() >= 32 {
            state.clients.clear();
        }
        state.clients.insert(key.clone(), client.clone());
        Ok(client)
    }

    /// It answered.
    pub(crate) fn good(&self, key: &Key) {
        let mut state = self.state();
        if let Some(server) = state.servers.iter_mut().find(|s| s.key == *key) {
            (server.failures, server.bad_until) = (0, None);
        }
        if state.current.as_ref() != Some(key) {
            tracing::info!(server = %key, "speaking to this API server");
            state.current = Some(key.clone());
        }
    }

    /// It could not answer.
    pub(crate) fn bad(&self, key: &Key) {
        let (mut state, now) = (self.state(), Instant::now());
        if let Some(server) = state.servers.iter_mut().find(|s| s.key == *key).filter(|s| !s.is_bad(now)) {
            let wait = BAD_FIRST.saturating_mul(1 << server.failures.min(8)).min(BAD_MOST);
            server.failures = server.failures.saturating_add(1);
            server.bad_until = Some(now + super::jitter(wait));
        }
        if state.current.as_ref() == Some(key) {
            state.current = None;
        }
    }

    /// The credentials were refused: perhaps the files have newer ones. True if they had.
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

    /// Loads the files if they were not, or are others now. True if so.
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
                tracing::info!(config = ?loaded, "credentials read");
                state.loaded = Some(loaded);
                state.error = None;
                state.clients.clear();
                self.list(&mut state);
                Ok(true)
            }
            Err(error) => {
                if state.error.as_ref().is_none_or(|(before, _)| *before != error) {
                    tracing::warn!(%error, keeps_old = state.loaded.is_some(), "cannot use the kubeconfig");
                }
                // A file that the kubeconfig names may come later while the kubeconfig stays as it is.
                let seen = if let ConfigError::Unreadable { path, .. } = &error { seen.and(path) } else { seen };
                state.error = Some((error.clone(), seen));
                // What was good goes on: the new file may be half written.
                if state.loaded.is_some() { Ok(false) } else { Err(error) }
            }
        }
    }

    /// Makes the list anew; what is known of a server that stays is kept.
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

/// The same for the same node and peer, else different.
fn spread(node: &str, peer: SocketAddr) -> u64 {
    let mut hasher = DefaultHasher::new();
    (node, peer).hash(&mut hasher);
    hasher.finish() >> 1
}
