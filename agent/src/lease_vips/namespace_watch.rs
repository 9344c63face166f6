//! The watch of the Leases of one namespace.
//!
//! **One watch for all Leases that are wanted there, not one for each.** A watch is a connection, a list each time when it is lost, and
//! a retry every two seconds while the API is away; with hundreds of Services that is too much for the node and for the API servers.
//! kube-vip's Leases have no labels, so the watch shows all Leases of the namespace. Those that nobody here wants are looked at no
//! further than their names, and not kept.
//!
//! **Where one Lease is wanted, the watch has a field selector.** Leases of a namespace such as kube-system are renewed every two
//! seconds, and API servers would send them to each node for nothing. And the role for the Lease that all Services share
//! (`global-lease`) allows that one Lease by its name: a list or a watch without the selector would be refused. When a second Lease is
//! wanted, a watch of the namespace follows; it stays until none is wanted.
//!
//! What is not wanted is not kept, so a Lease that is wanted while the watch runs is read once. What the watch shows from then on is
//! passed on, so nothing is missed in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use mooring_common::clock;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::calls_gate::{Answered, CallsGate};
use super::lease_clients::OfLease;
use crate::api::raw::Raw;
use crate::api::typed::Followed;
use crate::api::watch::follow_leases;
use crate::api::{ApiError, LeaseApi, Read, Servers, Watched};
use crate::core::event::Event;
use crate::lease_watch::{LeaseWatchAdapter, Shown};

/// The time limit for opening a watch, and for the list before one.
const WATCH_WITHIN: Duration = Duration::from_secs(5);
/// The time limit for reading a Lease that is wanted while the watch runs.
const READ_WITHIN: Duration = Duration::from_secs(2);
/// A watch of many Leases that was lost is told of after this time: a list follows at once, or after the first pause of 0.25 s, and
/// shows all of them. Otherwise each of
/// them would be read.
const LIST_WITHIN: Duration = Duration::from_millis(500);
/// A watch of many Leases is opened anew if it has not shown a Lease this long after a read showed another version: a read may be
/// faster than the watch, and all those Leases are listed again.
const SHOWS_WITHIN: Duration = Duration::from_secs(3);
/// How many pieces of news may wait.
const NEWS: usize = 16;

/// A running watch. Dropping it ends the watch.
pub(super) struct NamespaceWatch {
    orders: mpsc::UnboundedSender<Order>,
    task: AbortHandle,
}

enum Order {
    /// These Leases are wanted from now on.
    Want(BTreeMap<String, LeaseApi>),
    /// A read of this Lease showed a version that the core was not shown.
    Doubt { name: String, version: String },
}

impl Drop for NamespaceWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl NamespaceWatch {
    /// A watch that shows nothing before Leases are wanted. Needs a runtime.
    pub(super) fn start(servers: Servers, namespace: &str, reads: CallsGate, told: mpsc::Sender<OfLease>) -> Self {
        let (orders, ordered) = mpsc::unbounded_channel();
        let watching = Watching {
            servers,
            namespace: namespace.to_owned(),
            reads,
            told,
            wanted: BTreeMap::new(),
            follow: None,
            listed: false,
            lost: Lost::No,
            complaint: "",
            firsts: JoinSet::new(),
            doubts: BTreeMap::new(),
        };
        let task = tokio::spawn(watching.run(ordered)).abort_handle();
        Self { orders, task }
    }

    /// Sets which Leases are wanted, by their names in the namespace.
    pub(super) fn want(&self, leases: BTreeMap<String, LeaseApi>) {
        // The task ends with this handle alone.
        let _ = self.orders.send(Order::Want(leases));
    }

    /// A read showed a version that the core was not shown: the watch may hang on one API server while another answers. It is opened
    /// anew, unless it shows that Lease soon.
    pub(super) fn distrust(&self, name: &str, version: &str) {
        let _ = self.orders.send(Order::Doubt { name: name.to_owned(), version: version.to_owned() });
    }
}

struct Watching {
    servers: Servers,
    namespace: String,
    reads: CallsGate,
    told: mpsc::Sender<OfLease>,
    wanted: BTreeMap<String, Wanted>,
    /// The list and watch under way.
    follow: Option<Follower>,
    /// What the watch shows now is complete: a list has come since it began, or was lost.
    listed: bool,
    lost: Lost,
    /// What was last logged.
    complaint: &'static str,
    /// Reads of Leases that were wanted while the watch ran.
    firsts: JoinSet<(String, Option<Read>)>,
    /// When the watch is opened anew, unless it shows that Lease.
    doubts: BTreeMap<String, Instant>,
}

struct Wanted {
    lease: LeaseApi,
    adapter: LeaseWatchAdapter,
    /// The version that the watch showed last; empty: that there is no such Lease.
    shown: Option<String>,
}

struct Follower {
    scope: Scope,
    news: mpsc::Receiver<Followed<Value>>,
    kick: Arc<Notify>,
    task: AbortHandle,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Scope {
    /// The Lease of this name.
    One(String),
    Namespace,
}

/// Whether the watch is lost, and who knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    No,
    /// It is told if no list comes before this time.
    Until(Instant),
    Told,
}

/// The event loop has ended: no receiver is left.
struct Over;

impl Watching {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        loop {
            let due = self.due();
            let follow = self.follow.as_mut().map(|follow| &mut follow.news);
            let news = async {
                match follow {
                    Some(news) => news.recv().await,
                    None => std::future::pending().await,
                }
            };
            let done = tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Want(leases)) => {
                        self.want(leases);
                        Ok(())
                    }
                    Some(Order::Doubt { name, version }) => {
                        self.doubt(name, &version);
                        Ok(())
                    }
                    None => Err(Over),
                },
                Some(followed) = news => self.take(followed).await,
                Some(Ok((name, read))) = self.firsts.join_next() => self.first(&name, read).await,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.advance().await,
            };
            if done.is_err() {
                return;
            }
        }
    }

    fn want(&mut self, leases: BTreeMap<String, LeaseApi>) {
        let mut before = std::mem::take(&mut self.wanted);
        let mut new = vec![];
        for (name, lease) in leases {
            let wanted = before.remove(&name).unwrap_or_else(|| {
                new.push((name.clone(), lease.clone()));
                Wanted { lease, adapter: LeaseWatchAdapter::default(), shown: None }
            });
            self.wanted.insert(name, wanted);
        }
        let wanted = &self.wanted;
        self.doubts.retain(|name, _| wanted.contains_key(name));
        if self.follow_on() {
            // The list shows all of them.
            return;
        }
        for (name, lease) in new.into_iter().filter(|_| self.listed) {
            let reads = self.reads.clone();
            self.firsts.spawn(async move {
                let read = reads
                    .pass(&Answered::default(), READ_WITHIN, |within| async move { lease.read(within).await })
                    .await;
                (name, read.and_then(Result::ok))
            });
        }
    }

    /// Begins another list and watch if what is wanted needs one. True: a list is under way.
    fn follow_on(&mut self) -> bool {
        let scope = match (self.wanted.keys().next(), &self.follow) {
            (_, Some(Follower { scope: Scope::Namespace, .. })) | (None, _) => return false,
            (Some(name), _) if self.wanted.len() == 1 => Scope::One(name.clone()),
            _ => Scope::Namespace,
        };
        if self.follow.as_ref().is_some_and(|follow| follow.scope == scope) {
            return false;
        }
        let name = match &scope {
            Scope::One(name) => Some(name.as_str()),
            Scope::Namespace => None,
        };
        let kick = Arc::new(Notify::new());
        let follow = follow_leases(&self.servers, &self.namespace, name, WATCH_WITHIN, kick.clone());
        let (tx, news) = mpsc::channel(NEWS);
        let task = tokio::spawn(follow.run(move |followed| {
            let tx = tx.clone();
            async move { tx.send(followed).await.is_ok() }.boxed()
        }));
        self.follow = Some(Follower { scope, news, kick, task: task.abort_handle() });
        self.listed = false;
        self.doubts.clear();
        true
    }

    fn is_of_many(&self) -> bool {
        self.follow.as_ref().is_some_and(|follow| follow.scope == Scope::Namespace)
    }

    async fn take(&mut self, followed: Followed<Value>) -> Result<(), Over> {
        match followed {
            Followed::Listed(all) => {
                (self.listed, self.lost, self.complaint) = (true, Lost::No, "");
                self.doubts.clear();
                let mut found: BTreeMap<String, Value> = BTreeMap::new();
                for lease in all {
                    if let Some(name) = self.wanted_name(&lease) {
                        found.insert(name, lease);
                    }
                }
                for name in self.wanted.keys().cloned().collect::<Vec<_>>() {
                    let lease = found.remove(&name);
                    self.show(&name, lease).await?;
                }
            }
            Followed::Applied(lease) => {
                if let Some(name) = self.wanted_name(&lease) {
                    self.show(&name, Some(lease)).await?;
                }
            }
            Followed::Deleted(lease) => {
                if let Some(name) = self.wanted_name(&lease) {
                    self.show(&name, None).await?;
                }
            }
            // This comes from the API server's cache, whether or not the store answers: it proves nothing about a Lease.
            Followed::Alive => {}
            Followed::Lost(error) => self.was_lost(&error).await?,
        }
        Ok(())
    }

    fn wanted_name(&self, lease: &Value) -> Option<String> {
        let name = lease.get("metadata")?.get("name")?.as_str()?;
        self.wanted.contains_key(name).then(|| name.to_owned())
    }

    /// The watch showed a Lease; None: that it does not exist.
    async fn show(&mut self, name: &str, lease: Option<Value>) -> Result<(), Over> {
        let Some(wanted) = self.wanted.get_mut(name) else { return Ok(()) };
        self.doubts.remove(name);
        let (view, flaws) = match lease.map(serde_json::from_value::<Raw>).transpose() {
            Ok(raw) => raw.map(|raw| wanted.lease.remember(raw)).unzip(),
            Err(error) => {
                let (namespace, error) = (&self.namespace, error.to_string());
                tracing::warn!(namespace, name, error, "a Lease that the watch shows cannot be read");
                return self.tell(name, Event::WatchLost).await;
            }
        };
        wanted.shown = Some(view.as_ref().map(|view| view.version.clone()).unwrap_or_default());
        let flaws = flaws.unwrap_or_default();
        let shown = wanted.adapter.translate(Watched::Seen { view, flaws, at: clock::boottime() });
        match shown {
            Some(Shown::Lease(view)) => self.tell(name, Event::Seen(view)).await,
            _ => Ok(()),
        }
    }

    /// A Lease that was wanted while the watch ran was read; None: it could not be.
    async fn first(&mut self, name: &str, read: Option<Read>) -> Result<(), Over> {
        // What the watch has shown meanwhile is newer.
        let Some(wanted) = self.wanted.get_mut(name).filter(|wanted| wanted.shown.is_none()) else { return Ok(()) };
        let Some(Read { view, flaws }) = read else {
            // The elector reads it for itself.
            return self.tell(name, Event::WatchLost).await;
        };
        match wanted.adapter.translate(Watched::Seen { view, flaws, at: clock::boottime() }) {
            Some(Shown::Lease(view)) => self.tell(name, Event::Seen(view)).await,
            _ => Ok(()),
        }
    }

    async fn was_lost(&mut self, error: &ApiError) -> Result<(), Over> {
        if self.complaint != error.category() {
            let namespace = &self.namespace;
            tracing::warn!(namespace, leases = self.wanted.len(), %error, "watch of Leases failed; retrying");
            self.complaint = error.category();
        }
        self.listed = false;
        self.doubts.clear();
        if self.lost == Lost::No && self.is_of_many() {
            self.lost = Lost::Until(Instant::now() + LIST_WITHIN);
            return Ok(());
        }
        self.tell_lost().await
    }

    async fn tell_lost(&mut self) -> Result<(), Over> {
        self.lost = Lost::Told;
        for name in self.wanted.keys().cloned().collect::<Vec<_>>() {
            self.tell(&name, Event::WatchLost).await?;
        }
        Ok(())
    }

    fn doubt(&mut self, name: String, version: &str) {
        let Some(wanted) = self.wanted.get(&name).filter(|_| self.listed) else { return };
        // It is on its way to the core.
        if wanted.shown.as_deref() == Some(version) {
            return;
        }
        let wait = if self.is_of_many() { SHOWS_WITHIN } else { Duration::ZERO };
        self.doubts.entry(name).or_insert_with(|| Instant::now() + wait);
    }

    fn due(&self) -> Option<Instant> {
        let lost = if let Lost::Until(at) = self.lost { Some(at) } else { None };
        self.doubts.values().copied().chain(lost).min()
    }

    async fn advance(&mut self) -> Result<(), Over> {
        let now = Instant::now();
        if self.doubts.values().any(|due| *due <= now) {
            self.doubts.clear();
            if let Some(follow) = &self.follow {
                follow.kick.notify_waiters();
            }
        }
        match self.lost {
            Lost::Until(at) if at <= now => self.tell_lost().await,
            _ => Ok(()),
        }
    }

    async fn tell(&self, name: &str, event: Event) -> Result<(), Over> {
        self.told.send((format!("{}/{name}", self.namespace), event)).await.map_err(|_| Over)
    }
}
