//! The client against API servers on loopback, over real TLS.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;

use super::testing::{Answer, Cluster, Server, answer, lease, status, stream};
use super::{
    ApiError, ConfigError, EventNote, Events, Failure, HealthError, LeaseApi, LeaseSettings, Limits, Regarding,
    Servers, Severity, Slices, Source, Verb, Watched, Write,
};
use crate::core::lease::{Notes, Record};
use crate::core::time::WallTime;

/// Long enough that nothing but a hang meets it.
pub(super) const LONG: Duration = Duration::from_secs(20);
/// Short, where a hang is meant.
const SHORT: Limits = Limits { deadline: Duration::from_millis(600), patience: Duration::from_millis(100) };

pub(super) fn api(servers: &Servers) -> LeaseApi {
    let annotations = [("team".to_owned(), "net".to_owned()), ("mooring.dev/tenure".to_owned(), "mine!".to_owned())];
    let settings = LeaseSettings {
        namespace: "kube-system".into(),
        name: "plndr-cp-lock".into(),
        annotations: annotations.into(),
    };
    LeaseApi::new(servers.clone(), settings)
}

fn record(holder: &str) -> Record {
    Record {
        holder: holder.into(),
        duration: Duration::from_secs(15),
        acquired: Some(WallTime(1_795_168_800_000_000)),
        renewed: Some(WallTime(1_795_168_801_000_000)),
        transitions: 2,
    }
}

pub(super) fn write(base: Option<&str>) -> Write {
    Write { base: base.map(str::to_owned), record: record("cp1"), notes: Notes::default() }
}

async fn shows(cluster: &Cluster, version: u64) -> Server {
    cluster.serve(move |_| async move { answer(200, lease(version, "cp1").to_string()) }).await
}

#[tokio::test]
async fn a_refused_connection_falls_through_at_once() {
    let cluster = Cluster::new();
    let good = shows(&cluster, 7).await;
    let servers = cluster.servers(vec![Cluster::nobody().await, good.url()]);
    let read = api(&servers).read(LONG).await.unwrap();
    assert_eq!(read.view.unwrap().version, "7");
    assert_eq!(good.asked(), ["GET /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/plndr-cp-lock"]);
    assert_eq!(*cluster.calls.0.lock().unwrap(), [(Verb::Get, "refused"), (Verb::Get, "ok")]);
    let status = servers.status();
    assert_eq!(status.current.as_deref(), Some(good.url().to_string().trim_end_matches('/')));
    assert_eq!(status.servers.iter().map(|s| s.1).collect::<Vec<_>>(), [true, false]);
}

#[tokio::test]
async fn a_hanging_server_costs_the_patience_once() {
    let cluster = Cluster::new();
    let (hangs, good) = (cluster.frozen().await, shows(&cluster, 7).await);
    let servers = cluster.servers(vec![hangs.url(), good.url()]);
    let limits = Limits { deadline: LONG, patience: Duration::from_millis(100) };
    assert!(api(&servers).read_within(limits).await.unwrap().view.is_some());
    assert!(servers.status().servers[0].1);
    // Now the good one comes first: nothing else is asked, however long one would wait for it.
    let limits = Limits { deadline: LONG, patience: LONG };
    assert!(api(&servers).read_within(limits).await.unwrap().view.is_some());
}

#[tokio::test]
async fn a_slow_server_still_answers_while_others_fail() {
    let cluster = Cluster::new();
    let slow = cluster
        .serve(|_| async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            answer(200, lease(7, "cp1").to_string())
        })
        .await;
    let servers = cluster.servers(vec![slow.url(), Cluster::nobody().await]);
    let limits = Limits { deadline: LONG, patience: Duration::from_millis(50) };
    assert!(api(&servers).read_within(limits).await.unwrap().view.is_some());
}

#[tokio::test]
async fn what_the_api_answers_is_not_asked_of_another() {
    let cluster = Cluster::new();
    let other = shows(&cluster, 7).await;
    for (code, category) in [(409, "conflict"), (404, "not_found"), (422, "rejected")] {
        let says = cluster.serve(move |_| async move { status(code, "no") }).await;
        let servers = cluster.servers(vec![says.url(), other.url()]);
        let error = api(&servers).write(&write(None), LONG).await.unwrap_err();
        assert_eq!((error.category(), error.answered(), error.maybe_applied()), (category, true, false));
        assert_eq!(says.asked(), ["POST /apis/coordination.k8s.io/v1/namespaces/kube-system/leases?"]);
    }
    assert_eq!(other.asked(), [""; 0]);
}

#[tokio::test]
async fn one_that_denies_is_passed_over_unless_all_do() {
    let cluster = Cluster::new();
    let good = shows(&cluster, 7).await;
    for (code, category) in [(403, "forbidden"), (401, "unauthorized")] {
        let no = cluster.serve(move |_| async move { status(code, "no") }).await;
        let servers = cluster.servers(vec![no.url(), good.url()]);
        assert!(api(&servers).read(LONG).await.unwrap().view.is_some(), "{code}");
        assert!(servers.status().servers[0].1, "the next call begins with the other one");
        let second = cluster.serve(move |_| async move { status(code, "not here either") }).await;
        let error = api(&cluster.servers(vec![no.url(), second.url()])).write(&write(None), LONG).await.unwrap_err();
        assert_eq!((error.category(), error.answered(), error.maybe_applied()), (category, true, false));
        assert!(error.to_string().ends_with(": no"), "the first one's words: {error}");
        let error = api(&cluster.servers(vec![no.url(), Cluster::nobody().await])).read(LONG).await.unwrap_err();
        assert_eq!(error.category(), category, "the other cannot answer");
    }
}

#[tokio::test]
async fn the_end_of_a_namespace_is_an_answer_and_no_lack_of_rights() {
    let cluster = Cluster::new();
    let other = cluster.serve(|_| async { status(403, "no") }).await;
    let ending = cluster
        .serve(|_| async {
            let causes = serde_json::json!([{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]);
            let said = serde_json::json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "it ends",
                                          "details": {"causes": causes}});
            answer(403, said.to_string())
        })
        .await;
    let servers = cluster.servers(vec![ending.url(), other.url()]);
    let error = api(&servers).write(&write(None), LONG).await.unwrap_err();
    assert_eq!((error.category(), &*error.to_string()), ("rejected", "refused with 403: it ends"));
    assert_eq!(other.asked(), [""; 0], "no other would accept it");
    let _ = api(&servers).write(&write(None), LONG).await;
    assert_eq!((ending.asked().len(), other.asked().len()), (2, 0), "the server is as good as before");
}

#[tokio::test]
async fn forbidden_names_verb_and_resource() {
    let cluster = Cluster::new();
    let says = cluster.serve(|_| async { status(403, "leases is forbidden: User \"x\" cannot") }).await;
    let error = api(&cluster.servers(vec![says.url()])).read(LONG).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("not allowed to get leases.coordination.k8s.io") && text.contains("User \"x\""), "{text}");
}

#[tokio::test]
async fn a_server_that_cannot_is_passed_over() {
    let cluster = Cluster::new();
    let (etcd, good) =
        (cluster.serve(|_| async { status(500, "etcdserver: no leader") }).await, shows(&cluster, 7).await);
    assert!(api(&cluster.servers(vec![etcd.url(), good.url()])).read(LONG).await.unwrap().view.is_some());
    let error = api(&cluster.servers(vec![etcd.url()])).write(&write(None), LONG).await.unwrap_err();
    assert!(!error.answered() && error.maybe_applied(), "{error}");
    assert!(error.to_string().contains("etcdserver: no leader"), "{error}");
}

#[tokio::test]
async fn nobody_there_is_away_and_nothing_was_applied() {
    let cluster = Cluster::new();
    let servers = cluster.servers(vec![Cluster::nobody().await, Cluster::nobody().await]);
    let error = api(&servers).write(&write(None), LONG).await.unwrap_err();
    assert_eq!((error.category(), error.answered(), error.maybe_applied()), ("refused", false, false));
}

#[tokio::test]
async fn a_write_that_got_no_answer_may_be_applied_but_not_one_without_a_connection() {
    let cluster = Cluster::new();
    let takes = cluster.serve(|_| std::future::pending::<Answer>()).await;
    let servers = cluster.servers(vec![takes.url()]);
    let error = api(&servers).write_within(&write(None), SHORT).await.unwrap_err();
    assert_eq!((error.category(), error.maybe_applied()), ("timeout", true));
    let error = api(&servers).read_within(SHORT).await.unwrap_err();
    assert!(!error.maybe_applied());
    // TCP is accepted by the kernel; TLS never comes about.
    let frozen = cluster.frozen().await;
    let error = api(&cluster.servers(vec![frozen.url()])).write_within(&write(None), SHORT).await.unwrap_err();
    assert_eq!((error.category(), error.maybe_applied()), ("timeout", false));
}

#[tokio::test]
async fn a_conflict_with_ones_own_write_is_success() {
    // The first applies it and falls silent; the second says that the Lease is another by now.
    let cluster = Cluster::new();
    let takes = cluster.serve(|_| std::future::pending::<Answer>()).await;
    for (holder, mine) in [("cp1", true), ("cp2", false)] {
        let second = cluster
            .serve(move |request| async move {
                if request.method() == http::Method::POST {
                    return status(409, "already exists");
                }
                let mut now = lease(8, holder);
                now["spec"]["renewTime"] = "2026-11-20T10:00:01.000000Z".into();
                now["spec"]["leaseTransitions"] = 2.into();
                answer(200, now.to_string())
            })
            .await;
        let servers = cluster.servers(vec![takes.url(), second.url()]);
        let limits = Limits { deadline: LONG, patience: Duration::from_millis(50) };
        let result = api(&servers).write_within(&write(None), limits).await;
        match result {
            Ok(view) => assert!(mine && view.version == "8"),
            Err(error) => assert!(!mine && error.category() == "conflict", "{error}"),
        }
        assert_eq!(second.asked().len(), 2);
    }
}

#[tokio::test]
async fn an_update_is_a_put_on_top_of_what_others_wrote() {
    let cluster = Cluster::new();
    let server = cluster
        .serve(|request| async move {
            if request.method() == http::Method::PUT {
                let sent: serde_json::Value = serde_json::from_slice(request.body()).unwrap();
                assert_eq!(sent["metadata"]["resourceVersion"], "7");
                assert_eq!(sent["metadata"]["labels"]["theirs"], "kept");
                assert_eq!(sent["metadata"]["annotations"], serde_json::json!({"team": "net"}));
                assert_eq!(sent["spec"]["renewTime"], "2026-11-20T10:00:01.000000Z");
                let mut now = sent.clone();
                now["metadata"]["resourceVersion"] = "8".into();
                return answer(200, now.to_string());
            }
            answer(200, lease(7, "cp1").to_string())
        })
        .await;
    let api = api(&cluster.servers(vec![server.url()]));
    // Without having seen version 7 there is nothing to base it on, and nobody is asked.
    let error = api.write(&write(Some("7")), LONG).await.unwrap_err();
    assert_eq!((error.category(), server.asked().len()), ("conflict", 0));
    api.read(LONG).await.unwrap();
    assert_eq!(api.write(&write(Some("7")), LONG).await.unwrap().version, "8");
}

#[tokio::test]
async fn nonsense_is_no_answer() {
    let cluster = Cluster::new();
    for text in ["", "<html>", "{}", r#"{"metadata":{"name":"other","resourceVersion":"1"}}"#] {
        let server = cluster.serve(move |_| async move { answer(200, text) }).await;
        let error = api(&cluster.servers(vec![server.url()])).read(LONG).await.unwrap_err();
        assert_eq!((error.category(), error.answered()), ("malformed", false), "{text}");
    }
}

#[tokio::test]
async fn another_clusters_certificate_is_refused() {
    let (cluster, other) = (Cluster::new(), Cluster::new());
    let stranger = shows(&other, 7).await;
    let error = api(&cluster.servers(vec![stranger.url()])).read(LONG).await.unwrap_err();
    let ApiError::Away(away) = &error else { panic!("{error}") };
    assert!(matches!(away.tries[0].failure, Failure::Tls(_)), "{error}");
    assert_eq!(stranger.asked(), [""; 0]);
}

#[tokio::test]
async fn new_credentials_are_taken_within_the_same_call() {
    let cluster = Cluster::new();
    let server = cluster
        .serve(|request| async move {
            match request.headers().get("authorization").map(http::HeaderValue::as_bytes) {
                Some(b"Bearer new") => answer(200, lease(7, "cp1").to_string()),
                _ => status(401, "Unauthorized"),
            }
        })
        .await;
    let servers = cluster.servers(vec![server.url()]);
    let api = api(&servers);
    let error = api.read(LONG).await.unwrap_err();
    assert!(error.to_string().contains(&server.address.to_string()), "{error}");
    // Half written first: what was good goes on, and the trouble is told.
    std::fs::write(cluster.path(), "apiVersion: v1\nclus").unwrap();
    assert!(matches!(api.read(LONG).await, Err(ApiError::Unauthorized { .. })));
    assert!(matches!(servers.status().error, Some(ConfigError::Malformed { .. })));
    std::fs::write(cluster.path(), cluster.kubeconfig("https://192.0.2.1:6443", "new")).unwrap();
    assert!(api.read(LONG).await.unwrap().view.is_some());
    assert_eq!(servers.status().error, None);
}

#[tokio::test]
async fn what_stands_in_the_kubeconfigs_place_is_named_and_waited_for() {
    let cluster = Cluster::new();
    let server = shows(&cluster, 7).await;
    let servers = cluster.servers(vec![server.url()]);
    let good = std::fs::read_to_string(cluster.path()).unwrap();
    let api = api(&servers);
    let error = async || match api.read(LONG).await {
        Err(ApiError::Config(error)) => error,
        other => panic!("{other:?}"),
    };
    std::fs::remove_file(cluster.path()).unwrap();
    assert!(matches!(error().await, ConfigError::Missing { .. }));
    std::fs::create_dir(cluster.path()).unwrap();
    let text = error().await.to_string();
    assert!(text.contains("FileOrCreate"), "{text}");
    std::fs::remove_dir(cluster.path()).unwrap();
    std::fs::write(cluster.path(), "").unwrap();
    assert!(matches!(error().await, ConfigError::Empty { .. }));
    // Cut anywhere: an error or, at the end, all of it; never a panic, never a piece of it in the text.
    for cut in (1..good.len()).step_by(7) {
        std::fs::write(cluster.path(), &good[..cut]).unwrap();
        if let Err(error) = Source::File(cluster.path()).load().await {
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
    std::fs::write(cluster.path(), good.replace("    token: secret-token", "    exec: {command: x, apiVersion: v1}"))
        .unwrap();
    assert!(matches!(error().await, ConfigError::Unsupported { what: "exec", .. }));
    std::fs::write(cluster.path(), good.replace("secret-token", "[secret-token")).unwrap();
    let text = error().await.to_string();
    assert!(text.contains("half written") && !text.contains("secret"), "{text}");
    std::fs::rename(cluster.dir.path().join("ca.crt"), cluster.dir.path().join("later")).unwrap();
    std::fs::write(cluster.path(), &good).unwrap();
    assert!(matches!(error().await, ConfigError::Unreadable { .. }));
    // The CA comes while the kubeconfig stays as it is.
    std::fs::rename(cluster.dir.path().join("later"), cluster.dir.path().join("ca.crt")).unwrap();
    assert!(api.read(LONG).await.unwrap().view.is_some());
    let shown = format!("{:?}", Source::File(cluster.path()).load().await.unwrap());
    assert!(!shown.contains("secret") && shown.contains("192.0.2.1"), "{shown}");
}

/// What no parser of ours may stumble over, nor wait for.
#[tokio::test]
async fn a_kubeconfig_of_half_characters_or_without_an_end_is_refused() {
    let cluster = Cluster::new();
    let source = Source::File(cluster.path());
    let good = cluster.kubeconfig("https://192.0.2.1:6443", "secret-token");
    let utf16: Vec<u8> = good.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for bytes in [b"\xff\xfeA".to_vec(), b"\xfe\xff\0".to_vec(), [b"\xff\xfe", &utf16[..7]].concat(), vec![0xc3]] {
        std::fs::write(cluster.path(), &bytes).unwrap();
        let error = source.load().await.unwrap_err();
        assert!(matches!(&error, ConfigError::Malformed { what, .. } if what == "not UTF-8"), "{error}");
    }
    std::fs::write(cluster.path(), [b"\xef\xbb\xbf", good.as_bytes()].concat()).unwrap();
    assert!(source.load().await.is_ok(), "a byte order mark");
    for server in ["192.0.2.1:6443", "/path", "ftp://192.0.2.1"] {
        std::fs::write(cluster.path(), cluster.kubeconfig(server, "t")).unwrap();
        let error = source.load().await.unwrap_err().to_string();
        assert!(error.contains("not a URL"), "{server}: {error}");
    }
    std::fs::write(cluster.path(), &good).unwrap();
    let ca = cluster.dir.path().join("ca.crt");
    std::fs::remove_file(&ca).unwrap();
    nix::unistd::mkfifo(&ca, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = source.load().await.unwrap_err();
    assert!(matches!(&error, ConfigError::Unreadable { path, .. } if *path == ca), "{error}");
    assert!(error.to_string().contains("not a regular file"), "{error}");
    std::fs::remove_file(&ca).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &ca).unwrap();
    assert!(matches!(source.load().await, Err(ConfigError::Unreadable { .. })));
}

fn list(version: u64, items: &[serde_json::Value]) -> Answer {
    let body = serde_json::json!({"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1",
        "metadata":{"resourceVersion":version.to_string()},"items":items});
    answer(200, body.to_string())
}

/// An API server whose watches are given out to the test.
async fn watched(
    cluster: &Cluster,
    version: Arc<AtomicU64>,
) -> (Server, mpsc::UnboundedReceiver<mpsc::UnboundedSender<String>>) {
    let (opened, watches) = mpsc::unbounded_channel();
    let server = cluster
        .serve(move |request| {
            let now = version.load(Ordering::SeqCst);
            let response = if request.uri().query().is_some_and(|q| q.contains("watch=true")) {
                let (tx, rx) = mpsc::unbounded_channel();
                opened.send(tx).unwrap();
                stream(rx)
            } else {
                list(now, &[lease(now, "cp1")])
            };
            async { response }
        })
        .await;
    (server, watches)
}

async fn next(rx: &mut mpsc::Receiver<Watched>) -> Watched {
    tokio::time::timeout(LONG, rx.recv()).await.unwrap().unwrap()
}

fn version(watched: &Watched) -> &str {
    match watched {
        Watched::Seen { view: Some(view), .. } => &view.version,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_watch_tells_changes_life_and_loss() {
    let cluster = Cluster::new();
    let at = Arc::new(AtomicU64::new(7));
    let (server, mut watches) = watched(&cluster, at.clone()).await;
    let (tx, mut rx) = mpsc::channel(8);
    let _handle = api(&cluster.servers(vec![server.url()])).watch(tx, LONG);
    assert_eq!(version(&next(&mut rx).await), "7");
    assert!(matches!(next(&mut rx).await, Watched::Alive { .. }));
    let watch = watches.recv().await.unwrap();
    assert!(
        server.asked()[1].contains("fieldSelector=metadata.name%3Dplndr-cp-lock")
            && server.asked()[1].contains("resourceVersion=7")
    );
    watch.send(serde_json::json!({"type":"MODIFIED","object":lease(8, "cp2")}).to_string()).unwrap();
    assert_eq!(version(&next(&mut rx).await), "8");
    let mark =
        serde_json::json!({"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"resourceVersion":"20"}});
    watch.send(serde_json::json!({"type":"BOOKMARK","object":mark}).to_string()).unwrap();
    assert!(matches!(next(&mut rx).await, Watched::Alive { .. }));
    watch.send(serde_json::json!({"type":"DELETED","object":lease(21, "cp2")}).to_string()).unwrap();
    assert!(matches!(next(&mut rx).await, Watched::Seen { view: None, .. }));
    // The version is gone: it begins with a list again, and nothing is lost in between.
    at.store(30, Ordering::SeqCst);
    let gone = serde_json::json!({"kind":"Status","apiVersion":"v1","code":410,"reason":"Expired","message":"too old","status":"Failure"});
    watch.send(serde_json::json!({"type":"ERROR","object":gone}).to_string()).unwrap();
    assert_eq!(version(&next(&mut rx).await), "30");
    assert!(matches!(next(&mut rx).await, Watched::Alive { .. }));
    // Rubbish on the wire.
    let watch = watches.recv().await.unwrap();
    watch.send("{\"type\":\"MODIFIED\",\"object\":7}".into()).unwrap();
    assert!(matches!(next(&mut rx).await, Watched::Lost { .. }));
    assert_eq!(version(&next(&mut rx).await), "30");
}

#[tokio::test]
async fn a_watch_that_ends_begins_again_with_a_consistent_read() {
    let cluster = Cluster::new();
    let at = Arc::new(AtomicU64::new(7));
    let (server, mut watches) = watched(&cluster, at.clone()).await;
    let (tx, mut rx) = mpsc::channel(8);
    let _handle = api(&cluster.servers(vec![server.url()])).watch(tx, LONG);
    next(&mut rx).await;
    next(&mut rx).await;
    let watch = watches.recv().await.unwrap();
    watch.send(serde_json::json!({"type":"MODIFIED","object":lease(9, "cp2")}).to_string()).unwrap();
    assert_eq!(version(&next(&mut rx).await), "9");
    at.store(11, Ordering::SeqCst);
    drop(watch);
    assert!(matches!(next(&mut rx).await, Watched::Lost { .. }));
    assert_eq!(version(&next(&mut rx).await), "11");
    assert!(matches!(next(&mut rx).await, Watched::Alive { .. }));
    let asked = server.asked();
    assert_eq!(asked.len(), 4);
    assert!(!asked[2].contains("resourceVersion") && asked[3].contains("resourceVersion=11"), "{asked:?}");
}

#[tokio::test]
async fn a_kick_moves_the_watch_to_another_server() {
    let cluster = Cluster::new();
    let (first, _silent) = watched(&cluster, Arc::new(AtomicU64::new(7))).await;
    let (second, _other) = watched(&cluster, Arc::new(AtomicU64::new(8))).await;
    let (tx, mut rx) = mpsc::channel(8);
    let handle = api(&cluster.servers(vec![first.url(), second.url()])).watch(tx, LONG);
    assert_eq!(version(&next(&mut rx).await), "7");
    assert!(matches!(next(&mut rx).await, Watched::Alive { .. }));
    // The task waits on the stream as soon as it has told us; let it.
    tokio::task::yield_now().await;
    handle.kick();
    assert!(matches!(next(&mut rx).await, Watched::Lost { .. }));
    assert_eq!(version(&next(&mut rx).await), "8");
    assert_eq!(first.asked().len(), 2);
}

#[tokio::test]
async fn a_server_that_dies_takes_the_watch_along_and_another_takes_over() {
    let cluster = Cluster::new();
    let (first, _a) = watched(&cluster, Arc::new(AtomicU64::new(7))).await;
    let (second, _b) = watched(&cluster, Arc::new(AtomicU64::new(8))).await;
    let (tx, mut rx) = mpsc::channel(8);
    let _handle = api(&cluster.servers(vec![first.url(), second.url()])).watch(tx, LONG);
    assert_eq!(version(&next(&mut rx).await), "7");
    assert!(matches!(next(&mut rx).await, Watched::Alive { .. }));
    drop(first);
    loop {
        match next(&mut rx).await {
            Watched::Seen { view, .. } => break assert_eq!(view.unwrap().version, "8"),
            Watched::Alive { .. } | Watched::Lost { .. } => {}
        }
    }
}

#[tokio::test]
async fn peers_are_learned_and_asked_after_the_own_and_before_the_named_one() {
    let cluster = Cluster::new();
    let slices = cluster
        .serve(|_| async {
            let slice = |name: &str, address: &str| {
                serde_json::json!({"metadata":{"name":name,"resourceVersion":"1"},"addressType":"IPv4",
                "endpoints":[{"addresses":[address]}],"ports":[{"name":"https","port":6443}]})
            };
            let all = [slice("kubernetes", "192.0.2.11"), slice("more", "192.0.2.12"), slice("self", "192.0.2.10")];
            let body = serde_json::json!({"metadata":{"resourceVersion":"1"},"items":all});
            answer(200, body.to_string())
        })
        .await;
    std::fs::write(cluster.path(), cluster.kubeconfig("https://192.0.2.100:6443", "t")).unwrap();
    let settings = super::Settings {
        local: Some(slices.url()),
        ..super::Settings::control_plane(Source::File(cluster.path()), "cp1")
    };
    let servers = Servers::new(settings, Arc::new(()));
    servers.set_own_addresses(vec!["192.0.2.10".parse().unwrap()]);
    let follow = Slices::follow(&servers);
    let mut seen = follow.subscribe();
    tokio::time::timeout(LONG, seen.changed()).await.unwrap().unwrap();
    assert_eq!(seen.borrow().len(), 3);
    assert_eq!(servers.peers().len(), 2);
    let order = async || servers.order().await.unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
    let first = order().await;
    // This node's own, on the port that is listed, and not on loopback's.
    assert_eq!(first[0], "https://192.0.2.10:6443");
    assert_eq!((first.len(), first[3].as_str()), (4, "https://192.0.2.100:6443"));
    servers.prefer_local(false);
    let second = order().await;
    assert_eq!((&second[2], &second[3]), (&first[0], &first[3]));
    servers.prefer_local(true);
    assert_eq!(order().await, first);
}

#[tokio::test]
async fn health_is_what_readyz_says_to_us() {
    let cluster = Cluster::new();
    let ready = cluster.serve(|_| async { answer(200, "ok") }).await;
    let not = cluster.serve(|_| async { answer(500, "[+]ping ok\n[-]etcd failed: reason withheld\n") }).await;
    let frozen = cluster.frozen().await;
    let servers = cluster.servers(vec![ready.url()]);
    assert_eq!(servers.probe(&ready.url(), LONG).await, Ok(()));
    assert_eq!(ready.asked(), ["GET /readyz"]);
    let error = servers.probe(&not.url(), LONG).await.unwrap_err();
    assert!(matches!(&error, HealthError::NotReady { code: 500, what, .. } if what == "etcd failed"), "{error}");
    let error = servers.probe(&frozen.url(), Duration::from_millis(200)).await.unwrap_err();
    assert_eq!(error.category(), "timeout");
    assert_eq!(servers.probe(&Cluster::nobody().await, LONG).await.unwrap_err().category(), "refused");
    servers.set_peers(vec![ready.address, not.address, frozen.address]);
    let peers = servers.probe_peers(Duration::from_secs(2)).await;
    assert_eq!(peers.iter().map(|p| p.1).collect::<Vec<_>>(), [true, false, false]);
}

/// A server that answers all Events with this status, and the Events as they come.
async fn takes_events(cluster: &Cluster, status: u16) -> (Server, mpsc::UnboundedReceiver<serde_json::Value>) {
    let (tx, rx) = mpsc::unbounded_channel();
    let server = cluster
        .serve(move |request| {
            tx.send(serde_json::from_slice(request.body()).unwrap()).unwrap();
            async move { answer(status, "{}") }
        })
        .await;
    (server, rx)
}

#[tokio::test]
async fn an_event_of_a_service_has_one_name_on_all_nodes() {
    let cluster = Cluster::new();
    // As the API server answers if another node was first.
    let (server, mut rx) = takes_events(&cluster, 409).await;
    let note = |uid: &str, text: &str| EventNote {
        regarding: Regarding::Service { namespace: "shop".into(), name: "web".into(), uid: uid.into() },
        severity: Severity::Warning,
        reason: "AnnotationNotHonoured",
        action: "Serve",
        note: text.into(),
    };
    let mut names = Vec::new();
    for (node, uid, text) in [("w1", "u1", "one"), ("w2", "u1", "one"), ("w1", "u2", "one"), ("w1", "u1", "two")] {
        let events = Events::start(cluster.servers(vec![server.url()]), node);
        assert!(events.send(note(uid, text)));
        let event = tokio::time::timeout(LONG, rx.recv()).await.unwrap().unwrap();
        assert_eq!((&event["note"], &event["regarding"]["uid"]), (&text.into(), &uid.into()));
        assert_eq!(event["metadata"]["namespace"], "shop");
        names.push(event["metadata"]["name"].as_str().unwrap().to_owned());
    }
    assert!(names[0] == names[1] && names[0] != names[2] && names[0] != names[3], "{names:?}");
    // The refusal was no reason to try again.
    assert!(rx.try_recv().is_err());
}

#[tokio::test]
async fn events_are_sent_once() {
    let cluster = Cluster::new();
    let (server, mut rx) = takes_events(&cluster, 201).await;
    let events = Events::start(cluster.servers(vec![server.url()]), "cp1");
    let note = |text: &str| EventNote {
        regarding: Regarding::Node { name: "cp1".into() },
        severity: Severity::Warning,
        reason: "ForeignOwner",
        action: "Defend",
        note: text.into(),
    };
    for text in ["one", "one", "two"] {
        assert!(events.send(note(text)));
    }
    let first = tokio::time::timeout(LONG, rx.recv()).await.unwrap().unwrap();
    assert_eq!(
        (&first["note"], &first["type"], &first["regarding"]["kind"]),
        (&"one".into(), &"Warning".into(), &"Node".into())
    );
    assert_eq!(first["metadata"]["namespace"], "default");
    assert_eq!(tokio::time::timeout(LONG, rx.recv()).await.unwrap().unwrap()["note"], "two");
}
