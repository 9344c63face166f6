//! A call with a whole answer: bytes, one object, a part of a list, or a list part by part.

use std::time::Duration;

use kube::core::Request;
use kube::core::params::ListParams;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::header::{Header, ListMetadata, decoded};
use super::race::{Limits, Miss, Outcome, head, rest};
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
    /// The length of the answer, in bytes.
    length: usize,
    /// The API server that answered.
    server: Option<Key>,
}

/// How many objects a part of a list has after a list in one part was too long.
const PAGE: u32 = 250;
/// A list of more parts is not read to its end: an API server that always names another part would be asked for ever.
const MOST_PARTS: usize = 4096;
/// The parts of a list are at most this long together, in bytes of JSON. A list of 5,000 Nodes has less than a tenth of that.
const MOST_OF_A_LIST: usize = 1 << 30;

impl Servers {
    /// Makes a call whose answer does not count, beyond that the answer is JSON.
    pub async fn ask(&self, call: &NamedCall, limits: Limits) -> Outcome<()> {
        self.ask_as(call, limits, |body| decoded::<IgnoredAny>(body).map(drop)).await
    }

    /// Asks, reads the whole answer, and decodes it. If `decode` refuses the answer and says why, the API server has not
    /// answered: the next one is asked. A proxy may answer with a page of its own and a good status.
    pub async fn ask_as<T>(
        &self,
        call: &NamedCall,
        limits: Limits,
        decode: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Outcome<T> {
        let decode = &decode;
        self.race(call, limits, |client, request, progress| async move {
            let body = rest(head(client, request, progress.clone()).await?, &progress).await?;
            decode(&body).map_err(|what| Miss::Failed(Failure::Malformed(cut(&what, 120))))
        })
        .await
    }

    /// Asks for one object; also returns whether another API server may have applied a write.
    pub async fn ask_for<T: DeserializeOwned>(&self, call: &NamedCall, limits: Limits) -> (Result<T, ApiError>, bool) {
        let resource = call.call.resource;
        let decode = |body: &[u8]| {
            decoded::<Header>(body)?.check(resource, "")?;
            decoded(body)
        };
        let outcome = self.ask_as(call, limits, decode).await;
        (outcome.result, outcome.doubt)
    }

    /// Asks for a part of a list.
    pub async fn ask_for_list<T: DeserializeOwned>(
        &self,
        call: &NamedCall,
        limits: Limits,
    ) -> Result<ListPart<T>, ApiError> {
        #[derive(Deserialize)]
        struct Part<T> {
            #[serde(default)]
            kind: String,
            #[serde(default)]
            metadata: ListMetadata,
            #[serde(default = "Vec::new")]
            items: Vec<T>,
        }
        let resource = call.call.resource;
        let decode = |body: &[u8]| {
            let Part { kind, metadata, items } = decoded::<Part<T>>(body)?;
            let header = Header { kind, metadata };
            header.check(resource, "List")?;
            Ok((header.metadata, items, body.len()))
        };
        let outcome = self.ask_as(call, limits, decode).await;
        let (ListMetadata { token, resource_version: version }, items, length) = outcome.result?;
        Ok(ListPart { items, more: token.filter(|token| !token.is_empty()), version, length, server: outcome.server })
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
        let (mut parts, mut length) = (0_usize, 0_usize);
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
            (parts, length) = (parts + 1, length.saturating_add(part.length));
            let Some(token) = part.more else { return Ok((all, part.version)) };
            let endless = if params.continue_token.as_ref() == Some(&token) {
                Some("a list that goes on with the part that was just read".to_owned())
            } else if parts >= MOST_PARTS || length > MOST_OF_A_LIST {
                Some(format!("a list without an end: {parts} parts, {length} bytes"))
            } else {
                None
            };
            if let Some(what) = endless {
                return Err(self.lied(part.server.as_ref(), what));
            }
            params.continue_token = Some(token);
        }
    }

    /// An API server whose answers, each of them valid, contradict each other. It is not asked first for a while.
    fn lied(&self, server: Option<&Key>, what: String) -> ApiError {
        if let Some(key) = server {
            self.bad(key);
        }
        let server = server.map_or_else(|| "the API".to_owned(), ToString::to_string);
        let tries = vec![Try { server, failure: Failure::Malformed(what) }];
        ApiError::Away(Away { tries, after: Duration::ZERO, maybe_applied: false })
    }
}
