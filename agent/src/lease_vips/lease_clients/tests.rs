//! Leases on an API server on loopback, over real TLS: what is asked of it, and what electors hear.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request};
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::*;
use crate::api::testing::{Answer, Cluster, Server, answer, status, stream};
use crate::core::lease::{LeaseView, Notes, Record};

/// Long enough that nothing but a hang meets it.
const LONG: Duration = Duration::from_secs(20);
/// As electors ask.
const WITHIN: Duration = Duration::from_secs(2);
/// As electors wait before they try again.
const AGAIN: Duration = Duration::from_secs(1);

/// What the API server does with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Answers,
    /// It takes requests and answers none.
    Hangs,
    /// It says that it cannot.
    Refuses,
}

/// A watch: of the namespace, and the name if one is selected.
type Open = (String, Option<String>, mpsc::UnboundedSender<String>);

/// An API server's Leases, and what it was asked.
struct Store {
    leases: Mutex<BTreeMap<(String, String), Value>>,
    version: Mutex<u64>,
    /// The watches that were opened.
    watches: Mutex<Vec<Open>>,
    mood: watch::Sender<Mood>,
    /// Reads of one Lease are answered while this is true.
    reads: watch::Sender<bool>,
    /// What was asked, in short: `list NS`, `list NS/NAME`, `watch NS`, `get NS/NAME`, `put NS/NAME`.
    asked: watch::Sender<Vec<String>>,
}

fn lease(namespace: &str, name: &str, version: u64, holder: &str) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": version.to_string(), "uid": "u",
            "labels": {"theirs": "kept"}},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 1,
            "acquireTime": "2026-11-20T10:00:00.000000Z", "renewTime": "2026-11-20T10:00:00.000000Z"}})
}

impl Store {
    fn new<'a>(names: impl Iterator<Item = &'a str>) -> Arc<Self> {
        let leases = names.map(|full| {
            let (namespace, name) = split(full);
            ((namespace.to_owned(), name.to_owned()), lease(namespace, name, 7, "w1"))
        });
        Arc::new(Self {
            leases: Mutex::new(leases.collect()),
            version: Mutex::new(7),
            watches: Mutex::default(),
            mood: watch::channel(Mood::Answers).0,
            reads: watch::channel(true).0,
            asked: watch::channel(vec![]).0,
        })
    }

    async fn serve(self: &Arc<Self>, cluster: &Cluster) -> Server {
        let store = self.clone();
        cluster
            .serve(move |request| {
                let store = store.clone();
                async move { store.answer(request).await }
            })
            .await
    }

    async fn answer(&self, request: Request<Bytes>) -> Answer {
        let path = request.uri().path();
        if path == "/readyz" {
            return answer(200, "ok");
        }
        let (_, rest) = path.split_once("/namespaces/").unwrap();
        let (namespace, rest) = rest.split_once("/leases").unwrap();
        let query = request.uri().query().unwrap_or_default();
        let selected = query.split_once("metadata.name%3D").map(|(_, rest)| rest.split('&').next().unwrap().to_owned());
        let name = rest.strip_prefix('/').map(str::to_owned).or(selected);
        let verb = match (request.method(), query.contains("watch=true"), rest.is_empty()) {
            (&Method::PUT, ..) => "put",
            (_, true, _) => "watch",
            (_, _, true) => "list",
            _ => "get",
        };
        let full = name.as_ref().map_or_else(|| namespace.to_owned(), |name| format!("{namespace}/{name}"));
        self.asked.send_modify(|asked| asked.push(format!("{verb} {full}")));
        let mood = *self.mood.borrow();
        match mood {
            Mood::Answers => {}
            Mood::Hangs => return std::future::pending().await,
            Mood::Refuses => return status(503, "no leader"),
        }
        let key = |name: &Option<String>| (namespace.to_owned(), name.clone().unwrap_or_default());
        match verb {
            "watch" => {
                let (tx, rx) = mpsc::unbounded_channel();
                self.watches.lock().unwrap().push((namespace.to_owned(), name, tx));
                stream(rx)
            }
            "list" => {
                let leases = self.leases.lock().unwrap();
                let here = leases
                    .iter()
                    .filter(|((there, one), _)| there == namespace && name.as_ref().is_none_or(|name| name == one));
                let items: Vec<&Value> = here.map(|(_, lease)| lease).collect();
                let version = self.version.lock().unwrap().to_string();
                answer(200, json!({"metadata": {"resourceVersion": version}, "items": items}).to_string())
            }
            "get" => {
                let found = self.leases.lock().unwrap().get(&key(&name)).cloned();
                self.reads.subscribe().wait_for(|answers| *answers).await.unwrap();
                found.map_or_else(|| status(404, "no such Lease"), |lease| answer(200, lease.to_string()))
            }
            _ => {
                let sent: Value = serde_json::from_slice(request.body()).unwrap();
                if self.version_of(&full) != sent["metadata"]["resourceVersion"].as_str().map(str::to_owned) {
                    return status(409, "another version");
                }
                answer(200, self.put(&full, sent).to_string())
            }
        }
    }

    fn version_of(&self, full: &str) -> Option<String> {
        let (namespace, name) = split(full);
        let leases = self.leases.lock().unwrap();
        let lease = leases.get(&(namespace.to_owned(), name.to_owned()))?;
        Some(lease["metadata"]["resourceVersion"].as_str()?.to_owned())
    }

    /// Stores a Lease with a new version, and shows it to the watches.
    fn put(&self, full: &str, mut lease: Value) -> Value {
        let (namespace, name) = split(full);
        let mut version = self.version.lock().unwrap();
        *version += 1;
        lease["metadata"]["resourceVersion"] = version.to_string().into();
        self.leases.lock().unwrap().insert((namespace.to_owned(), name.to_owned()), lease.clone());
        self.show("MODIFIED", namespace, name, &lease);
        lease
    }

    /// Another node renews it.
    fn renew(&self, full: &str, holder: &str) -> String {
        let (namespace, name) = split(full);
        let lease = self.put(full, lease(namespace, name, 0, holder));
        lease["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    }

    fn delete(&self, full: &str) {
        let (namespace, name) = split(full);
        let mut lease = self.leases.lock().unwrap().remove(&(namespace.to_owned(), name.to_owned())).unwrap();
        let mut version = self.version.lock().unwrap();
        *version += 1;
        lease["metadata"]["resourceVersion"] = version.to_string().into();
        self.show("DELETED", namespace, name, &lease);
    }

    fn show(&self, kind: &str, namespace: &str, name: &str, lease: &Value) {
        for (there, selected, tx) in self.watches.lock().unwrap().iter() {
            if there == namespace && selected.as_ref().is_none_or(|selected| selected == name) {
                let _ = tx.send(json!({"type": kind, "object": lease}).to_string());
            }
        }
    }

    /// Ends all watches.
    fn cut(&self) {
        self.watches.lock().unwrap().clear();
    }

    fn count(&self, what: &str) -> usize {
        self.asked.borrow().iter().filter(|asked| asked.starts_with(what)).count()
    }

    /// Waits until it was asked this so many times.
    async fn was_asked(&self, what: &str, times: usize) {
        let mut asked = self.asked.subscribe();
        let enough = asked.wait_for(|all| all.iter().filter(|one| one.starts_with(what)).count() >= times);
        timeout(LONG, enough).await.unwrap().unwrap();
    }
}

struct World {
    /// Its kubeconfig is read on first use.
    _cluster: Cluster,
    store: Arc<Store>,
    _server: Server,
    clients: LeaseClients,
    told: mpsc::Receiver<OfLease>,
}

impl World {
    async fn new<'a>(there: impl Iterator<Item = &'a str>) -> Self {
        let cluster = Cluster::new();
        let store = Store::new(there);
        let server = store.serve(&cluster).await;
        let (tx, told) = mpsc::channel(1024);
        let clients = LeaseClients::new(cluster.servers(vec![server.url()]), tx);
        Self { _cluster: cluster, store, _server: server, clients, told }
    }

    fn want(&mut self, names: &[&str]) {
        self.clients.set(names.iter().copied());
    }

    async fn next(&mut self) -> OfLease {
        timeout(LONG, self.told.recv()).await.unwrap().unwrap()
    }

    /// The next that is told of any Lease: its name, and its version if there is such a Lease.
    async fn seen(&mut self) -> (String, Option<String>) {
        match self.next().await {
            (name, Event::Seen(view)) => (name, view.map(|view| view.version)),
            other => panic!("{other:?}"),
        }
    }

    /// What is told of so many Leases, each once.
    async fn seen_of(&mut self, number: usize) -> BTreeMap<String, Option<String>> {
        let mut all = BTreeMap::new();
        for _ in 0..number {
            let (name, version) = self.seen().await;
            assert_eq!(all.insert(name, version), None);
        }
        all
    }

    fn read(&self, name: &str, id: u64) {
        self.clients.call(Call { name: name.into(), action: Action::Read { id, within: WITHIN } });
    }

    fn write(&self, name: &str, id: u64, base: Option<String>) {
        let record = Record { holder: "w1".into(), duration: Duration::from_secs(15), ..Record::default() };
        let action = Action::Write { id, base, record, notes: Notes::default(), within: WITHIN };
        self.clients.call(Call { name: name.into(), action });
    }
}

/// The names of so many Leases in three namespaces, in order.
fn names(number: usize) -> Vec<String> {
    let mut names: Vec<String> = (0..number).map(|nth| format!("shop-{}/kubevip-{nth}", nth % 3)).collect();
    names.sort();
    names
}

fn strs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn the_leases_of_a_namespace_share_one_watch() {
    let names = names(200);
    let names = strs(&names);
    // One that is not there, and others' in the same namespace.
    let there = names.iter().copied().filter(|name| *name != "shop-2/kubevip-5");
    let mut world = World::new(there.chain(["shop-1/operator-lock"])).await;
    world.want(&names);
    let seen = world.seen_of(200).await;
    assert_eq!(seen.keys().map(String::as_str).collect::<Vec<_>>(), names);
    assert_eq!(seen.iter().filter(|(_, version)| version.is_none()).count(), 1);
    assert_eq!(seen["shop-2/kubevip-5"], None);
    for namespace in ["shop-0", "shop-1", "shop-2"] {
        world.store.was_asked(&format!("watch {namespace}"), 1).await;
    }
    assert_eq!((world.store.count("list"), world.store.count("watch"), world.store.count("get")), (3, 3, 0));
    // What others write reaches the Lease's elector, and nothing else does.
    world.store.renew("shop-1/operator-lock", "operator-1");
    let version = world.store.renew("shop-1/kubevip-16", "w2");
    assert_eq!(world.seen().await, ("shop-1/kubevip-16".into(), Some(version.clone())));
    world.store.delete("shop-1/kubevip-19");
    assert_eq!(world.seen().await, ("shop-1/kubevip-19".into(), None));
    // What the watch showed is the base of writes, with what others wrote on it.
    world.write("shop-1/kubevip-16", 1, Some(version));
    let mut wrote = 0;
    while wrote < 2 {
        match world.next().await {
            (
                name,
                Event::Wrote { id: 1, result: Ok(LeaseView { record, .. }) }
                | Event::Seen(Some(LeaseView { record, .. })),
            ) if name == "shop-1/kubevip-16" && record.holder == "w1" => {
                wrote += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    let leases = world.store.leases.lock().unwrap().clone();
    assert_eq!(leases[&("shop-1".into(), "kubevip-16".into())]["metadata"]["labels"]["theirs"], "kept");
}

#[tokio::test]
async fn a_lease_that_is_wanted_alone_is_watched_by_its_name() {
    let mut world = World::new(["shop/a", "shop/b", "shop/c"].into_iter()).await;
    world.want(&["shop/a"]);
    assert_eq!(world.seen().await.0, "shop/a");
    world.store.was_asked("watch shop/a", 1).await;
    assert_eq!(*world.store.asked.borrow(), ["list shop/a", "watch shop/a"]);
    // With a second one the namespace is watched, and the first watch ends.
    world.want(&["shop/a", "shop/b"]);
    assert_eq!(world.seen_of(2).await.len(), 2);
    world.store.was_asked("watch shop", 2).await;
    assert_eq!(*world.store.asked.borrow(), ["list shop/a", "watch shop/a", "list shop", "watch shop"]);
    let first = world.store.watches.lock().unwrap()[0].2.clone();
    timeout(LONG, first.closed()).await.unwrap();
    // It stays, for one as well.
    world.want(&["shop/b"]);
    world.store.renew("shop/a", "w2");
    let version = world.store.renew("shop/b", "w2");
    assert_eq!(world.seen().await, ("shop/b".into(), Some(version)));
    assert_eq!(world.store.asked.borrow().len(), 4);
    // With the last Lease it ends.
    let second = world.store.watches.lock().unwrap()[1].2.clone();
    world.want(&[]);
    timeout(LONG, second.closed()).await.unwrap();
}

#[tokio::test]
async fn a_lease_that_is_wanted_later_is_read_once() {
    let mut world = World::new(["shop/a", "shop/b", "shop/c"].into_iter()).await;
    world.want(&["shop/a", "shop/b"]);
    world.seen_of(2).await;
    world.store.was_asked("watch shop", 1).await;
    let version = world.store.renew("shop/c", "w2");
    // It was shown while nobody wanted it.
    let other = world.store.renew("shop/a", "w2");
    assert_eq!(world.seen().await, ("shop/a".into(), Some(other)));
    world.want(&["shop/a", "shop/b", "shop/c", "shop/d"]);
    let seen = world.seen_of(2).await;
    assert_eq!(seen, BTreeMap::from([("shop/c".into(), Some(version)), ("shop/d".into(), None)]));
    assert_eq!((world.store.count("list"), world.store.count("watch"), world.store.count("get")), (1, 1, 2));
    let version = world.store.renew("shop/c", "w3");
    assert_eq!(world.seen().await, ("shop/c".into(), Some(version)));
}

#[tokio::test]
async fn what_the_watch_shows_is_newer_than_a_read_that_comes_late() {
    let mut world = World::new(["shop/a", "shop/b", "shop/c"].into_iter()).await;
    world.want(&["shop/a", "shop/b"]);
    world.seen_of(2).await;
    world.store.was_asked("watch shop", 1).await;
    world.store.reads.send_replace(false);
    world.want(&["shop/a", "shop/b", "shop/c"]);
    world.store.was_asked("get shop/c", 1).await;
    let newer = world.store.renew("shop/c", "w2");
    assert_eq!(world.seen().await, ("shop/c".into(), Some(newer)));
    world.store.reads.send_replace(true);
    // A read that is sent later is answered later.
    world.read("shop/a", 1);
    assert!(matches!(world.next().await, (name, Event::Read { id: 1, result: Ok(Some(_)) }) if name == "shop/a"));
    assert!(world.told.try_recv().is_err());
}

#[tokio::test]
async fn a_wanted_lease_that_cannot_be_read_is_left_to_its_elector() {
    let mut world = World::new(["shop/a", "shop/b"].into_iter()).await;
    world.want(&["shop/a", "shop/b"]);
    world.seen_of(2).await;
    world.store.was_asked("watch shop", 1).await;
    world.store.mood.send_replace(Mood::Refuses);
    world.want(&["shop/a", "shop/b", "shop/c"]);
    assert_eq!(world.next().await, ("shop/c".into(), Event::WatchLost));
}

#[tokio::test]
async fn a_lost_watch_of_many_leases_is_told_if_no_list_follows_at_once() {
    let names = names(60);
    let names = strs(&names);
    let mut world = World::new(names.iter().copied()).await;
    world.want(&names);
    world.seen_of(60).await;
    world.store.was_asked("watch", 3).await;
    // The list that follows shows all of them: there is nothing else to do.
    let version = world.store.renew(names[0], "w2");
    assert_eq!(world.seen().await, (names[0].into(), Some(version.clone())));
    world.store.cut();
    let seen = world.seen_of(60).await;
    assert_eq!(seen[names[0]], Some(version));
    world.store.was_asked("watch", 6).await;
    assert_eq!(world.store.count("list"), 6);
    // It hangs.
    world.store.mood.send_replace(Mood::Hangs);
    world.store.cut();
    let began = Instant::now();
    let mut lost = BTreeSet::new();
    while lost.len() < 60 {
        let (name, event) = world.next().await;
        assert_eq!(event, Event::WatchLost);
        lost.insert(name);
    }
    // Nobody waits for the end of that list.
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    world.store.mood.send_replace(Mood::Answers);
    let mut seen = BTreeSet::new();
    while seen.len() < 60 {
        if let (name, Event::Seen(Some(_))) = world.next().await {
            seen.insert(name);
        }
    }
}

#[tokio::test]
async fn a_watch_that_lags_behind_a_read_is_opened_anew() {
    let mut world = World::new(["alone/a", "hung/a", "hung/b", "late/a", "late/b"].into_iter()).await;
    world.want(&["alone/a", "hung/a", "hung/b", "late/a", "late/b"]);
    world.seen_of(5).await;
    world.store.was_asked("watch", 3).await;
    // What the watch has shown is on its way to the core.
    world.clients.distrust_watch("late/b", "7");
    let began = Instant::now();
    for name in ["late/a", "alone/a", "hung/a"] {
        world.clients.distrust_watch(name, "8");
    }
    // Many Leases: a read may be faster than the watch.
    let version = world.store.renew("late/a", "w2");
    let mut seen = BTreeMap::new();
    while seen.len() < 4 {
        let (name, event) = world.next().await;
        if let Event::Seen(Some(view)) = event {
            if name == "alone/a" {
                assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
            }
            seen.insert(name, view.version);
        }
    }
    assert_eq!(seen["late/a"], version);
    assert_eq!(seen.keys().map(String::as_str).collect::<Vec<_>>(), ["alone/a", "hung/a", "hung/b", "late/a"]);
    assert_eq!(
        (world.store.count("list alone"), world.store.count("list hung"), world.store.count("list late")),
        (2, 2, 1)
    );
}

#[tokio::test]
async fn a_lease_that_cannot_be_read_concerns_its_elector_alone() {
    let mut world = World::new(["shop/a", "shop/b"].into_iter()).await;
    world.want(&["shop/a", "shop/b"]);
    world.seen_of(2).await;
    world.store.was_asked("watch shop", 1).await;
    let mut broken = lease("shop", "a", 0, "w1");
    broken["spec"]["holderIdentity"] = 7.into();
    world.store.put("shop/a", broken);
    let version = world.store.renew("shop/b", "w2");
    assert_eq!(world.next().await, ("shop/a".into(), Event::WatchLost));
    assert_eq!(world.seen().await, ("shop/b".into(), Some(version)));
    assert_eq!(world.store.count("list"), 1);
}

/// What electors do that have got no answer: they try again, each by itself.
struct Electors {
    world: World,
    again: Vec<(Instant, String, bool)>,
    answered: BTreeSet<(String, bool)>,
}

impl Electors {
    fn ask(&self, name: &str, writes: bool) {
        if writes { self.world.write(name, 2, self.world.store.version_of(name)) } else { self.world.read(name, 1) }
    }

    /// Until `over` says so, or this time has passed.
    async fn go_on(&mut self, until: Instant, over: impl Fn(&Self) -> bool) {
        while Instant::now() < until && !over(self) {
            let next = self.again.iter().map(|(at, ..)| *at).min().unwrap_or(until).min(until);
            tokio::select! {
                told = self.world.told.recv() => match told.unwrap() {
                    (name, Event::Read { result, .. }) => self.was_answered(name, false, result.is_ok()),
                    (name, Event::Wrote { result, .. }) => self.was_answered(name, true, result.is_ok()),
                    _ => {}
                },
                () = sleep_until(next) => {
                    let now = Instant::now();
                    let due: Vec<_> = self.again.extract_if(.., |(at, ..)| *at <= now).collect();
                    for (_, name, writes) in due {
                        self.ask(&name, writes);
                    }
                }
            }
        }
    }

    fn was_answered(&mut self, name: String, writes: bool, good: bool) {
        if good {
            self.answered.insert((name, writes));
        } else {
            self.again.push((Instant::now() + AGAIN, name, writes));
        }
    }
}

/// An outage, with 200 electors that read and write. While it lasts, `most` calls are sent.
async fn outage(mood: Mood, most: usize) {
    let names = names(200);
    let names = strs(&names);
    let mut world = World::new(names.iter().copied()).await;
    world.want(&names);
    world.seen_of(200).await;
    world.store.mood.send_replace(mood);
    world.store.cut();
    world.store.asked.send_replace(vec![]);
    let mut electors = Electors { world, again: vec![], answered: BTreeSet::new() };
    for name in &names {
        electors.ask(name, false);
        electors.ask(name, true);
    }
    electors.go_on(Instant::now() + Duration::from_secs(5), |_| false).await;
    assert_eq!(electors.answered.len(), 0);
    let store = electors.world.store.clone();
    let (gets, puts) = (store.count("get"), store.count("put"));
    assert!(gets > 0 && puts > 0 && gets <= most && puts <= most, "{gets} reads and {puts} writes");
    store.mood.send_replace(Mood::Answers);
    electors.go_on(Instant::now() + LONG, |electors| electors.answered.len() == 400).await;
    assert_eq!(electors.answered.len(), 400);
}

#[tokio::test]
async fn while_the_api_refuses_few_calls_are_sent() {
    // The first 16 before anybody knows, then one in 0.2 s.
    outage(Mood::Refuses, 16 + 26).await;
}

#[tokio::test]
async fn while_the_api_hangs_few_calls_are_sent() {
    outage(Mood::Hangs, 16 + 26).await;
}
