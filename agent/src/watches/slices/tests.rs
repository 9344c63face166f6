use serde_json::json;
use tokio::sync::Notify;

use super::super::{Message, Watches};
use super::*;
use crate::api::testing::{Answer, Cluster, Server, answer};
use crate::catalog::{Catalog, Classes};
use crate::core::placement::Interface;

/// Long enough that nothing but a hang meets it.
const LONG: Duration = Duration::from_secs(30);

fn services(names: &[&str]) -> BTreeSet<Key> {
    names.iter().map(|name| Key { namespace: "shop".into(), name: (*name).into() }).collect()
}

fn empty() -> Answer {
    answer(200, r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#)
}

/// A server that has no objects.
async fn server(cluster: &Cluster) -> Server {
    cluster
        .serve(|request| async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            if is_watch { std::future::pending().await } else { empty() }
        })
        .await
}

/// Waits until the slices of these Services are there.
async fn covered(inbox: &mut mpsc::Receiver<Message>, services: &BTreeSet<Key>) {
    let told = async {
        loop {
            if let Message::Seen(seen) = inbox.recv().await.unwrap()
                && let Seen::Slices(of, Change::All(_)) = *seen
                && *of.services == *services
            {
                return;
            }
        }
    };
    tokio::time::timeout(LONG, told).await.expect("these slices were never listed");
}

#[tokio::test]
async fn services_that_come_one_after_the_other_are_all_followed() {
    let cluster = Cluster::new();
    let server = server(&cluster).await;
    let (told, mut inbox) = mpsc::channel(64);
    let watches = Watches::start(cluster.servers(vec![server.url()]), "n1", None, told);
    let (one, both) = (services(&["a"]), services(&["a", "b"]));
    watches.slices_of(&one);
    covered(&mut inbox, &one).await;
    // The watch has just begun, and nothing else happens in the cluster.
    watches.slices_of(&both);
    covered(&mut inbox, &both).await;
    // A Service that is no longer wanted, and wanted again at once, changes nothing.
    watches.slices_of(&one);
    watches.slices_of(&both);
    let three = services(&["a", "b", "c"]);
    watches.slices_of(&three);
    covered(&mut inbox, &three).await;
}

fn many(count: usize) -> BTreeSet<Key> {
    let name = |n| Key { namespace: "shop".into(), name: format!("web-{n}") };
    (0..count).map(name).collect()
}

#[test]
fn the_watches_grow_and_shrink_with_the_services_but_not_to_and_fro() {
    assert_eq!([0, 1, 40, 41, 80, 81, 640, 641].map(|n| watches(1, n)), [1, 1, 1, 2, 2, 4, 16, 1]);
    assert_eq!([40, 21, 20, 1, 0].map(|n| watches(2, n)), [2, 2, 1, 1, 1]);
    assert_eq!([641, 1_280, 1_281, 161, 160].map(|n| watches(16, n)), [16, 16, 1, 16, 4]);
    for count in [1, 40, 41, 320, 640] {
        let dealt = deal(&many(count), watches(1, count));
        assert!(dealt.iter().all(|some| some.len() <= NAMED), "{count} Services");
        assert_eq!(dealt.into_iter().flatten().collect::<BTreeSet<_>>(), many(count));
    }
}

#[tokio::test]
async fn one_more_service_of_many_makes_one_watch_begin_anew() {
    let cluster = Cluster::new();
    let server = server(&cluster).await;
    let (told, mut inbox) = mpsc::channel(64);
    let watches = Watches::start(cluster.servers(vec![server.url()]), "n1", None, told);
    let (first, second) = (many(100), many(101));
    let (before, after) = (deal(&first, 4), deal(&second, 4));
    watches.slices_of(&first);
    // Each of the four lists its own: who waits for one of them may miss the lists of the others.
    let mut lists = lists(&mut inbox, 4).await;
    lists.sort_by_key(|(nth, _)| *nth);
    assert_eq!(lists, before.iter().cloned().enumerate().collect::<Vec<_>>());
    watches.slices_of(&second);
    let changed = (0..4).find(|nth| before[*nth] != after[*nth]).unwrap();
    assert_eq!(self::lists(&mut inbox, 1).await, [(changed, after[changed].clone())]);
    tokio::time::sleep(ANEW * 2).await;
    while let Ok(message) = inbox.try_recv() {
        let Message::Seen(seen) = message else { continue };
        assert!(!matches!(*seen, Seen::Slices(..)), "others begin anew, too");
    }
}

/// The next so many lists of slices: the watch, and the Services that it covers.
async fn lists(inbox: &mut mpsc::Receiver<Message>, count: usize) -> Vec<(usize, BTreeSet<Key>)> {
    let told = async {
        let mut all = vec![];
        while all.len() < count {
            if let Message::Seen(seen) = inbox.recv().await.unwrap()
                && let Seen::Slices(of, Change::All(_)) = *seen
            {
                all.push((of.watch, (*of.services).clone()));
            }
        }
        all
    };
    tokio::time::timeout(LONG, told).await.expect("some slices were never listed")
}

/// A server that answers the list of the slices of so many Services only after it is let go, and a list of them has begun.
async fn slow_for(cluster: &Cluster, services: usize) -> (Server, watch::Sender<bool>, Arc<Notify>) {
    let (let_go, may_go) = watch::channel(false);
    let asked = Arc::new(Notify::new());
    let begun = asked.clone();
    let server = cluster.serve(move |request| {
        let query = request.uri().query().unwrap_or_default();
        let (is_watch, is_slow) = (query.contains("watch=true"), query.matches("web-").count() == services);
        let (mut may_go, begun) = (may_go.clone(), begun.clone());
        async move {
            if is_watch {
                std::future::pending::<()>().await;
            }
            if is_slow {
                begun.notify_one();
                may_go.wait_for(|go| *go).await.unwrap();
            }
            empty()
        }
    });
    (server.await, let_go, asked)
}

/// A catalog with these Services, all of which need a local endpoint.
fn catalog(services: &BTreeSet<Key>) -> Catalog {
    let mut catalog = Catalog::new("n1", Interface::First).by_services(Classes::default());
    let service = |key: &Key| {
        let annotations = json!({"kube-vip.io/loadbalancerIPs": "10.0.0.5"});
        let metadata = json!({"namespace": key.namespace, "name": key.name, "annotations": annotations});
        let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    };
    catalog.take(Seen::Services(Change::All(services.iter().map(service).collect())));
    assert_eq!(catalog.local_services(), services);
    catalog
}

/// Hands what the watches show to the catalog, until one of them has listed these Services.
async fn take_until(catalog: &mut Catalog, inbox: &mut mpsc::Receiver<Message>, watch: usize, of: &BTreeSet<Key>) {
    let listed = async {
        loop {
            if let Message::Seen(seen) = inbox.recv().await.unwrap()
                && let Seen::Slices(dealt, Change::All(_)) = &*seen
            {
                let is_it = dealt.watch == watch && *dealt.services == *of;
                catalog.take(*seen);
                if is_it {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(LONG, listed).await.expect("these slices were never listed");
}

#[tokio::test]
async fn a_slow_list_of_one_watch_takes_no_service_from_a_second_watch() {
    let cluster = Cluster::new();
    let (few, more) = (many(EACH), many(EACH + 1));
    let (server, let_go, asked) = slow_for(&cluster, few.len()).await;
    let (told, mut inbox) = mpsc::channel(64);
    let watches = Watches::start(cluster.servers(vec![server.url()]), "n1", None, told);
    let (mut catalog, dealt) = (catalog(&more), deal(&more, 2));
    watches.slices_of(&few);
    asked.notified().await;
    // The second watch begins at once, and is the first to have a list.
    watches.slices_of(&more);
    take_until(&mut catalog, &mut inbox, 1, &dealt[1]).await;
    let_go.send_replace(true);
    take_until(&mut catalog, &mut inbox, 0, &few).await;
    take_until(&mut catalog, &mut inbox, 0, &dealt[0]).await;
    assert!(catalog.is_all_covered(), "nobody follows the Services of the second watch");
}

#[tokio::test]
async fn a_slow_list_of_a_watch_that_ends_takes_no_service_from_the_one_that_stays() {
    let cluster = Cluster::new();
    let (more, few) = (many(EACH + 1), many(EACH / 4));
    let dealt = deal(&more, 2);
    let (server, let_go, asked) = slow_for(&cluster, dealt[1].len()).await;
    let (told, mut inbox) = mpsc::channel(64);
    let watches = Watches::start(cluster.servers(vec![server.url()]), "n1", None, told);
    let mut catalog = catalog(&few);
    watches.slices_of(&more);
    take_until(&mut catalog, &mut inbox, 0, &dealt[0]).await;
    asked.notified().await;
    watches.slices_of(&few);
    take_until(&mut catalog, &mut inbox, 0, &few).await;
    let_go.send_replace(true);
    take_until(&mut catalog, &mut inbox, 1, &dealt[1]).await;
    take_until(&mut catalog, &mut inbox, 1, &BTreeSet::new()).await;
    assert!(catalog.is_all_covered(), "nobody follows the Services of the watch that ended");
}

#[tokio::test]
async fn a_watch_that_gets_its_services_back_lists_them_again() {
    let cluster = Cluster::new();
    let server = server(&cluster).await;
    let (told, mut inbox) = mpsc::channel(64);
    let watches = Watches::start(cluster.servers(vec![server.url()]), "n1", None, told);
    let (few, more) = (many(EACH / 4), many(EACH + 1));
    let mut catalog = catalog(&few);
    watches.slices_of(&few);
    take_until(&mut catalog, &mut inbox, 0, &few).await;
    // The first watch has just begun, and stays as long as the second one needs for a list.
    watches.slices_of(&more);
    take_until(&mut catalog, &mut inbox, 1, &deal(&more, 2)[1]).await;
    watches.slices_of(&few);
    take_until(&mut catalog, &mut inbox, 1, &BTreeSet::new()).await;
    if !catalog.is_all_covered() {
        take_until(&mut catalog, &mut inbox, 0, &few).await;
    }
    assert!(catalog.is_all_covered());
}
