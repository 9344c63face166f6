//! One client for one API server.

use std::time::Duration;

use http::Uri;
use mooring_edge::connection::{Options, service};

use super::kubeconfig::ConfigError;

/// Who we say we are.
const AGENT: &str = concat!("mooring-agent/", env!("CARGO_PKG_VERSION"));

/// A client for the API server at `url`, whose certificate must be for `name` (None: for the host in `url`).
///
/// It makes no connection before it is used, does not retry, and keeps at most two idle connections.
pub(crate) fn build(
    config: &kube::Config,
    url: &Uri,
    name: Option<&str>,
    connect_timeout: Duration,
) -> Result<kube::Client, ConfigError> {
    let mut config = config.clone();
    config.cluster_url = url.clone();
    config.tls_server_name = name.map(str::to_owned);
    Ok(kube::Client::new(service(config, Options { agent: AGENT, connect_timeout, idle: 2 })?, "default"))
}
