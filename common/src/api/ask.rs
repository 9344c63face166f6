//! A call with a whole answer: bytes, one object, or a part of a list.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::race::{Limits, Outcome, head, rest};
use super::servers::{Key, Servers};
use super::{ApiError, Away, Call, Failure, Try, Verb, unsayable};
use crate::text::cut;

/// A call, and what it is about.
pub struct NamedCall {
    /// The call. Its resource is named as in RBAC, with the API group: `leases.coordination.k8s.io`.
    pub call: Call,
    /// The object's name for people: `Lease kube-system/plndr-cp-lock`.
    pub what: String,
}

impl NamedCall {
    /// A call with this request.
    ///
    /// # Errors
    /// The request could not be built, because a name in it is invalid.
    pub fn new<E: std::error::Error>(
        verb: Verb,
        resource: &'static str,
        what: String,
        request: Result<http::Request<Vec<u8>>, E>,
    ) -> Result<Self, ApiError> {
        let (parts, body) = request.map_err(|error| unsayable(&error))?.into_parts();
        Ok(Self { call: Call { verb, resource, path: parts.uri.to_string(), body: body.into() }, what })
    }
}

/// A part of a list.
pub struct ListPart<T> {
    /// The objects.
    pub items: Vec<T>,
    /// The token for the next part, if there is one.
    pub more: Option<String>,
    /// The version from which a watch goes on.
    pub version: String,
}

impl Servers {
    /// Asks, and reads the whole answer.
    pub async fn ask(&self, call: &NamedCall, limits: Limits) -> Outcome<Bytes> {
        self.race(call, limits, |client, request| async move { rest(head(client, request).await?).await }).await
    }

    /// Asks for one object; also returns whether another API server may have applied a write.
    pub async fn ask_for<T: DeserializeOwned>(&self, call: &NamedCall, limits: Limits) -> (Result<T, ApiError>, bool) {
        let outcome = self.ask(call, limits).await;
        let read = |body: Bytes| {
            serde_json::from_slice(&body).map_err(|error| nonsense(&error, call, outcome.server.as_ref()))
        };
        (outcome.result.and_then(read), outcome.doubt)
    }

    /// Asks for a part of a list.
    pub async fn ask_for_list<T: DeserializeOwned>(
        &self,
        call: &NamedCall,
        limits: Limits,
    ) -> Result<ListPart<T>, ApiError> {
        #[derive(Deserialize)]
        struct Items<T> {
            #[serde(default)]
            metadata: More,
            #[serde(default = "Vec::new")]
            items: Vec<T>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct More {
            #[serde(rename = "continue")]
            token: Option<String>,
            resource_version: String,
        }
        let list = self.ask_for::<Items<T>>(call, limits).await.0?;
        let More { token, resource_version: version } = list.metadata;
        Ok(ListPart { items: list.items, more: token.filter(|token| !token.is_empty()), version })
    }
}

fn nonsense(error: &serde_json::Error, call: &NamedCall, server: Option<&Key>) -> ApiError {
    let server = server.map(ToString::to_string).unwrap_or_default();
    let tries = vec![Try { server, failure: Failure::Malformed(cut(&error.to_string(), 120)) }];
    ApiError::Away(Away { tries, after: Duration::ZERO, maybe_applied: call.call.verb.writes() })
}
