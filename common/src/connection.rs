//! Connections to an API server: kept open, and closed when the other end has vanished.

use std::time::Duration;

use http::{HeaderValue, Request, Response};
use hyper::body::{Body, Incoming};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::ConfigExt as _;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _};

use crate::kubeconfig::ConfigError;
use crate::text::cut;

/// Unused connections are closed after this.
const IDLE: Duration = Duration::from_secs(90);
/// A silent connection is probed after this, then every [`PROBE_EVERY`]: for a watch on a host that died silently.
const KEEPALIVE: Duration = Duration::from_secs(5);
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// If sent data is not acknowledged for this long, the connection breaks.
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);

/// Options of the connections.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The program's name in requests: audit logs and managedFields show it.
    pub agent: &'static str,
    /// The time limit for a TCP connection.
    pub connect_timeout: Duration,
    /// How many unused connections are kept open.
    pub idle: usize,
}

/// Sends requests to the API server of `config`, with its credentials. Makes no connection before it is used, and does not
/// retry.
///
/// # Errors
/// The credentials cannot be used.
pub fn service<B>(
    mut config: kube::Config,
    options: Options,
) -> Result<
    impl Service<Request<B>, Response = Response<Incoming>, Error = BoxError, Future: Send + 'static>
    + Clone
    + Send
    + Sync
    + 'static,
    ConfigError,
>
where
    B: Body<Data: Send, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let unusable = |error: kube::Error| ConfigError::Credentials { what: cut(&error.to_string(), 200) };
    config.headers.push((http::header::USER_AGENT, HeaderValue::from_static(options.agent)));
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(options.connect_timeout));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(PROBE_EVERY));
    tcp.set_keepalive_retries(Some(3));
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    let tls = config.rustls_https_connector_with_connector(tcp).map_err(unusable)?;
    let http = HttpClient::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(options.idle)
        .build::<_, B>(tls);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(unusable)?)
        .layer(config.extra_headers_layer().map_err(unusable)?)
        .map_err(BoxError::from)
        .service(http);
    Ok(service.map_err(BoxError::from))
}
