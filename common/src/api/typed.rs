//! Follows the objects of one type, and decodes them. Every list is a consistent read. After a watch has ended, a new
//! list comes first, perhaps from another API server.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kube::core::params::{ListParams, WatchParams};
use kube::core::{Request, Status, WatchEvent};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::ask::NamedCall;
use super::follow::{End, Pace, Source, follow};
use super::lines::{Ended, Lines, is_cut_off};
use super::race::{Limits, Outcome, head, refusal};
use super::servers::{Key, Servers};
use super::{ApiError, Away, Failure, Refusal, Try, Verb};
use crate::text::cut;

/// How long the API server keeps a watch open, in seconds. Then the watch is reopened from its last version.
const WATCH_SECONDS: u32 = 240;
/// A watch older than this has died silently: some seconds more than the API server's limit.
const OVERDUE: Duration = Duration::from_secs(255);
/// A watch that ends later than this ended regularly.
const FULL: Duration = Duration::from_secs(230);

/// A collection to follow, and how.
pub struct Follow {
    /// The API servers to ask.
    pub servers: Servers,
    /// The collection: `/apis/coordination.k8s.io/v1/namespaces/kube-system/leases`.
    pub path: String,
    /// The name of the resource in RBAC.
    pub resource: &'static str,
    /// The name of the collection for people.
    pub what: String,
    /// A field selector.
    pub fields: Option<String>,
    /// A label selector.
    pub labels: Option<String>,
    /// How many objects one part of a list has; None: the list comes in one part. Parts save memory.
    pub page: Option<u32>,
    /// The time limits of each call: a list, or the opening of a watch.
    pub limits: Limits,
    /// Wait after a failure: at first, and at most.
    pub backoff: (Duration, Duration),
    /// When notified, the open watch is dropped and a new one begins with another API server.
    pub kick: Arc<Notify>,
}

/// A piece of news.
pub enum Followed<K> {
    /// All objects: the result of a list.
    Listed(Vec<K>),
    /// An object was created or changed.
    Applied(K),
    /// An object was deleted.
    Deleted(K),
    /// Nothing changed, and the watch lives.
    Alive,
    /// The watch or list failed. The last state seen stays until another one is seen, but it may be out of date.
    Lost(ApiError),
}

impl Follow {
    /// Follows until `emit` returns false because the receiver is gone.
    pub async fn run<K, E>(self, emit: E)
    where
        K: Clone + Debug + DeserializeOwned + Send + 'static,
        E: FnMut(Followed<K>) -> BoxFuture<'static, bool> + Send + 'static,
    {
        let pace = Pace { backoff: self.backoff, missing: self.backoff, at_once: true };
        // Boxed: otherwise the compiler does not see, at the spawn, that the future is `Send`.
        let following: BoxFuture<'static, ()> =
            Box::pin(follow(Typed { follow: self, emit, kind: std::marker::PhantomData }, pace));
        following.await;
    }

    /// All objects, and the version of the list.
    async fn all<K: DeserializeOwned>(&self) -> Result<(Vec<K>, String), ApiError> {
        let mut params = ListParams {
            field_selector: self.fields.clone(),
            label_selector: self.labels.clone(),
            limit: self.page,
            ..ListParams::default()
        };
        let mut all = Vec::new();
        loop {
            let call = self.call(Verb::List, Request::new(self.path.clone()).list(&params))?;
            let list = self.servers.ask_for_list::<K>(&call, self.limits).await?;
            all.extend(list.items);
            match list.more {
                Some(token) => params.continue_token = Some(token),
                None if list.version.is_empty() => {
                    let what = "a list without resourceVersion".into();
                    return Err(away(None, Failure::Malformed(what)));
                }
                None => return Ok((all, list.version)),
            }
        }
    }

    fn call(
        &self,
        verb: Verb,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<NamedCall, ApiError> {
        NamedCall::new(verb, self.resource, self.what.clone(), request)
    }
}

/// A collection of objects of one type.
struct Typed<K, E> {
    follow: Follow,
    emit: E,
    kind: std::marker::PhantomData<fn() -> K>,
}

impl<K, E> Source for Typed<K, E>
where
    K: Clone + Debug + DeserializeOwned + Send + 'static,
    E: FnMut(Followed<K>) -> BoxFuture<'static, bool> + Send,
{
    type Error = ApiError;

    /// Always a consistent read. A watch is not: it shows what one API server has heard.
    async fn list(&mut self) -> End<ApiError> {
        match self.follow.all().await {
            Ok((all, version)) => {
                if (self.emit)(Followed::Listed(all)).await {
                    End::Resume(version)
                } else {
                    End::Closed
                }
            }
            Err(error) => End::Failed(error, None),
        }
    }

    async fn watch(&mut self, from: String) -> (End<ApiError>, Duration) {
        let mut opened = None;
        let end = self.watched(&from, &mut opened).await;
        (end, opened.map_or(Duration::ZERO, |at| at.elapsed()))
    }

    async fn lost(&mut self, error: ApiError) -> bool {
        (self.emit)(Followed::Lost(error)).await
    }

    /// The kind is never reported as missing: this is an error like others.
    async fn missing(&mut self) -> bool {
        true
    }

    async fn pause(&mut self, wait: Duration) {
        // A kick ends the wait too.
        let _ = timeout(wait, self.follow.kick.notified()).await;
    }
}

impl<K, E> Typed<K, E>
where
    K: Clone + Debug + DeserializeOwned + Send + 'static,
    E: FnMut(Followed<K>) -> BoxFuture<'static, bool> + Send,
{
    async fn watched(&mut self, from: &str, opened: &mut Option<Instant>) -> End<ApiError> {
        let follow = &self.follow;
        let (servers, kick) = (follow.servers.clone(), follow.kick.clone());
        let params = WatchParams {
            field_selector: follow.fields.clone(),
            label_selector: follow.labels.clone(),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            ..WatchParams::default()
        };
        let call = match follow.call(Verb::Watch, Request::new(follow.path.clone()).watch(&params, from)) {
            Ok(call) => call,
            Err(error) => return End::Failed(error, None),
        };
        let open = servers.race(&call, follow.limits, head);
        let (response, server) = tokio::select! {
            Outcome { result, server, .. } = open => match result {
                Ok(response) => (response, server),
                Err(ApiError::Gone { .. }) => return End::Relist,
                Err(error) => return End::Failed(error, None),
            },
            () = kick.notified() => return lost(None, Failure::Broken("the watch was given up while it opened".into())),
        };
        if !(self.emit)(Followed::Alive).await {
            return End::Closed;
        }
        let mut lines = Lines::new(response);
        let began = *opened.insert(Instant::now());
        let bad = |failure| {
            if let Some(key) = &server {
                servers.bad(key);
            }
            lost(server.as_ref(), failure)
        };
        let overdue = tokio::time::sleep(OVERDUE);
        tokio::pin!(overdue);
        loop {
            let batch = tokio::select! {
                batch = lines.next(OVERDUE) => batch,
                () = &mut overdue => return lost(server.as_ref(), Failure::Timeout(OVERDUE)),
                () = kick.notified() => {
                    return bad(Failure::Broken("the watch showed nothing for longer than it should, and was opened anew".into()));
                }
            };
            let batch = match batch {
                Some(Ok(batch)) => batch,
                Some(Err(Ended::Silent(_))) => return lost(server.as_ref(), Failure::Timeout(OVERDUE)),
                Some(Err(Ended::Broken(error))) if !is_cut_off(&error) => return bad(Failure::of(&error)),
                Some(Err(Ended::Broken(_))) | None if began.elapsed() > FULL => return End::Relist,
                // An API server that shuts down ends its watches too.
                Some(Err(Ended::Broken(_))) | None => {
                    return lost(server.as_ref(), Failure::Broken("the watch ended before its time".into()));
                }
            };
            for line in batch.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                let seen = match read(line) {
                    Line::Nothing => continue,
                    Line::Seen(seen) => seen,
                    Line::Over(status) => return over(&call, server.as_ref(), &status),
                    Line::Rubbish(what) => return bad(Failure::Broken(what)),
                };
                if !(self.emit)(seen).await {
                    return End::Closed;
                }
            }
        }
    }
}

/// The content of a line.
enum Line<K> {
    Nothing,
    Seen(Followed<K>),
    Over(Box<Status>),
    Rubbish(String),
}

fn read<K: Clone + DeserializeOwned>(line: &[u8]) -> Line<K> {
    match serde_json::from_slice::<WatchEvent<K>>(line) {
        Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => Line::Seen(Followed::Applied(object)),
        Ok(WatchEvent::Deleted(object)) => Line::Seen(Followed::Deleted(object)),
        Ok(WatchEvent::Bookmark(_)) => Line::Seen(Followed::Alive),
        Ok(WatchEvent::Error(status)) => Line::Over(status),
        // The rest of the line did not arrive.
        Err(error) if error.is_eof() => Line::Nothing,
        Err(error) => match serde_json::from_slice(line) {
            Ok(status) => Line::Over(status),
            Err(_) => Line::Rubbish(cut(&format!("a line of the watch cannot be read: {error}"), 200)),
        },
    }
}

/// The API server ends the watch. At the end of its time, or because its first version is gone, this is not an error.
fn over(call: &NamedCall, server: Option<&Key>, status: &Status) -> End<ApiError> {
    let said = Refusal { code: status.code, message: status.message.clone(), ..Refusal::default() };
    match refusal(call, &said) {
        Ok(ApiError::Gone { .. }) => End::Relist,
        Ok(error) => End::Failed(error, None),
        Err(failure) => lost(server, failure),
    }
}

fn lost(server: Option<&Key>, failure: Failure) -> End<ApiError> {
    End::Failed(away(server, failure), None)
}

fn away(server: Option<&Key>, failure: Failure) -> ApiError {
    let server = server.map_or_else(|| "the API".to_owned(), ToString::to_string);
    ApiError::Away(Away { tries: vec![Try { server, failure }], after: Duration::ZERO, maybe_applied: false })
}
