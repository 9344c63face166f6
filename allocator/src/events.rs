//! Kubernetes Events: what people see with `kubectl events`. Events are best effort: no claim waits for them.
//!
//! An Event costs the API server a third as much as a claim. So Events have budgets ([`queue`]), and all but warnings give way
//! to writes for a while. Those that come too late are listed in one Event on the pool.

mod queue;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mooring_common::events::{Event, Recent, Writer};
use tokio::sync::Notify;
use tokio::time::Instant;

use self::queue::{Next, Queue};
use crate::api::{ApiError, Call, Client, Verb};
use crate::ops::Ops;

/// For each try to send one.
const DEADLINE: Duration = Duration::from_secs(5);
/// The same Event within this time is counted, not sent.
const QUIET: Duration = Duration::from_mins(10);
/// Number of Events remembered for this check.
const REMEMBERED: usize = 256;

/// The action of Events that tell of a write to somebody's object.
pub const WRITE: &str = "Write";

/// What an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Regarding {
    /// Its group: `ipam.cluster.x-k8s.io`; empty: the core group.
    pub group: &'static str,
    /// The version it was read in: `v1beta2`.
    pub version: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace; empty: none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid; empty: not known.
    pub uid: String,
}

/// An Event to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// What it is about.
    pub regarding: Regarding,
    /// The pool on which the Event is listed when its turn does not come.
    pub pool: Option<Regarding>,
    /// Whether somebody should look at it.
    pub warning: bool,
    /// Why it happened, in one word: `AddressAllocated`.
    pub reason: Cow<'static, str>,
    /// What was done, in one word: `Allocate`.
    pub action: &'static str,
    /// For people.
    pub text: String,
}

/// Takes Events and sends them in a task of its own. Clones share the same task.
#[derive(Clone, Debug)]
pub struct Events(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    /// Something was queued, or dropped.
    changed: Notify,
    start: Instant,
}

impl Shared {
    fn with<T>(&self, act: impl FnOnce(&mut Queue, Duration) -> T) -> T {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut queue, self.start.elapsed())
    }
}

impl Events {
    /// An instance that discards all Events.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// Events come from `instance`. Needs a runtime.
    #[must_use]
    pub fn start(client: Client, ops: Arc<Ops>, instance: String) -> Self {
        let queue = Mutex::new(Queue::new(Duration::ZERO));
        let shared = Arc::new(Shared { queue, changed: Notify::new(), start: Instant::now() });
        let sender = Sender {
            client,
            ops,
            writer: Writer::new("mooring.dev/allocator", instance),
            recent: Recent::new(QUIET, REMEMBERED),
            told: false,
        };
        tokio::spawn(sender.run(shared.clone()));
        Self(Some(shared))
    }

    /// Queues an Event for sending. Returns at once.
    pub fn send(&self, note: Note, ops: &Ops) {
        let Some(shared) = &self.0 else { return };
        if !shared.with(|queue, now| queue.push(note, now)) {
            ops.metrics.events_dropped.inc();
        }
        shared.changed.notify_one();
    }
}

struct Sender {
    client: Client,
    ops: Arc<Ops>,
    writer: Writer,
    recent: Recent<Note>,
    told: bool,
}

impl Sender {
    async fn run(mut self, shared: Arc<Shared>) {
        loop {
            let busy = self.ops.metrics.waiting.get() > 0;
            let (next, lists, late) =
                shared.with(|queue, now| (queue.next(busy, now), queue.lists(now), queue.take_late()));
            self.ops.metrics.events_dropped.inc_by(late);
            let summary = match lists {
                Ok(notes) => {
                    for note in notes {
                        self.send(&note).await;
                    }
                    Some(Duration::ZERO)
                }
                Err(wait) => wait,
            };
            let wait = match next {
                Next::Write(note) => {
                    // Each write is told of, though it is one that was made before: somebody has undone it.
                    if note.action == WRITE || self.recent.ask(&note).is_some() {
                        self.send(&note).await;
                    }
                    continue;
                }
                Next::Wait(time) => Some(summary.map_or(time, |other| other.min(time))),
                Next::Idle => summary,
            };
            match wait {
                Some(time) => {
                    let _ = tokio::time::timeout(time, shared.changed.notified()).await;
                }
                None => shared.changed.notified().await,
            }
        }
    }

    async fn send(&mut self, note: &Note) {
        let (path, body) = self.event(note);
        let call = Call { verb: Verb::Create, resource: "events", path, body: body.to_string().into() };
        match self.client.call(&call, DEADLINE, &self.ops.metrics).await {
            Ok(_) => self.told = false,
            Err(error @ ApiError::Status { code: 403, .. }) if !error.is_terminating() => {
                if !std::mem::replace(&mut self.told, true) {
                    tracing::warn!(%error, "Events cannot be written; what they would say is in the log and in conditions only");
                }
            }
            Err(error) => tracing::debug!(%error, reason = &*note.reason, "Event dropped: it could not be written"),
        }
    }

    fn event(&mut self, note: &Note) -> (String, serde_json::Value) {
        let about = &note.regarding;
        let slash = if about.group.is_empty() { "" } else { "/" };
        let api_version = format!("{}{slash}{}", about.group, about.version);
        self.writer.write(&Event {
            api_version: &api_version,
            kind: about.kind,
            namespace: &about.namespace,
            name: &about.name,
            uid: &about.uid,
            warning: note.warning,
            reason: &note.reason,
            action: note.action,
            note: &note.text,
        })
    }
}
