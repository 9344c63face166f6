//! What every observer saw around a violation, with one clock for all.

use std::fs;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use mooring_agent::core::mac::Mac;
use mooring_agent::core::time::Time;
use serde::Serialize;

use super::rules::Breach;
use super::watch::Record;
use crate::agents::AGENT;
use crate::observe::addresses::Change;
use crate::observe::from_wall;
use crate::observe::tap::{Frame, Kind};
use crate::rig::control_plane::ControlPlaneRig;

/// Shorter gaps are left out.
const GAP: Duration = Duration::from_millis(20);
/// Repeated answers of one host for the VIP appear once in this time.
const AGAIN: Duration = Duration::from_secs(1);
/// The story begins this long before the first fault.
const BEFORE: Duration = Duration::from_secs(4);

/// One line of a story.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// Seconds since the run began.
    pub at: f64,
    /// Who saw it: `fault`, `kernel`, `segment`, `client`, `agent`, `rule`.
    pub by: &'static str,
    /// The host that the line is about, or empty.
    pub host: String,
    /// What was seen.
    pub what: String,
}

/// The story of a round, with the rules that were broken.
#[must_use]
pub fn tell(rig: &ControlPlaneRig, begin: Time, record: &Record, breaches: &[Breach]) -> Vec<Entry> {
    let seen = &record.seen;
    let first = seen.faults.iter().map(|fault| fault.from).min().unwrap_or(seen.from);
    let from = Time::max(seen.from, first - BEFORE);
    let mut lines: Vec<(Time, &'static str, String, String)> = Vec::new();
    let mut say = |at: Time, by: &'static str, host: &str, what: String| lines.push((at, by, host.to_owned(), what));

    for fault in &seen.faults {
        let peer = fault.peer.as_ref().map_or_else(String::new, |peer| format!(" to {peer}"));
        say(fault.from, "fault", &fault.host, format!("{}{peer} begins", fault.class.name()));
        say(fault.to, "fault", &fault.host, format!("{}{peer} is healed", fault.class.name()));
    }
    for event in &record.events {
        let what = match event.change {
            Change::Added => format!("the VIP came, for {} s", event.state.valid),
            Change::Refreshed => format!("the VIP was refreshed, for {} s", event.state.valid),
            Change::Removed => "the VIP went".to_owned(),
        };
        say(event.at, "kernel", &event.host, what);
    }
    let vip = rig.lab.vip();
    let hosts = rig.lab.hosts();
    let mut told: Vec<(Mac, Time)> = Vec::new();
    for frame in rig.tap.between(from, seen.to, |frame| frame.claims(vip)) {
        let announced = frame.announces(vip);
        if announced || told.iter().all(|(mac, at)| *mac != frame.source || frame.at.since(*at) > AGAIN) {
            told.retain(|(mac, _)| *mac != frame.source);
            told.push((frame.source, frame.at));
            let named = hosts.iter().find(|host| host.mac() == frame.source);
            say(frame.at, "segment", named.map_or("", |host| host.name()), words(&frame, announced));
        }
    }
    for span in record.probes.who() {
        say(span.from, "client", &span.node, format!("is heard; {} answers", span.answers));
        say(span.to, "client", &span.node, "was heard for the last time in a row".to_owned());
    }
    for gap in seen.gaps.iter().filter(|gap| gap.length() >= GAP) {
        say(gap.from, "client", "", format!("hears nothing for {} ms", gap.length().as_millis()));
    }
    for host in rig.lab.control_planes() {
        for (at, line) in log_lines(rig, &host, from, seen.to) {
            say(at, "agent", &host, line);
        }
    }
    for breach in breaches {
        say(breach.at, "rule", "", format!("BROKEN: {}: {}", breach.rule.text(), breach.detail));
    }
    lines.retain(|(at, ..)| *at >= from);
    lines.sort_by_key(|line| line.0);
    let entry = |(at, by, host, what): (Time, &'static str, String, String)| {
        let at = (at.since(begin).as_secs_f64() * 1_000.0).round() / 1_000.0;
        Entry { at, by, host, what }
    };
    lines.into_iter().map(entry).collect()
}

/// As text, one entry per line.
#[must_use]
pub fn text(entries: &[Entry]) -> String {
    let line = |e: &Entry| format!("    {:>10.3} s  {:<8} {:<9} {}\n", e.at, e.by, e.host, e.what);
    entries.iter().map(line).collect()
}

fn words(frame: &Frame, announced: bool) -> String {
    let kind = match frame.kind {
        Kind::ArpRequest => "ARP request",
        Kind::ArpReply => "ARP reply",
        Kind::Solicitation => "solicitation",
        Kind::Advertisement { .. } => "advertisement",
    };
    let how = if announced { "announces" } else { "answers for" };
    format!("{how} the VIP at {} by an {kind} to {}", frame.sender_mac.unwrap_or(frame.source), frame.destination)
}

/// The lines of an agent's log between two moments: each begins with its time.
fn log_lines(rig: &ControlPlaneRig, host: &str, from: Time, to: Time) -> Vec<(Time, String)> {
    let Ok(process) = rig.lab.process(host, AGENT) else {
        return Vec::new();
    };
    let text = fs::read(process.log()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let dated = text.lines().filter_map(|line| {
        let (time, rest) = line.split_once(' ')?;
        let at: Timestamp = time.parse().ok()?;
        Some((from_wall(at.into()), rest.trim().to_owned()))
    });
    dated.filter(|(at, _)| *at >= from && *at <= to).collect()
}
