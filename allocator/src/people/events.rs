//! Kubernetes Events: what people see with `kubectl events`. As well as can be: no claim waits for them.
//!
//! An Event costs the API server as much as a third of a claim. So each that is written needs a token (there are few), and a
//! moment in which no write waits. What is left out is counted, and told in one Event on the pool when it is quiet again.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::api::{ApiError, Call, Client, Verb};
use crate::ops::Ops;

/// Events that wait to be sent; more are left out.
const QUEUE: usize = 64;
/// For each try to send one.
const DEADLINE: Duration = Duration::from_secs(5);
/// So many may be sent at once ...
const BURST: u32 = 25;
/// ... and one more each so long.
const TOKEN: Duration = Duration::from_millis(250);
/// While writes wait, it looks again after this.
const BUSY: Duration = Duration::from_millis(100);
/// The same Event within this time is counted, not sent.
const QUIET: Duration = Duration::from_mins(10);
/// So many are remembered for that.
const REMEMBERED: usize = 256;
/// What was left out is told after this without more of it.
const CALM: Duration = Duration::from_secs(2);
/// What the API allows of a note, in bytes.
const LONGEST: usize = 1024;

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
    /// The pool, on which it is counted when it is left out.
    pub pool: Option<Regarding>,
    /// Somebody should look at it.
    pub warning: bool,
    /// Why it happened, in one word: `AddressAllocated`.
    pub reason: Cow<'static, str>,
    /// What was done, in one word: `Allocate`.
    pub action: &'static str,
    /// For people.
    pub text: String,
}

/// Takes Events; sends them in a task of its own. Clones are the same one.
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
    /// Nobody is told anything.
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
            instance,
            waiting: waiting.clone(),
            tokens: BURST,
            filled: Instant::now(),
            sent: VecDeque::new(),
            left: HashMap::new(),
            serial: 0,
            told: false,
        };
        tokio::spawn(sender.run(rx));
        Self { tx: Some(tx), waiting }
    }

    /// Whether one more would be left out: then its text need not be made.
    #[must_use]
    pub fn full(&self) -> bool {
        self.waiting.load(std::sync::atomic::Ordering::Relaxed) >= QUEUE
    }

    /// Sends it some time soon. Returns at once.
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
            tracing::debug!("Events are written no more");
        }
    }
}

struct Sender {
    client: Client,
    ops: Arc<Ops>,
    instance: String,
    waiting: Arc<std::sync::atomic::AtomicUsize>,
    tokens: u32,
    filled: Instant,
    /// What was sent, when, and how often it was asked for since.
    sent: VecDeque<(Note, Instant)>,
    /// How many of what were left out, by pool.
    left: HashMap<(Cow<'static, str>, Regarding), u64>,
    serial: u64,
    told: bool,
}

impl Sender {
    async fn run(mut self, mut rx: mpsc::UnboundedReceiver<Heard>) {
        loop {
            let calm = Instant::now() + CALM;
            let heard = tokio::select! {
                biased;
                heard = rx.recv() => heard,
                () = sleep_until(calm), if !self.left.is_empty() => {
                    self.tell_left().await;
                    continue;
                }
            };
            match heard {
                None => return,
                Some(Heard::Left(reason, pool)) => *self.left.entry((reason, pool)).or_default() += 1,
                Some(Heard::Note(note)) => {
                    if self.is_new(&note) {
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

    /// Whether the same was not sent lately.
    fn is_new(&mut self, note: &Note) -> bool {
        let now = Instant::now();
        if self.sent.iter().any(|(sent, then)| sent == note && now.duration_since(*then) < QUIET) {
            return false;
        }
        self.sent.retain(|(sent, _)| sent != note);
        if self.sent.len() >= REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back((note.clone(), now));
        true
    }

    async fn send(&mut self, note: &Note) {
        let (namespace, body) = self.event(note);
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        let call = Call { verb: Verb::Create, resource: "events", path, body: body.to_string().into() };
        match self.client.call(&call, DEADLINE, &self.ops.metrics).await {
            Ok(_) => self.told = false,
            Err(error @ ApiError::Status { code: 403, .. }) => {
                if !std::mem::replace(&mut self.told, true) {
                    tracing::warn!(%error, "Events cannot be written: only the log and the conditions say what happens");
                }
            }
            Err(error) => tracing::debug!(%error, reason = &*note.reason, "an Event is lost"),
        }
    }

    fn event(&mut self, note: &Note) -> (String, Value) {
        let now = Timestamp::now();
        self.serial = self.serial.wrapping_add(1);
        let about = &note.regarding;
        // What has no namespace is told of in this one: so kubectl looks for it.
        let namespace = if about.namespace.is_empty() { "default".to_owned() } else { about.namespace.clone() };
        let slash = if about.group.is_empty() { "" } else { "/" };
        let version = format!("{}{slash}{}", about.group, about.version);
        let mut regarding = json!({"apiVersion": version, "kind": about.kind, "name": about.name});
        for (field, value) in [("namespace", &about.namespace), ("uid", &about.uid)] {
            if !value.is_empty() {
                regarding[field] = Value::from(value.as_str());
            }
        }
        let name = format!("{}.{:x}{:02x}", cut(&about.name, 200), now.as_microsecond(), self.serial % 256);
        let event = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
            "type": if note.warning { "Warning" } else { "Normal" },
            "reason": &*note.reason,
            "action": note.action,
            "note": cut(&note.text, LONGEST),
            "regarding": regarding,
            "reportingController": "mooring.dev/allocator",
            "reportingInstance": cut(&self.instance, 128),
        });
        (namespace, event)
    }
}

/// At most so many bytes of it.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
