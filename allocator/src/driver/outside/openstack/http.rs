//! Requests to one service. The call that they belong to has the deadline.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use mooring_allocator_openstack::fault::Fault;
use mooring_allocator_openstack::secret::Secret;
use mooring_common::api::client::{self, body, may_be_sent};
use mooring_common::connection::Options;
use mooring_common::text::{chain, cut};

/// The user agent: the services' logs show the allocator by this name.
const AGENT: &str = concat!("mooring-allocator/", env!("CARGO_PKG_VERSION"));
/// Time limit for a TCP connection.
const CONNECT: Duration = Duration::from_secs(5);
/// The longest answer that is accepted, in bytes: a page of a list is far shorter.
const LONGEST_ANSWER: usize = 16 << 20;
/// The longest error message that is kept, in characters.
const LONGEST: usize = 300;
/// The number of idle connections that are kept open.
const IDLE: usize = 4;

/// The way to one service. Clones share their connections.
#[derive(Clone, Debug)]
pub(super) struct Service {
    name: &'static str,
    client: client::Client,
}

/// A good answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) body: Option<&'a serde_json::Value>,
    /// The revision that the object must have.
    pub(super) revision: Option<u64>,
    pub(super) token: Option<&'a Secret>,
}

impl Service {
    /// The way to a URL. `ca`: the certificates to trust; None: those of the system.
    pub(super) fn new(name: &'static str, url: &str, ca: Option<&[Vec<u8>]>) -> Result<Self, String> {
        let uri = url.parse().map_err(|error| format!("{name}'s URL {url:?} cannot be read: {error}"))?;
        let mut config = kube::Config::new(uri);
        config.root_cert = ca.map(<[Vec<u8>]>::to_vec);
        let options = Options { agent: AGENT, connect_timeout: CONNECT, idle: IDLE };
        let client = client::Client::new(config, options).map_err(|error| format!("{name} at {url}: {error}"))?;
        Ok(Self { name, client })
    }

    /// Asks.
    pub(super) async fn ask(&self, ask: Ask<'_>) -> Result<Reply, Fault> {
        let refused = |error: String| Fault::Refused(format!("{}: {error}", self.name));
        let method = Method::from_bytes(ask.method.as_bytes()).map_err(|error| refused(error.to_string()))?;
        let mut request = Request::builder().method(method).uri(ask.path).header("accept", "application/json");
        if let Some(token) = ask.token {
            let mut value = http::HeaderValue::from_str(token.reveal())
                .map_err(|_| refused("its token cannot be sent in a header".to_owned()))?;
            value.set_sensitive(true);
            request = request.header("x-auth-token", value);
        }
        if let Some(revision) = ask.revision {
            request = request.header("if-match", format!("revision_number={revision}"));
        }
        let body_sent = match ask.body {
            None => Bytes::new(),
            Some(json) => {
                request = request.header("content-type", "application/json");
                json.to_string().into()
            }
        };
        let request = request.body(body_sent).map_err(|error| refused(error.to_string()))?;
        let response = self.client.send(request).await.map_err(|error| {
            let text = cut(&format!("{}: {}", self.name, chain(&*error, LONGEST)), LONGEST);
            if may_be_sent(&error) { Fault::Unknown(text) } else { Fault::Busy(text) }
        })?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = body(response, LONGEST_ANSWER, || {})
            .await
            .map_err(|error| Fault::Unknown(format!("{}: {}", self.name, chain(&error, LONGEST))))?;
        if status.is_success() {
            return Ok(Reply { headers, body });
        }
        Err(mooring_allocator_openstack::fault::read(status.as_u16(), &body))
    }
}
