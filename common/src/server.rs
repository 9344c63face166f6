//! Pages over HTTP: metrics and health.
//!
//! Any host on the network may connect. Each connection serves one request, takes little memory and has a deadline.
//! Open
//! connections never keep a new one out ([`Slots`]).

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

use crate::slots::Slots;
use crate::values::Listen;

/// The limit of simultaneous connections.
pub const CONNECTIONS: usize = 32;
/// The time limit for a request's header.
const HEADER_DEADLINE: Duration = Duration::from_secs(3);
/// The time limit of a whole connection.
const DEADLINE: Duration = Duration::from_secs(10);
/// The wait before the next try to listen, or to accept when no file descriptor is left.
const RETRY: Duration = Duration::from_secs(5);
/// The minimum that hyper accepts.
const BUFFER: usize = 8192;

/// The server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot serve metrics and health at {listen}: {source}; does another program listen there? --metrics sets another place"
)]
pub struct ListenError {
    listen: Listen,
    source: io::Error,
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// HTTP status.
    pub status: StatusCode,
    /// `Content-Type`.
    pub kind: &'static str,
    /// The text.
    pub body: String,
}

/// Plain text.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// Metrics.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Page {
    /// Plain text.
    #[must_use]
    pub fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self { status, kind: TEXT, body: body.into() }
    }

    /// The page of a check: a success if nothing failed.
    #[must_use]
    pub fn check(failures: &[String]) -> Self {
        if failures.is_empty() {
            Self::text(StatusCode::OK, "ok\n")
        } else {
            Self::text(StatusCode::SERVICE_UNAVAILABLE, failures.join("\n") + "\n")
        }
    }

    /// Metrics, or why there are none.
    #[must_use]
    pub fn metrics(page: Result<String, std::fmt::Error>) -> Self {
        match page {
            Ok(body) => Self { status: StatusCode::OK, kind: OPEN_METRICS, body },
            Err(error) => Self::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        }
    }
}

/// A source of pages.
pub trait Pages: Send + Sync + 'static {
    /// The page at this path.
    fn page(&self, path: &str) -> Page;
}

/// The server, listening.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
}

/// Serves for ever, and retries while the address is taken: the program works without pages too. Ends when dropped.
pub async fn serve(listen: Listen, pages: Arc<impl Pages>) -> Infallible {
    let mut told = false;
    loop {
        match Server::listen(listen) {
            Ok(server) => match server.serve(&pages).await {},
            // Another program may have the port for ever: told once.
            Err(error) if !std::mem::replace(&mut told, true) => {
                tracing::warn!(%error, "metrics and health are not served; retrying");
            }
            Err(_) => {}
        }
        tokio::time::sleep(RETRY).await;
    }
}

impl Server {
    /// Begins to listen. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When the address is taken, or is not an address of this host.
    pub fn listen(listen: Listen) -> Result<Self, ListenError> {
        let listener = match listen {
            Listen::At(address) => bind(address),
            // An IPv6 socket also accepts IPv4; a kernel without IPv6 has no such socket.
            Listen::Any(port) => match bind(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)) {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port))
                }
                other => other,
            },
        };
        listener.map(|listener| Self { listener }).map_err(|source| ListenError { listen, source })
    }

    /// The address that the server listens on.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves for ever. Ends when dropped, with all connections.
    pub async fn serve(self, pages: &Arc<impl Pages>) -> Infallible {
        let mut slots = Slots::new(CONNECTIONS);
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => slots.spawn(connection(stream, Arc::clone(pages))),
                Err(error) => {
                    tracing::warn!(%error, "connection to metrics and health not accepted; retrying");
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

async fn connection(stream: TcpStream, pages: Arc<impl Pages>) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let page = if request.method() == Method::GET || request.method() == Method::HEAD {
            pages.page(request.uri().path())
        } else {
            Page::text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n")
        };
        async move { Ok::<_, Infallible>(respond(page)) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_DEADLINE).keep_alive(false).max_buf_size(BUFFER);
    match tokio::time::timeout(DEADLINE, http.serve_connection(TokioIo::new(stream), answer)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection to metrics and health failed"),
        Err(_) => tracing::debug!("a connection to metrics and health took too long"),
    }
}

fn respond(page: Page) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(page.body)));
    *response.status_mut() = page.status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(page.kind));
    response
}
