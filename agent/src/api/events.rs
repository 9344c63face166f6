//! Kubernetes Events: what people see with `kubectl events`. As well as can be: nothing waits for them.

use std::collections::VecDeque;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::core::Request;
use kube::core::params::PostParams;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::error::cut;
use super::race::{Call, Limits};
use super::servers::Servers;
use super::{ApiError, Verb};

/// Events that wait to be sent; more are dropped.
const QUEUE: usize = 64;
/// For each try to send one.
const DEADLINE: Duration = Duration::from_secs(5);
/// While the API is away an Event is kept and tried again, so often ...
const TRIES: u32 = 8;
/// ... with this between: some minutes in all.
const PAUSE: Duration = Duration::from_secs(15);
/// The same Event within this time is counted, not sent.
const QUIET: Duration = Duration::from_mins(1);
/// So many are remembered for that.
const REMEMBERED: usize = 128;
/// What the API allows, in bytes: of the note; of reason and action.
const LONGEST_NOTE: usize = 1024;
const LONGEST_WORD: usize = 128;

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
    /// Somebody should look at it.
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

/// Sends Events in a task of its own. Dropped, it ends.
#[derive(Debug)]
pub struct Events {
    tx: mpsc::Sender<EventNote>,
    task: JoinHandle<()>,
}

impl Events {
    /// Events come from `node`. Needs a runtime.
    #[must_use]
    pub fn start(servers: Servers, node: impl Into<String>) -> Self {
        let (tx, rx) = mpsc::channel(QUEUE);
        let sender = Sender { servers, node: node.into(), sent: VecDeque::new(), serial: 0, forbidden: false };
        Self { tx, task: tokio::spawn(sender.run(rx)) }
    }

    /// Sends it some time soon, unless the same was sent in the last minute. Returns at once. False: dropped, because
    /// too many wait.
    pub fn send(&self, note: EventNote) -> bool {
        match self.tx.try_send(note) {
            Ok(()) => true,
            Err(TrySendError::Full(note) | TrySendError::Closed(note)) => {
                tracing::debug!(reason = note.reason, note = note.note, "too many Events wait: dropped");
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
    node: String,
    /// What was sent, when, and how often it was asked for since.
    sent: VecDeque<(EventNote, Instant, u32)>,
    serial: u64,
    forbidden: bool,
}

impl Sender {
    async fn run(mut self, mut rx: mpsc::Receiver<EventNote>) {
        while let Some(note) = rx.recv().await {
            let Some(more) = self.is_due(&note) else { continue };
            let event = self.event(&note, more);
            for n in 1..=TRIES {
                match self.send(&event).await {
                    Ok(()) => self.forbidden = false,
                    Err(error @ ApiError::Forbidden { .. }) => {
                        if !std::mem::replace(&mut self.forbidden, true) {
                            tracing::warn!(%error, "Events cannot be written: only the log has them");
                        }
                    }
                    Err(error) if !error.answered() && n < TRIES => {
                        tracing::debug!(%error, "Event waits");
                        sleep(PAUSE).await;
                        continue;
                    }
                    Err(error) => tracing::debug!(%error, reason = note.reason, "Event lost"),
                }
                break;
            }
        }
    }

    /// Whether it is to be sent now, and how often it was asked for in vain since it was last sent.
    fn is_due(&mut self, note: &EventNote) -> Option<u32> {
        let now = Instant::now();
        let known = self.sent.iter().position(|(sent, ..)| sent == note);
        let mut more = 0;
        if let Some(at) = known {
            let (_, then, count) = self.sent.get_mut(at)?;
            if now.duration_since(*then) < QUIET {
                *count = count.saturating_add(1);
                return None;
            }
            more = *count;
            self.sent.remove(at);
        }
        if self.sent.len() >= REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back((note.clone(), now, 0));
        Some(more)
    }

    fn event(&mut self, note: &EventNote, more: u32) -> Event {
        let now = Timestamp::now();
        self.serial = self.serial.wrapping_add(1);
        let (kind, api, namespace, name, uid) = match &note.regarding {
            Regarding::Lease { namespace, name, uid } => {
                ("Lease", "coordination.k8s.io/v1", Some(namespace.clone()), name.clone(), uid.clone())
            }
            Regarding::Address { namespace, name, uid } => {
                let version = "ipam.cluster.x-k8s.io/v1beta2";
                ("IPAddress", version, Some(namespace.clone()), name.clone(), uid.clone())
            }
            // kubectl describe looks for Events whose uid is the Node's name: so the kubelet's are.
            Regarding::Node { name } => ("Node", "v1", None, name.clone(), Some(name.clone())),
        };
        let text = if more > 0 { format!("{} ({more} times more since)", note.note) } else { note.note.clone() };
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{:x}{:02x}", cut_bytes(&name, 200), now.as_microsecond(), self.serial % 256)),
                namespace: Some(namespace.clone().unwrap_or_else(|| "default".into())),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            type_: Some(match note.severity {
                Severity::Normal => "Normal".into(),
                Severity::Warning => "Warning".into(),
            }),
            reason: Some(cut_bytes(note.reason, LONGEST_WORD).to_owned()),
            action: Some(cut_bytes(note.action, LONGEST_WORD).to_owned()),
            note: Some(cut_bytes(&text, LONGEST_NOTE).to_owned()),
            regarding: Some(ObjectReference {
                api_version: Some(api.into()),
                kind: Some(kind.into()),
                name: Some(name),
                namespace,
                uid,
                ..ObjectReference::default()
            }),
            reporting_controller: Some("mooring.dev/agent".into()),
            reporting_instance: Some(cut_bytes(&self.node, LONGEST_WORD).to_owned()),
            ..Event::default()
        }
    }

    async fn send(&self, event: &Event) -> Result<(), ApiError> {
        let unsayable = |error: String| ApiError::Rejected { code: 0, message: cut(&error, 200) };
        let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
        let body = serde_json::to_vec(event).map_err(|error| unsayable(error.to_string()))?;
        let request = Request::new(format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"))
            .create(&PostParams::default(), body)
            .map_err(|error| unsayable(error.to_string()))?;
        let what = format!("Event {}", event.metadata.name.as_deref().unwrap_or_default());
        let call = Call { verb: Verb::Create, resource: "events.events.k8s.io", what, request };
        let outcome = self.servers.ask(&call, Limits::within(DEADLINE)).await;
        match outcome.result {
            // Two API servers were asked: one of them has written it.
            Err(ApiError::Conflict { .. }) => Ok(()),
            other => other.map(drop),
        }
    }
}

/// At most so many bytes of it.
fn cut_bytes(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
