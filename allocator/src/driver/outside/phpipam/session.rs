//! The connection to phpIPAM: credentials, token, TLS.
//!
//! An app with user token: a log-in by user and password gives a token, which all clients of the user share, and which may end
//! at any time; then one more log-in follows. phpIPAM blocks an address after ten wrong log-ins: after a refused one there is
//! no other until the Secret has changed, or ten minutes have passed.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use k8s_openapi::ByteString;
use mooring_allocator_core::remote::Failure;
use mooring_api::pool::{NO_APP_ID, is_app_id};
use mooring_common::api::client::{self, body, may_be_sent};
use mooring_common::connection::Options;
use mooring_common::text::{chain, cut};
use tokio::sync::Mutex;

use super::super::credentials::{Secret, Secrets};
use super::PhpIpam;
use super::entries::Subnet;
use super::reply::{self, Reply};
use crate::clock;

const AGENT: &str = concat!("mooring-allocator/", env!("CARGO_PKG_VERSION"));
const CONNECT: Duration = Duration::from_secs(3);
/// The longest answer that is accepted, in bytes: a list of all addresses of a /16 has about 30 MB.
const LONGEST: usize = 64 << 20;
/// A subnet is read again after this time.
const SUBNET_LASTS: Duration = Duration::from_mins(5);
/// After a refused log-in, the next one waits this long.
const REFUSED_LASTS: Duration = Duration::from_mins(10);

/// The key of the Secret that names the servers which may have its credential.
const SERVER: &str = "endpoint";

/// Whether a Secret may be sent to that server: it names the server itself. Otherwise whoever may write pools could send the credential
/// of any Secret to a server of their own.
///
/// # Errors
/// The Secret names no server, or others.
fn is_for(url: &str, named: Option<&str>) -> Result<(), String> {
    let mut servers = named.unwrap_or_default().split_whitespace().map(|one| one.trim_end_matches('/'));
    if servers.any(|one| one == url) {
        return Ok(());
    }
    Err(format!(
        "the Secret does not name the pool's endpoint as a server that may have its credential: add the endpoint under the key {SERVER}"
    ))
}

/// A way to phpIPAM, with its credentials and with what they have got: a late answer to what was asked with earlier ones changes nothing
/// here.
pub(super) struct Session {
    client: client::Client,
    credentials: Credentials,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session(..)")
    }
}

enum Credentials {
    /// Log in to get a token.
    User(User),
    /// The app's code is the token.
    Code(String),
}

struct User {
    username: String,
    password: String,
    /// Held while a log-in is under way, so that there is one at a time: phpIPAM counts the wrong ones.
    login: Mutex<Login>,
}

/// What has become of a user's last log-in.
#[derive(Debug, Default)]
enum Login {
    /// There was none, or it is over.
    #[default]
    None,
    /// It gave this token.
    Token(String),
    /// It was refused, at this time.
    Refused(Duration, Failure),
}

impl PhpIpam {
    /// The session; another one if the Secret has changed.
    pub(super) async fn session(&self, secrets: &Secrets) -> Result<Rc<Session>, Failure> {
        let read = async {
            match &self.spec.credentials_ref {
                Some(reference) => secrets.read(&reference.name).await,
                None => Ok(Secret::default()),
            }
        };
        self.session.get(clock::now(), read, |secret| self.open(secret)).await
    }

    pub(super) fn open(&self, secret: &Secret) -> Result<Session, String> {
        // It is a part of the path of each request that bears the credential.
        if self.spec.app().is_none_or(|app| !is_app_id(app)) {
            return Err(NO_APP_ID.to_owned());
        }
        let url = self.spec.url().unwrap_or_default();
        let url = url.trim_end_matches('/');
        if self.spec.credentials_ref.is_some() {
            is_for(url, secret.text(SERVER).as_deref())?;
        }
        let inline = self.spec.credentials.as_ref().filter(|_| self.spec.credentials_ref.is_none());
        let of =
            |key, inline: Option<&String>| secret.text(key).or_else(|| inline.cloned()).filter(|one| !one.is_empty());
        let username = of("username", inline.map(|inline| &inline.username));
        let password = of("password", inline.map(|inline| &inline.password));
        let credentials = match (secret.text("token"), username, password) {
            (Some(code), ..) | (None, None, Some(code)) => Credentials::Code(code),
            (None, Some(username), Some(password)) => {
                Credentials::User(User { username, password, login: Mutex::default() })
            }
            _ => return Err("the Secret has neither username and password, nor token: add them".to_owned()),
        };
        let url = url.parse().map_err(|error| format!("endpoint is no URL: {error}"))?;
        let mut config = kube::Config::new(url);
        config.root_cert = secret.authorities("ca.crt")?;
        let options = Options { agent: AGENT, connect_timeout: CONNECT, idle: 8 };
        let client = client::Client::new(config, options).map_err(|error| cut(&error.to_string(), 160))?;
        Ok(Session { client, credentials })
    }

    /// A request, with a new token if the old one has ended.
    pub(super) async fn request(
        &self,
        session: &Session,
        method: Method,
        path: &str,
        content: Option<&serde_json::Value>,
    ) -> Result<Reply, Failure> {
        let content = content.map(ToString::to_string).unwrap_or_default();
        let mut again = true;
        loop {
            let token = match &session.credentials {
                Credentials::Code(code) => code.clone(),
                Credentials::User(user) => self.token(session, user).await?,
            };
            let request =
                self.builder(&method, path).header("token", &token).header(header::CONTENT_TYPE, "application/json");
            let reply = exchange(session, request.body(content.clone().into())).await?;
            let ended = reply.as_ref().is_err_and(reply::Problem::wants_login);
            let Credentials::User(user) = &session.credentials else { return Ok(reply) };
            if !ended || !again {
                return Ok(reply);
            }
            again = false;
            let mut login = user.login.lock().await;
            if matches!(&*login, Login::Token(known) if *known == token) {
                *login = Login::None;
            }
        }
    }

    fn builder(&self, method: &Method, path: &str) -> http::request::Builder {
        let uri = format!("/{}/{path}", self.spec.app().unwrap_or_default());
        Request::builder().method(method.clone()).uri(uri).header(header::ACCEPT, "application/json")
    }

    async fn token(&self, session: &Session, user: &User) -> Result<String, Failure> {
        let mut login = user.login.lock().await;
        match &*login {
            Login::Token(token) => return Ok(token.clone()),
            Login::Refused(since, failure) if clock::now() < *since + REFUSED_LASTS => return Err(failure.clone()),
            Login::Refused(..) | Login::None => {}
        }
        let User { username, password, .. } = user;
        let basic = serde_json::to_value(ByteString(format!("{username}:{password}").into_bytes()));
        let basic = basic.ok().and_then(|text| text.as_str().map(|text| format!("Basic {text}"))).unwrap_or_default();
        let request = self.builder(&Method::POST, "user/").header(header::AUTHORIZATION, basic);
        let token = match exchange(session, request.body(Bytes::new())).await? {
            Ok(reply) => reply.data.value()["token"].as_str().map(str::to_owned),
            Err(problem) => {
                let failure = problem.failure();
                if let Failure::Refused(_) = failure {
                    *login = Login::Refused(clock::now(), failure.clone());
                }
                return Err(failure);
            }
        };
        let token = token.ok_or_else(|| Failure::Lost("phpIPAM's answer to the log-in has no token".into()))?;
        *login = Login::Token(token.clone());
        Ok(token)
    }

    pub(super) fn known_subnet(&self, id: i64) -> Option<Subnet> {
        let subnets = self.subnets.borrow();
        let (subnet, read) = subnets.get(&id)?;
        (clock::now() < *read + SUBNET_LASTS).then_some(*subnet)
    }

    pub(super) fn remember(&self, subnet: Subnet) {
        self.subnets.borrow_mut().insert(subnet.id, (subnet, clock::now()));
    }
}

/// Sends a request and reads the whole answer.
async fn exchange(session: &Session, request: http::Result<Request<Bytes>>) -> Result<Reply, Failure> {
    // The error could repeat a header.
    let request =
        request.map_err(|_| Failure::Refused("the token or the password cannot be sent: check the Secret".into()))?;
    let response = session.client.send(request).await.map_err(|error| {
        let text = format!("phpIPAM cannot be reached: {}", chain(&*error, 160));
        if may_be_sent(&error) { Failure::Lost(text) } else { Failure::Refused(text) }
    })?;
    let status = response.status().as_u16();
    let all = body(response, LONGEST, || {}).await;
    let all = all.map_err(|error| Failure::Lost(format!("phpIPAM's answer broke off: {}", chain(&error, 160))))?;
    Ok(reply::read(status, &all))
}
