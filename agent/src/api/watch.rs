//! Follows one Lease.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use mooring_common::clock;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use crate::core::lease::LeaseView;
use crate::core::time::Time;

use super::ApiError;
use super::codec::Flaw;
use super::lease::{LeaseApi, LeaseSettings, RESOURCE, path, what};
use super::race::Limits;
use super::raw::Raw;
use super::servers::Servers;
use super::typed::{Follow, Followed, QUIET};

/// Wait before a broken watch is opened again: at first, and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));

/// What the watch of a Lease shows.
#[expect(clippy::large_enum_variant, reason = "few at a time, and most of them are Seen")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The Lease as it is: at the start, when it changed, and again after the watch was lost.
    Seen {
        /// None: there is no such Lease.
        view: Option<LeaseView>,
        /// What is wrong with it.
        flaws: Vec<Flaw>,
        /// When this was heard.
        at: Time,
    },
    /// The watch is alive: it was opened, or a bookmark came (about once a minute). This proves nothing about the
    /// Lease.
    Alive {
        /// When this was heard.
        at: Time,
    },
    /// The watch shows nothing until the next [`Watched::Seen`] or [`Watched::Alive`]. The watch retries by itself.
    Lost {
        /// Why.
        error: ApiError,
        /// When this was noticed.
        at: Time,
    },
}

/// A running watch. Dropping it ends the watch.
#[derive(Debug)]
pub struct WatchHandle {
    kick: Arc<Notify>,
    task: JoinHandle<()>,
}

impl WatchHandle {
    /// Drops a watch that is no longer trusted (its API server may hang), and opens a new one at once, on another API
    /// server if there is one.
    pub fn kick(&self) {
        // Only to a current waiter: a kick is not kept for the next watch.
        self.kick.notify_waiters();
    }
}

impl Drop for WatchHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The Lease of this name; None: all Leases of the namespace. `deadline` limits each list and each opening of a watch.
pub(crate) fn follow_leases(
    servers: &Servers,
    namespace: &str,
    name: Option<&str>,
    deadline: Duration,
    kick: Arc<Notify>,
) -> Follow {
    Follow {
        servers: servers.clone(),
        path: path(namespace),
        resource: RESOURCE,
        what: name.map_or_else(|| format!("the Leases of {namespace}"), |name| what(namespace, name)),
        fields: name.map(|name| format!("metadata.name={name}")),
        labels: None,
        page: None,
        limits: Limits::within(deadline),
        backoff: BACKOFF,
        quiet: QUIET,
        relist: true,
        kick,
    }
}

impl LeaseApi {
    /// Follows the Lease in a task of its own, and reports to `tx`. `deadline` limits each list and each opening of a
    /// watch. Needs a runtime.
    #[must_use]
    pub fn watch(&self, tx: mpsc::Sender<Watched>, deadline: Duration) -> WatchHandle {
        let kick = Arc::new(Notify::new());
        let LeaseSettings { namespace, name, .. } = self.settings();
        let follow = follow_leases(self.servers(), namespace, Some(name), deadline, kick.clone());
        let api = self.clone();
        let task = tokio::spawn(async move {
            let name = api.settings().name.clone();
            let ours = move |raw: &Raw| raw.lease.metadata.name.as_ref() == Some(&name);
            follow
                .run(move |followed| {
                    let at = clock::boottime();
                    let seen = |raw: Option<Raw>| {
                        let (view, flaws) = raw.map(|raw| api.remember(raw)).unzip();
                        Watched::Seen { view, flaws: flaws.unwrap_or_default(), at }
                    };
                    let watched = match followed {
                        Followed::Listed(all) => seen(all.into_iter().find(&ours)),
                        Followed::Applied(raw) if ours(&raw) => seen(Some(raw)),
                        Followed::Deleted(raw) if ours(&raw) => seen(None),
                        Followed::Alive | Followed::Applied(_) | Followed::Deleted(_) => Watched::Alive { at },
                        Followed::Lost(error) => Watched::Lost { error, at },
                    };
                    let tx = tx.clone();
                    async move { tx.send(watched).await.is_ok() }.boxed()
                })
                .await;
        });
        WatchHandle { kick, task }
    }
}
