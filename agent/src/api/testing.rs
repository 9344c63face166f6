//! API servers for tests: real TLS on loopback, a CA of their own, and answers made by a function.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::server::TlsStream;

use super::servers::{Servers, Settings};
use super::{Source, Verb};

pub(crate) type Answer = Response<BoxBody<Bytes, Infallible>>;

/// A CA, a directory for its files, and the calls that the observer was told of.
pub(crate) struct Cluster {
    ca: CertifiedIssuer<'static, KeyPair>,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) calls: Arc<Calls>,
}

#[derive(Default)]
pub(crate) struct Calls(pub(crate) Mutex<Vec<(Verb, &'static str)>>);

impl super::Observe for Calls {
    fn on_call(&self, verb: Verb, _: &'static str, outcome: &'static str, _: std::time::Duration) {
        self.0.lock().unwrap().push((verb, outcome));
    }
}

/// One API server. Dropped, it closes its port.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// `METHOD path` of what it was asked.
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) fn url(&self) -> http::Uri {
        format!("https://{}", self.address).parse().unwrap()
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { ca, dir: tempfile::tempdir().unwrap(), calls: Arc::default() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("admin.conf")
    }

    /// A kubeconfig as kubeadm writes it, with a token for a user.
    pub(crate) fn kubeconfig(&self, server: &str, token: &str) -> String {
        use std::fmt::Write;
        let ca = self.ca.pem();
        let mut pem = String::new();
        for line in ca.lines() {
            writeln!(pem, "{line}").unwrap();
        }
        std::fs::write(self.dir.path().join("ca.crt"), pem).unwrap();
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: k\n  cluster:\n    server: {server}\n    \
             certificate-authority: ca.crt\ncontexts:\n- name: c\n  context:\n    cluster: k\n    user: u\nusers:\n- name: u\n  user:\n    token: {token}\n"
        )
    }

    /// Client with these API servers, in this order.
    pub(crate) fn servers(&self, listed: Vec<http::Uri>) -> Servers {
        std::fs::write(self.path(), self.kubeconfig("https://192.0.2.1:6443", "secret-token")).unwrap();
        let settings = Settings { listed, ..Settings::control_plane(Source::File(self.path()), "cp1") };
        Servers::new(settings, self.calls.clone())
    }

    /// Starts one that answers with `answer`; its certificate is for `kubernetes`.
    pub(crate) async fn serve<F, Fut>(&self, answer: F) -> Server
    where
        F: Fn(Request<Bytes>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Answer> + Send + 'static,
    {
        let answer = Arc::new(answer);
        self.accept(move |tls, log| {
            let answer = answer.clone();
            async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let (log, answer) = (log.clone(), answer.clone());
                    async move {
                        let (parts, body) = request.into_parts();
                        let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
                        log.lock().unwrap().push(format!("{} {path}", parts.method));
                        let body = body.collect().await.unwrap().to_bytes();
                        Ok::<_, Infallible>(answer(Request::from_parts(parts, body)).await)
                    }
                });
                // Clients hang up: that is theirs to test.
                let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tls), service).await;
            }
        })
        .await
    }

    /// Starts one that answers every request with these bytes as they are. Then it closes the connection, or `hangs`.
    pub(crate) async fn bytes(&self, bytes: impl Into<Bytes>, hangs: bool) -> Server {
        let bytes: Bytes = bytes.into();
        self.accept(move |mut tls, log| {
            let bytes = bytes.clone();
            async move {
                let mut request = Vec::new();
                while !request.windows(4).any(|part| part == b"\r\n\r\n") {
                    let mut part = [0; 4096];
                    match tls.read(&mut part).await {
                        Ok(length) if length > 0 => request.extend_from_slice(&part[..length]),
                        _ => return,
                    }
                }
                let line = String::from_utf8_lossy(&request);
                log.lock().unwrap().push(line.split(" HTTP/").next().unwrap_or_default().to_owned());
                let _ = tls.write_all(&bytes).await;
                let _ = tls.flush().await;
                if hangs {
                    std::future::pending::<()>().await;
                }
            }
        })
        .await
    }

    /// Starts one that does this with each connection; its certificate is for `kubernetes`.
    async fn accept<F, Fut>(&self, serve: F) -> Server
    where
        F: Fn(TlsStream<TcpStream>, Arc<Mutex<Vec<String>>>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["kubernetes".to_owned()]).unwrap();
        let cert = params.signed_by(&key, &self.ca).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key.into())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (log, serve) = (asked.clone(), Arc::new(serve));
        let task = tokio::spawn(async move {
            // With the task, its connections end.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, log, serve) = (acceptor.clone(), log.clone(), serve.clone());
                connections.spawn(async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    serve(tls, log).await;
                });
            }
        });
        Server { address, asked, task }
    }

    /// One that accepts connections and never says a word.
    pub(crate) async fn frozen(&self) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((tcp, _)) = listener.accept().await {
                held.push(tcp);
            }
        });
        Server { address, asked: Arc::default(), task }
    }

    /// A URL where nobody listens.
    pub(crate) async fn nobody() -> http::Uri {
        let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        format!("https://{address}").parse().unwrap()
    }
}

pub(crate) fn answer(code: u16, body: impl Into<Bytes>) -> Answer {
    Response::builder().status(code).body(Full::new(body.into()).boxed()).unwrap()
}

/// Lines that come one by one, as a watch sends them.
pub(crate) fn stream(rx: mpsc::UnboundedReceiver<String>) -> Answer {
    stream_of(rx, "\n")
}

/// Parts that come one by one, each with this end.
pub(crate) fn stream_of(mut rx: mpsc::UnboundedReceiver<String>, end: &'static str) -> Answer {
    let frame = move |part: String| Ok(Frame::data(Bytes::from(part + end)));
    let frames = futures::stream::poll_fn(move |cx| rx.poll_recv(cx).map(|part| part.map(frame)));
    Response::new(BoxBody::new(StreamBody::new(frames).boxed()))
}

pub(crate) fn status(code: u16, message: &str) -> Answer {
    let body = serde_json::json!({"kind":"Status","apiVersion":"v1","status":"Failure","code":code,"message":message});
    answer(code, body.to_string())
}

/// The Lease as an API server shows it.
pub(crate) fn lease(version: u64, holder: &str) -> serde_json::Value {
    serde_json::json!({"apiVersion":"coordination.k8s.io/v1","kind":"Lease",
        "metadata":{"name":"plndr-cp-lock","namespace":"kube-system","resourceVersion":version.to_string(),
                    "uid":"u-1","labels":{"theirs":"kept"}},
        "spec":{"holderIdentity":holder,"leaseDurationSeconds":15,"leaseTransitions":1,
                "acquireTime":"2026-11-20T10:00:00.000000Z","renewTime":"2026-11-20T10:00:00.000000Z"}})
}
