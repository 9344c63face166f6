//! Watches: one for each kind. What they show goes to the loop.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Told;
use crate::api::addresses::{Addresses, SELECTORS};
use crate::api::follow::{Follow, Followed};
use crate::api::objects::{IpAddress, Key, Node, Service, Slice};
use crate::api::raw::Raw;
use crate::api::sessions::{self, Sessions};
use crate::api::{ApiError, Limits, Servers};
use crate::catalog::{Change, Seen};
use crate::core::fleet::Event;

/// For each list and each opening of a watch.
const WITHIN: Duration = Duration::from_secs(10);
/// Wait before a broken watch is opened again: at first, and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// Objects in one part of a list.
const PAGE: u32 = 250;
/// How often it is looked whether the cluster has the kind `IPAddress` by now.
const LOOK: Duration = Duration::from_secs(10);
/// More Services than these are not named one by one in a selector.
const NAMED: usize = 40;
/// Slices of other Services are not listed sooner after the last time ...
const ANEW: Duration = Duration::from_millis(500);
/// ... nor before that list is there, if it comes within this.
const PATIENCE: Duration = Duration::from_secs(10);

/// All watches. Dropped, they end.
pub(super) struct Watches {
    servers: Servers,
    told: mpsc::Sender<Told>,
    /// Not believed any more: all are opened anew.
    kick: Arc<Notify>,
    tasks: Vec<JoinHandle<()>>,
    slices: Option<Slices>,
}

/// The watch of slices.
struct Slices {
    of: Arc<BTreeSet<Key>>,
    task: JoinHandle<()>,
    began: Instant,
    /// Its first list has been told.
    listed: Arc<AtomicBool>,
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.slices.iter().for_each(|slices| slices.task.abort());
    }
}

impl Watches {
    /// Begins to follow all but slices; sessions, if they count, in that namespace.
    pub(super) fn start(servers: Servers, namespace: Option<&str>, told: mpsc::Sender<Told>) -> Self {
        let mut all = Self { servers, told, kick: Arc::new(Notify::new()), tasks: vec![], slices: None };
        if let Some(namespace) = namespace {
            let sessions = Sessions::new(all.servers.clone(), namespace.to_owned());
            let follow = all.follow(sessions.path(), "leases.coordination.k8s.io", "sessions");
            let follow = Follow { labels: Some(sessions::LABEL.into()), page: None, ..follow };
            all.tasks.push(tokio::spawn(follow_sessions(follow, all.told.clone())));
        }
        let follow = all.follow("/api/v1/nodes".into(), "nodes", "Nodes");
        all.run("Nodes", follow, |change: Change<Node>| Seen::Nodes(change));
        let follow = all.follow("/api/v1/services".into(), "services", "Services");
        let follow = Follow { fields: Some("spec.type=LoadBalancer".into()), ..follow };
        all.run("Services", follow, |change: Change<Service>| Seen::Services(change));
        let addresses = follow_addresses(all.servers.clone(), all.kick.clone(), all.told.clone());
        all.tasks.push(tokio::spawn(addresses));
        all
    }

    /// They are not believed any more: their API server may hang.
    pub(super) fn kick(&self) {
        self.kick.notify_waiters();
    }

    /// The Services whose slices count are these now, or soon: many that come one by one are not a list each, and a list that
    /// is under way is told first.
    pub(super) fn slices_of(&mut self, services: &BTreeSet<Key>) {
        let same = self.slices.as_ref().map_or(services.is_empty(), |slices| *slices.of == *services);
        let soon = self.slices.as_ref().is_some_and(|slices| {
            let age = slices.began.elapsed();
            age < PATIENCE && (age < ANEW || !slices.listed.load(Ordering::Relaxed))
        });
        if same || (soon && !services.is_empty()) {
            return;
        }
        if let Some(slices) = self.slices.take() {
            slices.task.abort();
        }
        if services.is_empty() {
            return;
        }
        let names: BTreeSet<&str> = services.iter().map(|key| key.name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let label = "kubernetes.io/service-name";
        let labels = if names.len() > NAMED { label.to_owned() } else { format!("{label} in ({})", names.join(",")) };
        let path = "/apis/discovery.k8s.io/v1/endpointslices";
        let follow = self.follow(path.into(), "endpointslices.discovery.k8s.io", "EndpointSlices");
        let follow = Follow { labels: Some(labels), ..follow };
        let (of, listed) = (Arc::new(services.clone()), Arc::new(AtomicBool::new(false)));
        let (covers, told, done) = (of.clone(), self.told.clone(), listed.clone());
        let seen = move |change: Change<Slice>| {
            done.store(true, Ordering::Relaxed);
            Seen::Slices(covers.clone(), change)
        };
        let task = tokio::spawn(follow_objects(follow, "EndpointSlices", told, seen));
        self.slices = Some(Slices { of, task, began: Instant::now(), listed });
    }

    fn run<K, F>(&mut self, what: &'static str, follow: Follow, seen: F)
    where
        K: Clone + Debug + DeserializeOwned + Send + 'static,
        F: Fn(Change<K>) -> Seen + Send + Sync + 'static,
    {
        self.tasks.push(tokio::spawn(follow_objects(follow, what, self.told.clone(), seen)));
    }

    fn follow(&self, path: String, resource: &'static str, what: &str) -> Follow {
        follow(&self.servers, &self.kick, path, resource, what)
    }
}

fn follow(servers: &Servers, kick: &Arc<Notify>, path: String, resource: &'static str, what: &str) -> Follow {
    Follow {
        servers: servers.clone(),
        path,
        resource,
        what: what.to_owned(),
        fields: None,
        labels: None,
        page: Some(PAGE),
        limits: Limits::within(WITHIN),
        backoff: BACKOFF,
        kick: kick.clone(),
    }
}

async fn follow_objects<K, F>(follow: Follow, what: &'static str, told: mpsc::Sender<Told>, seen: F)
where
    K: Clone + Debug + DeserializeOwned + Send + 'static,
    F: Fn(Change<K>) -> Seen + Send + Sync + 'static,
{
    follow
        .run(move |followed: Followed<K>| {
            let told = told.clone();
            let message = match followed {
                Followed::Listed(all) => Ok(Some(seen(Change::All(all)))),
                Followed::Applied(one) => Ok(Some(seen(Change::One(one)))),
                Followed::Deleted(one) => Ok(Some(seen(Change::Gone(one)))),
                Followed::Alive => Ok(None),
                Followed::Lost(error) => Err(error),
            };
            async move {
                match message {
                    Ok(Some(seen)) => told.send(Told::Seen(Box::new(seen))).await.is_ok(),
                    Ok(None) => told.send(Told::Watch { what, wrong: None }).await.is_ok(),
                    Err(error) => told.send(Told::Watch { what, wrong: Some(error.to_string()) }).await.is_ok(),
                }
            }
            .boxed()
        })
        .await;
}

async fn follow_sessions(follow: Follow, told: mpsc::Sender<Told>) {
    follow
        .run(move |followed: Followed<Raw>| {
            let told = told.clone();
            let message = match followed {
                Followed::Listed(all) => {
                    let result = Ok(all.iter().filter_map(sessions::view).collect());
                    Some(Told::Event(Event::Sessions { id: None, result }))
                }
                Followed::Applied(raw) => sessions::view(&raw).map(|view| Told::Event(Event::Session(view))),
                Followed::Deleted(raw) => {
                    sessions::view(&raw).map(|view| Told::Event(Event::SessionDeleted(view.node)))
                }
                Followed::Alive => Some(Told::Watch { what: "sessions", wrong: None }),
                Followed::Lost(error) => Some(Told::Watch { what: "sessions", wrong: Some(error.to_string()) }),
            };
            async move {
                let blind = matches!(&message, Some(Told::Watch { wrong: Some(_), .. }));
                let Some(message) = message else { return true };
                told.send(message).await.is_ok() && (!blind || told.send(Told::Blind).await.is_ok())
            }
            .boxed()
        })
        .await;
}

/// Both watches of `IPAddress`, as long as the cluster has that kind; else it is looked for again.
async fn follow_addresses(servers: Servers, kick: Arc<Notify>, told: mpsc::Sender<Told>) {
    let mut known = false;
    loop {
        let wait = match Addresses::discover(&servers, WITHIN).await {
            Ok(Some(api)) => {
                known = true;
                if told.send(Told::Kind(Some(api.clone()))).await.is_err() {
                    return;
                }
                // Until one of them says that there is no such kind (any more).
                let watch = |nth: usize| {
                    let follow =
                        follow(&servers, &kick, api.path(), crate::api::addresses::RESOURCE, "IPAddress objects");
                    let labels = SELECTORS.get(nth).map(|selector| (*selector).to_owned());
                    follow_one(Follow { labels, ..follow }, nth, told.clone())
                };
                tokio::select! {
                    () = watch(0) => {}
                    () = watch(1) => {}
                }
                if told.is_closed() {
                    return;
                }
                BACKOFF.1
            }
            // What is there stays: should the kind have gone, each object's end was shown before.
            Ok(None) => {
                if told.send(Told::Kind(None)).await.is_err() {
                    return;
                }
                LOOK
            }
            Err(error) => {
                let wrong = Some(error.to_string());
                let lost = told.send(Told::Watch { what: "IPAddress objects", wrong }).await;
                if lost.is_err() || (known && told.send(Told::Blind).await.is_err()) {
                    return;
                }
                BACKOFF.1
            }
        };
        tokio::time::sleep(crate::api::jitter(wait)).await;
    }
}

/// Ends when the kind is not there, or the loop is gone.
async fn follow_one(follow: Follow, nth: usize, told: mpsc::Sender<Told>) {
    follow
        .run(move |followed: Followed<IpAddress>| {
            let told = told.clone();
            async move {
                let what = "IPAddress objects";
                let change = match followed {
                    Followed::Listed(all) => Change::All(all),
                    Followed::Applied(one) => Change::One(one),
                    Followed::Deleted(one) => Change::Gone(one),
                    Followed::Alive => return told.send(Told::Watch { what, wrong: None }).await.is_ok(),
                    Followed::Lost(ApiError::NotFound { .. }) => return false,
                    Followed::Lost(error) => {
                        let wrong = Some(error.to_string());
                        return told.send(Told::Watch { what, wrong }).await.is_ok()
                            && told.send(Told::Blind).await.is_ok();
                    }
                };
                told.send(Told::Seen(Box::new(Seen::Addresses(nth, change)))).await.is_ok()
            }
            .boxed()
        })
        .await;
}
