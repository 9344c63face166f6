//! The API of the cluster: the same for the control plane's VIPs and for those of Services.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::api::{Events, Observe, Servers, Slices, Source, Verb};
use crate::ops::Ops;
use crate::settings::{Credentials, Settings};

/// Where the pod's service account is, if it has one.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// The API servers and the sender of Events. Clones share both; dropping the last clone ends their tasks.
#[derive(Clone)]
pub struct Cluster {
    /// The servers.
    pub servers: Servers,
    /// Sends Events.
    pub events: Arc<Events>,
    slices: Arc<Slices>,
}

impl Cluster {
    /// Starts to follow where the API servers are.
    #[must_use]
    pub fn start(settings: &Settings, ops: &Arc<Ops>) -> Self {
        let servers = Servers::new(api_settings(settings), Arc::new(Counted(ops.clone())));
        let slices = Slices::follow(&servers);
        let events = Events::start(servers.clone(), settings.node_name.clone());
        Self { servers, events: Arc::new(events), slices: Arc::new(slices) }
    }

    /// All API servers of the cluster as last known, the node's own among them.
    #[must_use]
    pub fn listed(&self) -> watch::Receiver<Vec<SocketAddr>> {
        self.slices.subscribe()
    }
}

fn api_settings(settings: &Settings) -> crate::api::Settings {
    let file = Source::File(settings.api.kubeconfig.clone());
    let source = match settings.api.credentials {
        Credentials::Kubeconfig => file,
        Credentials::InCluster => Source::InCluster,
        Credentials::Auto => {
            let in_pod = std::path::Path::new(SERVICE_ACCOUNT).exists() && !settings.api.kubeconfig.is_file();
            if in_pod { Source::InCluster } else { file }
        }
    };
    let mut api = crate::api::Settings::control_plane(source, settings.node_name.clone());
    // A worker has no API server.
    api.local = settings.control_plane().then(|| settings.loopback()).flatten();
    api.listed.clone_from(&settings.api.servers);
    api.server_name = Some(settings.health.server_name.clone());
    api
}

/// Counts calls.
struct Counted(Arc<Ops>);

impl Observe for Counted {
    fn on_call(&self, verb: Verb, _: &'static str, outcome: &'static str, latency: Duration) {
        self.0.metrics.api_request(verb, outcome, latency);
    }
}
