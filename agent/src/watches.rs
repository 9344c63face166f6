//! Watches, one for each kind. Their changes go to the loop.

mod lost;
mod nodes;
mod slices;
mod unpublished;

pub use lost::{Lost, Name};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use crate::api::addresses::{Addresses, SELECTORS};
use crate::api::members::{self, Members};
use crate::api::objects::{IpAddress, Key, Node, Service};
use crate::api::raw::Raw;
use crate::api::sessions::{self, Sessions};
use crate::api::typed::{Follow, Followed, QUIET};
use crate::api::{ApiError, Limits, Servers};
use crate::catalog::{Change, Seen};
use crate::core::session_vips::Input;
use nodes::{NODES, follow_nodes};
use slices::{SLICES, Services, follow_slices};
use unpublished::follow_unpublished;

/// The time limit of each list and each opening of a watch.
const WITHIN: Duration = Duration::from_secs(10);
/// Wait before a broken watch is opened again: at first, and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// Objects in one part of a list.
const PAGE: u32 = 250;
/// How often the agent checks whether the cluster has the kind `IPAddress` by now.
const LOOK: Duration = Duration::from_secs(10);

/// The resource of sessions in RBAC.
const LEASES: &str = "leases.coordination.k8s.io";

/// The name of the watches of sessions.
const SESSIONS: &str = "sessions";

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
    /// This node may not write its member object: why. None: it has written one after all.
    MemberRefused(Option<String>),
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
    /// Sessions, if there are any, and those that are followed one by one.
    sessions: Option<Sessions>,
    followed: BTreeMap<String, (usize, JoinHandle<()>)>,
    /// The number of the watch that was last opened for one session.
    last: usize,
    /// The Services whose slices are watched.
    slices_of: watch::Sender<Services>,
    /// The addresses of all Nodes are watched.
    nodes: bool,
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.tasks.iter().chain(self.followed.values().map(|(_, task)| task)).for_each(JoinHandle::abort);
    }
}

impl Watches {
    /// Starts all watches of a node except slices; sessions, if used, in that namespace.
    pub fn start(servers: Servers, node: &str, namespace: Option<&str>, told: mpsc::Sender<Message>) -> Self {
        let (slices_of, wanted) = watch::channel(Services::default());
        let sessions = namespace.map(|namespace| Sessions::new(servers.clone(), namespace.to_owned()));
        let kick = Arc::new(Notify::new());
        let mut all = Self {
            servers,
            told,
            kick,
            tasks: vec![],
            sessions,
            followed: BTreeMap::new(),
            last: 0,
            slices_of,
            nodes: false,
        };
        if let Some(namespace) = namespace {
            all.watch_sessions(namespace);
        }
        // The own Node alone: its session tells others how it ranks. All Nodes would be all their heartbeats, on each node.
        let follow = all.follow("/api/v1/nodes".into(), "nodes", "this Node");
        let follow = Follow { fields: Some(format!("metadata.name={node}")), page: None, ..follow };
        all.run("this Node", follow, |change: Change<Node>| Seen::Node(change));
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

    /// Watches the addresses of all Nodes from now on.
    pub fn nodes(&mut self) {
        if !std::mem::replace(&mut self.nodes, true) {
            let follow = self.follow("/api/v1/nodes".into(), "nodes", NODES);
            self.tasks.push(tokio::spawn(follow_nodes(follow, self.told.clone())));
        }
    }

    /// Reopens all watches: their API server may hang.
    pub fn kick(&self) {
        self.kick.notify_waiters();
    }

    /// The member objects, and the sessions without one.
    fn watch_sessions(&mut self, namespace: &str) {
        let Some(sessions) = &self.sessions else { return };
        let follow = self.follow(sessions.path(), LEASES, "sessions without a member object");
        let follow = Follow { labels: Some(sessions::unpublished()), ..follow };
        self.tasks.push(tokio::spawn(follow_unpublished(follow, self.told.clone())));
        let members = Members::new(self.servers.clone(), namespace.to_owned());
        let follow = self.follow(members.path(), members::RESOURCE, "member objects of sessions");
        let follow = Follow { labels: Some(members::MEMBER.into()), ..follow };
        self.tasks.push(tokio::spawn(follow_members(follow, self.told.clone())));
    }

    /// Follows the sessions of these nodes one by one, and no others.
    pub fn follow_sessions(&mut self, nodes: &BTreeSet<String>) {
        let Some(path) = self.sessions.as_ref().map(Sessions::path) else { return };
        for (_, (number, task)) in self.followed.extract_if(.., |node, _| !nodes.contains(node)) {
            task.abort();
            // Whether or not it was lost: nobody misses it. If the loop is busy, a loss that was told may stay one.
            let _ = self.told.try_send(Message::Watch { name: (SESSIONS, number), wrong: None });
        }
        for node in nodes {
            if !self.followed.contains_key(node) {
                let follow = self.follow(path.clone(), LEASES, "a session");
                let follow = Follow { fields: Some(sessions::of_node(node)), page: None, ..follow };
                self.last += 1;
                let name = (SESSIONS, self.last);
                let task = tokio::spawn(follow_session(follow, name, node.clone(), self.told.clone()));
                self.followed.insert(node.clone(), (self.last, task));
            }
        }
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

/// Reports what a watch shows. What it does not show any more until it works again is listed.
async fn tell(told: mpsc::Sender<Message>, name: Name, news: Result<Option<Input>, ApiError>) -> bool {
    let message = match news {
        Ok(Some(input)) => Message::Input(input),
        Ok(None) => Message::Watch { name, wrong: None },
        Err(error) => Message::Watch { name, wrong: Some(error.to_string()) },
    };
    told.send(message).await.is_ok()
}

async fn follow_members(follow: Follow, told: mpsc::Sender<Message>) {
    follow
        .run(move |followed: Followed<ConfigMap>| {
            let news = match followed {
                Followed::Listed(all) => Ok(Some(Input::Members(all.iter().filter_map(members::member).collect()))),
                Followed::Applied(one) => Ok(members::member(&one).map(Input::Member)),
                Followed::Deleted(one) => Ok(members::node(&one).map(|node| Input::MemberDeleted(node.to_owned()))),
                Followed::Alive => Ok(None),
                Followed::Lost(error) => Err(error),
            };
            tell(told.clone(), ("member objects", 0), news).boxed()
        })
        .await;
}

/// The session of one node.
async fn follow_session(follow: Follow, name: Name, node: String, told: mpsc::Sender<Message>) {
    follow
        .run(move |followed: Followed<Raw>| {
            let ours = |raw: &Raw| sessions::view(raw).filter(|view| view.node == node);
            let news = match followed {
                Followed::Listed(all) => {
                    Ok(Some(Input::Followed { node: node.clone(), view: all.iter().find_map(ours) }))
                }
                Followed::Applied(raw) => Ok(ours(&raw).map(Input::Session)),
                Followed::Deleted(raw) => Ok(ours(&raw).map(|view| Input::SessionDeleted(view.node))),
                Followed::Alive => Ok(None),
                Followed::Lost(error) => Err(error),
            };
            tell(told.clone(), name, news).boxed()
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
        servers.pause(crate::api::jitter(wait)).await;
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
