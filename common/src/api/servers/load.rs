//! Loads the credentials, lists the API servers, and builds the client of each.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::time::Duration;

use http::Uri;
use tokio::time::Instant;

use super::{Key, Kind, Server, Servers, Settings, State};
use crate::api::Client;
use crate::connection::Options;
use crate::kubeconfig::{ConfigError, Source};

/// How often valid files are checked, at most.
const LOOK_EVERY: Duration = Duration::from_secs(2);

impl Servers {
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

    /// The credentials were refused: the files may have newer ones. True if they had.
    pub(crate) async fn renew(&self) -> bool {
        self.look(true).await.unwrap_or(false)
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

    /// The API server of this node: on loopback; or where `default/kubernetes` lists it, if that is another port.
    fn local(&self, state: &State) -> Option<Uri> {
        let loopback = self.0.settings.local.clone()?;
        let own = state.peers.iter().find(|peer| state.own.contains(&peer.ip()));
        let elsewhere = own.filter(|own| loopback.port_u16() != Some(own.port()));
        elsewhere.and_then(|own| format!("https://{own}").parse().ok()).or(Some(loopback))
    }

    /// Rebuilds the list; the state of a server that stays is kept.
    pub(super) fn list(&self, state: &mut State) {
        let Some(loaded) = &state.loaded else { return };
        let settings = &self.0.settings;
        let named = Key { url: loaded.config.cluster_url.clone(), name: loaded.config.tls_server_name.clone() };
        let mut wanted: Vec<(Kind, Key)> = Vec::new();
        if settings.listed.is_empty() {
            let peers = state.peers.iter().filter(|p| !state.own.contains(&p.ip()));
            let peers = peers.filter_map(|p| Some((Kind::Peer(spread(&settings.node, *p)), self.key_at(*p)?)));
            wanted.extend(self.local(state).map(|url| (Kind::Local, self.key(url))));
            let last = if matches!(settings.source, Source::InCluster) { Kind::Service } else { Kind::Named };
            wanted.push((last, named));
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
            let (failures, bad_until, answered) =
                known.map_or((0, None, None), |s| (s.failures, s.bad_until, s.answered));
            state.servers.push(Server { key, kind, failures, bad_until, answered });
        }
        let State { servers, clients, .. } = state;
        clients.retain(|key, _| servers.iter().any(|s| s.key == *key));
    }
}

/// A number that is equal for the same node and peer, and otherwise differs.
fn spread(node: &str, peer: SocketAddr) -> u64 {
    let mut hasher = DefaultHasher::new();
    (node, peer).hash(&mut hasher);
    hasher.finish() >> 1
}
