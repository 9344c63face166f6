//! How the API is reached: the same for the control plane's VIPs and for those of Services.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{Events, Observe, Servers, Slices, Source, Verb};
use crate::ops::{Ops, metrics};
use crate::settings::{Credentials, Settings};

/// Where the pod's service account is, if it has one.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// The API servers there are, and what is sent to them unasked. Clones are the same; with the last one all of it ends.
#[derive(Clone)]
pub struct Reach {
    /// The servers.
    pub servers: Servers,
    /// Sends Events.
    pub events: Arc<Events>,
    _slices: Arc<Slices>,
}

impl Reach {
    /// Begins to follow where the API servers are.
    #[must_use]
    pub fn start(settings: &Settings, ops: &Arc<Ops>) -> Self {
        let servers = Servers::new(reach(settings), Arc::new(Counted(ops.clone())));
        let slices = Slices::follow(&servers);
        let events = Events::start(servers.clone(), settings.node_name.clone());
        Self { servers, events: Arc::new(events), _slices: Arc::new(slices) }
    }
}

fn reach(settings: &Settings) -> crate::api::Settings {
    let file = Source::File(settings.api.kubeconfig.clone());
    let source = match settings.api.credentials {
        Credentials::Kubeconfig => file,
        Credentials::InCluster => Source::InCluster,
        Credentials::Auto => {
            let in_pod = std::path::Path::new(SERVICE_ACCOUNT).exists() && !settings.api.kubeconfig.is_file();
            if in_pod { Source::InCluster } else { file }
        }
    };
    let mut reach = crate::api::Settings::control_plane(source, settings.node_name.clone());
    // A worker has no API server.
    reach.local =
        settings.control_plane().then(|| format!("https://127.0.0.1:{}", settings.port).parse().ok()).flatten();
    reach.listed.clone_from(&settings.api.servers);
    reach.server_name = Some(settings.health.server_name.clone());
    reach
}

/// Counts calls.
struct Counted(Arc<Ops>);

impl Observe for Counted {
    fn on_call(&self, verb: Verb, outcome: &'static str, latency: Duration) {
        let verb = match verb {
            Verb::Get => metrics::Verb::Get,
            Verb::Probe => metrics::Verb::Probe,
            Verb::List => metrics::Verb::List,
            Verb::Watch => metrics::Verb::Watch,
            Verb::Create => metrics::Verb::Create,
            Verb::Update | Verb::Patch => metrics::Verb::Update,
        };
        let error = match outcome {
            "ok" => None,
            "timeout" => Some(metrics::ApiError::Timeout),
            "refused" | "unreachable" | "broken" => Some(metrics::ApiError::Connect),
            "tls" => Some(metrics::ApiError::Tls),
            "forbidden" | "unauthorized" => Some(metrics::ApiError::Denied),
            "not_found" | "gone" => Some(metrics::ApiError::Gone),
            "conflict" => Some(metrics::ApiError::Conflict),
            "server" | "not_ready" => Some(metrics::ApiError::Server),
            _ => Some(metrics::ApiError::Other),
        };
        self.0.metrics.api_request(verb, latency, error);
    }
}
