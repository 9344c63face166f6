//! The API servers of the other nodes: the `EndpointSlices` of `default/kubernetes`, remembered.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::ready;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::ApiError;
use super::race::Limits;
use super::servers::Servers;
use super::typed::{Follow, Followed, QUIET};

/// Wait after a failure: at first, and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// For each call.
const DEADLINE: Duration = Duration::from_secs(10);
/// More API servers than this no cluster has.
const MOST: usize = 32;

/// Follows them in a task of its own, and tells [`Servers`]. Dropped, it ends.
#[derive(Debug)]
pub struct Slices {
    task: JoinHandle<()>,
    peers: watch::Receiver<Vec<SocketAddr>>,
}

impl Slices {
    /// Begins to follow. Needs a runtime.
    #[must_use]
    pub fn follow(servers: &Servers) -> Self {
        let (tx, peers) = watch::channel(Vec::new());
        let follow = Follow {
            servers: servers.clone(),
            path: "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices".into(),
            resource: "endpointslices.discovery.k8s.io",
            what: "the `EndpointSlices` of default/kubernetes".into(),
            fields: None,
            labels: Some("kubernetes.io/service-name=kubernetes".into()),
            page: None,
            limits: Limits::within(DEADLINE),
            backoff: BACKOFF,
            quiet: QUIET,
            relist: false,
            kick: Arc::new(Notify::new()),
        };
        let servers = servers.clone();
        let task = tokio::spawn(async move {
            let mut slices: BTreeMap<String, Vec<SocketAddr>> = BTreeMap::new();
            let mut forbidden = false;
            follow
                .run(move |followed| {
                    match followed {
                        Followed::Listed(all) => {
                            slices = all.iter().map(|s| (name(s), addresses(s))).collect();
                            forbidden = false;
                        }
                        Followed::Applied(slice) => {
                            slices.insert(name(&slice), addresses(&slice));
                        }
                        Followed::Deleted(slice) => {
                            slices.remove(&name(&slice));
                        }
                        Followed::Alive => return ready(true).boxed(),
                        Followed::Lost(error @ ApiError::Forbidden { .. }) => {
                            if !std::mem::replace(&mut forbidden, true) {
                                tracing::warn!(%error, "EndpointSlices of default/kubernetes cannot be read; only the API servers of the settings are used");
                            }
                            return ready(true).boxed();
                        }
                        Followed::Lost(error) => {
                            tracing::debug!(%error, "watch of the EndpointSlices of default/kubernetes failed; retrying");
                            return ready(true).boxed();
                        }
                    }
                    let mut all: Vec<_> = slices.values().flatten().copied().collect();
                    all.sort_unstable();
                    all.dedup();
                    all.truncate(MOST);
                    // An empty list is useless: the remembered servers are better.
                    if !all.is_empty() && *tx.borrow() != all {
                        tracing::info!(servers = ?all, "API servers of the cluster changed");
                        servers.set_peers(all.clone());
                        tx.send_replace(all);
                    }
                    ready(true).boxed()
                })
                .await;
        });
        Self { task, peers }
    }

    /// All API servers of the cluster as last known, the node's own among them.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Vec<SocketAddr>> {
        self.peers.clone()
    }
}

impl Drop for Slices {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn name(slice: &EndpointSlice) -> String {
    slice.metadata.name.clone().unwrap_or_default()
}

/// The addresses that an API server may have; what else stands there is left out.
#[must_use]
pub fn addresses(slice: &EndpointSlice) -> Vec<SocketAddr> {
    let ports = slice.ports.as_deref().unwrap_or_default();
    let https = ports.iter().find(|p| p.name.as_deref() == Some("https")).or_else(|| ports.first());
    let Some(port) = https.and_then(|p| p.port).and_then(|p| u16::try_from(p).ok()).filter(|p| *p != 0) else {
        return Vec::new();
    };
    let all = slice.endpoints.iter().flatten().flat_map(|endpoint| &endpoint.addresses);
    all.filter_map(|text| text.parse().ok()).filter(is_a_hosts).map(|ip| SocketAddr::new(ip, port)).collect()
}

/// One other host may have it, whichever way it is written.
fn is_a_hosts(ip: &IpAddr) -> bool {
    let ip = ip.to_canonical();
    let everybody = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast() || ip.octets()[0] == 0);
    !ip.is_unspecified() && !ip.is_multicast() && !ip.is_loopback() && !everybody
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_the_api_server_writes_and_leaves_the_rest() {
        let slice: EndpointSlice = serde_json::from_str(
            r#"{"addressType":"IPv4","apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"kubernetes"},
            "endpoints":[{"addresses":["192.0.2.1"],"conditions":{"ready":true}},{"addresses":["0.0.0.0","nonsense","::ffff:127.0.0.1","255.255.255.255","192.0.2.2"]}],
            "ports":[{"name":"https","port":6443,"protocol":"TCP"}]}"#,
        )
        .unwrap();
        let all: Vec<String> = addresses(&slice).iter().map(ToString::to_string).collect();
        assert_eq!(all, ["192.0.2.1:6443", "192.0.2.2:6443"]);
        assert_eq!(addresses(&EndpointSlice { ports: None, ..slice }), []);
    }
}
