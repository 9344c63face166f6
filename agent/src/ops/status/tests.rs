use std::collections::VecDeque;

use super::report::TRANSITIONS;
use super::*;
use crate::core::echo::State;
use crate::core::time::{Time, WallTime};

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
        witness: WitnessReport { state: "watching".into(), misses: 0, answered: at(99_950), probes: State::Nobody },
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
cp1: holder, on eth0, mooring-agent VERSION
not ready: api: waits

VIP            CARRIED HERE  FENCE LEFT
192.0.2.10/32  yes           12.4s

LEASE                      HOLDER           EXPIRES IN  RENEWED   TRANSITIONS
kube-system/plndr-cp-lock  cp1 (this node)  13.9s       1.1s ago  4

API server: https://127.0.0.1:6443, answers
witness: watching, 0 misses, answered 50ms ago
probes: ECHO

CANDIDATE  ADDRESSES  HEALTHY
cp2        192.0.2.2  yes

WHEN                      FROM       TO      WHY
2026-09-21T14:13:20.123Z  candidate  holder  cp3 answered nobody on the segment
";
    let golden = golden.replace("VERSION", env!("CARGO_PKG_VERSION"));
    let golden = golden.replace("ECHO", crate::reports::echo(State::Nobody));
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
    assert_eq!(json["witness"]["probes"], "nobody");
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
