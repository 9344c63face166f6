//! Kubernetes Events: what people see with `kubectl events`. Events are best effort: the agent never waits for them.

use std::time::Duration;

use mooring_common::events::{Event, Recent, Writer};
use mooring_names::GROUP;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::ask::NamedCall;
use super::race::Limits;
use super::servers::Servers;
use super::{ApiError, Call, Verb};
use crate::core::placement::seed;

/// How many Events wait to be sent; more are dropped.
const QUEUE: usize = 64;
/// The limit for each try to send an Event.
const DEADLINE: Duration = Duration::from_secs(5);
/// How often an Event is tried while the API is away ...
const TRIES: u32 = 8;
/// ... with this pause between tries: some minutes in all.
const PAUSE: Duration = Duration::from_secs(15);
/// The same Event within this time is counted, not sent.
const QUIET: Duration = Duration::from_mins(1);
/// How many Events are remembered for this.
const REMEMBERED: usize = 128;

/// What an Event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Regarding {
    /// A Lease.
    Lease {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its uid, if known.
        uid: Option<String>,
    },
    /// An `IPAddress`.
    Address {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its uid, if known.
        uid: Option<String>,
    },
    /// An `IPAddress`, of which every node says the same: as with a Service.
    AddressOfAll {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// A Service. Every node sends this Event: it has a name of its own, and the API server keeps the first.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// A Node; the Event stands in the namespace `default`.
    Node {
        /// Its name.
        name: String,
    },
}

/// How serious it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// As it should be.
    Normal,
    /// A person should look at it.
    Warning,
}

/// An Event to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventNote {
    /// What it is about.
    pub regarding: Regarding,
    /// How serious it is.
    pub severity: Severity,
    /// Why it happened, in one word: `ForeignOwner`.
    pub reason: &'static str,
    /// What was done, in one word: `Defend`.
    pub action: &'static str,
    /// For people.
    pub note: String,
}

/// Sends Events in a task of its own. Dropping the sender ends the task.
#[derive(Debug)]
pub struct Events {
    tx: mpsc::Sender<EventNote>,
    task: JoinHandle<()>,
}

impl Events {
    /// A sender of Events from `node`. Needs a runtime.
    #[must_use]
    pub fn start(servers: Servers, node: impl Into<String>) -> Self {
        let (tx, rx) = mpsc::channel(QUEUE);
        let sender = Sender {
            servers,
            writer: Writer::new("mooring.dev/agent", node.into()),
            recent: Recent::new(QUIET, REMEMBERED),
            forbidden: false,
        };
        Self { tx, task: tokio::spawn(sender.run(rx)) }
    }

    /// Queues the Event, unless the same was sent in the last minute. Returns at once. False: dropped, because too many
    /// wait.
    pub fn send(&self, note: EventNote) -> bool {
        match self.tx.try_send(note) {
            Ok(()) => true,
            Err(TrySendError::Full(note) | TrySendError::Closed(note)) => {
                tracing::debug!(reason = note.reason, note = note.note, "Event dropped: too many wait");
                false
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Sender {
    servers: Servers,
    writer: Writer,
    recent: Recent<EventNote>,
    forbidden: bool,
}

impl Sender {
    async fn run(mut self, mut rx: mpsc::Receiver<EventNote>) {
        while let Some(note) = rx.recv().await {
            let Some(more) = self.recent.ask(&note) else { continue };
            let (path, event) = self.event(&note, more);
            for n in 1..=TRIES {
                match self.send(&path, &event).await {
                    Ok(()) => self.forbidden = false,
                    Err(error @ ApiError::Forbidden { .. }) => {
                        if !std::mem::replace(&mut self.forbidden, true) {
                            tracing::warn!(%error, "Events cannot be written; what they would say is in the log only");
                        }
                    }
                    Err(error) if !error.answered() && n < TRIES => {
                        tracing::debug!(%error, "Event not written; retrying");
                        sleep(PAUSE).await;
                        continue;
                    }
                    Err(error) => {
                        tracing::debug!(%error, reason = note.reason, "Event dropped: it could not be written");
                    }
                }
                break;
            }
        }
    }

    /// The path to post to, and the Event. `more`: how many equal Events were suppressed since the last one was sent.
    fn event(&mut self, note: &EventNote, more: u32) -> (String, Value) {
        let ipam = format!("{GROUP}/v1beta2");
        let (kind, api_version, namespace, name, uid) = match &note.regarding {
            Regarding::Lease { namespace, name, uid } => {
                ("Lease", "coordination.k8s.io/v1", namespace.as_str(), name, uid.as_deref())
            }
            Regarding::Address { namespace, name, uid } => {
                ("IPAddress", ipam.as_str(), namespace.as_str(), name, uid.as_deref())
            }
            Regarding::AddressOfAll { namespace, name, uid } => {
                ("IPAddress", ipam.as_str(), namespace.as_str(), name, Some(uid.as_str()))
            }
            Regarding::Service { namespace, name, uid } => {
                ("Service", "v1", namespace.as_str(), name, Some(uid.as_str()))
            }
            // kubectl describe looks for Events whose uid is the Node's name, because the kubelet's Events have that.
            Regarding::Node { name } => ("Node", "v1", "", name, Some(name.as_str())),
        };
        let shared = matches!(note.regarding, Regarding::Service { .. } | Regarding::AddressOfAll { .. });
        let text =
            if more > 0 && !shared { format!("{} ({more} times more since)", note.note) } else { note.note.clone() };
        let event = Event {
            api_version,
            kind,
            namespace,
            name,
            uid: uid.unwrap_or_default(),
            warning: note.severity == Severity::Warning,
            reason: note.reason,
            action: note.action,
            note: &text,
        };
        if shared {
            let id = seed(&format_args!("{} {} {text}", event.uid, note.reason));
            return self.writer.write_named(&event, &format!("{id:016x}"));
        }
        self.writer.write(&event)
    }

    async fn send(&self, path: &str, event: &Value) -> Result<(), ApiError> {
        let body = event.to_string().into();
        let call = Call { verb: Verb::Create, resource: "events.events.k8s.io", path: path.to_owned(), body };
        let what = format!("Event {}", event["metadata"]["name"].as_str().unwrap_or_default());
        let outcome = self.servers.ask(&NamedCall { call, what }, Limits::within(DEADLINE)).await;
        match outcome.result {
            // The request went to two API servers, and one of them has written the Event; or another node has.
            Err(ApiError::Conflict { .. }) => Ok(()),
            other => other,
        }
    }
}
