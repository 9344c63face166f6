//! Watches that lie, never end a line, or show another history than the one that was followed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use http::Response;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use mooring_common::api::lines::SILENT;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;
use proptest::sample::select;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::follow_tests::{News, is_watch, list, next, pod, pods, serving};
use super::lying_servers::holds;
use super::testing::{Answer, Cluster, Server, answer, status, stream};
use super::typed::{Follow, Followed};

/// The time without news after which the API server of a watch is asked about itself.
const QUIET: Duration = Duration::from_millis(250);

/// An object that not every JSON is.
#[derive(Clone, Debug, Deserialize)]
struct Pod {
    metadata: Metadata,
}

#[derive(Clone, Debug, Deserialize)]
struct Metadata {
    name: String,
}

/// Follows Pods in a task.
fn start(follow: Follow) -> mpsc::Receiver<News> {
    let (tx, rx) = mpsc::channel(64);
    tokio::spawn(follow.run(move |followed: Followed<Pod>| {
        let news = match followed {
            Followed::Listed(all) => News::Listed(all.len()),
            Followed::Applied(one) | Followed::Deleted(one) => News::Applied(one.metadata.name),
            Followed::Alive => News::Alive,
            Followed::Lost(_) => News::Lost,
        };
        let tx = tx.clone();
        async move { tx.send(news).await.is_ok() }.boxed()
    }));
    rx
}

/// What a lying API server says when it is asked for a watch.
#[derive(Clone, Debug)]
enum Lie {
    /// It refuses to open the watch.
    Refuses(u16, &'static str),
    /// It shows this, and ends the watch, or leaves it open.
    Shows(String, bool),
}

impl Lie {
    fn answer(&self) -> Answer {
        match self {
            Self::Refuses(code, text) => answer(*code, *text),
            Self::Shows(text, ends) => {
                let (tx, rx) = mpsc::unbounded_channel();
                tx.send(text.clone()).unwrap();
                if !ends {
                    tokio::spawn(async move { tx.closed().await });
                }
                stream(rx)
            }
        }
    }
}

fn event(kind: &str, object: &Value) -> String {
    json!({"type": kind, "object": object}).to_string()
}

fn lies() -> impl Strategy<Value = Lie> {
    const PAGE: &str = "<html>\n<body>";
    let refused = (select(vec![400, 404, 405, 410, 422, 500, 503, 504]), select(vec!["", PAGE, "{}"]));
    let error = |status: Value| event("ERROR", &status);
    let coded = |code: Value| error(json!({"kind": "Status", "code": code, "message": "no", "reason": "x"}));
    let shown = vec![
        "null".into(),
        "7".into(),
        "[]".into(),
        "{}".into(),
        PAGE.into(),
        "\0\0\0".into(),
        "[".repeat(100_000),
        event("MODIFIED", &json!(7)),
        event("MODIFIED", &json!({"metadata": {"name": 7}})),
        event("WHATEVER", &pod("old", 9)),
        // A list in place of a watch.
        json!({"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": [pod("old", 7)]}).to_string(),
        error(Value::Null),
        error(json!({})),
        coded(410.into()),
        coded(500.into()),
        coded(504.into()),
        coded(0.into()),
        coded(65_535.into()),
        coded("x".into()),
        // Versions that were shown before.
        event("MODIFIED", &pod("old", 3)),
        event("DELETED", &pod("old", 6)),
        event("BOOKMARK", &pod("", 3)),
    ];
    let cut = (1..60_usize).prop_map(|at| event("MODIFIED", &pod("old", 9)).chars().take(at).collect::<String>());
    prop_oneof![
        1 => refused.prop_map(|(code, text)| Lie::Refuses(code, text)),
        1 => Just(Lie::Refuses(200, PAGE)),
        4 => (select(shown), any::<bool>()).prop_map(|(text, ends)| Lie::Shows(text, ends)),
        1 => (cut, any::<bool>()).prop_map(|(text, ends)| Lie::Shows(text, ends)),
        1 => Just(Lie::Shows(String::new(), true)),
    ]
}

#[test]
fn a_watch_leaves_a_server_that_lies_and_believes_nothing() {
    holds(40, vec(lies(), 1..5), async |lies| {
        let cluster = Cluster::new();
        let lies: Mutex<VecDeque<Lie>> = Mutex::new(lies.into());
        let liar = cluster
            .serve(move |request| {
                let response = if is_watch(&request) {
                    let mut lies = lies.lock().unwrap();
                    lies.rotate_left(1);
                    lies.back().unwrap().answer()
                } else {
                    list(7, &[pod("a", 7)])
                };
                async move { response }
            })
            .await;
        let (good, mut watches) = serving(&cluster, 7, Arc::default()).await;
        let mut rx = start(pods(&cluster.servers(vec![liar.url(), good.url()])));
        let watch = loop {
            tokio::select! {
                watch = watches.recv() => break watch.unwrap(),
                news = next(&mut rx) => assert!(!matches!(&news, News::Applied(_)), "{news:?}"),
            }
            assert!(liar.asked().len() < 60, "it is asked first for ever");
        };
        watch.send(event("MODIFIED", &pod("b", 8))).unwrap();
        loop {
            match next(&mut rx).await {
                News::Applied(name) => break assert_eq!(name, "b"),
                News::Listed(_) | News::Alive | News::Lost => {}
            }
        }
    });
}

#[tokio::test]
async fn a_line_without_an_end_is_not_kept() {
    const PART: usize = 64 << 10;
    const MOST: usize = 48 << 20;
    let cluster = Cluster::new();
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = sent.clone();
    let endless = cluster
        .serve(move |request| {
            let sent = counter.clone();
            let response = if is_watch(&request) {
                let part = Bytes::from(vec![b'x'; PART]);
                let parts = futures::stream::poll_fn(move |_| {
                    if sent.load(Ordering::SeqCst) >= MOST {
                        return Poll::Pending;
                    }
                    sent.fetch_add(PART, Ordering::SeqCst);
                    Poll::Ready(Some(Ok(Frame::data(part.clone()))))
                });
                Response::new(BoxBody::new(StreamBody::new(parts).boxed()))
            } else {
                list(7, &[pod("a", 7)])
            };
            async move { response }
        })
        .await;
    let (good, mut watches) = serving(&cluster, 7, Arc::default()).await;
    let mut rx = start(pods(&cluster.servers(vec![endless.url(), good.url()])));
    let watch = loop {
        tokio::select! {
            watch = watches.recv() => break watch.unwrap(),
            news = next(&mut rx) => assert!(!matches!(&news, News::Applied(_)), "{news:?}"),
        }
    };
    assert!(sent.load(Ordering::SeqCst) < MOST, "it read all that was sent");
    watch.send(event("MODIFIED", &pod("b", 8))).unwrap();
    while next(&mut rx).await != News::Applied("b".into()) {}
}

/// An API server that is at a version, and shows in its watches only what comes after the version that they begin with.
/// The receiver has its open watches.
async fn at(
    cluster: &Cluster,
    version: Arc<AtomicU64>,
    says_too_large: bool,
) -> (Server, mpsc::UnboundedReceiver<mpsc::UnboundedSender<String>>) {
    let (opened, watches) = mpsc::unbounded_channel();
    let server = cluster
        .serve(move |request| {
            let now = version.load(Ordering::SeqCst);
            let query = request.uri().query().unwrap_or_default();
            let from = query.split('&').find_map(|part| part.strip_prefix("resourceVersion=")?.parse::<u64>().ok());
            let response = if request.uri().path() == "/readyz" {
                answer(200, "ok")
            } else if !is_watch(&request) {
                list(now, &[pod("a", now)])
            } else if says_too_large && from > Some(now) {
                status(504, &format!("Timeout: Too large resource version: {}, current: {now}", from.unwrap_or(0)))
            } else {
                let (tx, rx) = mpsc::unbounded_channel();
                opened.send(tx).unwrap();
                stream(rx)
            };
            async move { response }
        })
        .await;
    (server, watches)
}

#[tokio::test]
async fn after_a_restore_to_a_lower_version_a_lost_watch_is_followed_by_a_list() {
    for says_too_large in [false, true] {
        let cluster = Cluster::new();
        let version = Arc::new(AtomicU64::new(100));
        let (server, mut watches) = at(&cluster, version.clone(), says_too_large).await;
        let mut rx = start(Follow { quiet: QUIET, ..pods(&cluster.servers(vec![server.url()])) });
        assert_eq!((next(&mut rx).await, next(&mut rx).await), (News::Listed(1), News::Alive));
        // etcd is restored, and the API server starts again.
        let watch = watches.recv().await.unwrap();
        version.store(5, Ordering::SeqCst);
        drop(watch);
        while next(&mut rx).await != News::Listed(1) {}
        while next(&mut rx).await != News::Alive {}
        let asked = server.asked();
        let second = asked.iter().rposition(|asked| asked.contains("limit=250")).unwrap();
        let is_watch = |asked: &&String| asked.contains("watch=true");
        assert_eq!(asked[..second].iter().filter(is_watch).count(), 2, "one more watch, then a list: {asked:?}");
        assert!(asked[second..].iter().any(|asked| asked.ends_with("resourceVersion=5")), "{asked:?}");
    }
}

#[tokio::test]
async fn a_lost_watch_goes_on_without_a_list_where_versions_count_on() {
    let cluster = Cluster::new();
    let version = Arc::new(AtomicU64::new(100));
    let (server, mut watches) = at(&cluster, version.clone(), false).await;
    let mut rx = start(Follow { quiet: QUIET, ..pods(&cluster.servers(vec![server.url()])) });
    assert_eq!((next(&mut rx).await, next(&mut rx).await), (News::Listed(1), News::Alive));
    drop(watches.recv().await.unwrap());
    assert_eq!((next(&mut rx).await, next(&mut rx).await), (News::Lost, News::Alive));
    let watch = watches.recv().await.unwrap();
    // The version is asked for once, and then only whether the API server is there.
    let count = |part: &str| server.asked().iter().filter(|asked| asked.contains(part)).count();
    while count("limit=1") == 0 || count("/readyz") < 2 {
        tokio::time::sleep(QUIET / 10).await;
    }
    watch.send(event("MODIFIED", &pod("b", 101))).unwrap();
    assert_eq!(next(&mut rx).await, News::Applied("b".into()));
    assert_eq!((count("limit=1"), count("limit=250"), count("watch=true")), (1, 1, 2), "{:?}", server.asked());
}

#[tokio::test]
async fn a_watch_that_shows_nothing_at_all_is_followed_by_a_list() {
    let cluster = Cluster::new();
    let (server, mut watches) = at(&cluster, Arc::new(AtomicU64::new(7)), false).await;
    // The Lease's watch: a list comes at once where one is due.
    let follow = Follow { quiet: 10 * SILENT, relist: true, ..pods(&cluster.servers(vec![server.url()])) };
    let mut rx = start(follow);
    assert_eq!((next(&mut rx).await, next(&mut rx).await), (News::Listed(1), News::Alive));
    let _open = watches.recv().await.unwrap();
    tokio::task::yield_now().await;
    tokio::time::pause();
    tokio::time::advance(SILENT + Duration::from_secs(1)).await;
    tokio::time::resume();
    assert_eq!((next(&mut rx).await, next(&mut rx).await), (News::Listed(1), News::Alive));
}

#[tokio::test]
async fn a_watch_that_shows_something_now_and_then_goes_on_without_a_list() {
    let cluster = Cluster::new();
    let (server, mut watches) = at(&cluster, Arc::new(AtomicU64::new(7)), false).await;
    let follow = Follow { quiet: 10 * SILENT, ..pods(&cluster.servers(vec![server.url()])) };
    let mut rx = start(follow);
    assert_eq!((next(&mut rx).await, next(&mut rx).await), (News::Listed(1), News::Alive));
    let watch = watches.recv().await.unwrap();
    watch.send(event("BOOKMARK", &pod("", 20))).unwrap();
    assert_eq!(next(&mut rx).await, News::Alive);
    tokio::task::yield_now().await;
    tokio::time::pause();
    tokio::time::advance(SILENT + Duration::from_secs(1)).await;
    tokio::time::resume();
    assert_eq!(next(&mut rx).await, News::Alive);
    assert!(server.asked().last().unwrap().ends_with("resourceVersion=20"), "{:?}", server.asked());
}
