//! The connection to the API server: its address and credentials, read again when their files change.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use mooring_common::api::client::{self, BodyError, Head, body, may_be_sent};
use mooring_common::api::returned::Returned;
use mooring_common::api::{Call, Observe, Refusal};
use mooring_common::connection::Options;
use mooring_common::kubeconfig::{ConfigError, Loaded, Source};
use mooring_common::text::{chain, cut};
use tokio::time::{Instant, timeout_at};

use super::error::{ApiError, LONGEST};

/// The user agent: audit logs and managed fields show the allocator by this name.
const AGENT: &str = concat!("mooring-allocator/", env!("CARGO_PKG_VERSION"));
/// Time limit for a TCP connection.
const CONNECT: Duration = Duration::from_secs(3);
/// Interval at which files are checked.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The longest answer that is accepted, in bytes. An object is at most some MiB; a page of a list that is longer is asked for in
/// smaller pages.
pub(super) const LONGEST_ANSWER: usize = 16 << 20;

/// Wait after throttling, if the API server names no time.
const THROTTLED: Duration = Duration::from_secs(1);

/// The connection to the API server. Clones share the same connection.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    current: Mutex<Current>,
    /// Number of idle connections that are kept open.
    idle: usize,
    returned: Returned,
}

/// What was read last.
#[derive(Clone)]
struct Current {
    client: client::Client,
    /// The API server's URL, for messages.
    server: Arc<str>,
}

/// How long an answer may take, and when that time is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    within: Duration,
    until: Instant,
}

impl Limit {
    pub(super) fn new(within: Duration) -> Self {
        Self { within, until: Instant::now() + within }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    /// Prepares a connection as `source` describes; connects only when first used.
    ///
    /// # Errors
    /// There is no cluster to connect to (yet).
    pub async fn load(source: &Source, idle: usize) -> Result<(Self, Loaded), ConfigError> {
        let loaded = source.load().await?;
        let current = Mutex::new(build(&loaded.config, idle)?);
        Ok((Self(Arc::new(Inner { current, idle, returned: Returned::default() })), loaded))
    }

    /// Makes a call. Returns the answer's body.
    ///
    /// # Errors
    /// The API server refuses or cannot be reached, or the complete answer does not arrive within `deadline`.
    pub async fn call(&self, call: &Call, deadline: Duration, observe: &impl Observe) -> Result<Bytes, ApiError> {
        let began = Instant::now();
        let limit = Limit::new(deadline);
        let result = loop {
            let result = self.once(call, limit).await;
            match &result {
                // The server asks for a later retry.
                Err(ApiError::Status { code: 429, retry_after, .. }) => {
                    let next = Instant::now() + retry_after.unwrap_or(THROTTLED);
                    if next >= limit.until {
                        break result;
                    }
                    observe.on_call(call.verb, call.resource, "throttled", began.elapsed());
                    tokio::time::sleep_until(next).await;
                }
                _ => break result,
            }
        };
        observe.on_call(
            call.verb,
            call.resource,
            result.as_ref().map_or_else(ApiError::category, |_| "ok"),
            began.elapsed(),
        );
        result
    }

    async fn once(&self, call: &Call, limit: Limit) -> Result<Bytes, ApiError> {
        let response = self.open(call, limit).await?;
        let body = timeout_at(limit.until, body(response, LONGEST_ANSWER, || {}));
        body.await.map_err(|_| ApiError::Timeout(limit.within))?.map_err(|error| match error {
            BodyError::TooLong(longest) => ApiError::TooLong(longest),
            BodyError::Broken(_) => ApiError::Lost(chain(&error, LONGEST)),
        })
    }

    /// Waits so long before another call, or until just after the API server answers again.
    pub(super) async fn pause(&self, wait: Duration) {
        self.0.returned.pause(wait).await;
    }

    /// Ends a moment after the API server was away for long and answers again.
    pub(super) async fn returned(&self) {
        self.0.returned.after_long().await;
    }

    /// Sends a request. Returns the head of a good answer, whose body is still to come.
    pub(super) async fn open(&self, call: &Call, limit: Limit) -> Result<Head, ApiError> {
        let began = Instant::now();
        let opened = timeout_at(limit.until, self.send(call)).await.unwrap_or(Err(ApiError::Timeout(limit.within)));
        match &opened {
            Ok(_) => self.0.returned.answered(),
            // An API server that starts says that it is not ready yet.
            Err(
                ApiError::Status { code: 429 | 500.., .. }
                | ApiError::NotSent(_)
                | ApiError::Lost(_)
                | ApiError::Timeout(_),
            ) => self.0.returned.none_answered(began),
            Err(_) => {}
        }
        opened
    }

    async fn send(&self, call: &Call) -> Result<Head, ApiError> {
        let request = call.request().map_err(|error| ApiError::NotSent(error.to_string()))?;
        let Current { client, server } = self.0.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let response = client.send(request).await.map_err(|error| {
            let text = cut(&format!("{server}: {}", chain(&*error, LONGEST)), LONGEST);
            if may_be_sent(&error) { ApiError::Lost(text) } else { ApiError::NotSent(text) }
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let headers = response.headers().clone();
        // An error without a body is still an error.
        let body = body(response, LONGEST_ANSWER, || {}).await.unwrap_or_default();
        Err(Refusal::new(status.as_u16(), &headers, &body).into())
    }

    /// Loads changed files, for ever.
    pub async fn keep_current(self, source: Source, mut loaded: Loaded) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if !loaded.changed() {
                continue;
            }
            let taken = match source.load().await {
                Ok(new) => build(&new.config, self.0.idle).map(|current| (new, current)),
                Err(error) => Err(error),
            };
            match taken {
                Ok((new, current)) => {
                    tracing::info!("credentials changed; the new ones are used from now on");
                    *self.0.current.lock().unwrap_or_else(PoisonError::into_inner) = current;
                    loaded = new;
                }
                Err(error) => tracing::warn!(%error, "credentials changed and cannot be used; the old ones stay"),
            }
        }
    }
}

fn build(config: &kube::Config, idle: usize) -> Result<Current, ConfigError> {
    let client = client::Client::new(config.clone(), Options { agent: AGENT, connect_timeout: CONNECT, idle })?;
    Ok(Current { client, server: config.cluster_url.to_string().into() })
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::SocketAddr;

    use mooring_common::api::Verb;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    /// Longer than any test takes.
    const FOR_EVER: Duration = Duration::from_secs(20);

    /// A client of the API server that listens there.
    pub async fn client_to(address: SocketAddr) -> Client {
        let path = std::env::temp_dir().join(format!("mooring-client-{}-{}", std::process::id(), address.port()));
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: k\n  cluster: {{server: 'http://{address}'}}\n\
             contexts:\n- name: c\n  context: {{cluster: k, user: u}}\nusers:\n- name: u\n  user: {{token: t}}\n"
        );
        std::fs::write(&path, text).unwrap();
        let loaded = Client::load(&Source::File(path.clone()), 1).await;
        std::fs::remove_file(&path).unwrap();
        loaded.unwrap().0
    }

    /// Whoever waits for an API server that hangs is told when it answers again, also where nothing but watches was being opened.
    #[tokio::test]
    async fn a_watch_that_is_not_opened_in_time_shows_that_the_server_is_away() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = client_to(listener.local_addr().unwrap()).await;
        let call = Call::read(Verb::Watch, "pods", "/api/v1/pods?watch=1".into());
        let hung = client.open(&call, Limit::new(Duration::from_millis(20))).await;
        assert!(matches!(hung, Err(ApiError::Timeout(_))), "{:?}", hung.err());
        tokio::spawn(async move {
            loop {
                let (mut tcp, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    let _ = tcp.read(&mut [0; 8192]).await;
                    let _ = tcp.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await;
                });
            }
        });
        let waits = timeout(FOR_EVER, client.pause(FOR_EVER * 2));
        let (waited, answered) = tokio::join!(waits, client.open(&call, Limit::new(FOR_EVER)));
        assert!(answered.is_ok() && waited.is_ok());
    }
}
