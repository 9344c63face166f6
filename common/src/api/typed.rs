//! Follows the objects of one type, and decodes them. Every list is a consistent read. A watch that has ended goes on from
//! the version that it last showed, perhaps on another API server: in a large cluster, the lists of all nodes together
//! are more than API servers can bear.
//!
//! After a restore of etcd, versions count again from a lower number, and a watch from a version that is not reached yet
//! shows nothing and fails with nothing. So there is a list if the watch was lost and the API server is found to be at a
//! lower version, or if a watch shows nothing at all for longer than API servers are silent.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kube::core::params::WatchParams;
use kube::core::{Request, Status, WatchEvent};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::ask::{Collection, NamedCall};
use super::follow::{End, Pace, Source, WORKED, follow};
use super::lines::{Ended, Lines, SILENT, is_cut_off, is_version_too_high, version_of};
use super::quiet::{Found, is_lower, look};
use super::race::{Limits, Outcome, head, refusal};
use super::servers::{Key, Servers};
use super::{ApiError, Away, Failure, Refusal, Try, Verb};
use crate::backoff::random;
use crate::text::cut;

/// The API server keeps a watch open for this many seconds, up to twice as many: the watches of all nodes do not end
/// together.
const WATCH_SECONDS: u64 = 240;
/// A watch has died silently if it is older than the API server's limit by this.
const OVERDUE: Duration = Duration::from_secs(15);
/// A watch that ends no more than this before the API server's limit ended regularly.
const EARLY: Duration = Duration::from_secs(10);
/// The longest wait before a list that follows a watch that worked.
const SPREAD: Duration = Duration::from_secs(2);
/// After this time without news the API server of a watch is asked whether it is there, unless another call had an answer
/// from it in that time. Agents hear from the API server every few seconds anyway.
pub const QUIET: Duration = Duration::from_secs(10);

/// A collection to follow, and how.
#[derive(Clone)]
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
    /// After this time without news the API server is asked whether it is there: [`QUIET`].
    pub quiet: Duration,
    /// Whether a list comes first after the watch was lost, even if a version to go on from is known: a list is a
    /// consistent read, a watch shows what one API server has heard.
    pub relist: bool,
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
        let spread = if self.relist { Duration::ZERO } else { SPREAD };
        let pace = Pace { backoff: self.backoff, missing: self.backoff, at_once: true, spread };
        // Boxed: otherwise the compiler does not see, at the spawn, that the future is `Send`.
        let following: BoxFuture<'static, ()> =
            Box::pin(follow(Typed { follow: self, emit, was_lost: false, kind: std::marker::PhantomData }, pace));
        following.await;
    }

    /// Opens a watch from this version on, for so many seconds.
    fn watch_call(&self, from: &str, seconds: u64) -> Result<NamedCall, ApiError> {
        let params = WatchParams {
            field_selector: self.fields.clone(),
            label_selector: self.labels.clone(),
            timeout: u32::try_from(seconds).ok(),
            bookmarks: true,
            ..WatchParams::default()
        };
        self.call(Verb::Watch, Request::new(self.path.clone()).watch(&params, from))
    }

    pub(super) fn call(
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
    /// The last watch was lost, and the next one has not shown yet that the API server counts on from there.
    was_lost: bool,
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
        let Follow { servers, path, resource, what, fields, labels, page, limits, .. } = &mut self.follow;
        let (fields, labels) = (fields.as_deref(), labels.as_deref());
        let collection = Collection { path, resource, what, fields, labels };
        match servers.ask_for_all(collection, page, *limits).await {
            Ok((all, version)) => {
                self.was_lost = false;
                if (self.emit)(Followed::Listed(all)).await { End::Resume(version) } else { End::Closed }
            }
            Err(error) => End::Failed(error, None),
        }
    }

    async fn watch(&mut self, from: String) -> (End<ApiError>, Duration) {
        let (mut opened, mut server) = (None, None);
        let end = match self.watched(from, &mut opened, &mut server).await {
            End::Failed(error, _) if self.follow.relist => End::Failed(error, None),
            end => end,
        };
        let lived = opened.map_or(Duration::ZERO, |at: Instant| at.elapsed());
        // Whatever ended it: another API server may do better. Otherwise the one that answers everything else would be
        // asked for this watch first for ever.
        let is_blamed = lived <= WORKED && !matches!(end, End::Closed | End::Resume(_));
        if let Some(key) = server.filter(|_| is_blamed) {
            self.follow.servers.bad(&key);
        }
        (end, lived)
    }

    async fn lost(&mut self, error: ApiError) -> bool {
        self.was_lost = true;
        (self.emit)(Followed::Lost(error)).await
    }

    /// The kind is never reported as missing: this is an error like others.
    async fn missing(&mut self) -> bool {
        true
    }

    async fn pause(&mut self, wait: Duration) {
        let Follow { servers, kick, .. } = &self.follow;
        tokio::select! {
            () = servers.pause(wait) => {}
            () = kick.notified() => {}
        }
    }
}

impl<K, E> Typed<K, E>
where
    K: Clone + Debug + DeserializeOwned + Send + 'static,
    E: FnMut(Followed<K>) -> BoxFuture<'static, bool> + Send,
{
    /// `opened`: when the watch was opened; `by`: the API server that answered.
    async fn watched(&mut self, mut from: String, opened: &mut Option<Instant>, by: &mut Option<Key>) -> End<ApiError> {
        let follow = &self.follow;
        let (servers, kick) = (follow.servers.clone(), follow.kick.clone());
        let seconds = WATCH_SECONDS + random() % WATCH_SECONDS;
        let call = match follow.watch_call(&from, seconds) {
            Ok(call) => call,
            Err(error) => return End::Failed(error, None),
        };
        let open = servers.race(&call, follow.limits, head);
        let response = tokio::select! {
            Outcome { result, server, .. } = open => {
                by.clone_from(&server);
                match result {
                    Ok(response) => response,
                    Err(ApiError::Gone { .. }) => return End::Relist,
                    Err(error) if is_too_high(&error) => return End::Failed(error, None),
                    Err(error @ ApiError::Away(_)) => return End::Failed(error, Some(from)),
                    Err(error) => return End::Failed(error, None),
                }
            }
            () = kick.notified() => {
                return lost(None, Failure::Broken("the watch was given up while it opened".into()), None);
            }
        };
        if !(self.emit)(Followed::Alive).await {
            return End::Closed;
        }
        let (server, mut lines) = (by.clone(), Lines::new(response));
        let began = *opened.insert(Instant::now());
        let limit = Duration::from_secs(seconds);
        let bad = |failure, from| {
            if let Some(key) = &server {
                servers.bad(key);
            }
            lost(server.as_ref(), failure, from)
        };
        let mut news = began;
        let mut returned = std::pin::pin!(servers.returned());
        loop {
            let batch = tokio::select! {
                batch = lines.next(limit + OVERDUE) => batch,
                // The watch alone hangs, or the API server sends no bookmarks, or the version is of another history.
                () = sleep_until(news + SILENT) => return if news > began { End::Resume(from) } else { End::Relist },
                // An API server that hangs keeps its watches open and shows nothing.
                found = look(follow, server.as_ref(), self.was_lost.then_some(&*from)) => match found {
                    Found::There => continue,
                    Found::Counts => {
                        self.was_lost = false;
                        continue;
                    }
                    Found::Lower(at) => {
                        let what = &follow.what;
                        tracing::warn!(%what, from, at, "the API server is at a lower version than the watch goes on from; listing again");
                        return End::Relist;
                    }
                    Found::Gone => return lost(server.as_ref(), Failure::Timeout(follow.quiet), Some(from)),
                },
                () = sleep_until(began + limit + OVERDUE) => {
                    return lost(server.as_ref(), Failure::Timeout(limit + OVERDUE), Some(from));
                }
                // The watch may hang since the API servers were away, and learn late of what happened meanwhile.
                () = &mut returned => return End::Resume(from),
                // The watch is not trusted. If it showed nothing at all, the version is not trusted either.
                () = kick.notified() => {
                    let what = "the watch showed nothing for longer than it should, and was opened anew";
                    return bad(Failure::Broken(what.into()), (news > began).then_some(from));
                }
            };
            let batch = match batch {
                Some(Ok(batch)) => batch,
                Some(Err(Ended::Silent(time))) => return lost(server.as_ref(), Failure::Timeout(time), Some(from)),
                Some(Err(Ended::TooLong(most))) => return bad(Failure::TooLong(most), None),
                Some(Err(Ended::Broken(error))) if !is_cut_off(&error) => return bad(Failure::of(&error), Some(from)),
                Some(Err(Ended::Broken(_))) | None if began.elapsed() + EARLY > limit => return End::Resume(from),
                // An API server that shuts down ends its watches too.
                Some(Err(Ended::Broken(_))) | None => {
                    let what = "the watch ended before its time";
                    return lost(server.as_ref(), Failure::Broken(what.into()), Some(from));
                }
            };
            let at = batch.split(|&byte| byte == b'\n').rfind(|line| !line.is_empty()).and_then(version_of);
            // A watch shows only what came after the version that it began with.
            if let Some(at) = at.as_ref().filter(|at| is_lower(at, &from)) {
                return bad(Failure::Malformed(format!("version {} in a watch from {from}", cut(at, 40))), None);
            }
            news = Instant::now();
            for line in batch.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                let seen = match read(line) {
                    Line::Seen(seen) => seen,
                    Line::Over(status) => {
                        return match over(&call, &status) {
                            Ok(end) => end,
                            Err(failure) => bad(failure, None),
                        };
                    }
                    Line::Rubbish(what) => return bad(Failure::Broken(what), None),
                };
                if !(self.emit)(seen).await {
                    return End::Closed;
                }
            }
            if let Some(at) = at {
                (from, self.was_lost) = (at, false);
            }
        }
    }
}

/// Whether an API server has not reached the version from which the watch was to go on.
fn is_too_high(error: &ApiError) -> bool {
    let says = |failure: &Failure| matches!(failure, Failure::Server { message, .. } if is_version_too_high(message));
    matches!(error, ApiError::Away(away) if away.tries.iter().any(|one| says(&one.failure)))
}

/// The content of a line.
enum Line<K> {
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
        Err(error) => match serde_json::from_slice(line) {
            Ok(status) => Line::Over(status),
            Err(_) => Line::Rubbish(cut(&format!("a line of the watch cannot be read: {error}"), 200)),
        },
    }
}

/// The API server ends the watch. At the end of its time, or because its first version is gone, this is not an error.
///
/// # Errors
/// The API server cannot go on with the watch.
fn over(call: &NamedCall, status: &Status) -> Result<End<ApiError>, Failure> {
    let said = Refusal { code: status.code, message: status.message.clone(), ..Refusal::default() };
    Ok(match refusal(call, &said)? {
        ApiError::Gone { .. } => End::Relist,
        error => End::Failed(error, None),
    })
}

/// `from`: the version to go on from, if what the watch showed can be trusted.
fn lost(server: Option<&Key>, failure: Failure, from: Option<String>) -> End<ApiError> {
    End::Failed(away(server, failure), from)
}

fn away(server: Option<&Key>, failure: Failure) -> ApiError {
    let server = server.map_or_else(|| "the API".to_owned(), ToString::to_string);
    ApiError::Away(Away { tries: vec![Try { server, failure }], after: Duration::ZERO, maybe_applied: false })
}
