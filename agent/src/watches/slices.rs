//! The watches of `EndpointSlice` objects, of only those Services that need a local endpoint.
//!
//! A watch names its Services in a selector: other Services begin another watch, with a list. So that one more Service does not
//! make every node list the slices of all, the Services are dealt out to several watches by their names, and only the watch of a
//! Service that comes or goes begins anew. Few Services need one watch. Each doubling of the watches deals the Services out anew:
//! that is rare. A node has [`MOST`] watches at most: API servers compare each change of a slice with the selectors of all
//! watches of all nodes.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Message, follow_objects};
use crate::api::objects::{Key, Slice};
use crate::api::typed::Follow;
use crate::catalog::{Change, Seen};

/// The Services whose slices are watched.
pub type Services = Arc<BTreeSet<Key>>;

/// Services for each watch, on average. With more there are twice as many watches, with a quarter half as many.
const EACH: usize = 40;
/// Watches at most.
const MOST: usize = 16;
/// Up to this many Services are named one by one in a selector: a name has up to 63 characters, and some proxies take no more
/// than 8 KiB for a request line. A watch of more Services shows all slices.
const NAMED: usize = 110;
/// A watch lasts this long at least: many Services that come one by one do not cause a list each ...
const ANEW: Duration = Duration::from_millis(500);
/// ... and a watch lasts until its list has arrived, if the list arrives within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many watches there are to be for so many Services; `now`: how many there are. A power of two. Beyond what [`MOST`] watches
/// can name there is one, which shows all slices: several would show all slices several times.
fn watches(now: usize, services: usize) -> usize {
    if services > EACH * MOST {
        return if now == MOST && services <= 2 * EACH * MOST { MOST } else { 1 };
    }
    let wanted = services.div_ceil(EACH).next_power_of_two();
    let fewer = services * 4 <= now * EACH;
    if wanted > now || fewer { wanted } else { now }
}

/// Which watch has the Services of that name, of so many watches.
fn watch_of(name: &str, watches: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    usize::try_from(hasher.finish() % u64::try_from(watches).unwrap_or(1)).unwrap_or(0)
}

/// Deals the Services out.
fn deal(services: &BTreeSet<Key>, watches: usize) -> Vec<BTreeSet<Key>> {
    let mut all = vec![BTreeSet::new(); watches];
    for service in services {
        all[watch_of(&service.name, watches)].insert(service.clone());
    }
    all
}

/// Follows the slices of these Services until the event loop or the sender is gone.
pub async fn follow_slices(follow: Follow, mut wanted: watch::Receiver<Services>, told: mpsc::Sender<Message>) {
    let mut all: Vec<watch::Sender<Services>> = vec![];
    // They end with this future.
    let mut tasks = JoinSet::new();
    let mut now = 1;
    loop {
        let services = wanted.borrow_and_update().clone();
        now = watches(now, services.len());
        let mut dealt = deal(&services, now);
        for nth in all.len()..now {
            let (of, wanted) = watch::channel(Services::default());
            all.push(of);
            tasks.spawn(follow_some(nth, follow.clone(), wanted, told.clone()));
        }
        dealt.resize(all.len(), BTreeSet::new());
        for (of, services) in all.iter().zip(dealt) {
            of.send_if_modified(|wanted| {
                let others = **wanted != services;
                if others {
                    *wanted = Arc::new(services);
                }
                others
            });
        }
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { return },
            () = told.closed() => return,
        }
    }
}

/// One of the watches.
async fn follow_some(nth: usize, follow: Follow, mut wanted: watch::Receiver<Services>, told: mpsc::Sender<Message>) {
    loop {
        let services = wanted.borrow_and_update().clone();
        if services.is_empty() {
            if wanted.changed().await.is_err() {
                return;
            }
            continue;
        }
        let follow = Follow { labels: Some(selector(&services)), ..follow.clone() };
        let (listed, is_listed) = watch::channel(false);
        let covers = services.clone();
        let seen = move |change: Change<Slice>| {
            listed.send_replace(true);
            Seen::Slices(nth, covers.clone(), change)
        };
        tokio::select! {
            () = follow_objects(follow, "EndpointSlices", told.clone(), seen) => return,
            others = others_wanted(&services, &mut wanted, is_listed) => if !others { return },
        }
        if wanted.borrow().is_empty() {
            // Nothing more is shown of the last ones.
            let none = Seen::Slices(nth, Services::default(), Change::All(vec![]));
            if told.send(Message::Seen(Box::new(none))).await.is_err() {
                return;
            }
        }
    }
}

fn selector(services: &BTreeSet<Key>) -> String {
    let names: BTreeSet<&str> = services.iter().map(|key| key.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let label = "kubernetes.io/service-name";
    if names.len() > NAMED { label.to_owned() } else { format!("{label} in ({})", names.join(",")) }
}

/// Waits until another watch is to begin, because other Services than these are wanted. False: nobody wants any.
async fn others_wanted(
    services: &Services,
    wanted: &mut watch::Receiver<Services>,
    mut is_listed: watch::Receiver<bool>,
) -> bool {
    let began = Instant::now();
    loop {
        if wanted.wait_for(|wanted| wanted != services).await.is_err() {
            return false;
        }
        tokio::time::sleep_until(began + ANEW).await;
        // Either way the watch has lasted long enough.
        let _ = tokio::time::timeout_at(began + PATIENCE, is_listed.wait_for(|listed| *listed)).await;
        if *wanted.borrow() != *services {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Message, Watches};
    use super::*;
    use crate::api::testing::{Answer, Cluster, Server, answer};

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
                    && let Seen::Slices(_, of, Change::All(_)) = *seen
                    && *of == *services
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
        let watches = Watches::start(cluster.servers(vec![server.url()]), None, told);
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
        let watches = Watches::start(cluster.servers(vec![server.url()]), None, told);
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
                    && let Seen::Slices(nth, of, Change::All(_)) = *seen
                {
                    all.push((nth, (*of).clone()));
                }
            }
            all
        };
        tokio::time::timeout(LONG, told).await.expect("some slices were never listed")
    }
}
