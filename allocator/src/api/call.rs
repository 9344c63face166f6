//! One call: a request, its deadline, its answer.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use mooring_edge::text::cut;
use tokio::time::{Instant, timeout_at};
use tower::BoxError;

use super::client::Client;
use super::error::ApiError;
use crate::wire::frame::ErrorBody;

/// The longest error message that is kept, in characters.
const LONGEST: usize = 400;
/// For whoever is throttled, if the API server names no time.
const THROTTLED: Duration = Duration::from_secs(1);

/// What a call does, in Kubernetes' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read several.
    List,
    /// Open a watch.
    Watch,
    /// Create an object.
    Create,
    /// Change an object by a JSON merge patch.
    Patch,
    /// Change an object by a strategic merge patch, which built-in kinds have.
    StrategicPatch,
    /// Delete an object.
    Delete,
}

impl Verb {
    /// As RBAC writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Patch | Self::StrategicPatch => "patch",
            Self::Delete => "delete",
        }
    }
}

/// A call to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What it does.
    pub verb: Verb,
    /// To what, in the plural: `ipaddressclaims`.
    pub resource: &'static str,
    /// Path and query.
    pub path: String,
    /// What is sent.
    pub body: Bytes,
}

impl Call {
    /// A call without a body.
    #[must_use]
    pub fn read(verb: Verb, resource: &'static str, path: String) -> Self {
        Self { verb, resource, path, body: Bytes::new() }
    }

    fn request(&self) -> Result<Request<Full<Bytes>>, ApiError> {
        let (method, content) = match self.verb {
            Verb::Get | Verb::List | Verb::Watch => (Method::GET, ""),
            Verb::Create => (Method::POST, "application/json"),
            Verb::Patch => (Method::PATCH, "application/merge-patch+json"),
            Verb::StrategicPatch => (Method::PATCH, "application/strategic-merge-patch+json"),
            Verb::Delete => (Method::DELETE, "application/json"),
        };
        let mut request = Request::builder().method(method).uri(&self.path).header(header::ACCEPT, "application/json");
        if !content.is_empty() {
            request = request.header(header::CONTENT_TYPE, content);
        }
        request.body(Full::new(self.body.clone())).map_err(|error| ApiError::NotSent(error.to_string()))
    }
}

/// Is told of each call, for metrics.
pub trait Observe {
    /// A call ended after `latency`: `ok`, or the error's category.
    fn on_call(&self, call: &Call, outcome: &'static str, latency: Duration);
}

impl Client {
    /// Makes a call; the answer's body.
    ///
    /// # Errors
    /// See [`ApiError`]: also when the whole answer is not there within `deadline`.
    pub async fn call(&self, call: &Call, deadline: Duration, observe: &impl Observe) -> Result<Bytes, ApiError> {
        let began = Instant::now();
        let until = began + deadline;
        let result = loop {
            let result = match timeout_at(until, self.once(call)).await {
                Ok(result) => result,
                Err(_) => Err(ApiError::Timeout(deadline)),
            };
            match &result {
                // It asks us to come again.
                Err(ApiError::Status { code: 429, retry_after, .. }) => {
                    let next = Instant::now() + retry_after.unwrap_or(THROTTLED);
                    if next >= until {
                        break result;
                    }
                    observe.on_call(call, "throttled", began.elapsed());
                    tokio::time::sleep_until(next).await;
                }
                _ => break result,
            }
        };
        observe.on_call(call, result.as_ref().map_or_else(ApiError::category, |_| "ok"), began.elapsed());
        result
    }

    async fn once(&self, call: &Call) -> Result<Bytes, ApiError> {
        let response = self.open(call).await?;
        let body = response.into_body().collect().await;
        body.map(http_body_util::Collected::to_bytes).map_err(|error| ApiError::Lost(cut(&chain(&error), LONGEST)))
    }

    /// Sends a request; a good answer's head, its body still to come.
    pub(super) async fn open(&self, call: &Call) -> Result<Response<Incoming>, ApiError> {
        let response = self.send(call.request()?).await.map_err(|error| broken(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        // An error without a body is an error too.
        let body = response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let said: ErrorBody = serde_json::from_slice(&body).unwrap_or_else(|_| ErrorBody {
            message: String::from_utf8_lossy(&body).into_owned(),
            ..ErrorBody::default()
        });
        Err(ApiError::Status {
            code: status.as_u16(),
            reason: cut(&said.reason, 80),
            message: cut(&said.message, LONGEST),
            retry_after: after.map(Duration::from_secs),
        })
    }
}

/// Whether anything was sent before it broke.
fn broken(error: &BoxError) -> ApiError {
    let text = cut(&chain(error.as_ref()), LONGEST);
    let client = error.downcast_ref::<hyper_util::client::legacy::Error>();
    match client {
        Some(error) if error.is_connect() => ApiError::NotSent(text),
        Some(_) => ApiError::Lost(text),
        // Credentials could not be had: that comes before.
        None => ApiError::NotSent(text),
    }
}

/// An error with its causes.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        cause = error.source();
    }
    text
}
