//! Follows all objects of a kind: a list in pages, then a watch from the list's version ([`mod@follow`]).
//!
//! This module decodes no objects: pages and lines go to the reader that understands them ([`Fed`]), and the reader
//! reports where the next page is. If the end of a page tells that too, the next page is asked for meanwhile. A broken
//! watch continues from the last line passed on. A list, always a consistent one, is made only if there is no version to
//! continue from, or if one is requested. So nothing older than the state already passed on is ever passed on.

use std::time::Duration;

use bytes::Bytes;
use mooring_common::api::follow::{self, End, Pace, Source};
use mooring_common::api::lines::{Ended, Lines, SILENT, is_version_too_high, version_of};
use mooring_common::api::{Call, Observe, Verb};
use mooring_common::backoff::random;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::client::{Client, Limit};
use super::error::ApiError;
use super::next_page::next_page;
use super::resource::Resource;

/// Objects a page; fewer if they are so large that the answer would be too long.
const PAGE: u32 = 1_000;
/// The API server keeps a watch open for this many seconds, up to twice as many.
const WATCH_SECONDS: u64 = 300;
/// How long the follower waits.
const PACE: Pace = Pace {
    backoff: (Duration::from_millis(100), Duration::from_secs(5)),
    missing: (Duration::from_secs(1), Duration::from_secs(15)),
    at_once: false,
    spread: Duration::ZERO,
};

/// News of a kind.
#[derive(Debug)]
pub struct Fed {
    /// The kind.
    pub resource: Resource,
    /// The news.
    pub what: What,
}

/// A piece of news.
#[derive(Debug)]
pub enum What {
    /// A page of a list.
    Page {
        /// Of this version.
        version: &'static str,
        /// The page.
        bytes: Bytes,
        /// A list begins: the pages of an earlier unfinished list are void.
        first: bool,
        /// The number of the request for the list.
        asked: Option<u64>,
        /// The list began after this request for lists of all kinds; see [`Follow::relist`].
        epoch: u64,
        /// The reader sends what the page says about itself here.
        reply: oneshot::Sender<Turned>,
    },
    /// Lines of a watch, each with its end.
    Lines(Bytes),
    /// The kind is not served. The follower asks again by itself.
    Missing,
    /// Nothing arrives at the moment. The follower tries again by itself.
    Lost(ApiError),
    /// The watch is open.
    Live,
}

/// The page's own metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turned {
    /// Token of the next page; empty: this was the last page.
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
    /// Follow only the object of this namespace and name.
    pub only: Option<(String, String)>,
    /// For a page, and for a watch to be opened.
    pub deadline: Duration,
    /// The receiver of the news.
    pub tell: mpsc::Sender<Fed>,
    /// Asks for a consistent list, with a number.
    pub asks: mpsc::Receiver<u64>,
    /// Asks all kinds for a list: the number of the request grows. None: not asked.
    pub relist: Option<watch::Receiver<u64>>,
    /// For metrics.
    pub observe: O,
}

impl<O: Observe> Follow<O> {
    /// Runs until the receiver is gone.
    pub async fn run(self) {
        let version = self.resource.versions()[0];
        let following = Following { follow: self, version, page: PAGE, asked: None, epoch: 0, relist: false };
        follow::follow(following, PACE).await;
    }

    async fn tell(&self, what: What) -> bool {
        self.tell.send(Fed { resource: self.resource, what }).await.is_ok()
    }

    /// The path, and additions to the query.
    fn place(&self, version: &str) -> (String, String) {
        let path = self.resource.path(version);
        let Some((namespace, name)) = &self.only else { return (path, String::new()) };
        let plural = self.resource.plural();
        let within = path.strip_suffix(plural).map(|base| format!("{base}namespaces/{namespace}/{plural}"));
        // Names have no characters with a meaning in a URL.
        (within.unwrap_or(path), format!("&fieldSelector=metadata.name%3D{name}"))
    }
}

/// What is followed, and the progress.
struct Following<O> {
    follow: Follow<O>,
    /// The version that was served last.
    version: &'static str,
    /// Objects a page.
    page: u32,
    /// The number of the request for a list.
    asked: Option<u64>,
    /// The last request for lists of all kinds.
    epoch: u64,
    /// That request is not fulfilled yet.
    relist: bool,
}

impl<O: Observe> Source for Following<O> {
    type Error = ApiError;

    fn is_asked(&mut self) -> bool {
        if self.asked.is_none() {
            self.asked = self.follow.asks.try_recv().ok();
        }
        if let Some(relist) = self.follow.relist.as_mut().filter(|relist| relist.has_changed().unwrap_or(false)) {
            (self.epoch, self.relist) = (*relist.borrow_and_update(), true);
        }
        self.asked.is_some() || self.relist
    }

    /// Lists, in the newest version that is served.
    async fn list(&mut self) -> End<ApiError> {
        let mut versions = self.follow.resource.versions();
        // The version served last comes first; if it is gone, all versions are tried.
        versions.retain(|one| *one != self.version);
        versions.insert(0, self.version);
        for one in versions {
            match self.list_in(one).await {
                End::Missing => {}
                end => {
                    self.version = one;
                    if let End::Resume(_) = end {
                        (self.asked, self.relist) = (None, false);
                    }
                    return end;
                }
            }
        }
        self.version = self.follow.resource.versions()[0];
        End::Missing
    }

    async fn watch(&mut self, from: String) -> (End<ApiError>, Duration) {
        let began = Instant::now();
        let end = self.watched(from).await;
        (end, began.elapsed())
    }

    async fn lost(&mut self, error: ApiError) -> bool {
        self.follow.tell(What::Lost(error)).await
    }

    async fn missing(&mut self) -> bool {
        self.follow.tell(What::Missing).await
    }

    async fn pause(&mut self, wait: Duration) {
        self.follow.client.pause(wait).await;
    }
}

impl<O: Observe> Following<O> {
    async fn list_in(&mut self, version: &'static str) -> End<ApiError> {
        let follow = &self.follow;
        // The objects may be smaller now.
        self.page = PAGE.min(self.page.saturating_mul(2));
        let place = follow.place(version);
        let (mut first, mut page) = (true, self.page_at(&place, "").await);
        loop {
            let bytes = match page {
                Ok(bytes) => bytes,
                Err(end) => return end,
            };
            let after = next_page(&bytes);
            let (reply, turned) = oneshot::channel();
            let (asked, epoch) = (self.asked, self.epoch);
            if !self.follow.tell(What::Page { version, bytes, first, asked, epoch, reply }).await {
                return End::Closed;
            }
            // The API server makes the next page while this one is read.
            let ahead = async {
                match &after {
                    Some(next) => Some(self.page_at(&place, next).await),
                    None => None,
                }
            };
            let (turned, ahead) = tokio::join!(turned, ahead);
            let Ok(turned) = turned else {
                return End::Failed(ApiError::Lost("the list cannot be read".into()), None);
            };
            if turned.next.is_empty() {
                return End::Resume(turned.version);
            }
            page = match ahead.filter(|_| after.as_ref() == Some(&turned.next)) {
                Some(page) => page,
                None => self.page_at(&place, &turned.next).await,
            };
            first = false;
        }
    }

    /// The page at a token; an empty one: the first page. Errors: how the list ends.
    async fn page_at(&mut self, (path, filter): &(String, String), token: &str) -> Result<Bytes, End<ApiError>> {
        let follow = &self.follow;
        // Without a `resourceVersion`: the newest state of etcd's majority; all pages show the same moment.
        let query = if token.is_empty() { String::new() } else { format!("&continue={}", encoded(token)) };
        loop {
            let path = format!("{path}?limit={}{filter}{query}", self.page);
            let call = Call::read(Verb::List, follow.resource.plural(), path);
            return match follow.client.call(&call, follow.deadline, &follow.observe).await {
                Ok(bytes) => Ok(bytes),
                Err(ApiError::Status { code: 404, .. }) => Err(End::Missing),
                Err(ApiError::Status { code: 410, .. }) => Err(End::Relist),
                Err(ApiError::TooLong(_)) if self.page > 1 => {
                    self.page /= 2;
                    continue;
                }
                Err(error) => Err(End::Failed(error, None)),
            };
        }
    }

    async fn watched(&mut self, from: String) -> End<ApiError> {
        let follow = &mut self.follow;
        let seconds = WATCH_SECONDS + random() % WATCH_SECONDS;
        let (path, filter) = follow.place(self.version);
        let query = format!("watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={from}{filter}");
        let call = Call::read(Verb::Watch, follow.resource.plural(), format!("{path}?{query}"));
        let began = Instant::now();
        let opened = follow.client.open(&call, Limit::new(follow.deadline)).await;
        let outcome = opened.as_ref().map_or_else(ApiError::category, |_| "ok");
        follow.observe.on_call(call.verb, call.resource, outcome, began.elapsed());
        let mut lines = match opened {
            Ok(response) => Lines::new(response),
            Err(ApiError::Status { code: 410, .. }) => return End::Relist,
            Err(ApiError::Status { code: 404, .. }) => return End::Missing,
            Err(error) => {
                let is_too_high = matches!(&error, ApiError::Status { message, .. } if is_version_too_high(message));
                return End::Failed(error, (!is_too_high).then_some(from));
            }
        };
        if !follow.tell(What::Live).await {
            return End::Closed;
        }
        let mut last: Option<Bytes> = None;
        let client = follow.client.clone();
        let mut returned = std::pin::pin!(client.returned());
        let error = loop {
            let lines = tokio::select! {
                biased;
                Some(id) = follow.asks.recv() => {
                    self.asked = Some(id);
                    return End::Asked;
                }
                epoch = changed(&mut follow.relist) => {
                    (self.epoch, self.relist) = (epoch, true);
                    return End::Asked;
                }
                lines = lines.next(SILENT) => lines,
                // The watch may hang since the API server was away, and learn late of what happened meanwhile.
                () = &mut returned => break None,
            };
            let lines = match lines {
                Some(Ok(lines)) => lines,
                // The watch ended, in time or before: an API server that shuts down ends its watches.
                None => break None,
                Some(Err(Ended::Silent(time))) => break Some(ApiError::Timeout(time)),
                Some(Err(error @ (Ended::Broken(_) | Ended::TooLong(_)))) => {
                    break Some(ApiError::Lost(error.to_string()));
                }
            };
            let end = lines.len() - 1;
            let start = lines[..end].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            let line = lines.slice(start..end);
            if line.starts_with(br#"{"type":"ERROR""#) {
                // Usually 410: too old to continue from. The lines before it are passed on nevertheless.
                if start > 0 && !follow.tell(What::Lines(lines.slice(..start))).await {
                    return End::Closed;
                }
                return End::Relist;
            }
            // A copy of its own: the line must not keep the whole batch alive.
            last = Some(Bytes::copy_from_slice(&line));
            if !follow.tell(What::Lines(lines)).await {
                return End::Closed;
            }
        };
        let at = match &last {
            // After a restore of etcd, versions count again from a lower number, and a watch from a version that is not reached yet
            // shows nothing and fails with nothing. API servers are not silent for so long otherwise.
            None if matches!(error, Some(ApiError::Timeout(_))) => None,
            None => Some(from),
            Some(line) => version_of(line),
        };
        match (error, at) {
            (None, Some(at)) => End::Resume(at),
            (None, None) => End::Relist,
            (Some(error), at) => End::Failed(error, at),
        }
    }
}

/// Waits for the next request for lists of all kinds.
async fn changed(relist: &mut Option<watch::Receiver<u64>>) -> u64 {
    if let Some(relist) = relist
        && relist.changed().await.is_ok()
    {
        return *relist.borrow_and_update();
    }
    std::future::pending().await
}

/// A continue token is base64: only these characters need escaping in a URL.
fn encoded(token: &str) -> String {
    token.replace('%', "%25").replace('+', "%2B").replace('/', "%2F").replace('=', "%3D").replace('&', "%26")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::super::client::tests::client_to;
    use super::*;

    /// Long enough that nothing but a hang meets it.
    const LONG: Duration = Duration::from_secs(20);

    /// An API server. Its watches show nothing, or are refused because etcd was restored.
    async fn serve(listener: TcpListener, restored: Arc<AtomicBool>) {
        while let Ok((mut tcp, _)) = listener.accept().await {
            let restored = restored.clone();
            tokio::spawn(async move {
                let mut request = [0; 8192];
                while let Ok(length) = tcp.read(&mut request).await
                    && length > 0
                {
                    let watches = String::from_utf8_lossy(&request[..length]).contains("watch=1");
                    let refused = r#"{"kind":"Status","code":504,"message":"Timeout: Too large resource version: 100, current: 5"}"#;
                    let answer = match watches {
                        true if restored.load(Ordering::SeqCst) => {
                            format!("HTTP/1.1 504 No\r\nContent-Length: {}\r\n\r\n{refused}", refused.len())
                        }
                        true => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
                        false => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_owned(),
                    };
                    if tcp.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                    // The watch is cut, as by an API server that ends.
                    while watches && !restored.load(Ordering::SeqCst) {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    if watches {
                        return;
                    }
                }
            });
        }
    }

    /// Follows a kind at the API server that listens there, until the test is over: the news, and the sender that asks for lists.
    async fn follow(listener: &TcpListener, resource: Resource) -> (mpsc::Receiver<Fed>, mpsc::Sender<u64>) {
        let client = client_to(listener.local_addr().unwrap()).await;
        let (tell, news) = mpsc::channel(8);
        let (ask, asks) = mpsc::channel(1);
        let follow = Follow { client, resource, only: None, deadline: LONG, tell, asks, relist: None, observe: () };
        tokio::spawn(follow.run());
        (news, ask)
    }

    async fn next(news: &mut mpsc::Receiver<Fed>) -> What {
        tokio::time::timeout(LONG, news.recv()).await.expect("no news").expect("the follower has ended").what
    }

    /// The news that come, up to the second list.
    async fn until_listed_again(restore: bool) -> Vec<&'static str> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (mut news, _asks) = follow(&listener, Resource::Nodes).await;
        let restored = Arc::new(AtomicBool::new(false));
        tokio::spawn(serve(listener, restored.clone()));
        let mut seen = vec![];
        while seen.iter().filter(|one| **one == "page").count() < 2 && seen.len() < 8 {
            seen.push(match next(&mut news).await {
                What::Page { reply, .. } => {
                    let _ = reply.send(Turned { next: String::new(), version: "100".into() });
                    "page"
                }
                What::Lost(_) => "lost",
                What::Live => {
                    if restore {
                        restored.store(true, Ordering::SeqCst);
                    } else {
                        // The follower waits for lines by now.
                        tokio::task::yield_now().await;
                        tokio::time::pause();
                        tokio::time::advance(SILENT + Duration::from_secs(1)).await;
                        tokio::time::resume();
                    }
                    "live"
                }
                What::Lines(_) | What::Missing => "else",
            });
        }
        seen
    }

    /// Answers lists with so many bytes for each object that is asked for; the limits that were asked for.
    async fn serve_large(listener: TcpListener, of_each: usize) -> Vec<u32> {
        let mut asked = vec![];
        loop {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let mut request = [0; 8192];
            while let Ok(length) = tcp.read(&mut request).await
                && length > 0
            {
                let text = String::from_utf8_lossy(&request[..length]).into_owned();
                if text.contains("watch=1") {
                    return asked;
                }
                let limit = text.split("limit=").nth(1).unwrap().split(['&', ' ']).next().unwrap().parse().unwrap();
                asked.push(limit);
                let page = format!("{{}}{}", " ".repeat(limit as usize * of_each));
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", page.len());
                // The client hangs up when it has had enough.
                if tcp.write_all(head.as_bytes()).await.is_err() || tcp.write_all(page.as_bytes()).await.is_err() {
                    break;
                }
            }
        }
    }

    #[tokio::test]
    async fn large_objects_are_listed_in_smaller_pages() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (mut news, _asks) = follow(&listener, Resource::Services).await;
        let server = tokio::spawn(serve_large(listener, 50_000));
        let mut longest = 0;
        loop {
            match next(&mut news).await {
                What::Page { reply, first, bytes, .. } => {
                    longest = longest.max(bytes.len());
                    let next = if first { "more" } else { "" };
                    reply.send(Turned { next: next.into(), version: "100".into() }).unwrap();
                    if next.is_empty() {
                        break;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(server.await.unwrap(), [1000, 500, 250, 250]);
        assert!(longest < 16 << 20, "{longest}");
    }

    /// Answers a list in two pages. Tells of each page that was asked for.
    async fn serve_pages(listener: TcpListener, asked: mpsc::Sender<()>) {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let mut request = [0; 8192];
        loop {
            let length = tcp.read(&mut request).await.unwrap();
            let next = if String::from_utf8_lossy(&request[..length]).contains("&continue=more") { "" } else { "more" };
            asked.send(()).await.unwrap();
            let page = format!(r#"{{"items":[],"metadata":{{"continue":"{next}","resourceVersion":"100"}}}}"#);
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{page}", page.len());
            tcp.write_all(answer.as_bytes()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn the_next_page_is_asked_for_while_a_page_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (mut news, _asks) = follow(&listener, Resource::Claims).await;
        let (ask, mut asked) = mpsc::channel(8);
        tokio::spawn(serve_pages(listener, ask));
        for token in ["more", ""] {
            let What::Page { reply, first, .. } = next(&mut news).await else { panic!("not a page") };
            assert_eq!(first, !token.is_empty());
            if first {
                for _ in 0..2 {
                    tokio::time::timeout(LONG, asked.recv()).await.expect("not asked for").unwrap();
                }
            }
            reply.send(Turned { next: token.into(), version: "100".into() }).unwrap();
        }
    }

    #[tokio::test]
    async fn a_watch_that_shows_nothing_at_all_is_followed_by_a_list() {
        assert_eq!(until_listed_again(false).await, ["page", "live", "lost", "page"]);
    }

    #[tokio::test]
    async fn a_version_that_the_api_server_has_not_reached_is_followed_by_a_list() {
        let seen = until_listed_again(true).await;
        assert_eq!(seen, ["page", "live", "lost", "lost", "page"], "the watch is cut, and then refused");
    }
}
