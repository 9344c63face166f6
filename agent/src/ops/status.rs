//! What the agent is doing: as the agent knows it ([`Report`], with moments on its own clock), and as the agent
//! publishes it ([`Status`], with durations left and durations past, which any reader can use).

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::services::ServicesStatus;
use super::table;
use crate::core::time::{Time, WallTime};

/// How many transitions are remembered.
const TRANSITIONS: usize = 20;
/// Longest text in a cell of a table, in characters.
const WIDEST: usize = 300;

/// What the agent knows of itself. The event loop sends a new report when something has changed. Durations are computed
/// when a client asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// This node.
    pub node: String,
    /// The interface; empty while there is none.
    pub interface: String,
    /// What the agent is, in a word or two: `candidate`, `holder`, `provisional holder`.
    pub state: String,
    /// The VIPs.
    pub vips: Vec<VipReport>,
    /// The Lease.
    pub lease: LeaseReport,
    /// The segment as witness.
    pub witness: WitnessReport,
    /// The nodes that take part.
    pub candidates: Vec<Candidate>,
    /// The last transitions, oldest first: see [`Report::note`].
    pub transitions: VecDeque<Transition>,
}

/// A VIP, as the agent knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VipReport {
    /// The address.
    pub address: IpAddr,
    /// Its prefix length.
    pub prefix: u8,
    /// Whether this node carries it.
    pub carried: bool,
    /// Until when the kernel keeps it.
    pub fence_until: Option<Time>,
}

/// The Lease, as the agent knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseReport {
    /// NAMESPACE/NAME.
    pub name: String,
    /// The node that holds it; empty: none.
    pub holder: String,
    /// When it ends, if the agent sees no further renewal.
    pub expires: Option<Time>,
    /// How often it changed hands.
    pub transitions: u32,
    /// When it was last seen renewed.
    pub renewed: Option<Time>,
    /// The API.
    pub api: ApiStatus,
}

/// The witness, as the agent knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WitnessReport {
    /// In a word: `off`, `watching`, `deaf`.
    pub state: String,
    /// Misses in a row.
    pub misses: u32,
    /// When the holder last answered.
    pub answered: Option<Time>,
}

/// The status document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// This node.
    pub node: String,
    /// The agent's version.
    pub version: String,
    /// The interface; empty while there is none.
    pub interface: String,
    /// What the agent is.
    pub state: String,
    /// What it waits for; empty when it is ready.
    pub waits: Vec<String>,
    /// The VIPs.
    pub vips: Vec<Vip>,
    /// The Lease.
    pub lease: Lease,
    /// The segment as witness.
    pub witness: Witness,
    /// The nodes that take part.
    pub candidates: Vec<Candidate>,
    /// The last transitions, oldest first.
    pub transitions: VecDeque<Transition>,
    /// VIPs of Services; None: this agent holds none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<ServicesStatus>,
}

/// A VIP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vip {
    /// The address.
    pub address: IpAddr,
    /// Its prefix length.
    pub prefix: u8,
    /// Whether this node carries it.
    pub carried: bool,
    /// For how long the kernel keeps it, in milliseconds.
    pub fence_left_ms: Option<u64>,
}

/// The Lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// NAMESPACE/NAME.
    pub name: String,
    /// The node that holds it; empty: none.
    pub holder: String,
    /// Whether that is this node.
    pub mine: bool,
    /// When it ends, in milliseconds; 0: it has.
    pub expires_in_ms: Option<u64>,
    /// How often it changed hands.
    pub transitions: u32,
    /// When it was last seen renewed, in milliseconds.
    pub renewed_ago_ms: Option<u64>,
    /// The API.
    pub api: ApiStatus,
}

/// The API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiStatus {
    /// The server that is asked; empty: none yet.
    pub server: String,
    /// Whether it answers.
    pub ok: bool,
    /// What failed last.
    pub last_error: Option<String>,
}

/// The segment as witness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// In a word.
    pub state: String,
    /// Misses in a row.
    pub misses: u32,
    /// When the holder last answered, in milliseconds.
    pub answered_ago_ms: Option<u64>,
}

/// A node that takes part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The node.
    pub node: String,
    /// Its own addresses on the segment.
    pub addresses: Vec<IpAddr>,
    /// Whether its API server is healthy, where that is known.
    pub healthy: Option<bool>,
}

/// A change of state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// When, on the wall clock, as RFC 3339 says.
    pub at: String,
    /// The state before.
    pub from: String,
    /// The state after.
    pub to: String,
    /// Why, for people.
    pub why: String,
}

impl Report {
    /// Remembers a transition, and makes `to` the state.
    pub fn note(&mut self, at: WallTime, to: &str, why: impl Into<String>) {
        // A time beyond jiff's year 9999 comes from a broken wall clock.
        let at = Timestamp::from_microsecond(at.0).map_or_else(|_| "unknown".to_owned(), |at| format!("{at:.3}"));
        let from = std::mem::replace(&mut self.state, to.to_owned());
        while self.transitions.len() >= TRANSITIONS {
            self.transitions.pop_front();
        }
        self.transitions.push_back(Transition { at, from, to: to.to_owned(), why: why.into() });
    }

    /// The document at this moment.
    #[must_use]
    pub fn at(&self, now: Time, waits: Vec<String>) -> Status {
        let left = |until: Time| millis(until.since(now));
        let ago = |then: Time| millis(now.since(then));
        let vip = |v: &VipReport| Vip {
            address: v.address,
            prefix: v.prefix,
            carried: v.carried,
            fence_left_ms: v.fence_until.map(left),
        };
        let lease = Lease {
            name: self.lease.name.clone(),
            holder: self.lease.holder.clone(),
            mine: !self.lease.holder.is_empty() && self.lease.holder == self.node,
            expires_in_ms: self.lease.expires.map(left),
            transitions: self.lease.transitions,
            renewed_ago_ms: self.lease.renewed.map(ago),
            api: self.lease.api.clone(),
        };
        let witness = Witness {
            state: self.witness.state.clone(),
            misses: self.witness.misses,
            answered_ago_ms: self.witness.answered.map(ago),
        };
        Status {
            node: self.node.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            interface: self.interface.clone(),
            state: self.state.clone(),
            waits,
            vips: self.vips.iter().map(vip).collect(),
            lease,
            witness,
            candidates: self.candidates.clone(),
            transitions: self.transitions.clone(),
            services: None,
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Status {
    /// The document as tables.
    #[must_use]
    pub fn tables(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail; nor can the writes below.
        let or = |text: &str, none: &str| {
            if text.is_empty() { none.to_owned() } else { table::plain(text).into_owned() }
        };
        let alone = self.lease.name.is_empty() && self.services.is_some();
        let _ = if alone {
            writeln!(
                out,
                "{}: VIPs of Services, mooring-agent {}",
                table::plain(&self.node),
                table::plain(&self.version)
            )
        } else {
            writeln!(
                out,
                "{}: {}, on {}, mooring-agent {}",
                table::plain(&self.node),
                or(&self.state, "starts"),
                or(&self.interface, "no interface yet"),
                table::plain(&self.version)
            )
        };
        for waits in &self.waits {
            let _ = writeln!(out, "not ready: {}", table::plain(waits));
        }
        if let Some(services) = &self.services {
            let _ = write!(out, "\n{}", services.tables());
            if alone {
                return out;
            }
        }
        let vips = self.vips.iter().map(|vip| {
            let fence = vip.fence_left_ms.map_or_else(|| "-".into(), time);
            vec![format!("{}/{}", vip.address, vip.prefix), yes(vip.carried), fence]
        });
        let _ = write!(out, "\n{}", table::render(&["VIP", "CARRIED HERE", "FENCE LEFT"], vips, WIDEST));
        let lease = &self.lease;
        let nobody = if lease.renewed_ago_ms.is_some() { "nobody" } else { "not known yet" };
        let holder = if lease.mine { format!("{} (this node)", lease.holder) } else { or(&lease.holder, nobody) };
        let cells = vec![
            or(&lease.name, "-"),
            holder,
            lease.expires_in_ms.map_or_else(|| "-".into(), time),
            lease.renewed_ago_ms.map_or_else(|| "-".into(), |ms| format!("{} ago", time(ms))),
            lease.transitions.to_string(),
        ];
        let heading = ["LEASE", "HOLDER", "EXPIRES IN", "RENEWED", "TRANSITIONS"];
        let _ = write!(out, "\n{}", table::render(&heading, [cells], WIDEST));
        let _ = writeln!(
            out,
            "\nAPI server: {}, {}",
            or(&lease.api.server, "none yet"),
            if lease.api.ok { "answers" } else { "does not answer" }
        );
        if let Some(error) = &lease.api.last_error {
            let _ = writeln!(out, "last error: {}", table::plain(error));
        }
        let _ = write!(out, "witness: {}", or(&self.witness.state, "off"));
        if let Some(ago) = self.witness.answered_ago_ms {
            let _ = write!(out, ", {} misses, answered {} ago", self.witness.misses, time(ago));
        }
        out.push('\n');
        if !self.candidates.is_empty() {
            let rows = self.candidates.iter().map(|c| {
                let addresses: Vec<String> = c.addresses.iter().map(ToString::to_string).collect();
                vec![c.node.clone(), addresses.join(" "), c.healthy.map_or_else(|| "?".into(), yes)]
            });
            let _ = write!(out, "\n{}", table::render(&["CANDIDATE", "ADDRESSES", "HEALTHY"], rows, WIDEST));
        }
        if !self.transitions.is_empty() {
            let rows = self
                .transitions
                .iter()
                .rev()
                .map(|t| vec![t.at.clone(), or(&t.from, "-"), t.to.clone(), t.why.clone()]);
            let _ = write!(out, "\n{}", table::render(&["WHEN", "FROM", "TO", "WHY"], rows, WIDEST));
        }
        out
    }
}

fn yes(value: bool) -> String {
    if value { "yes".into() } else { "no".into() }
}

/// A time for people: tenths of seconds while they matter.
fn time(ms: u64) -> String {
    match ms {
        0..=999 => format!("{ms}ms"),
        1000..=59_999 => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
        60_000..=3_599_999 => format!("{}m{}s", ms / 60_000, ms / 1000 % 60),
        _ => format!("{}h{}m", ms / 3_600_000, ms / 60_000 % 60),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A report with every field filled.
    pub(in crate::ops) fn report() -> Report {
        let at = |ms: u64| Some(Time::from_nanos(ms * 1_000_000));
        let mut report = Report {
            node: "cp1".into(),
            interface: "eth0".into(),
            state: "candidate".into(),
            vips: vec![VipReport {
                address: "192.0.2.10".parse().unwrap(),
                prefix: 32,
                carried: true,
                fence_until: at(112_400),
            }],
            lease: LeaseReport {
                name: "kube-system/plndr-cp-lock".into(),
                holder: "cp1".into(),
                expires: at(113_900),
                transitions: 4,
                renewed: at(98_900),
                api: ApiStatus { server: "https://127.0.0.1:6443".into(), ok: true, last_error: None },
            },
            witness: WitnessReport { state: "watching".into(), misses: 0, answered: at(99_950) },
            candidates: vec![Candidate {
                node: "cp2".into(),
                addresses: vec!["192.0.2.2".parse().unwrap()],
                healthy: Some(true),
            }],
            transitions: VecDeque::new(),
        };
        report.note(WallTime(1_790_000_000_123_456), "holder", "cp3 answered nobody on the segment");
        report
    }

    const NOW: Time = Time::from_nanos(100_000_000_000);

    #[test]
    fn tables_for_eyes() {
        let golden = "\
cp1: holder, on eth0, mooring-agent 0.1.0
not ready: api: waits

VIP            CARRIED HERE  FENCE LEFT
192.0.2.10/32  yes           12.4s

LEASE                      HOLDER           EXPIRES IN  RENEWED   TRANSITIONS
kube-system/plndr-cp-lock  cp1 (this node)  13.9s       1.1s ago  4

API server: https://127.0.0.1:6443, answers
witness: watching, 0 misses, answered 50ms ago

CANDIDATE  ADDRESSES  HEALTHY
cp2        192.0.2.2  yes

WHEN                      FROM       TO      WHY
2026-09-21T14:13:20.123Z  candidate  holder  cp3 answered nobody on the segment
";
        assert_eq!(report().at(NOW, vec!["api: waits".into()]).tables(), golden);
    }

    #[test]
    fn an_agent_that_starts_has_a_status_too() {
        let tables = Report::default().at(NOW, Vec::new()).tables();
        assert!(
            tables.contains("starts, on no interface yet")
                && tables.contains("not known yet")
                && tables.contains("none yet"),
            "{tables}"
        );
    }

    #[test]
    fn json_for_programs() {
        let status = report().at(NOW, Vec::new());
        let json = serde_json::to_value(&status).unwrap();
        assert_eq!(json["vips"][0]["fence_left_ms"], 12_400);
        assert_eq!(json["lease"]["mine"], true);
        assert_eq!(json["lease"]["expires_in_ms"], 13_900);
        assert_eq!(json["witness"]["answered_ago_ms"], 50);
        assert_eq!(serde_json::from_value::<Status>(json).unwrap(), status);
    }

    #[test]
    fn only_the_last_transitions_are_remembered() {
        let mut report = Report::default();
        for i in 0..100 {
            report.note(WallTime(i64::MAX), "x", i.to_string());
        }
        assert_eq!(report.transitions.len(), TRANSITIONS);
        assert_eq!(report.transitions.back().unwrap().why, "99");
    }
}
