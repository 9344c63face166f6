//! A call with a whole answer: bytes, one object, a part of a list, or a list part by part.

use std::time::Duration;

use bytes::Bytes;
use kube::core::Request;
use kube::core::params::ListParams;
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

/// The objects to be listed.
#[derive(Clone, Copy, Debug)]
pub struct Collection<'a> {
    /// The path: `/apis/coordination.k8s.io/v1/namespaces/kube-system/leases`.
    pub path: &'a str,
    /// The name of the resource in RBAC, with the API group.
    pub resource: &'static str,
    /// The name of the collection for people.
    pub what: &'a str,
    /// A field selector.
    pub fields: Option<&'a str>,
    /// A label selector.
    pub labels: Option<&'a str>,
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

/// How many objects a part of a list has after a list in one part was too long.
const PAGE: u32 = 250;

impl Servers {
    /// Asks, and reads the whole answer.
    pub async fn ask(&self, call: &NamedCall, limits: Limits) -> Outcome<Bytes> {
        self.race(call, limits, |client, request, progress| async move {
            rest(head(client, request, progress.clone()).await?, &progress).await
        })
        .await
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

    /// Asks for all objects, part by part, and returns them with the version of the list. `page`: how many objects a
    /// part has; None: all. If an answer is longer than is read, the part is asked for again with half as many objects,
    /// and `page` says so from then on.
    ///
    /// # Errors
    /// A part cannot be had, or one object alone is too long. The limits are for each part.
    pub async fn ask_for_all<T: DeserializeOwned>(
        &self,
        collection: Collection<'_>,
        page: &mut Option<u32>,
        limits: Limits,
    ) -> Result<(Vec<T>, String), ApiError> {
        let Collection { path, resource, what, fields, labels } = collection;
        let mut all = Vec::new();
        let mut params = ListParams {
            field_selector: fields.map(str::to_owned),
            label_selector: labels.map(str::to_owned),
            ..ListParams::default()
        };
        loop {
            params.limit = *page;
            let call = NamedCall::new(Verb::List, resource, what.to_owned(), Request::new(path).list(&params))?;
            let part = match self.ask_for_list::<T>(&call, limits).await {
                Ok(part) => part,
                Err(error) if error.is_too_long() && *page != Some(1) => {
                    *page = Some(page.map_or(PAGE, |page| page / 2));
                    tracing::debug!(what, page, "a part of the list is too long; asking for fewer objects at once");
                    continue;
                }
                Err(error) => return Err(error),
            };
            all.extend(part.items);
            match part.more {
                Some(token) => params.continue_token = Some(token),
                None if part.version.is_empty() => {
                    let failure = Failure::Malformed("a list without resourceVersion".into());
                    let tries = vec![Try { server: "the API".into(), failure }];
                    return Err(ApiError::Away(Away { tries, after: Duration::ZERO, maybe_applied: false }));
                }
                None => return Ok((all, part.version)),
            }
        }
    }
}

fn nonsense(error: &serde_json::Error, call: &NamedCall, server: Option<&Key>) -> ApiError {
    let server = server.map(ToString::to_string).unwrap_or_default();
    let tries = vec![Try { server, failure: Failure::Malformed(cut(&error.to_string(), 120)) }];
    ApiError::Away(Away { tries, after: Duration::ZERO, maybe_applied: call.call.verb.writes() })
}
