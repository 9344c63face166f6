//! The HTTPS prober: the view of a client that uses the API through the VIP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use mooring_agent::core::time::Time;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_rustls::TlsConnector;

use super::log::Log;
use super::{Error, Place, now};

/// The request to send, and how to connect.
#[derive(Clone, Debug)]
pub struct Target {
    /// The VIP and its port.
    pub address: SocketAddr,
    /// The name that the server's certificate must have.
    pub name: String,
    /// The path: `/readyz` or `/version`.
    pub path: String,
    /// The CA's certificates, PEM.
    pub ca: Vec<u8>,
    /// Certificates and key of the client, PEM; none for an anonymous client.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
    /// Whether one connection is kept as long as it works (true), or each request makes its own (false).
    pub keep: bool,
}

/// Time between the beginnings of two requests.
pub const PACE: Duration = Duration::from_millis(50);

/// A request without an answer after this time has failed.
pub const LIMIT: Duration = Duration::from_secs(1);

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// When it began: the connection's SYN, or the request on a kept connection.
    pub from: Time,
    /// When its answer was complete, or it failed.
    pub to: Time,
    /// The status, or why there is no status.
    pub result: Result<u16, String>,
}

impl Attempt {
    /// Whether the request succeeded.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.result.as_ref().is_ok_and(|status| (200..300).contains(status))
    }
}

/// An interval without success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The beginning of the last request that succeeded (without one, of the first request that failed).
    pub from: Time,
    /// When the first success after the interval was complete; without one, the end of the last failure.
    pub to: Time,
    /// The requests that failed.
    pub failed: Vec<Attempt>,
}

impl Outage {
    /// The maximum length of the interval.
    #[must_use]
    pub const fn length(&self) -> Duration {
        self.to.since(self.from)
    }
}

/// A running HTTPS prober; ends when dropped.
#[derive(Debug)]
pub struct Https {
    seen: Arc<Log<Vec<Attempt>>>,
    /// Closing it ends the loop.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<Result<(), Error>>>,
}

impl Https {
    /// Sends a request every 50 ms from inside `place`.
    ///
    /// # Errors
    /// [`Error::Tls`] when certificate, key or name cannot be used.
    pub fn start(place: &impl Place, target: Target) -> Result<Self, Error> {
        let tls = TlsConnector::from(Arc::new(config(&target)?));
        let name = ServerName::try_from(target.name.clone())
            .map_err(|e| Error::Tls { what: "the server's name", detail: e.to_string() })?;
        let asker = Asker { target: Arc::new(target), tls, name };
        let seen = Arc::new(Log::<Vec<Attempt>>::default());
        let log = Arc::clone(&seen);
        let (stop, stopped) = oneshot::channel();
        let thread = place.spawn_thread(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(Error::io("start a runtime"))?
                .block_on(async {
                    tokio::select! {
                        () = asker.run(&log) => {}
                        _ = stopped => {}
                    }
                });
            Ok(())
        });
        Ok(Self { seen, stop: Some(stop), thread: Some(thread) })
    }

    /// The finished requests so far, by their beginning.
    #[must_use]
    pub fn attempts(&self) -> Vec<Attempt> {
        let mut all = self.seen.read().clone();
        all.sort_by_key(|a| a.from);
        all
    }

    /// Waits for the first success of a request that began at or after `after`; answers when that request was complete.
    ///
    /// # Errors
    /// [`Error::Waited`].
    pub async fn success_after(&self, after: Time, limit: Duration) -> Result<Time, Error> {
        self.seen
            .wait("an answer by HTTPS", limit, |all| all.iter().find(|a| a.from >= after && a.ok()).map(|a| a.to))
            .await
    }

    /// Stops and returns the record; requests under way are left out.
    ///
    /// # Errors
    /// The failure of the thread, if it failed.
    pub fn finish(mut self) -> Result<Vec<Attempt>, Error> {
        self.end()?;
        Ok(self.attempts())
    }

    fn end(&mut self) -> Result<(), Error> {
        drop(self.stop.take());
        self.thread.take().map_or(Ok(()), |thread| thread.join().map_err(|_| Error::Panicked("https"))?)
    }
}

impl Drop for Https {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "the HTTPS prober failed");
        }
    }
}

/// The intervals without success in a record sorted by beginning.
#[must_use]
pub fn outages(attempts: &[Attempt]) -> Vec<Outage> {
    let mut found = Vec::new();
    let mut last_good: Option<Time> = None;
    let mut open: Option<Outage> = None;
    for attempt in attempts {
        if attempt.ok() {
            if let Some(mut outage) = open.take() {
                outage.to = attempt.to;
                found.push(outage);
            }
            last_good = Some(attempt.from);
        } else {
            let from = last_good.unwrap_or(attempt.from);
            let outage = open.get_or_insert_with(|| Outage { from, to: attempt.to, failed: Vec::new() });
            outage.to = attempt.to;
            outage.failed.push(attempt.clone());
        }
    }
    found.extend(open);
    found
}

#[derive(Clone)]
struct Asker {
    target: Arc<Target>,
    tls: TlsConnector,
    name: ServerName<'static>,
}

type Connection = SendRequest<Empty<Bytes>>;

impl Asker {
    async fn run(&self, log: &Arc<Log<Vec<Attempt>>>) {
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut tasks = JoinSet::new();
        let mut kept = None;
        loop {
            pace.tick().await;
            if self.target.keep {
                let attempt = self.attempt(&mut kept).await;
                log.change(|all| all.push(attempt));
            } else {
                // Requests overlap: a request that hangs must not hide that the next one would succeed.
                let (asker, log) = (self.clone(), Arc::clone(log));
                tasks.spawn(async move {
                    let attempt = asker.attempt(&mut None).await;
                    log.change(|all| all.push(attempt));
                });
                while tasks.try_join_next().is_some() {}
            }
        }
    }

    /// Sends one request, on the connection in `kept` if there is one; leaves a connection there only after success.
    async fn attempt(&self, kept: &mut Option<Connection>) -> Attempt {
        let from = now();
        let old = kept.take().filter(|c| !c.is_closed());
        let result = match timeout(LIMIT, self.ask(old)).await {
            Ok(Ok((status, connection))) => {
                *kept = self.target.keep.then_some(connection);
                Ok(status)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(format!("no answer within {LIMIT:?}")),
        };
        Attempt { from, to: now(), result }
    }

    async fn ask(&self, connection: Option<Connection>) -> Result<(u16, Connection), String> {
        let mut connection = match connection {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        connection.ready().await.map_err(|e| format!("connection: {e}"))?;
        let request = http::Request::get(&self.target.path)
            .header(http::header::HOST, &self.target.name)
            .header(http::header::USER_AGENT, "mooring-prober")
            .body(Empty::new())
            .map_err(|e| format!("request: {e}"))?;
        let answer = connection.send_request(request).await.map_err(|e| format!("request: {e}"))?;
        let status = answer.status().as_u16();
        answer.into_body().collect().await.map_err(|e| format!("answer: {e}"))?;
        Ok((status, connection))
    }

    async fn connect(&self) -> Result<Connection, String> {
        let stream = TcpStream::connect(self.target.address).await.map_err(|e| format!("connect: {e}"))?;
        let stream = self.tls.connect(self.name.clone(), stream).await.map_err(|e| format!("TLS: {e}"))?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|e| format!("HTTP: {e}"))?;
        // This task ends with the sender; the request sees the connection's error as well.
        tokio::spawn(connection);
        Ok(sender)
    }
}

fn config(target: &Target) -> Result<ClientConfig, Error> {
    fn bad<E: ToString>(what: &'static str) -> impl FnOnce(E) -> Error {
        move |error| Error::Tls { what, detail: error.to_string() }
    }
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&target.ca) {
        roots.add(certificate.map_err(bad("the CA"))?).map_err(bad("the CA"))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(bad("the protocol version"))?
        .with_root_certificates(roots);
    let Some((certificates, key)) = &target.client else {
        return Ok(builder.with_no_client_auth());
    };
    let certificates = CertificateDer::pem_slice_iter(certificates)
        .collect::<Result<_, _>>()
        .map_err(bad("the client's certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(bad("the client's key"))?;
    builder.with_client_auth_cert(certificates, key).map_err(bad("the client's certificate"))
}
