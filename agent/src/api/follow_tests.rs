//! Following a collection, against API servers on loopback that hang, end their watches, lie, or send too much.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use http::Request;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use super::testing::{Answer, Cluster, Server, answer, stream, stream_of};
use super::typed::{Follow, Followed};
use super::{Limits, Servers};

/// Long enough that nothing but a hang meets it.
const LONG: Duration = Duration::from_secs(20);
/// The time without news after which an API server is asked whether it is there.
const QUIET: Duration = Duration::from_millis(250);

/// A piece of news, in short.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    Listed(usize),
    Applied(String),
    Alive,
    Lost,
}

pub(super) fn pods(servers: &Servers) -> Follow {
    Follow {
        servers: servers.clone(),
        path: "/api/v1/pods".into(),
        resource: "pods",
        what: "the Pods".into(),
        fields: None,
        labels: None,
        page: Some(250),
        limits: Limits { deadline: LONG, patience: Duration::from_millis(100) },
        backoff: (Duration::from_millis(20), Duration::from_millis(50)),
        quiet: LONG,
        relist: false,
        kick: Arc::new(Notify::new()),
    }
}

/// Follows in a task. The receiver's end ends the task.
fn start(follow: Follow) -> mpsc::Receiver<News> {
    let (tx, rx) = mpsc::channel(64);
    tokio::spawn(follow.run(move |followed: Followed<Value>| {
        let news = match followed {
            Followed::Listed(all) => News::Listed(all.len()),
            Followed::Applied(one) => News::Applied(one["metadata"]["name"].as_str().unwrap_or_default().into()),
            Followed::Deleted(_) => panic!("nothing is deleted here"),
            Followed::Alive => News::Alive,
            Followed::Lost(_) => News::Lost,
        };
        let tx = tx.clone();
        async move { tx.send(news).await.is_ok() }.boxed()
    }));
    rx
}

pub(super) async fn next(rx: &mut mpsc::Receiver<News>) -> News {
    tokio::time::timeout(LONG, rx.recv()).await.unwrap().unwrap()
}

pub(super) fn pod(name: &str, version: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "resourceVersion": version.to_string()}})
}

pub(super) fn list(version: u64, pods: &[Value]) -> Answer {
    answer(200, json!({"metadata": {"resourceVersion": version.to_string()}, "items": pods}).to_string())
}

pub(super) fn is_watch(request: &Request<Bytes>) -> bool {
    request.uri().query().is_some_and(|query| query.contains("watch=true"))
}

/// The open watches of an API server: what a test sends arrives as lines.
pub(super) type Watches = mpsc::UnboundedReceiver<mpsc::UnboundedSender<String>>;

/// An API server with some Pods. While `hangs` is true it takes requests and answers none.
pub(super) async fn serving(cluster: &Cluster, version: u64, hangs: Arc<AtomicBool>) -> (Server, Watches) {
    let (opened, watches) = mpsc::unbounded_channel();
    let server = cluster
        .serve(move |request| {
            let hangs = hangs.load(Ordering::SeqCst);
            let response = if is_watch(&request) {
                let (tx, rx) = mpsc::unbounded_channel();
                let _ = opened.send(tx);
                stream(rx)
            } else if request.uri().path() == "/readyz" {
                answer(500, "not ready")
            } else {
                list(version, &[pod("a", version)])
            };
            async move { if hangs { std::future::pending().await } else { response } }
        })
        .await;
    (server, watches)
}

fn count(server: &Server, part: &str) -> usize {
    server.asked().iter().filter(|asked| asked.contains(part)).count()
}

#[tokio::test]
async fn a_watch_on_an_api_server_that_hangs_moves_to_another() {
    let cluster = Cluster::new();
    let hangs = Arc::new(AtomicBool::new(false));
    let (first, mut watches) = serving(&cluster, 7, hangs.clone()).await;
    let (second, mut others) = serving(&cluster, 7, Arc::default()).await;
    let servers = cluster.servers(vec![first.url(), second.url()]);
    let mut rx = start(Follow { quiet: QUIET, ..pods(&servers) });
    assert_eq!((next(&mut rx).await, next(&mut rx).await), (News::Listed(1), News::Alive));
    // The connection stays open, and nothing comes any more.
    let _open = watches.recv().await.unwrap();
    hangs.store(true, Ordering::SeqCst);
    assert_eq!(next(&mut rx).await, News::Lost);
    while next(&mut rx).await != News::Alive {}
    let watch = others.recv().await.unwrap();
    watch.send(json!({"type": "MODIFIED", "object": pod("b", 8)}).to_string()).unwrap();
    assert_eq!(next(&mut rx).await, News::Applied("b".into()));
}

#[tokio::test]
async fn a_quiet_watch_on_an_api_server_that_is_there_stays() {
    let cluster = Cluster::new();
    let (server, mut watches) = serving(&cluster, 7, Arc::default()).await;
    let mut rx = start(Follow { quiet: QUIET, ..pods(&cluster.servers(vec![server.url()])) });
    assert_eq!((next(&mut rx).await, next(&mut rx).await), (News::Listed(1), News::Alive));
    let watch = watches.recv().await.unwrap();
    while count(&server, "/readyz") < 2 {
        tokio::time::sleep(QUIET / 10).await;
    }
    watch.send(json!({"type": "MODIFIED", "object": pod("b", 8)}).to_string()).unwrap();
    assert_eq!(next(&mut rx).await, News::Applied("b".into()));
    assert_eq!(count(&server, "watch=true"), 1, "{:?}", server.asked());
}

#[tokio::test]
async fn a_watch_that_ends_goes_on_from_what_it_showed() {
    let cluster = Cluster::new();
    let (server, mut watches) = serving(&cluster, 7, Arc::default()).await;
    let mut rx = start(pods(&cluster.servers(vec![server.url()])));
    assert_eq!((next(&mut rx).await, next(&mut rx).await), (News::Listed(1), News::Alive));
    let mut told = vec![];
    for version in [8, 9, 110, 111] {
        let watch = watches.recv().await.unwrap();
        watch.send(json!({"type": "MODIFIED", "object": pod("b", version)}).to_string()).unwrap();
        assert_eq!(next(&mut rx).await, News::Applied("b".into()));
        if version == 9 {
            // A bookmark shows no object, but a version.
            watch.send(json!({"type": "BOOKMARK", "object": pod("", 100)}).to_string()).unwrap();
            assert_eq!(next(&mut rx).await, News::Alive);
        }
        drop(watch);
        assert_eq!((next(&mut rx).await, next(&mut rx).await), (News::Lost, News::Alive));
        told.push(server.asked().last().cloned().unwrap());
    }
    for (asked, version) in told.iter().zip([8, 100, 110, 111]) {
        assert!(asked.ends_with(&format!("resourceVersion={version}")), "{told:?}");
    }
    assert_eq!(server.asked().len(), 1 + 5, "one list, five watches: {:?}", server.asked());
}

#[tokio::test]
async fn a_version_that_is_gone_is_listed_again() {
    let cluster = Cluster::new();
    let (server, mut watches) = serving(&cluster, 7, Arc::default()).await;
    let mut rx = start(pods(&cluster.servers(vec![server.url()])));
    assert_eq!((next(&mut rx).await, next(&mut rx).await), (News::Listed(1), News::Alive));
    let gone = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"});
    watches.recv().await.unwrap().send(json!({"type": "ERROR", "object": gone}).to_string()).unwrap();
    assert_eq!((next(&mut rx).await, next(&mut rx).await), (News::Listed(1), News::Alive));
}

#[tokio::test]
async fn a_list_that_is_arriving_is_not_asked_of_another_server_beside_it() {
    let cluster = Cluster::new();
    // The answer takes longer than the patience; each part of it takes a tenth of the patience.
    let limits = Limits { deadline: LONG, patience: Duration::from_millis(500) };
    let slow = cluster
        .serve(|request| async move {
            let (tx, rx) = mpsc::unbounded_channel();
            tokio::spawn(async move {
                if is_watch(&request) {
                    return tx.closed().await;
                }
                let text = json!({"metadata": {"resourceVersion": "7"}, "items": [pod("a", 7)]}).to_string();
                for part in text.as_bytes().chunks(text.len() / 20) {
                    let part = String::from_utf8_lossy(part).into_owned();
                    if tx.send(part).is_err() {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
            stream_of(rx, "")
        })
        .await;
    let (other, _watches) = serving(&cluster, 7, Arc::default()).await;
    let mut rx = start(Follow { limits, ..pods(&cluster.servers(vec![slow.url(), other.url()])) });
    assert_eq!(next(&mut rx).await, News::Listed(1));
    assert_eq!(count(&other, "limit="), 0, "{:?}", other.asked());
}

#[tokio::test]
async fn a_page_that_is_too_long_comes_in_smaller_pages() {
    let cluster = Cluster::new();
    // 200 Pods of 100 kB each; 8 MiB are read at once.
    let server = cluster
        .serve(|request| async move {
            if is_watch(&request) {
                return stream(mpsc::unbounded_channel().1);
            }
            let query = request.uri().query().unwrap_or_default();
            let value = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.parse::<usize>().ok());
            let (start, limit) = (value("continue=").unwrap_or(0), value("limit=").unwrap_or(usize::MAX));
            let end = start.saturating_add(limit).min(200);
            let mut pods: Vec<Value> = (start..end).map(|n| pod(&n.to_string(), 7)).collect();
            for pod in &mut pods {
                pod["spec"] = "x".repeat(100_000).into();
            }
            let more = if end < 200 { end.to_string() } else { String::new() };
            answer(200, json!({"metadata": {"resourceVersion": "7", "continue": more}, "items": pods}).to_string())
        })
        .await;
    for page in [Some(250), None] {
        let mut rx = start(Follow { page, ..pods(&cluster.servers(vec![server.url()])) });
        assert_eq!(next(&mut rx).await, News::Listed(200));
    }
}
