//! The connection to the API server: its address and credentials, read again when their files change.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use mooring_edge::connection::{Options, service};
use mooring_edge::kubeconfig::{ConfigError, Loaded, Source};
use tower::util::BoxCloneService;
use tower::{BoxError, ServiceExt as _};

/// Who we say we are: audit logs and managedFields name the allocator by it.
const AGENT: &str = concat!("mooring-allocator/", env!("CARGO_PKG_VERSION"));
/// To establish a TCP connection.
const CONNECT: Duration = Duration::from_secs(3);
/// Files are looked at so often.
const LOOK_EVERY: Duration = Duration::from_secs(10);

type Service = BoxCloneService<Request<Full<Bytes>>, Response<Incoming>, BoxError>;

/// The way to the API server. Clones are the same one.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    service: Mutex<Service>,
    /// Connections that are kept open while nobody needs them.
    idle: usize,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    /// Connects with what `source` says; makes no connection before it is used.
    ///
    /// # Errors
    /// There is nothing to connect with (yet).
    pub async fn load(source: &Source, idle: usize) -> Result<(Self, Loaded), ConfigError> {
        let loaded = source.load().await?;
        let service = build(&loaded.config, idle)?;
        Ok((Self(Arc::new(Inner { service: Mutex::new(service), idle })), loaded))
    }

    /// Sends a request; connections are shared.
    pub(super) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, BoxError> {
        let service = self.0.service.lock().unwrap_or_else(PoisonError::into_inner).clone();
        service.oneshot(request).await
    }

    /// Takes changed files over, for ever.
    pub async fn keep_current(self, source: Source, mut loaded: Loaded) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if !loaded.changed() {
                continue;
            }
            let taken = match source.load().await {
                Ok(new) => build(&new.config, self.0.idle).map(|service| (new, service)),
                Err(error) => Err(error),
            };
            match taken {
                Ok((new, service)) => {
                    tracing::info!("the credentials have changed, and are used from now on");
                    *self.0.service.lock().unwrap_or_else(PoisonError::into_inner) = service;
                    loaded = new;
                }
                Err(error) => tracing::warn!(%error, "the credentials have changed, and cannot be used yet"),
            }
        }
    }
}

fn build(config: &kube::Config, idle: usize) -> Result<Service, ConfigError> {
    let options = Options { agent: AGENT, connect_timeout: CONNECT, idle };
    Ok(BoxCloneService::new(service(config.clone(), options)?))
}
