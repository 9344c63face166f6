//! Watches, one for each kind. Their changes go to the loop.

mod lost;
mod slices;

pub use lost::{Lost, Name};

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use crate::api::addresses::{Addresses, SELECTORS};
use crate::api::objects::{IpAddress, Key, Node, Service};
use crate::api::raw::Raw;
use crate::api::sessions::{self, Sessions};
use crate::api::typed::{Follow, Followed, QUIET};
use crate::api::{ApiError, Limits, Servers};
use crate::catalog::{Change, Seen};
use crate::core::session_vips::Input;
use slices::{SLICES, Services, follow_slices};

/// The time limit of each list and each opening of a watch.
const WITHIN: Duration = Duration::from_secs(10);
/// Wait before a broken watch is opened again: at first, and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// Objects in one part of a list.
const PAGE: u32 = 250;
/// How often the agent checks whether the cluster has the kind `IPAddress` by now.
const LOOK: Duration = Duration::from_secs(10);

/// The name of the watches of addresses.
pub const ADDRESSES: &str = "IPAddress objects";

/// Messages about VIPs of Services from watches and calls to the event loop.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "few at a time, and most of them are inputs")]
pub enum Message {
    /// An input for the core.
    Input(Input),
    /// A watch showed something.
    Seen(Box<Seen>),
    /// A watch is lost, or works again.
    Watch {
        /// The watch.
        name: Name,
        /// Why the watch is lost.
        wrong: Option<String>,
    },
    /// The namespace of sessions does not exist, or exists after all.
    Namespace {
        /// Whether it exists.
        exists: bool,
    },
    /// The watch of sessions, or of addresses, broke.
    WatchLost,
    /// The cluster has the kind `IPAddress`, in that version; None: the cluster has not.
    Kind(Option<Addresses>),
}

/// All watches. Dropping this ends them.
pub struct Watches {
    servers: Servers,
    told: mpsc::Sender<Message>,
    /// Reopens all watches when they are no longer trusted.
    kick: Arc<Notify>,
    tasks: Vec<JoinHandle<()>>,
    /// The Services whose slices are watched.
    slices_of: watch::Sender<Services>,
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Watches {
    /// Starts all watches except slices; sessions, if used, in that namespace.
    pub fn start(servers: Servers, namespace: Option<&str>, told: mpsc::Sender<Message>) -> Self {
        let (slices_of, wanted) = watch::channel(Services::default());
        let mut all = Self { servers, told, kick: Arc::new(Notify::new()), tasks: vec![], slices_of };
        if let Some(namespace) = namespace {
            let sessions = Sessions::new(all.servers.clone(), namespace.to_owned());
            let follow = all.follow(sessions.path(), "leases.coordination.k8s.io", "sessions");
            let follow = Follow { labels: Some(sessions::LABEL.into()), page: None, ..follow };
            all.tasks.push(tokio::spawn(follow_sessions(follow, all.told.clone())));
        }
        // Whole objects: whether a Node is ready stands in its status, whether it is cordoned in its spec, and both rank it.
        let follow = all.follow("/api/v1/nodes".into(), "nodes", "Nodes");
        all.run("Nodes", follow, |change: Change<Node>| Seen::Nodes(change));
        let follow = all.follow("/api/v1/services".into(), "services", "Services");
        let follow = Follow { fields: Some("spec.type=LoadBalancer".into()), ..follow };
        all.run("Services", follow, |change: Change<Service>| Seen::Services(change));
        let addresses = follow_addresses(all.servers.clone(), all.kick.clone(), all.told.clone());
        all.tasks.push(tokio::spawn(addresses));
        let path = "/apis/discovery.k8s.io/v1/endpointslices";
        let follow = all.follow(path.into(), "endpointslices.discovery.k8s.io", SLICES);
        all.tasks.push(tokio::spawn(follow_slices(follow, wanted, all.told.clone())));
        all
    }

    /// Reopens all watches: their API server may hang.
    pub fn kick(&self) {
        self.kick.notify_waiters();
    }

    /// Sets the Services whose slices are watched.
    pub fn slices_of(&self, services: &BTreeSet<Key>) {
        self.slices_of.send_if_modified(|wanted| {
            let other = **wanted != *services;
            if other {
                *wanted = Arc::new(services.clone());
            }
            other
        });
    }

    fn run<K, F>(&mut self, what: &'static str, follow: Follow, seen: F)
    where
        K: Clone + Debug + DeserializeOwned + Send + 'static,
        F: Fn(Change<K>) -> Seen + Send + Sync + 'static,
    {
        self.tasks.push(tokio::spawn(follow_objects(follow, (what, 0), self.told.clone(), seen)));
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
        quiet: QUIET,
        relist: false,
        kick: kick.clone(),
    }
}

async fn follow_objects<K, F>(follow: Follow, name: Name, told: mpsc::Sender<Message>, seen: F)
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
                    Ok(Some(seen)) => told.send(Message::Seen(Box::new(seen))).await.is_ok(),
                    Ok(None) => told.send(Message::Watch { name, wrong: None }).await.is_ok(),
                    Err(error) => told.send(Message::Watch { name, wrong: Some(error.to_string()) }).await.is_ok(),
                }
            }
            .boxed()
        })
        .await;
}

async fn follow_sessions(follow: Follow, told: mpsc::Sender<Message>) {
    let name = ("sessions", 0);
    follow
        .run(move |followed: Followed<Raw>| {
            let told = told.clone();
            let message = match followed {
                Followed::Listed(all) => {
                    let result = Ok(all.iter().filter_map(sessions::view).collect());
                    Some(Message::Input(Input::Sessions { id: None, result }))
                }
                Followed::Applied(raw) => sessions::view(&raw).map(|view| Message::Input(Input::Session(view))),
                Followed::Deleted(raw) => {
                    sessions::view(&raw).map(|view| Message::Input(Input::SessionDeleted(view.node)))
                }
                Followed::Alive => Some(Message::Watch { name, wrong: None }),
                Followed::Lost(error) => Some(Message::Watch { name, wrong: Some(error.to_string()) }),
            };
            async move {
                let blind = matches!(&message, Some(Message::Watch { wrong: Some(_), .. }));
                let Some(message) = message else { return true };
                told.send(message).await.is_ok() && (!blind || told.send(Message::WatchLost).await.is_ok())
            }
            .boxed()
        })
        .await;
}

/// Follows both watches of `IPAddress` while the cluster has the kind; otherwise checks for the kind again.
async fn follow_addresses(servers: Servers, kick: Arc<Notify>, told: mpsc::Sender<Message>) {
    let mut known = false;
    loop {
        let wait = match Addresses::discover(&servers, WITHIN).await {
            Ok(Some(api)) => {
                known = true;
                if told.send(Message::Kind(Some(api.clone()))).await.is_err() {
                    return;
                }
                // Until one of them reports that there is no such kind (any more).
                let watch = |nth: usize| {
                    let follow = follow(&servers, &kick, api.path(), crate::api::addresses::RESOURCE, ADDRESSES);
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
            // Known objects stay: if the kind is gone, the end of each object was shown before.
            Ok(None) => {
                if told.send(Message::Kind(None)).await.is_err() {
                    return;
                }
                LOOK
            }
            Err(error) => {
                let wrong = Some(error.to_string());
                let lost = told.send(Message::Watch { name: (ADDRESSES, 0), wrong }).await;
                if lost.is_err() || (known && told.send(Message::WatchLost).await.is_err()) {
                    return;
                }
                BACKOFF.1
            }
        };
        tokio::time::sleep(crate::api::jitter(wait)).await;
    }
}

/// Ends when the kind is not there, or the loop is gone.
async fn follow_one(follow: Follow, nth: usize, told: mpsc::Sender<Message>) {
    follow
        .run(move |followed: Followed<IpAddress>| {
            let told = told.clone();
            async move {
                let name = (ADDRESSES, nth);
                let change = match followed {
                    Followed::Listed(all) => Change::All(all),
                    Followed::Applied(one) => Change::One(one),
                    Followed::Deleted(one) => Change::Gone(one),
                    Followed::Alive => return told.send(Message::Watch { name, wrong: None }).await.is_ok(),
                    Followed::Lost(ApiError::NotFound { .. }) => return false,
                    Followed::Lost(error) => {
                        let wrong = Some(error.to_string());
                        return told.send(Message::Watch { name, wrong }).await.is_ok()
                            && told.send(Message::WatchLost).await.is_ok();
                    }
                };
                told.send(Message::Seen(Box::new(Seen::Addresses(nth, change)))).await.is_ok()
            }
            .boxed()
        })
        .await;
}
