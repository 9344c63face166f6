//! Kubernetes Events: how to write them, and which were sent lately.

use std::collections::VecDeque;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::text::cut_bytes;

/// The longest note that the API allows, in bytes.
const LONGEST_NOTE: usize = 1024;
/// The longest reason, action and instance that the API allows, in bytes.
const LONGEST_WORD: usize = 128;
/// The space for a serial number after the name of the object, in bytes.
const LONGEST_NAME: usize = 200;

/// An Event to be written.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Group and version of the object: `coordination.k8s.io/v1`, `v1`.
    pub api_version: &'a str,
    /// The object's kind.
    pub kind: &'a str,
    /// The object's namespace; empty: none.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// The object's uid; empty: not known.
    pub uid: &'a str,
    /// A person should look at the event.
    pub warning: bool,
    /// Why it happened, in one word: `ForeignOwner`.
    pub reason: &'a str,
    /// The action in one word: `Defend`.
    pub action: &'a str,
    /// The text for people.
    pub note: &'a str,
}

/// Writes Events in the name of a program.
#[derive(Debug)]
pub struct Writer {
    controller: &'static str,
    instance: String,
    serial: u64,
}

impl Writer {
    /// `controller`: the program, `mooring.dev/agent`; `instance`: the instance of the program.
    #[must_use]
    pub fn new(controller: &'static str, instance: String) -> Self {
        Self { controller, instance, serial: 0 }
    }

    /// The path to post the Event to, and the Event. The Event of an object without a namespace goes to `default`:
    /// kubectl looks for it there.
    pub fn write(&mut self, event: &Event<'_>) -> (String, Value) {
        self.serial = self.serial.wrapping_add(1);
        let id = format!("{:x}{:02x}", Timestamp::now().as_microsecond(), self.serial % 256);
        self.write_named(event, &id)
    }

    /// As [`Writer::write`], with an end of the Event's name that others choose too: the API server keeps the first Event
    /// of a name. `id`: letters and digits, at most 20.
    #[must_use]
    pub fn write_named(&self, event: &Event<'_>, id: &str) -> (String, Value) {
        let now = Timestamp::now();
        let namespace = if event.namespace.is_empty() { "default" } else { event.namespace };
        let mut regarding = json!({"apiVersion": event.api_version, "kind": event.kind, "name": event.name});
        for (field, value) in [("namespace", event.namespace), ("uid", event.uid)] {
            if !value.is_empty() {
                regarding[field] = value.into();
            }
        }
        let name = format!("{}.{id}", cut_bytes(event.name, LONGEST_NAME));
        let written = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
            "type": if event.warning { "Warning" } else { "Normal" },
            "reason": cut_bytes(event.reason, LONGEST_WORD),
            "action": cut_bytes(event.action, LONGEST_WORD),
            "note": cut_bytes(event.note, LONGEST_NOTE),
            "regarding": regarding,
            "reportingController": self.controller,
            "reportingInstance": cut_bytes(&self.instance, LONGEST_WORD),
        });
        (format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"), written)
    }
}

/// The Events requested lately: the same Event is not sent again within a time.
#[derive(Debug)]
pub struct Recent<N> {
    quiet: Duration,
    most: usize,
    /// What was sent, when, and how often it was requested since.
    sent: VecDeque<(N, Instant, u32)>,
}

impl<N: Clone + PartialEq> Recent<N> {
    /// Remembers the last `most` Events, each for as long as `quiet`.
    #[must_use]
    pub const fn new(quiet: Duration, most: usize) -> Self {
        Self { quiet, most, sent: VecDeque::new() }
    }

    /// Whether to send this Event now. Some: send it; the number counts the suppressed requests since it was last sent.
    pub fn ask(&mut self, note: &N) -> Option<u32> {
        let now = Instant::now();
        let mut more = 0;
        if let Some(at) = self.sent.iter().position(|(sent, ..)| sent == note) {
            let (_, then, count) = self.sent.get_mut(at)?;
            if now.duration_since(*then) < self.quiet {
                *count = count.saturating_add(1);
                return None;
            }
            more = *count;
            self.sent.remove(at);
        }
        if self.sent.len() >= self.most {
            self.sent.pop_front();
        }
        self.sent.push_back((note.clone(), now, 0));
        Some(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_its_object_and_its_writer() {
        let mut writer = Writer::new("mooring.dev/agent", "cp1".into());
        let event = Event {
            api_version: "v1",
            kind: "Node",
            namespace: "",
            name: "cp1",
            uid: "cp1",
            warning: true,
            reason: "ForeignOwner",
            action: "Defend",
            note: &"é".repeat(600),
        };
        let (path, written) = writer.write(&event);
        assert_eq!(path, "/apis/events.k8s.io/v1/namespaces/default/events");
        assert_eq!(written["regarding"], json!({"apiVersion": "v1", "kind": "Node", "name": "cp1", "uid": "cp1"}));
        assert_eq!((&written["type"], &written["reportingInstance"]), (&"Warning".into(), &"cp1".into()));
        assert_eq!(written["note"].as_str().map(str::len), Some(1024));
        let (_, second) = writer.write(&Event { namespace: "n", ..event });
        assert_eq!((&second["metadata"]["namespace"], &second["regarding"]["namespace"]), (&"n".into(), &"n".into()));
        assert_ne!(written["metadata"]["name"], second["metadata"]["name"]);
        let named = |instance: &str| Writer::new("mooring.dev/agent", instance.into()).write_named(&event, "1f").1;
        assert_eq!(named("cp1")["metadata"]["name"], "cp1.1f");
        assert_eq!(named("cp1")["metadata"]["name"], named("cp2")["metadata"]["name"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_is_counted_and_sent_again_later() {
        let mut recent = Recent::new(Duration::from_mins(1), 2);
        assert_eq!((recent.ask(&"a"), recent.ask(&"a"), recent.ask(&"b")), (Some(0), None, Some(0)));
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!((recent.ask(&"a"), recent.ask(&"a")), (Some(1), None));
        // Two others, and it is forgotten.
        assert_eq!((recent.ask(&"c"), recent.ask(&"d"), recent.ask(&"a")), (Some(0), Some(0), Some(0)));
    }
}
