//! Follows a few objects: a list, then a watch from there on, and so on again when the watch ends.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use kube::core::Request;
use kube::core::WatchEvent;
use kube::core::params::{ListParams, WatchParams};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::error::cut;
use super::race::{Call, Limits, Miss, broken, refusal};
use super::servers::{Key, Servers};
use super::{ApiError, Away, Failure, Try, Verb, jitter};

/// How long the API server keeps a watch open, in seconds. Then it is opened anew from where it was.
const WATCH_SECONDS: u32 = 240;
/// A watch that is older has died without a word: some seconds more than the API server would let it live.
const OVERDUE: Duration = Duration::from_secs(255);
/// A watch that lived for so long has worked; else there is a wait before the next.
const WORKED: Duration = Duration::from_secs(1);
/// A watch that ends later than this ends as it should.
const FULL: Duration = Duration::from_secs(230);

/// What is followed, and how.
pub(crate) struct Follow {
    pub(crate) servers: Servers,
    /// The collection: `/apis/coordination.k8s.io/v1/namespaces/kube-system/leases`.
    pub(crate) path: String,
    pub(crate) resource: &'static str,
    /// For people.
    pub(crate) what: String,
    pub(crate) fields: Option<String>,
    pub(crate) labels: Option<String>,
    /// How many objects a list has at a time; None: all. What is not there yet need not be kept in memory all at once.
    pub(crate) page: Option<u32>,
    /// For the list, and for the watch to be opened.
    pub(crate) limits: Limits,
    /// Wait after a failure: at first, and at most.
    pub(crate) backoff: (Duration, Duration),
    /// Notified: what is open is not believed any more, begin anew with another API server.
    pub(crate) kick: Arc<Notify>,
}

/// What was seen.
pub(crate) enum Followed<K> {
    /// All there are.
    Listed(Vec<K>),
    /// One was made or changed.
    Applied(K),
    /// One is gone.
    Deleted(K),
    /// Nothing changed, and the watch lives.
    Alive,
    /// The watch or list failed. What was seen stays true until something else is seen, but nobody vouches for it.
    Lost(ApiError),
}

/// The part of a list that counts. k8s-openapi's own wants apiVersion and kind, which say nothing here.
#[derive(Deserialize)]
struct Listing<K> {
    metadata: ListingMeta,
    #[serde(default = "Vec::new")]
    items: Vec<K>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListingMeta {
    resource_version: String,
    #[serde(default, rename = "continue")]
    more: Option<String>,
}

/// A watch that is open.
type Events<K> = BoxStream<'static, Result<WatchEvent<K>, kube::Error>>;

/// How a watch ended.
enum End {
    /// At the end of its time, or because the version it began at is gone: nothing is wrong.
    Over,
    Lost(ApiError),
    /// Nobody listens any more.
    Closed,
}

impl Follow {
    /// Follows until `emit` says that nobody listens (false).
    pub(crate) async fn run<K, E>(self, mut emit: E)
    where
        K: Clone + Debug + DeserializeOwned + Send + 'static,
        E: FnMut(Followed<K>) -> BoxFuture<'static, bool> + Send,
    {
        let mut wait = self.backoff.0;
        loop {
            let mut opened = None;
            // Always a list: it is a consistent read, which a watch, that shows what one API server has heard, is not.
            let end = match self.list::<K>().await {
                Ok(Listing { metadata, items }) => {
                    if !emit(Followed::Listed(items)).await {
                        return;
                    }
                    self.watch(&metadata.resource_version, &mut opened, &mut emit).await
                }
                Err(error) => End::Lost(error),
            };
            match end {
                End::Over => {}
                End::Closed => return,
                End::Lost(error) => {
                    if !emit(Followed::Lost(error)).await {
                        return;
                    }
                }
            }
            if opened.is_some_and(|at: Instant| at.elapsed() > WORKED) {
                wait = self.backoff.0;
                continue;
            }
            // A kick ends the wait too.
            let _ = timeout(jitter(wait), self.kick.notified()).await;
            wait = (wait * 2).min(self.backoff.1);
        }
    }

    async fn list<K: DeserializeOwned>(&self) -> Result<Listing<K>, ApiError> {
        let mut params = ListParams {
            field_selector: self.fields.clone(),
            label_selector: self.labels.clone(),
            limit: self.page,
            ..ListParams::default()
        };
        let mut all = Vec::new();
        loop {
            let call = self.call(Verb::List, Request::new(self.path.clone()).list(&params))?;
            let outcome = self.servers.ask(&call, self.limits).await;
            let body = outcome.result?;
            let part: Listing<K> = serde_json::from_slice(&body)
                .map_err(|error| away(outcome.server.as_ref(), Failure::Malformed(cut(&error.to_string(), 120))))?;
            all.extend(part.items);
            match part.metadata.more.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(Listing { metadata: ListingMeta { more: None, ..part.metadata }, items: all }),
            }
        }
    }

    async fn watch<K, E>(&self, version: &str, opened: &mut Option<Instant>, emit: &mut E) -> End
    where
        K: Clone + Debug + DeserializeOwned + Send + 'static,
        E: FnMut(Followed<K>) -> BoxFuture<'static, bool> + Send,
    {
        let params = WatchParams {
            field_selector: self.fields.clone(),
            label_selector: self.labels.clone(),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            ..WatchParams::default()
        };
        let call = match self.call(Verb::Watch, Request::new(self.path.clone()).watch(&params, version)) {
            Ok(call) => call,
            Err(error) => return End::Lost(error),
        };
        let open =
            self.servers.race(&call, self.limits, |client: kube::Client, request: http::Request<Vec<u8>>| async move {
                let events = client.request_events::<K>(request).await.map_err(|error| match error {
                    kube::Error::Api(status) => Miss::Said(status.code, status.message),
                    error => Miss::Failed(broken(error)),
                })?;
                let events: Events<K> = events.boxed();
                Ok(events)
            });
        let (mut events, server) = tokio::select! {
            outcome = open => match outcome.result {
                Ok(events) => (events, outcome.server),
                Err(ApiError::Gone { .. }) => return End::Over,
                Err(error) => return End::Lost(error),
            },
            () = self.kick.notified() => return End::Lost(away(None, Failure::Broken("the watch was given up while it opened".into()))),
        };
        if !emit(Followed::Alive).await {
            return End::Closed;
        }
        let began = *opened.insert(Instant::now());
        let overdue = tokio::time::sleep(OVERDUE);
        tokio::pin!(overdue);
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = self.kick.notified() => {
                    if let Some(key) = &server {
                        self.servers.bad(key);
                    }
                    return End::Lost(away(server.as_ref(), Failure::Broken("the watch showed nothing for longer than it should, and was opened anew".into())));
                }
                () = &mut overdue => return End::Lost(away(server.as_ref(), Failure::Timeout(OVERDUE))),
            };
            let seen = match event {
                None if began.elapsed() > FULL => return End::Over,
                // An API server that goes down ends its watches too.
                None => {
                    let failure = Failure::Broken("the watch ended before its time".into());
                    return End::Lost(away(server.as_ref(), failure));
                }
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => Followed::Applied(object),
                Some(Ok(WatchEvent::Deleted(object))) => Followed::Deleted(object),
                Some(Ok(WatchEvent::Bookmark(_))) => Followed::Alive,
                Some(Ok(WatchEvent::Error(status)) | Err(kube::Error::Api(status))) => {
                    return ended(&call, server.as_ref(), status.code, &status.message);
                }
                Some(Err(error)) => {
                    let failure = broken(error);
                    if let Some(key) = &server {
                        self.servers.bad(key);
                    }
                    return End::Lost(away(server.as_ref(), failure));
                }
            };
            if !emit(seen).await {
                return End::Closed;
            }
        }
    }

    fn call(
        &self,
        verb: Verb,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Call, ApiError> {
        let request = request.map_err(|error| ApiError::Rejected { code: 0, message: cut(&error.to_string(), 200) })?;
        Ok(Call { verb, resource: self.resource, what: self.what.clone(), request })
    }
}

fn ended(call: &Call, server: Option<&Key>, code: u16, message: &str) -> End {
    match refusal(call, code, message) {
        Ok(ApiError::Gone { .. }) => End::Over,
        Ok(error) => End::Lost(error),
        Err(failure) => End::Lost(away(server, failure)),
    }
}

fn away(server: Option<&Key>, failure: Failure) -> ApiError {
    let server = server.map_or_else(|| "the API".to_owned(), ToString::to_string);
    ApiError::Away(Away { tries: vec![Try { server, failure }], after: Duration::ZERO, maybe_applied: false })
}
