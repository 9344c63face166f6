//! Follows all objects of a kind: a list in pages, then a watch from there on.
//!
//! Nothing is decoded here: pages and lines go to whoever knows what they mean ([`Fed`]), who says where the next page is.
//! A broken watch goes on from the last line that was told; a list, always a consistent one, comes only where there is none
//! to go on from, and where one is asked for. So nothing older than what was told is ever told.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::backoff::{Backoff, random};
use super::call::{Call, Observe, Verb};
use super::client::Client;
use super::error::ApiError;
use super::resource::Resource;
use crate::wire::frame::version_of;

/// Objects a page.
const PAGE: u32 = 1_000;
/// The API server keeps a watch open for so many seconds, and up to as many more.
const WATCH_SECONDS: u64 = 300;
/// A watch on which nothing was heard for so long is not believed any more: bookmarks come once a minute.
const SILENT: Duration = Duration::from_secs(150);
/// Wait before a kind that the API server does not serve is asked for again: at first, and at most.
const MISSING: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// Wait after a failure: at first, and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// A watch that lived for so long has worked; else there is a wait before the next.
const WORKED: Duration = Duration::from_secs(1);
/// Lines are told as they come, but not more than so many bytes at once.
const BATCH: usize = 256 << 10;

/// What was heard of a kind.
#[derive(Debug)]
pub struct Fed {
    /// Of which.
    pub resource: Resource,
    /// What.
    pub what: What,
}

/// What was heard.
#[derive(Debug)]
pub enum What {
    /// A page of a list.
    Page {
        /// Of this version.
        version: &'static str,
        /// The page.
        bytes: Bytes,
        /// A list begins: what was told of an earlier one that did not end is void.
        first: bool,
        /// The number of whoever asked for the list.
        asked: Option<u64>,
        /// What the page says of itself is told here.
        reply: oneshot::Sender<Turned>,
    },
    /// Lines of a watch, each with its end.
    Lines(Bytes),
    /// The kind is not served. Asked for again by itself.
    Missing,
    /// Nothing is heard at the moment. Tried again by itself.
    Lost(ApiError),
    /// The watch is open.
    Live,
}

/// What a page said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turned {
    /// Asks for the next page; empty: that was the last.
    pub next: String,
    /// Where a watch goes on from.
    pub version: String,
}

/// Follows one kind.
pub struct Follow<O> {
    /// The way to the API server.
    pub client: Client,
    /// The kind.
    pub resource: Resource,
    /// Of all of them, only the one of this namespace and name.
    pub only: Option<(String, String)>,
    /// For a page, and for a watch to be opened.
    pub deadline: Duration,
    /// Who is told.
    pub tell: mpsc::Sender<Fed>,
    /// Asks for a consistent list, with a number.
    pub asks: mpsc::Receiver<u64>,
    /// For metrics.
    pub observe: O,
}

/// How a list or watch ended.
enum End {
    /// Nobody listens any more.
    Closed,
    /// Go on from here.
    Resume(String),
    /// There is nothing to go on from.
    Relist,
    /// A list is asked for.
    Asked(u64),
    /// It failed; where to go on from.
    Failed(ApiError, Option<String>),
    /// Not served.
    Missing,
}

impl<O: Observe> Follow<O> {
    /// Runs until nobody listens.
    pub async fn run(mut self) {
        let mut backoff = Backoff::new(BACKOFF.0, BACKOFF.1);
        let mut missing = Backoff::new(MISSING.0, MISSING.1);
        let mut version = self.resource.versions()[0];
        let mut from: Option<String> = None;
        let mut asked = None;
        loop {
            if asked.is_none() {
                asked = self.asks.try_recv().ok();
            }
            let began = Instant::now();
            let (end, listed) = match from.take().filter(|_| asked.is_none()) {
                Some(from) => (self.watch(version, from).await, false),
                None => (self.list(&mut version, asked).await, true),
            };
            if !listed && began.elapsed() > WORKED {
                backoff.reset();
                missing.reset();
            }
            match end {
                End::Closed => return,
                End::Resume(at) => {
                    from = Some(at);
                    asked = None;
                    if listed || began.elapsed() > WORKED {
                        continue;
                    }
                }
                End::Relist => {}
                End::Asked(id) => {
                    asked = Some(id);
                    continue;
                }
                End::Missing => {
                    if !self.tell(What::Missing).await {
                        return;
                    }
                    sleep(missing.wait()).await;
                    continue;
                }
                End::Failed(error, at) => {
                    from = at;
                    if !self.tell(What::Lost(error)).await {
                        return;
                    }
                }
            }
            sleep(backoff.wait()).await;
        }
    }

    async fn tell(&self, what: What) -> bool {
        self.tell.send(Fed { resource: self.resource, what }).await.is_ok()
    }

    /// The path, and what is added to the query.
    fn place(&self, version: &str) -> (String, String) {
        let path = self.resource.path(version);
        let Some((namespace, name)) = &self.only else { return (path, String::new()) };
        let plural = self.resource.plural();
        let within = path.strip_suffix(plural).map(|base| format!("{base}namespaces/{namespace}/{plural}"));
        // Names have no characters that mean anything in a URL.
        (within.unwrap_or(path), format!("&fieldSelector=metadata.name%3D{name}"))
    }

    /// Lists, in the newest version that is served.
    async fn list(&mut self, version: &mut &'static str, asked: Option<u64>) -> End {
        let mut versions = self.resource.versions();
        // The one that was served last comes first; should it be gone, all are tried.
        versions.retain(|one| one != version);
        versions.insert(0, version);
        for one in versions {
            match self.list_in(one, asked).await {
                End::Missing => {}
                end => {
                    *version = one;
                    return end;
                }
            }
        }
        *version = self.resource.versions()[0];
        End::Missing
    }

    async fn list_in(&mut self, version: &'static str, asked: Option<u64>) -> End {
        let (path, filter) = self.place(version);
        let mut next = String::new();
        loop {
            // Without a resourceVersion: the newest that etcd's majority has; all pages show the same moment.
            let query = if next.is_empty() { String::new() } else { format!("&continue={}", encoded(&next)) };
            let call = Call::read(Verb::List, self.resource.plural(), format!("{path}?limit={PAGE}{filter}{query}"));
            let bytes = match self.client.call(&call, self.deadline, &self.observe).await {
                Ok(bytes) => bytes,
                Err(ApiError::Status { code: 404, .. }) => return End::Missing,
                Err(ApiError::Status { code: 410, .. }) => return End::Relist,
                Err(error) => return End::Failed(error, None),
            };
            let (reply, turned) = oneshot::channel();
            if !self.tell(What::Page { version, bytes, first: next.is_empty(), asked, reply }).await {
                return End::Closed;
            }
            let Ok(turned) = turned.await else {
                return End::Failed(ApiError::Lost("the list cannot be read".into()), None);
            };
            if turned.next.is_empty() {
                return End::Resume(turned.version);
            }
            next = turned.next;
        }
    }

    async fn watch(&mut self, version: &str, from: String) -> End {
        let seconds = WATCH_SECONDS + random() % WATCH_SECONDS;
        let (path, filter) = self.place(version);
        let query = format!("watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={from}{filter}");
        let call = Call::read(Verb::Watch, self.resource.plural(), format!("{path}?{query}"));
        let began = Instant::now();
        let opened = timeout(self.deadline, self.client.open(&call)).await;
        let opened = opened.unwrap_or(Err(ApiError::Timeout(self.deadline)));
        let outcome = opened.as_ref().map_or_else(ApiError::category, |_| "ok");
        self.observe.on_call(&call, outcome, began.elapsed());
        let mut body = match opened {
            Ok(response) => response.into_body(),
            Err(ApiError::Status { code: 410, .. }) => return End::Relist,
            Err(ApiError::Status { code: 404, .. }) => return End::Missing,
            Err(error) => return End::Failed(error, Some(from)),
        };
        if !self.tell(What::Live).await {
            return End::Closed;
        }
        let mut rest = BytesMut::new();
        let mut last: Option<Bytes> = None;
        let end = loop {
            let frame = tokio::select! {
                biased;
                Some(id) = self.asks.recv() => return End::Asked(id),
                frame = timeout_at(Instant::now() + SILENT, body.frame()) => frame,
            };
            match frame {
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        rest.extend_from_slice(&data);
                    }
                }
                // It ended, in time or before: an API server that goes down ends its watches.
                Ok(None) => break None,
                Ok(Some(Err(error))) => break Some(ApiError::Lost(error.to_string())),
                Err(_) => break Some(ApiError::Timeout(SILENT)),
            }
            let Some(end) = rest.iter().rposition(|&byte| byte == b'\n') else { continue };
            let lines = rest.split_to(end + 1).freeze();
            let start = lines[..end].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            let line = lines.slice(start..end);
            if line.starts_with(br#"{"type":"ERROR""#) {
                // 410 as a rule: too old to go on from. What came before it is told all the same.
                if start > 0 && !self.tell(What::Lines(lines.slice(..start))).await {
                    return End::Closed;
                }
                return End::Relist;
            }
            // A copy of its own: the line must not keep the whole batch alive.
            last = Some(Bytes::copy_from_slice(&line));
            if !self.tell(What::Lines(lines)).await {
                return End::Closed;
            }
            if rest.capacity() > BATCH {
                rest = BytesMut::from(&rest[..]);
            }
        };
        let at = match &last {
            None => Some(from),
            Some(line) => version_of(line),
        };
        match (end, at) {
            (None, Some(at)) => End::Resume(at),
            (None, None) => End::Relist,
            (Some(error), at) => End::Failed(error, at),
        }
    }
}

/// A continue token is base64: only these need another form in a URL.
fn encoded(token: &str) -> String {
    token.replace('%', "%25").replace('+', "%2B").replace('/', "%2F").replace('=', "%3D").replace('&', "%26")
}
