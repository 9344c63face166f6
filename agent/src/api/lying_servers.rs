//! Calls to API servers that lie, hang, break off, or are no API servers at all, beside one that is good.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Uri;
use mooring_common::api::ask::Collection;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::testing::{Answer, Cluster, Server, answer, lease, stream_of};
use super::tests::{LONG, api, write};
use super::{Limits, Servers};

/// A good API server is there: nothing but a hang meets the deadline.
const AMONG: Limits = Limits { deadline: LONG, patience: Duration::from_millis(50) };
/// No API server is good: the deadline is met whenever one hangs.
const ALONE: Limits = Limits { deadline: Duration::from_millis(200), patience: Duration::from_millis(40) };
const PAGE: &str = "<!DOCTYPE html>\n<html><body>Please log in</body></html>";

/// A server that gives no answer to a call for the Lease.
#[derive(Clone)]
enum Lie {
    /// Nobody listens.
    Nobody,
    /// It takes connections, and that is all.
    Frozen,
    /// It sends these bytes. Then it closes the connection, or it hangs.
    Sends(Vec<u8>, bool),
    /// It denies the call, as an API server with other keys does.
    Denies(Vec<u8>),
}

impl Lie {
    const fn hangs(&self) -> bool {
        matches!(self, Self::Frozen | Self::Sends(_, true))
    }
}

impl fmt::Debug for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => f.write_str("Nobody"),
            Self::Frozen => f.write_str("Frozen"),
            Self::Sends(bytes, hangs) => write!(f, "Sends({:?}, {hangs})", String::from_utf8_lossy(bytes)),
            Self::Denies(bytes) => write!(f, "Denies({:?})", String::from_utf8_lossy(bytes)),
        }
    }
}

impl Lie {
    /// Where it can be reached, and the server that must live as long.
    async fn start(&self, cluster: &Cluster) -> (Uri, Option<Server>) {
        let server = match self {
            Self::Nobody => return (Cluster::nobody().await, None),
            Self::Frozen => cluster.frozen().await,
            Self::Sends(bytes, hangs) => cluster.bytes(bytes.clone(), *hangs).await,
            Self::Denies(bytes) => cluster.bytes(bytes.clone(), false).await,
        };
        (server.url(), Some(server))
    }
}

/// A whole answer.
fn http(head: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    [format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

/// The good answer, in each of the three ways in which its end can be told.
fn good_answers() -> Vec<Vec<u8>> {
    let body = lease(7, "cp1").to_string();
    let (one, two) = body.split_at(body.len() / 2);
    let chunks = format!("{:x}\r\n{one}\r\n{:X};ext=1\r\n{two}\r\n0\r\n\r\n", one.len(), two.len());
    vec![
        http("200 OK\r\nContent-Type: application/json", &body),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}").into_bytes(),
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{body}").into_bytes(),
    ]
}

/// Bodies of good answers that are not the Lease.
fn rubbish() -> Vec<Vec<u8>> {
    let (good, mut unversioned, mut wrong) = (lease(7, "cp1").to_string(), lease(7, "cp1"), lease(7, "cp1"));
    unversioned["metadata"]["resourceVersion"] = Value::Null;
    wrong["spec"]["holderIdentity"] = 7.into();
    let mut other = lease(7, "cp1");
    other["metadata"]["name"] = "another".into();
    let mut node = lease(7, "cp1");
    (node["kind"], node["apiVersion"]) = ("Node".into(), "v1".into());
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "metadata": {}});
    let list = json!({"kind": "LeaseList", "metadata": {"resourceVersion": "7"}, "items": [lease(7, "cp1")]});
    let values = [unversioned, wrong, other, node, status, list].map(|value| value.to_string().into_bytes());
    let texts = ["", " ", PAGE, "{}", "[]", "null", "7", "\"ok\"", "ok", "1e999999", "\u{feff}{}"];
    let mut all: Vec<Vec<u8>> = values.into_iter().chain(texts.map(|text| text.as_bytes().to_vec())).collect();
    all.push(good.as_bytes()[..good.len() / 2].to_vec());
    all.push(format!("{good}}}").into_bytes());
    all.push("[".repeat(100_000).into_bytes());
    all.push("{\"a\":".repeat(100_000).into_bytes());
    all.push(b"\xff\xfe{\0}\0".to_vec());
    all
}

/// Refusals that are no answer: the next API server may answer.
fn refusals() -> impl Strategy<Value = Lie> {
    let code = select(vec![101, 300, 301, 302, 307, 308, 408, 429, 500, 501, 502, 503, 504, 599, 999]);
    let after = select(vec!["", "0", "-1", "18446744073709551615", "1e99", "soon", "Wed, 21 Oct 2015 07:28:00 GMT"]);
    let status = r#"{"kind":"Status","code":"x","message":7}"#;
    let body = prop_oneof![select(vec!["", PAGE, status, "x"]).prop_map(|text| text.as_bytes().to_vec()), bytes()];
    let refused = (code, after, body).prop_map(|(code, after, body)| {
        let head = format!("{code} No\r\nLocation: https://192.0.2.1/\r\nRetry-After: {after}");
        Lie::Sends(http(&head, body), false)
    });
    // A proxy's pages have the codes that an API server's answers have.
    let page = select(vec![400, 401, 403, 404, 405, 409, 410, 422])
        .prop_map(|code| Lie::Sends(http(&format!("{code} No\r\nContent-Type: text/html"), PAGE), false));
    let denied = select(vec![401, 403]).prop_map(|code| {
        let status = json!({"kind": "Status", "code": code, "message": "no"}).to_string();
        Lie::Denies(http(&format!("{code} No"), status))
    });
    prop_oneof![3 => refused, 2 => page, 1 => denied]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..300)
}

fn lies() -> impl Strategy<Value = Lie> {
    let ok = "200 OK\r\nContent-Type: application/json";
    let body = prop_oneof![4 => select(rubbish()), 1 => bytes()];
    let cut = (select(good_answers()), any::<Index>(), any::<bool>()).prop_map(|(mut all, at, hangs)| {
        all.truncate(at.index(all.len()));
        Lie::Sends(all, hangs)
    });
    prop_oneof![
        1 => Just(Lie::Nobody),
        1 => Just(Lie::Frozen),
        4 => refusals(),
        5 => body.prop_map(move |body| Lie::Sends(http(ok, body), false)),
        1 => (bytes(), any::<bool>()).prop_map(|(bytes, hangs)| Lie::Sends(bytes, hangs)),
        4 => cut,
    ]
}

/// Tries a property with this many values, each in a runtime of its own.
pub(super) fn holds<S: Strategy>(cases: u32, values: S, property: impl AsyncFn(S::Value)) {
    let config = Config { cases, max_shrink_iters: 100, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&values, |value| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(property(value));
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// A good API server: it has the Lease, and takes writes.
async fn good(cluster: &Cluster) -> Server {
    cluster
        .serve(|request| async move {
            if request.method() == http::Method::GET {
                answer(200, lease(7, "cp1").to_string())
            } else {
                answer(201, lease(8, "cp1").to_string())
            }
        })
        .await
}

#[test]
fn a_good_server_among_lying_ones_answers() {
    holds(40, vec(lies(), 1..4), async |lies| {
        let cluster = Cluster::new();
        let good = good(&cluster).await;
        let (mut listed, mut running) = (vec![], vec![]);
        for lie in &lies {
            let (url, server) = lie.start(&cluster).await;
            listed.push(url);
            running.push(server);
        }
        listed.push(good.url());
        let servers = cluster.servers(listed.clone());
        let read = api(&servers).read_within(AMONG).await;
        assert_eq!(read.unwrap().view.unwrap().version, "7");
        if lies.iter().any(Lie::hangs) && !is_first(&servers, &good) {
            // A server that hangs may have been asked just before the good one, because one before it was slow. It is asked first now,
            // and its time is up before another is asked.
            assert!(api(&servers).read_within(AMONG).await.is_ok());
        }
        assert!(is_first(&servers, &good), "a server that lied would be asked first again: {:?}", servers.status());
        let servers = cluster.servers(listed);
        let written = api(&servers).write_within(&write(None), AMONG).await;
        assert_eq!(written.unwrap().version, "8");
        if lies.iter().any(Lie::hangs) && !is_first(&servers, &good) {
            assert!(api(&servers).write_within(&write(None), AMONG).await.is_ok());
        }
        assert!(is_first(&servers, &good), "a server that lied would be asked first again: {:?}", servers.status());
    });
}

/// Whether all servers before this one are skipped, and this one is not.
fn is_first(servers: &Servers, good: &Server) -> bool {
    let all = servers.status().servers;
    let at = all.iter().position(|(url, _)| url.contains(&good.address.to_string()));
    at.is_some_and(|at| !all[at].1 && all[..at].iter().all(|(_, skipped)| *skipped))
}

#[test]
fn lying_servers_alone_are_no_answer_and_take_no_longer_than_the_deadline() {
    holds(40, vec(lies(), 1..4), async |lies| {
        let cluster = Cluster::new();
        let (mut listed, mut running) = (vec![], vec![]);
        for lie in &lies {
            let (url, server) = lie.start(&cluster).await;
            listed.push(url);
            running.push(server);
        }
        let api = api(&cluster.servers(listed));
        let calls = async {
            let read = api.read_within(ALONE).await.map(drop);
            [read, api.write_within(&write(None), ALONE).await.map(drop)]
        };
        let denied = lies.iter().any(|lie| matches!(lie, Lie::Denies(_)));
        for result in tokio::time::timeout(LONG, calls).await.expect("a call without an end") {
            let error = result.expect_err("something was believed");
            assert!(denied || !error.answered(), "{error:?}");
            assert!(error.to_string().len() < 2_000, "{error}");
        }
    });
}

#[tokio::test]
async fn a_connection_may_break_at_any_byte() {
    let cluster = Cluster::new();
    let good = good(&cluster).await;
    for whole in good_answers() {
        for end in (0..whole.len()).step_by(5).chain([whole.len() - 1]) {
            let breaks = cluster.bytes(whole[..end].to_vec(), false).await;
            let servers = cluster.servers(vec![breaks.url(), good.url()]);
            let read = api(&servers).read_within(Limits { patience: LONG, ..AMONG }).await;
            assert_eq!(read.unwrap().view.unwrap().version, "7");
            let current = servers.status().current.unwrap();
            assert!(current.contains(&good.address.to_string()), "broke after {end} bytes of {}", whole.len());
        }
    }
}

/// Blanks are JSON, as far as they go.
#[tokio::test]
async fn an_object_that_trickles_in_for_ever_does_not_keep_the_next_server_from_being_asked() {
    let cluster = Cluster::new();
    let good = good(&cluster).await;
    let trickles = cluster.serve(|_| async { trickle() }).await;
    let servers = cluster.servers(vec![trickles.url(), good.url()]);
    // So long that even a busy machine lets a part arrive in time.
    let limits = Limits { patience: Duration::from_millis(500), ..AMONG };
    assert_eq!(api(&servers).read_within(limits).await.unwrap().view.unwrap().version, "7");
    assert_eq!(api(&servers).write_within(&write(None), limits).await.unwrap().version, "8");
}

fn trickle() -> Answer {
    let (tx, rx) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while tx.send(" ".to_owned()).is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    stream_of(rx, "")
}

fn pods(version: u64, token: &str) -> Value {
    let pod = json!({"metadata": {"name": "a", "resourceVersion": "7"}});
    json!({"kind": "PodList", "metadata": {"resourceVersion": version.to_string(), "continue": token}, "items": [pod]})
}

async fn list(servers: &Servers) -> Result<usize, String> {
    let what = "the Pods";
    let collection = Collection { path: "/api/v1/pods", resource: "pods", what, fields: None, labels: None };
    let listed = servers.ask_for_all::<Value>(collection, &mut Some(250), AMONG).await;
    listed.map(|(all, _)| all.len()).map_err(|error| error.category().to_owned())
}

#[tokio::test]
async fn a_list_of_another_kind_is_no_answer() {
    let cluster = Cluster::new();
    let good = cluster.serve(|_| async { answer(200, pods(7, "").to_string()) }).await;
    for lie in [
        json!({"kind": "NodeList", "metadata": {"resourceVersion": "7"}, "items": []}),
        json!({"kind": "Pod", "metadata": {"resourceVersion": "7"}}),
        json!({"kind": "Status", "metadata": {}, "status": "Success"}),
        json!({"kind": "PodList", "metadata": {}, "items": []}),
        json!({}),
    ] {
        let text = lie.to_string();
        let lies = cluster.bytes(http("200 OK", &text), false).await;
        let servers = cluster.servers(vec![lies.url(), good.url()]);
        assert_eq!(list(&servers).await, Ok(1), "{text}");
        assert!(is_first(&servers, &good), "{text}");
    }
}

#[tokio::test]
async fn a_list_without_an_end_is_given_up() {
    let cluster = Cluster::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let same = cluster
        .serve(move |_| {
            // It ends some time, or a client that asks for ever would hang the test.
            let ends = counter.fetch_add(1, Ordering::SeqCst) > 100;
            async move { if ends { answer(500, "") } else { answer(200, pods(7, "again").to_string()) } }
        })
        .await;
    let servers = cluster.servers(vec![same.url()]);
    assert_eq!(list(&servers).await, Err("malformed".into()));
    assert_eq!(same.asked().len(), 2);
    assert!(!is_first(&servers, &same));
    let counts = cluster
        .serve(move |_| {
            let token = asked.fetch_add(1, Ordering::SeqCst);
            async move {
                if token > 10_000 { answer(500, "") } else { answer(200, pods(7, &token.to_string()).to_string()) }
            }
        })
        .await;
    assert_eq!(list(&cluster.servers(vec![counts.url()])).await, Err("malformed".into()));
}
