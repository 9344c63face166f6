//! A stand-in for phpIPAM: a small server that answers as phpIPAM 1.8.2 does, its traps included, with faults that a test turns
//! on. The texts and codes are those of the real one.

use std::collections::HashSet;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::host::{Host, lock};
use crate::pki::Pki;

/// The app, its user and password.
pub const APP: &str = "kube";
/// The user.
pub const USER: &str = "mooring";
/// The password: it must appear in no log and on no object.
pub const PASSWORD: &str = "not-to-be-seen-4711";
/// The app with a code, which answers over TLS only.
pub const CODE_APP: &str = "kubecode";
/// Its code: it must appear in no log and on no object.
pub const CODE: &str = "code-not-to-be-seen-4712";

/// PHP's workers: so many requests are served at a time.
const WORKERS: usize = 8;
/// What a read takes.
const READ: Duration = Duration::from_millis(4);
/// What a change takes. The API's lock lets one after the other through: 60 at once took 0.35 s.
const WRITE: Duration = Duration::from_micros(5_800);

/// A subnet.
#[derive(Clone, Debug)]
struct Subnet {
    id: u64,
    network: IpAddr,
    mask: u8,
    gateway: Option<IpAddr>,
}

impl Subnet {
    /// Its addresses that are handed out, in order. In an IPv6 subnet the first one is among them, as phpIPAM has it.
    fn hosts(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let (first, hosts) = match self.network {
            IpAddr::V4(network) => (u128::from(u32::from(network)), 1..(1u128 << (32 - self.mask)) - 1),
            IpAddr::V6(network) => (u128::from(network), 0..1 << (128 - self.mask).min(16)),
        };
        let v4 = self.network.is_ipv4();
        hosts.map(move |host| match u32::try_from(first + host) {
            Ok(number) if v4 => Ipv4Addr::from(number).into(),
            _ => Ipv6Addr::from(first + host).into(),
        })
    }
}

/// An address in it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its number.
    pub id: u64,
    /// The number of its subnet.
    pub subnet: u64,
    /// The address.
    pub ip: IpAddr,
    /// The host name.
    pub hostname: String,
    /// The description.
    pub description: String,
    /// The owner.
    pub owner: String,
}

/// What goes wrong. The numbers are of a hundred requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Nothing is answered.
    pub hangs: bool,
    /// The connection ends before anything is done.
    pub refuses: u64,
    /// It is done, and the connection ends without an answer.
    pub loses: u64,
    /// It is done, and half of the answer comes.
    pub halves: u64,
    /// 500 without a body, and nothing is done.
    pub crashes: u64,
    /// 200 with `success: false`: the lock is not obtained.
    pub locked: u64,
    /// The API's lock is off: requests for a free address may collide, and say so.
    pub collides: u64,
    /// The app may only read.
    pub read_only: bool,
}

#[derive(Debug, Default)]
struct State {
    subnets: Vec<Subnet>,
    rows: Vec<Row>,
    ids: u64,
    token: u64,
    logins: u64,
    requests: u64,
    faults: Faults,
    dice: u64,
    /// Requests come by TLS.
    tls: bool,
    /// An address that a person makes another host's as soon as its entry was searched for by its mark; and that host.
    reuse: Option<(IpAddr, String)>,
}

/// The server. It ends when this is dropped.
pub struct PhpIpam {
    state: Arc<Mutex<State>>,
    port: u16,
    /// The authority that has signed its certificate, in PEM; None: it has none.
    pub ca: Option<String>,
    changes: watch::Receiver<u64>,
    _tasks: JoinSet<()>,
}

/// What its requests share.
struct Shared {
    state: Arc<Mutex<State>>,
    workers: Semaphore,
    lock: Semaphore,
    /// How many changes were asked for.
    changes: watch::Sender<u64>,
}

impl PhpIpam {
    /// Starts it on a host, for programs of that host.
    ///
    /// # Errors
    /// It cannot listen.
    pub fn start(host: &Host) -> Result<Self> {
        Self::start_with(host, None)
    }

    /// Starts it on a host, with TLS. `dir`: a folder for its certificates.
    ///
    /// # Errors
    /// It cannot listen, or a file cannot be written.
    pub fn start_tls(host: &Host, dir: &Path) -> Result<Self> {
        let pki = Pki::new(dir, &[Ipv4Addr::LOCALHOST.into()])?;
        Self::start_with(host, Some(&pki))
    }

    fn start_with(host: &Host, pki: Option<&Pki>) -> Result<Self> {
        let acceptor = pki.map(acceptor).transpose()?;
        let listener = host.netns().run(|| std::net::TcpListener::bind("127.0.0.1:0")).context("listen")?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let listener = TcpListener::from_std(listener)?;
        let state = Arc::new(Mutex::new(State { token: 1, tls: pki.is_some(), ..State::default() }));
        let (sender, changes) = watch::channel(0);
        let (workers, lock) = (Semaphore::new(WORKERS), Semaphore::new(1));
        let shared = Arc::new(Shared { state: state.clone(), workers, lock, changes: sender });
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, acceptor, shared));
        Ok(Self { state, port, ca: pki.map(|pki| pki.ca().to_owned()), changes, _tasks: tasks })
    }

    /// `spec.endpoint`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        let scheme = if self.ca.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}/api", self.port)
    }

    /// Waits until this many more changes were asked for, of which the last may not have had its effect yet. Returns whether so
    /// many came within some seconds.
    pub async fn asked(&self, more: u64) -> bool {
        let mut changes = self.changes.clone();
        let until = *changes.borrow_and_update() + more;
        let asked = changes.wait_for(|count| *count >= until);
        tokio::time::timeout(Duration::from_secs(5), asked).await.is_ok()
    }

    /// Adds a subnet; returns its number.
    pub fn subnet(&self, network: impl Into<IpAddr>, mask: u8, gateway: Option<[u8; 4]>) -> u64 {
        let mut state = lock(&self.state);
        let id = 7 + state.subnets.len() as u64;
        let (network, gateway) = (network.into(), gateway.map(IpAddr::from));
        state.subnets.push(Subnet { id, network, mask, gateway });
        id
    }

    /// Turns faults on or off.
    pub fn faults(&self, faults: Faults) {
        lock(&self.state).faults = faults;
    }

    /// All tokens end.
    pub fn end_tokens(&self) {
        lock(&self.state).token += 1;
    }

    /// How many log-ins there were.
    #[must_use]
    pub fn logins(&self) -> u64 {
        lock(&self.state).logins
    }

    /// How many requests there were.
    #[must_use]
    pub fn requests(&self) -> u64 {
        lock(&self.state).requests
    }

    /// All addresses.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        lock(&self.state).rows.clone()
    }

    /// A token that it accepts now.
    #[must_use]
    pub fn token(&self) -> String {
        format!("token-{}", lock(&self.state).token)
    }

    /// All addresses are deleted.
    pub fn clear(&self) {
        lock(&self.state).rows.clear();
    }

    /// A person deletes an address.
    pub fn delete(&self, ip: &str) {
        lock(&self.state).rows.retain(|row| row.ip.to_string() != ip);
    }

    /// A person, or another program, enters an address. Returns its number.
    pub fn add(&self, subnet: u64, ip: &str, hostname: &str) -> Result<u64> {
        let mut state = lock(&self.state);
        let ip: IpAddr = ip.parse()?;
        ensure!(state.rows.iter().all(|row| row.ip != ip), "{ip} is there");
        Ok(state.add(subnet, ip, &json!({"hostname": hostname})))
    }

    /// A person enters all these addresses, of which none is there.
    pub fn fill(&self, subnet: u64, all: impl Iterator<Item = IpAddr>) {
        let mut state = lock(&self.state);
        for (ip, number) in all.zip(0u32..) {
            let told = json!({"hostname": format!("host-{number}.example.com"), "description": "a machine of the other building"});
            state.add(subnet, ip, &told);
        }
    }

    /// A person makes the entry of an address another host's, right after it was found by its mark.
    ///
    /// # Errors
    /// It is no address.
    pub fn reuse_once_found(&self, ip: &str, hostname: &str) -> Result<()> {
        lock(&self.state).reuse = Some((ip.parse()?, hostname.to_owned()));
        Ok(())
    }

    /// The owner of an address becomes another one.
    pub fn own(&self, ip: &str, owner: &str) {
        for row in lock(&self.state).rows.iter_mut().filter(|row| row.ip.to_string() == ip) {
            owner.clone_into(&mut row.owner);
        }
    }

    /// A person changes the description of an address.
    pub fn describe(&self, ip: &str, description: &str) {
        for row in lock(&self.state).rows.iter_mut().filter(|row| row.ip.to_string() == ip) {
            description.clone_into(&mut row.description);
        }
    }
}

/// What TLS needs: the certificate that the authority makes for servers.
fn acceptor(pki: &Pki) -> Result<TlsAcceptor> {
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
    let certificate = CertificateDer::from_pem_file(pki.path("apiserver.crt"))?;
    let key = PrivateKeyDer::from_pem_file(pki.path("apiserver.key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_no_client_auth().with_single_cert(vec![certificate], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn serve(listener: TcpListener, acceptor: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (shared, acceptor) = (shared.clone(), acceptor.clone());
        connections.spawn(async move {
            let service = service_fn(move |request| answer(shared.clone(), request));
            let mut http = hyper::server::conn::http1::Builder::new();
            http.half_close(true);
            // A connection that ends without an answer is a fault that was asked for, or a client that does not trust it.
            match acceptor {
                None => drop(http.serve_connection(TokioIo::new(stream), service).await),
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        drop(http.serve_connection(TokioIo::new(stream), service).await);
                    }
                }
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// The connection ends.
#[derive(Debug, thiserror::Error)]
#[error("a fault that was asked for")]
struct Cut;

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Cut> {
    let state = &shared.state;
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
    let changes = head.method != Method::GET && !head.uri.path().ends_with("/user/");
    if changes {
        shared.changes.send_modify(|count| *count += 1);
    }
    let hangs = {
        let mut state = lock(state);
        state.requests += 1;
        state.faults.hangs
    };
    if hangs {
        std::future::pending::<Infallible>().await;
    }
    let _worker = shared.workers.acquire().await.map_err(|_| Cut)?;
    let _locked = if changes {
        let locked = shared.lock.acquire().await.map_err(|_| Cut)?;
        tokio::time::sleep(WRITE).await;
        Some(locked)
    } else {
        tokio::time::sleep(READ).await;
        None
    };
    let (status, text, cut) = {
        let mut state = lock(state);
        let faults = state.faults;
        if state.happens(faults.refuses) {
            return Err(Cut);
        }
        let (status, text) = if state.happens(faults.crashes) {
            (500, String::new())
        } else {
            let path = head.uri.path().trim_start_matches("/api/").trim_matches('/').to_owned();
            let query = head.uri.query().unwrap_or_default().to_owned();
            let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
            let (token, basic) = (header("token"), header("authorization"));
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let said = state.handle(&head.method, &path, &query, token.as_deref(), basic.as_deref(), &body);
            let mut said = said.unwrap_or_else(|(code, message)| (code, envelope(code, false, message)));
            // A caught error inside comes as 200.
            if said.1["message"].as_str().is_some_and(|text| text.starts_with("Cannot obtain lock")) {
                said.0 = 200;
            }
            (said.0, said.1.to_string())
        };
        if state.happens(faults.loses) {
            return Err(Cut);
        }
        (status, text, state.happens(faults.halves))
    };
    let text = if cut { text[..text.len() / 2].to_owned() } else { text };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = StatusCode::from_u16(status).map_err(|_| Cut)?;
    response.headers_mut().insert("set-cookie", http::HeaderValue::from_static("phpipam=x"));
    response.headers_mut().insert("connection", http::HeaderValue::from_static("close"));
    Ok(response)
}

fn envelope(code: u16, success: bool, message: &str) -> Value {
    json!({"code": code, "success": success, "message": message, "time": 0.005})
}

fn data(data: &Value) -> (u16, Value) {
    (200, json!({"code": 200, "success": true, "data": data, "time": 0.005}))
}

type Said = Result<(u16, Value), (u16, &'static str)>;

impl State {
    fn happens(&mut self, of_a_hundred: u64) -> bool {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % 100 < of_a_hundred
    }

    fn handle(
        &mut self,
        method: &Method,
        path: &str,
        query: &str,
        token: Option<&str>,
        basic: Option<&str>,
        body: &Value,
    ) -> Said {
        let parts: Vec<&str> = path.split('/').collect();
        match parts.first() {
            Some(&APP) if parts.get(1) == Some(&"user") => return self.log_in(basic),
            Some(&APP) if token != Some(&format!("token-{}", self.token)) => return Err((401, "Unauthorized")),
            Some(&CODE_APP) if !self.tls => return Err((503, "SSL connection is required for API")),
            Some(&CODE_APP) if token != Some(CODE) => return Err((401, "Unauthorized")),
            Some(&(APP | CODE_APP)) => {}
            _ => return Err((400, "Invalid application id")),
        }
        if method != Method::GET && self.faults.read_only {
            return Err((401, "invalid permissions"));
        }
        if method != Method::GET && self.happens(self.faults.locked) {
            return Err((500, "Cannot obtain lock for /tmp/phpipam_api_lock.txt after 2.0003 seconds"));
        }
        match (method.as_str(), &parts[1..]) {
            ("GET", ["subnets", id]) => {
                let subnet = self.find_subnet(id).ok_or((400, "Invalid subnet Id (999)"))?;
                let gateway = subnet.gateway.map(|ip| json!({"ip_addr": ip.to_string(), "id": 1}));
                let (number, mask) = (subnet.id, subnet.mask.to_string());
                Ok(data(&json!({"id": number, "subnet": subnet.network.to_string(), "mask": mask, "gateway": gateway})))
            }
            ("GET", ["subnets", id, "addresses"]) => self.list(id, query),
            ("GET", ["subnets", id, "addresses", ip]) => {
                let all = self.rows_of(id).filter(|row| row.ip.to_string() == *ip).map(row).collect::<Vec<_>>();
                if all.is_empty() { Err((404, "Address not found")) } else { Ok(data(&json!(all))) }
            }
            ("GET", ["addresses", id]) => {
                let one = self.rows.iter().find(|row| row.id.to_string() == **id).map(row);
                one.map(|one| data(&one)).ok_or((404, "Invalid Id"))
            }
            ("POST", ["addresses", "first_free", id]) => self.first_free(id, body),
            ("POST", ["addresses"]) => self.enter(body),
            ("PATCH", ["addresses", id]) => {
                let row = self.rows.iter_mut().find(|row| row.id.to_string() == **id);
                let row = row.ok_or((404, "Address does not exist"))?;
                let take = |key: &str, to: &mut String| {
                    if let Some(text) = body[key].as_str() {
                        text.clone_into(to);
                    }
                };
                take("hostname", &mut row.hostname);
                take("description", &mut row.description);
                take("owner", &mut row.owner);
                Ok((200, envelope(200, true, "Address updated")))
            }
            ("DELETE", ["addresses", id]) => {
                let before = self.rows.len();
                self.rows.retain(|row| row.id.to_string() != **id);
                if self.rows.len() == before {
                    return Err((404, "Address does not exist"));
                }
                Ok((200, envelope(200, true, "Address deleted")))
            }
            _ => Err((400, "Invalid controller")),
        }
    }

    fn log_in(&mut self, basic: Option<&str>) -> Said {
        self.logins += 1;
        let wanted = k8s_openapi::ByteString(format!("{USER}:{PASSWORD}").into_bytes());
        let wanted = serde_json::to_value(wanted).unwrap_or_default();
        let given =
            basic.and_then(|text| text.strip_prefix("Basic ")).ok_or((400, "Please provide username and password"))?;
        if wanted != given {
            return Err((500, "Invalid username or password"));
        }
        Ok(data(&json!({"token": format!("token-{}", self.token), "expires": "2026-11-22 14:05:41"})))
    }

    fn find_subnet(&self, id: &str) -> Option<Subnet> {
        self.subnets.iter().find(|subnet| subnet.id.to_string() == id).cloned()
    }

    fn rows_of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.subnet.to_string() == id)
    }

    fn list(&mut self, id: &str, query: &str) -> Said {
        let parameter = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let wanted = parameter("filter_value");
        let fits = |one: &&Row| match parameter("filter_by") {
            Some("description") => wanted == Some(&one.description),
            Some("hostname") => wanted == Some(&one.hostname),
            _ => true,
        };
        let all: Vec<Value> = self.rows_of(id).filter(fits).map(row).collect();
        let found = |(ip, _): &(IpAddr, String)| wanted.is_some() && all.iter().any(|row| row["ip"] == ip.to_string());
        if let Some((ip, hostname)) = self.reuse.take_if(|reuse| found(reuse)) {
            for row in self.rows.iter_mut().filter(|row| row.ip == ip) {
                (row.hostname, row.description, row.owner) = (hostname.clone(), String::new(), String::new());
            }
        }
        match (all.is_empty(), wanted) {
            (false, _) => Ok(data(&json!(all))),
            (true, None) => Err((404, "No addresses found")),
            (true, Some(_)) => Err((404, "No results (filter applied)")),
        }
    }

    fn first_free(&mut self, id: &str, body: &Value) -> Said {
        let subnet = self.find_subnet(id).ok_or((400, "Invalid subnet identifier"))?;
        if self.happens(self.faults.collides) {
            return Err((500, "SQLSTATE[23000]: Integrity constraint violation: 1062 Duplicate entry '3221225985-7'"));
        }
        let used: HashSet<IpAddr> = self.rows.iter().map(|row| row.ip).collect();
        let free = subnet.hosts().find(|ip| !used.contains(ip));
        let ip = free.ok_or((404, "No free addresses found"))?;
        let id = self.add(subnet.id, ip, body);
        let mut made = envelope(201, true, "Address created");
        made["id"] = json!(id.to_string());
        made["data"] = json!(ip.to_string());
        Ok((201, made))
    }

    fn enter(&mut self, body: &Value) -> Said {
        let id = body["subnetId"].as_str().unwrap_or_default();
        let subnet = self.find_subnet(id).ok_or((400, "Invalid subnet identifier"))?;
        let ip = body["ip"].as_str().and_then(|text| text.parse::<IpAddr>().ok()).ok_or((400, "Invalid address"))?;
        if !subnet.hosts().any(|host| host == ip) {
            return Err((500, "The address is not a valid address for subnet"));
        }
        if self.rows.iter().any(|row| row.ip == ip) {
            return Err((409, "IP address already exists"));
        }
        let id = self.add(subnet.id, ip, body);
        let mut made = envelope(201, true, "Address created");
        made["id"] = json!(id.to_string());
        Ok((201, made))
    }

    fn add(&mut self, subnet: u64, ip: IpAddr, body: &Value) -> u64 {
        self.ids += 1;
        let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        let (hostname, description, owner) = (text("hostname"), text("description"), text("owner"));
        self.rows.push(Row { id: self.ids, subnet, ip, hostname, description, owner });
        self.ids
    }
}

fn row(row: &Row) -> Value {
    let Row { id, subnet, ip, hostname, description, owner } = row;
    json!({"id": id, "subnetId": subnet, "ip": ip.to_string(), "hostname": hostname, "description": description, "owner": owner})
}
