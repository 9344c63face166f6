//! JSON over HTTP from a host.

use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;

use crate::cluster::client;
use crate::host::Netns;

/// The longest time for one answer: they use one processor, and others use it too.
const ANSWER: Duration = Duration::from_mins(1);

/// Asks from a host.
#[derive(Clone, Debug)]
pub struct Rest(Netns);

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body; null: it is no JSON.
    pub body: Value,
}

impl Rest {
    /// From this host.
    #[must_use]
    pub fn from(netns: &Netns) -> Self {
        Self(netns.clone())
    }

    /// Asks.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn ask(&self, method: Method, url: &str, token: &str, body: &Value) -> Result<Reply> {
        let uri: Uri = url.parse()?;
        let asked = async {
            let stream = client::connect(&self.0, &uri).await?;
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            // When the connection fails, the request fails too.
            tokio::spawn(connection);
            let path = uri.path_and_query().map_or("/", |path| path.as_str());
            let authority = uri.authority().map_or("", |authority| authority.as_str());
            let mut request = Request::builder().method(method).uri(path).header("host", authority);
            if !token.is_empty() {
                request = request.header("x-auth-token", token);
            }
            let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
            let request = request.header("content-type", "application/json").body(Full::new(body))?;
            let answer = sender.send_request(request).await?;
            let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
            let body = answer.into_body().collect().await?.to_bytes();
            anyhow::Ok(Reply { status, headers, body: serde_json::from_slice(&body).unwrap_or_default() })
        };
        let answer = tokio::time::timeout(ANSWER, asked).await;
        answer.with_context(|| format!("{url} does not answer"))?.with_context(|| url.to_owned())
    }
}
