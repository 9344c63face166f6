//! One client for one API server.

use std::time::Duration;

use http::{HeaderValue, Uri};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use tower::{BoxError, ServiceBuilder};

use super::error::cut;
use super::kubeconfig::ConfigError;

/// Who we say we are.
const AGENT: &str = concat!("mooring-agent/", env!("CARGO_PKG_VERSION"));
/// Unused connections are closed after this.
const IDLE: Duration = Duration::from_secs(90);
/// A silent connection is tried after this, then every [`PROBE_EVERY`]: a watch on a host that died without a word.
const KEEPALIVE: Duration = Duration::from_secs(5);
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// What was sent and not acknowledged for so long breaks the connection.
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);

/// A client for the API server at `url`, whose certificate must be for `name` (None: for the host in `url`).
///
/// It makes no connection before it is used, does not retry, and keeps at most two idle connections.
pub(crate) fn build(
    config: &kube::Config,
    url: &Uri,
    name: Option<&str>,
    connect_timeout: Duration,
) -> Result<kube::Client, ConfigError> {
    let unusable = |error: kube::Error| ConfigError::Credentials { what: cut(&error.to_string(), 200) };
    let mut config = config.clone();
    config.cluster_url = url.clone();
    config.tls_server_name = name.map(str::to_owned);
    // Audit logs and managedFields name the agent by it.
    config.headers.push((http::header::USER_AGENT, HeaderValue::from_static(AGENT)));
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(connect_timeout));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(PROBE_EVERY));
    tcp.set_keepalive_retries(Some(3));
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    let tls = config.rustls_https_connector_with_connector(tcp).map_err(unusable)?;
    let http = HttpClient::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(2)
        .build::<_, Body>(tls);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(unusable)?)
        .layer(config.extra_headers_layer().map_err(unusable)?)
        .map_err(BoxError::from)
        .service(http);
    Ok(kube::Client::new(service, "default"))
}
