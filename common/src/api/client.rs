//! The way to one API server.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use serde::Deserialize;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt as _};

use crate::connection::{Options, service};
use crate::kubeconfig::ConfigError;

/// The way to one API server, with its credentials. Clones share their connections.
#[derive(Clone)]
pub struct Client(BoxCloneSyncService<Request<Full<Bytes>>, Response<Incoming>, BoxError>);

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// The head of an answer; its body is still to come.
pub type Head = Response<Incoming>;

/// An answer whose status is not 2xx.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status.
    pub code: u16,
    /// The reason in one word: `AlreadyExists`. If the object's namespace is being deleted: [`TERMINATING`].
    pub reason: String,
    /// The API server's words.
    pub message: String,
    /// When to retry, if the API server says so; at most [`LATEST`].
    pub retry_after: Option<Duration>,
    /// It is a web page: a proxy's. API servers send JSON, or a line of text.
    pub is_page: bool,
}

/// The longest `Retry-After` that is believed. API servers say seconds. A number that anybody may send must not be added
/// to a clock: the sum may be beyond what the clock can show.
pub const LATEST: Duration = Duration::from_hours(1);

/// The cause in a `Status` for an object that cannot be created because its namespace is being deleted. The status itself says
/// `Forbidden`, as it does where RBAC lacks a rule.
pub const TERMINATING: &str = "NamespaceTerminating";

/// `Status`, as far as it counts.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    reason: String,
    message: String,
    details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    causes: Option<Vec<Cause>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
}

impl Status {
    fn is_terminating(&self) -> bool {
        let mut causes = self.details.iter().flat_map(|details| &details.causes).flatten();
        causes.any(|cause| cause.reason == TERMINATING)
    }
}

impl Client {
    /// Makes no connection before it is used, and does not retry.
    ///
    /// # Errors
    /// The credentials cannot be used.
    pub fn new(config: kube::Config, options: Options) -> Result<Self, ConfigError> {
        Ok(Self(BoxCloneSyncService::new(service(config, options)?)))
    }

    /// Sends a request. When this ends, only the head of the answer has arrived.
    ///
    /// # Errors
    /// There is no connection, or it broke before the answer began.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Head, BoxError> {
        self.0.clone().oneshot(request.map(Full::new)).await
    }
}

/// Why the rest of an answer is missing.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It is longer than is accepted.
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
    /// The connection broke.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
}

/// The rest of an answer. `arriving` is called for each part of it.
///
/// # Errors
/// The connection broke, or the answer is longer than `longest` bytes.
pub async fn body(response: Head, longest: usize, arriving: impl Fn()) -> Result<Bytes, BodyError> {
    let mut body = response.into_body();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        arriving();
        if let Ok(data) = frame?.into_data() {
            if data.len() > longest.saturating_sub(all.len()) {
                return Err(BodyError::TooLong(longest));
            }
            all.extend_from_slice(&data);
        }
    }
    Ok(all.freeze())
}

/// Whether an unanswered request may have been sent. Without a connection or credentials, nothing was sent.
#[must_use]
pub fn may_be_sent(error: &BoxError) -> bool {
    error.downcast_ref::<hyper_util::client::legacy::Error>().is_some_and(|error| !error.is_connect())
}

impl Refusal {
    /// Reads the API server's error: normally a `Status`; a proxy in front of it may send something else.
    #[must_use]
    pub fn new(code: u16, headers: &HeaderMap, body: &[u8]) -> Self {
        let is_page = body.trim_ascii_start().starts_with(b"<");
        let said: Option<Status> = serde_json::from_slice(body).ok();
        let said =
            said.unwrap_or_else(|| Status { message: String::from_utf8_lossy(body).into_owned(), ..Status::default() });
        let after = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let retry_after = after.map(|seconds| Duration::from_secs(seconds).min(LATEST));
        let reason = if said.is_terminating() { TERMINATING.to_owned() } else { said.reason };
        Self { code, reason, message: said.message, retry_after, is_page }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_what_the_status_says_or_the_text() {
        let headers = HeaderMap::from_iter([(header::RETRY_AFTER, header::HeaderValue::from_static("2"))]);
        let said = Refusal::new(429, &headers, br#"{"kind":"Status","reason":"TooManyRequests","message":"later"}"#);
        let expected = Refusal {
            code: 429,
            reason: "TooManyRequests".into(),
            message: "later".into(),
            retry_after: Some(Duration::from_secs(2)),
            is_page: false,
        };
        assert_eq!(said, expected);
        let text = Refusal::new(502, &HeaderMap::new(), b"bad gateway");
        assert_eq!((&*text.reason, &*text.message, text.retry_after), ("", "bad gateway", None));
    }

    #[test]
    fn the_end_of_a_namespace_is_told_from_a_lack_of_rights() {
        let said = |details: &str| {
            let body = format!(r#"{{"kind":"Status","reason":"Forbidden","message":"no","details":{details}}}"#);
            Refusal::new(403, &HeaderMap::new(), body.as_bytes())
        };
        let ending = said(r#"{"name":"e","kind":"events","causes":[{"reason":"NamespaceTerminating","message":"m"}]}"#);
        assert_eq!((&*ending.reason, &*ending.message), (TERMINATING, "no"));
        for other in ["null", "{}", r#"{"causes":null}"#, r#"{"causes":[{"reason":"Other"}]}"#] {
            assert_eq!((said(other).reason, said(other).message), ("Forbidden".into(), "no".into()), "{other}");
        }
    }

    #[test]
    fn a_time_to_retry_can_be_added_to_the_clock_whatever_it_says() {
        for said in ["0", "3", "86400", "18446744073709551615", "18446744073709551616", "-1", "1e9", "soon", ""] {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, said.parse().unwrap())]);
            let after = Refusal::new(429, &headers, b"later").retry_after.unwrap_or_default();
            assert!(std::time::Instant::now().checked_add(after).is_some(), "{said}: {after:?}");
        }
    }
}
