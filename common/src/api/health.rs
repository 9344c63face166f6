//! Whether API servers are ready: `/readyz`, with the CA and the client certificate.
//!
//! A probe goes to one API server only. Its connection is kept for the next probe, and dropped after a failure.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http::Uri;
use tokio::time::{Instant, timeout};

use super::client::body;
use super::servers::{Key, Servers};
use super::{Client, Failure, Verb};
use crate::kubeconfig::ConfigError;
use crate::text::{chain, cut};

/// The path where kube-apiserver reports whether it is ready for requests.
const READYZ: &str = "/readyz";
/// The answer of `/readyz` lists some hundred checks, a line each.
const LONGEST: usize = 64 << 10;

/// How long an API server may take to answer whether it is there.
const THERE: Duration = Duration::from_secs(2);

/// An API server is not ready.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HealthError {
    /// It did not answer.
    #[error("{server}: {failure}")]
    NoAnswer {
        /// Its URL.
        server: String,
        /// Why.
        failure: Failure,
    },
    /// The API server answered, and is not ready. 401 and 403 count as not ready: it cannot check credentials yet, or
    /// rejects ours.
    #[error("{server} is not ready ({code}): {what}")]
    NotReady {
        /// Its URL.
        server: String,
        /// HTTP status.
        code: u16,
        /// The checks that fail, or its words.
        what: String,
    },
    /// There are no usable credentials.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl HealthError {
    /// A short name, one of a fixed set: for metrics.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::NoAnswer { failure, .. } => failure.category(),
            Self::NotReady { .. } => "not_ready",
            Self::Config(_) => "config",
        }
    }
}

impl Servers {
    /// Asks the API server at `url` whether it is ready; a `url` without a path means its `/readyz`.
    pub async fn probe(&self, url: &Uri, limit: Duration) -> Result<(), HealthError> {
        self.look(false).await?;
        let mut parts = url.clone().into_parts();
        let path = parts.path_and_query.take().map_or_else(String::new, |path| path.to_string());
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
        let server = Uri::from_parts(parts).unwrap_or_else(|_| url.clone());
        let path = if path.len() > 1 { &path } else { READYZ };
        self.probe_key(&self.key(server), path, limit).await
    }

    /// Asks all peers at once; a peer without an answer within `limit` counts as not ready.
    pub async fn probe_peers(&self, limit: Duration) -> Vec<(IpAddr, bool)> {
        if self.look(false).await.is_err() {
            return self.peers().iter().map(|peer| (peer.ip(), false)).collect();
        }
        join_all(self.peers().into_iter().map(|peer: SocketAddr| async move {
            let ready = match self.key_at(peer) {
                Some(key) => self.probe_key(&key, READYZ, limit).await.is_ok(),
                None => false,
            };
            (peer.ip(), ready)
        }))
        .await
    }

    /// Whether an API server is there: a call had an answer from it within `recent`, or it answers a probe now, whatever
    /// it says. An API server that does not answer is not asked first for a while.
    pub(crate) async fn is_there(&self, key: &Key, recent: Duration) -> bool {
        if self.answered_within(key, recent) {
            return true;
        }
        if let Err(HealthError::NoAnswer { .. }) = self.probe_key(key, READYZ, THERE).await {
            self.bad(key);
            return false;
        }
        self.heard(key);
        true
    }

    async fn probe_key(&self, key: &Key, path: &str, limit: Duration) -> Result<(), HealthError> {
        let client = self.client(key)?;
        let began = Instant::now();
        let server = key.to_string();
        let result = match timeout(limit, ready(&client, path)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Ok((code, what)))) => Err(HealthError::NotReady { server, code, what }),
            Ok(Err(Err(failure))) => Err(HealthError::NoAnswer { server, failure }),
            Err(_) => Err(HealthError::NoAnswer { server, failure: Failure::Timeout(limit) }),
        };
        let outcome = result.as_ref().map_or_else(HealthError::category, |()| "ok");
        self.observer().on_call(Verb::Probe, "readyz", outcome, began.elapsed());
        result
    }
}

/// Ok: ready. The inner Ok: an answer with an error. The inner Err: no answer.
async fn ready(client: &Client, path: &str) -> Result<(), Result<(u16, String), Failure>> {
    let request = http::Request::get(path).body(Bytes::new());
    let request = request.map_err(|error| Err(Failure::Malformed(error.to_string())))?;
    let response = client.send(request).await.map_err(|error| Err(Failure::of(&*error)))?;
    let code = response.status();
    // Read to the end, so that the connection can be used again.
    let body = body(response, LONGEST, || {}).await.map_err(|error| Err(Failure::Broken(chain(&error, 200))))?;
    if code.is_success() { Ok(()) } else { Err(Ok((code.as_u16(), failing(&String::from_utf8_lossy(&body))))) }
}

/// The failing checks of `[+]ping ok`, `[-]etcd failed: reason withheld`, ...
fn failing(text: &str) -> String {
    let names = text.lines().filter_map(|line| line.strip_prefix("[-]")?.split_whitespace().next());
    let names: Vec<_> = names.collect();
    if names.is_empty() { cut(text, 200) } else { cut(&format!("{} failed", names.join(", ")), 200) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_checks_that_fail() {
        let text = "[+]ping ok\n[-]etcd failed: reason withheld\n[-]informer-sync failed: reason withheld\nreadyz check failed";
        assert_eq!(failing(text), "etcd, informer-sync failed");
        assert_eq!(failing("Unauthorized"), "Unauthorized");
    }
}
