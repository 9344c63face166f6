//! `/metrics`, `/livez` and `/readyz` over HTTP.
//!
//! Anybody on the network may connect: one request a connection, little memory for each, a deadline for all of it, and
//! a newcomer is never kept out by those who hold on ([`Slots`]).

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use super::Ops;
use super::slots::Slots;
use crate::settings::Listen;

/// Connections at once.
const CONNECTIONS: usize = 32;
/// For a request's header to arrive.
const HEADER_DEADLINE: Duration = Duration::from_secs(3);
/// For a whole connection.
const DEADLINE: Duration = Duration::from_secs(10);
/// Before the next try to listen, or to accept when no file descriptor is left.
const RETRY: Duration = Duration::from_secs(5);
/// The least that hyper takes.
const BUFFER: usize = 8192;

/// The server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot serve metrics and health at {listen}: {source}; is another agent or kube-vip there? --metrics sets another place"
)]
pub struct ListenError {
    listen: Listen,
    source: io::Error,
}

/// The server, listening.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
}

/// Serves for ever, and tries again while the address is taken: that is no reason to carry no VIP. Ends when dropped.
pub async fn serve(listen: Listen, ops: Arc<Ops>) -> Infallible {
    loop {
        match Server::listen(listen) {
            Ok(server) => match server.serve(&ops).await {},
            Err(error) => tracing::warn!(%error, "no metrics yet"),
        }
        tokio::time::sleep(RETRY).await;
    }
}

impl Server {
    /// Begins to listen. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When the address is taken, or is none of this host's.
    pub fn listen(listen: Listen) -> Result<Self, ListenError> {
        let listener = match listen {
            Listen::At(address) => bind(address),
            // An IPv6 socket takes IPv4 as well; a kernel without IPv6 has none.
            Listen::Any(port) => match bind(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)) {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port))
                }
                other => other,
            },
        };
        listener.map(|listener| Self { listener }).map_err(|source| ListenError { listen, source })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves for ever. Ends when dropped, with all connections.
    pub async fn serve(self, ops: &Arc<Ops>) -> Infallible {
        let mut slots = Slots::new(CONNECTIONS);
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => slots.spawn(connection(stream, Arc::clone(ops))),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection to metrics and health");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(64)?;
    TcpListener::from_std(socket.into())
}

async fn connection(stream: TcpStream, ops: Arc<Ops>) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let response = answer(request.method(), request.uri().path(), &ops);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_DEADLINE).keep_alive(false).max_buf_size(BUFFER);
    match tokio::time::timeout(DEADLINE, http.serve_connection(TokioIo::new(stream), answer)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection to metrics and health failed"),
        Err(_) => tracing::debug!("a connection to metrics and health took too long"),
    }
}

fn answer(method: &Method, path: &str, ops: &Ops) -> Response<Full<Bytes>> {
    const TEXT: &str = "text/plain; charset=utf-8";
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    if method != Method::GET && method != Method::HEAD {
        return respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET only\n".into());
    }
    let check = |failures: Vec<String>| {
        if failures.is_empty() {
            respond(StatusCode::OK, TEXT, "ok\n".into())
        } else {
            respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, failures.join("\n") + "\n")
        }
    };
    match path {
        "/livez" => check(ops.liveness.stale().iter().map(ToString::to_string).collect()),
        "/readyz" => check(ops.readiness.waits()),
        "/metrics" => match ops.metrics.page((ops.clock)()) {
            Ok(page) => respond(StatusCode::OK, OPEN_METRICS, page),
            Err(error) => respond(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
        },
        "/" => respond(StatusCode::OK, TEXT, "mooring-agent: /metrics /livez /readyz\n".into()),
        _ => respond(StatusCode::NOT_FOUND, TEXT, "there is /metrics, /livez and /readyz\n".into()),
    }
}

fn respond(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::core::time::Time;

    fn start(ops: &Arc<Ops>) -> SocketAddr {
        // Port 0 is refused as a setting; here the kernel chooses.
        let server = Server::listen(Listen::At(SocketAddr::from(([127, 0, 0, 1], 0)))).unwrap();
        let address = server.address().unwrap();
        let ops = Arc::clone(ops);
        tokio::spawn(async move { server.serve(&ops).await });
        address
    }

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn livez_fails_when_a_loop_stands_still() {
        static NOW: AtomicU64 = AtomicU64::new(0);
        let ops = Ops::new(|| Time::from_nanos(NOW.load(Ordering::Relaxed)), "cp1");
        let heart = ops.liveness.watch("core", Duration::from_secs(5));
        let address = start(&ops);
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));
        NOW.store(6_000_000_000, Ordering::Relaxed);
        let answer = get(address, "/livez").await;
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.contains(r#"the loop "core" has not gone round for 6s"#),
            "{answer}"
        );
        heart.beat();
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn readyz_says_what_is_waited_for_and_metrics_are_open_metrics() {
        let ops = Ops::new(super::super::boottime, "cp1");
        ops.readiness.set("api", Some("waits for /etc/kubernetes/admin.conf".into()));
        let address = start(&ops);
        let answer = get(address, "/readyz").await;
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.ends_with("api: waits for /etc/kubernetes/admin.conf\n"),
            "{answer}"
        );
        ops.readiness.set("api", None);
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        let answer = get(address, "/metrics").await;
        assert!(answer.contains("openmetrics-text") && answer.ends_with("# EOF\n"), "{answer}");
        assert!(get(address, "/other").await.starts_with("HTTP/1.1 404"));
    }

    #[tokio::test]
    async fn those_who_hold_on_keep_nobody_out() {
        let ops = Ops::new(super::super::boottime, "cp1");
        let address = start(&ops);
        let mut silent = Vec::new();
        for _ in 0..3 * CONNECTIONS {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));
        // The first ones were sent away.
        assert_eq!(silent[0].read(&mut [0; 1]).await.unwrap_or(0), 0);
    }

    #[tokio::test]
    async fn a_taken_address_is_named() {
        let ops = Ops::new(super::super::boottime, "cp1");
        let address = start(&ops);
        let error = Server::listen(Listen::At(address)).unwrap_err().to_string();
        assert!(error.contains(&address.to_string()) && error.contains("--metrics"), "{error}");
    }
}
