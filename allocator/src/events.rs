//! Kubernetes Events: what people see with `kubectl events`. Events are best effort: no claim waits for them.
//!
//! An Event costs the API server a third as much as a claim. So each Event needs one of a few tokens, and a moment
//! without waiting writes. Dropped Events are counted, and one Event on the pool reports their number when it is quiet
//! again.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mooring_common::events::{Event, Recent, Writer};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::api::{ApiError, Call, Client, Verb};
use crate::ops::Ops;

/// Longest queue of waiting Events; further Events are dropped.
const QUEUE: usize = 64;
/// For each try to send one.
const DEADLINE: Duration = Duration::from_secs(5);
/// Largest number of Events sent at once ...
const BURST: u32 = 25;
/// ... and the interval at which one more is allowed.
const TOKEN: Duration = Duration::from_millis(250);
/// While writes wait, check again after this delay.
const BUSY: Duration = Duration::from_millis(100);
/// The same Event within this time is counted, not sent.
const QUIET: Duration = Duration::from_mins(10);
/// Number of Events remembered for this check.
const REMEMBERED: usize = 256;
/// Delay before dropped Events are reported, without further dropped Events.
const SUMMARY_AFTER: Duration = Duration::from_secs(2);

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
    /// The pool on which the Event is counted when it is dropped.
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
pub struct Events {
    tx: Option<mpsc::UnboundedSender<Heard>>,
    waiting: Arc<std::sync::atomic::AtomicUsize>,
}

#[derive(Debug)]
enum Heard {
    Note(Box<Note>),
    /// One that was left out, and its pool.
    Left(Cow<'static, str>, Regarding),
}

impl Events {
    /// An instance that discards all Events.
    #[must_use]
    pub fn off() -> Self {
        Self { tx: None, waiting: Arc::default() }
    }

    /// Events come from `instance`. Needs a runtime.
    #[must_use]
    pub fn start(client: Client, ops: Arc<Ops>, instance: String) -> Self {
        let (tx, rx) = mpsc::unbounded_channel();
        let waiting: Arc<std::sync::atomic::AtomicUsize> = Arc::default();
        let sender = Sender {
            client,
            ops,
            writer: Writer::new("mooring.dev/allocator", instance),
            waiting: waiting.clone(),
            tokens: BURST,
            filled: Instant::now(),
            recent: Recent::new(QUIET, REMEMBERED),
            left: HashMap::new(),
            told: false,
        };
        tokio::spawn(sender.run(rx));
        Self { tx: Some(tx), waiting }
    }

    /// Whether another Event would be dropped: then its text need not be made.
    #[must_use]
    pub fn full(&self) -> bool {
        self.waiting.load(std::sync::atomic::Ordering::Relaxed) >= QUEUE
    }

    /// Queues an Event for sending. Returns at once.
    pub fn send(&self, note: Note, ops: &Ops) {
        use std::sync::atomic::Ordering::Relaxed;
        let Some(tx) = &self.tx else { return };
        let heard = if self.full() {
            ops.metrics.events_dropped.inc();
            let Some(pool) = note.pool else { return };
            Heard::Left(note.reason, pool)
        } else {
            self.waiting.fetch_add(1, Relaxed);
            Heard::Note(Box::new(note))
        };
        if tx.send(heard).is_err() {
            tracing::debug!("Event dropped: the program ends");
        }
    }
}

struct Sender {
    client: Client,
    ops: Arc<Ops>,
    writer: Writer,
    waiting: Arc<std::sync::atomic::AtomicUsize>,
    tokens: u32,
    filled: Instant,
    recent: Recent<Note>,
    /// The number of dropped Events, by pool.
    left: HashMap<(Cow<'static, str>, Regarding), u64>,
    told: bool,
}

impl Sender {
    async fn run(mut self, mut rx: mpsc::UnboundedReceiver<Heard>) {
        loop {
            let summary = Instant::now() + SUMMARY_AFTER;
            let heard = tokio::select! {
                biased;
                heard = rx.recv() => heard,
                () = sleep_until(summary), if !self.left.is_empty() => {
                    self.tell_left().await;
                    continue;
                }
            };
            match heard {
                None => return,
                Some(Heard::Left(reason, pool)) => *self.left.entry((reason, pool)).or_default() += 1,
                Some(Heard::Note(note)) => {
                    if self.recent.ask(&note).is_some() {
                        self.turn().await;
                        self.send(&note).await;
                    }
                    self.waiting.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                }
            }
        }
    }

    async fn tell_left(&mut self) {
        for ((reason, pool), count) in std::mem::take(&mut self.left) {
            let text =
                format!("{count} more Events like this one, about single objects, were left out: claims came first");
            let note = Note { regarding: pool, pool: None, warning: false, reason, action: "Summarize", text };
            self.turn().await;
            self.send(&note).await;
        }
    }

    /// Waits for a token, and until no write waits.
    async fn turn(&mut self) {
        loop {
            let fresh = self.filled.elapsed().as_millis() / TOKEN.as_millis();
            if fresh > 0 {
                self.filled = Instant::now();
                self.tokens = self.tokens.saturating_add(u32::try_from(fresh).unwrap_or(BURST)).min(BURST);
            }
            if self.ops.metrics.waiting.get() > 0 {
                sleep(BUSY).await;
            } else if self.tokens == 0 {
                sleep(TOKEN).await;
            } else {
                self.tokens -= 1;
                return;
            }
        }
    }

    async fn send(&mut self, note: &Note) {
        let (path, body) = self.event(note);
        let call = Call { verb: Verb::Create, resource: "events", path, body: body.to_string().into() };
        match self.client.call(&call, DEADLINE, &self.ops.metrics).await {
            Ok(_) => self.told = false,
            Err(error @ ApiError::Status { code: 403, .. }) => {
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
