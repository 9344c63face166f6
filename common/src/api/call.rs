//! One call: its verb, its resource and its body.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};

/// The verb of a call, in the words of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read several.
    List,
    /// Open a watch; how long the watch then lives is not part of the call.
    Watch,
    /// Create an object.
    Create,
    /// Replace an object.
    Update,
    /// Change an object by a JSON merge patch.
    Patch,
    /// Change an object by a strategic merge patch, which built-in kinds have.
    StrategicPatch,
    /// Delete an object.
    Delete,
    /// `/readyz`.
    Probe,
}

impl Verb {
    /// The verb's name in RBAC.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch | Self::StrategicPatch => "patch",
            Self::Delete => "delete",
            Self::Probe => "probe",
        }
    }

    /// Whether the call changes something.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Patch | Self::StrategicPatch | Self::Delete)
    }

    /// The HTTP method and the content type of the body; empty: the call has no body.
    const fn method(self) -> (Method, &'static str) {
        match self {
            Self::Get | Self::List | Self::Watch | Self::Probe => (Method::GET, ""),
            Self::Create => (Method::POST, "application/json"),
            Self::Update => (Method::PUT, "application/json"),
            Self::Patch => (Method::PATCH, "application/merge-patch+json"),
            Self::StrategicPatch => (Method::PATCH, "application/strategic-merge-patch+json"),
            Self::Delete => (Method::DELETE, "application/json"),
        }
    }
}

/// A call to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The verb.
    pub verb: Verb,
    /// The resource, in the plural: `ipaddressclaims`.
    pub resource: &'static str,
    /// Path and query.
    pub path: String,
    /// The body.
    pub body: Bytes,
}

impl Call {
    /// A call without a body.
    #[must_use]
    pub fn read(verb: Verb, resource: &'static str, path: String) -> Self {
        Self { verb, resource, path, body: Bytes::new() }
    }

    /// The HTTP request.
    ///
    /// # Errors
    /// The path is not valid in a URL.
    pub fn request(&self) -> Result<Request<Bytes>, http::Error> {
        let (method, content) = self.verb.method();
        let mut request = Request::builder().method(method).uri(&self.path).header(header::ACCEPT, "application/json");
        if !content.is_empty() {
            request = request.header(header::CONTENT_TYPE, content);
        }
        request.body(self.body.clone())
    }
}

/// Is notified of each try of a call, for metrics.
pub trait Observe: Send + Sync {
    /// A try ended after `latency`: `ok`, or the category of the error.
    fn on_call(&self, verb: Verb, resource: &'static str, outcome: &'static str, latency: Duration);
}

/// Counts nothing.
impl Observe for () {
    fn on_call(&self, _: Verb, _: &'static str, _: &'static str, _: Duration) {}
}

impl<O: Observe> Observe for std::sync::Arc<O> {
    fn on_call(&self, verb: Verb, resource: &'static str, outcome: &'static str, latency: Duration) {
        (**self).on_call(verb, resource, outcome, latency);
    }
}
