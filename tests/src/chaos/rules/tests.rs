//! Each rule must be able to fail: observations of agents that misbehave.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use netlink_packet_route::address::AddressFlags;

use super::super::bounds::Etcd;
use super::super::class::Class;
use super::super::floor::Lapse;
use super::super::seen::{Happened, Lifetime, Unasked};
use super::*;
use crate::observe::addresses::{Change, Event, State};
use crate::observe::probes::Gap;
use crate::observe::timeline::Timeline;

const VIP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 100));

/// 1,000 s after boot, plus this many milliseconds.
fn at(ms: u64) -> Time {
    Time::from_nanos((1_000_000 + ms) * 1_000_000)
}

fn change(ms: u64, host: &str, change: Change) -> Event {
    let state = State { prefix: 32, flags: AddressFlags::empty(), valid: 13, preferred: 0, protocol: None };
    Event { at: at(ms), host: Arc::from(host), interface: 2, address: VIP, change, state }
}

fn holds(all: &[(&str, u64, Option<u64>)]) -> Timeline {
    let mut events = Vec::new();
    for (host, from, to) in all {
        events.push(change(*from, host, Change::Added));
        events.extend(to.map(|to| change(to, host, Change::Removed)));
    }
    events.sort_by_key(|event| event.at);
    Timeline::new(&events, VIP)
}

fn fault(class: Class, host: &str, from: u64, to: u64) -> Happened {
    let lasts = Duration::from_millis(to - from);
    Happened { class, host: host.into(), peer: None, on_holder: true, lasts, from: at(from), to: at(to) }
}

/// Host a crashes at 1 s, b takes over at 1.4 s, a is back at 4 s; the round ends at 10 s.
fn good() -> Seen {
    Seen {
        from: at(0),
        healed: at(4_000),
        ready: at(4_000),
        to: at(10_000),
        faults: vec![fault(Class::Crash, "a", 1_000, 4_000)],
        holds: holds(&[("a", 0, Some(1_000)), ("b", 1_400, None)]),
        lifetimes: [0, 2_000, 4_000, 6_000, 8_000].map(|ms| lifetime(if ms == 0 { "a" } else { "b" }, ms, 13)).into(),
        gaps: vec![Gap { from: at(1_000), to: at(1_410), lost: 410 }],
        named: Some(at(5_000)),
        etcd: Etcd::Apart,
        services: false,
        requests: (0..20).map(|n| at(n * 500)).collect(),
        unasked: Vec::new(),
        memory: vec![("b".into(), 9_000)],
        left: Duration::ZERO,
        spent: false,
        stalls: Vec::new(),
        starved: Duration::ZERO,
        floor: Vec::new(),
    }
}

fn lifetime(host: &str, ms: u64, valid: u32) -> Lifetime {
    Lifetime { host: host.into(), at: at(ms), valid, preferred: 0 }
}

fn broken(seen: &Seen) -> Vec<Rule> {
    judge(seen).into_iter().map(|breach| breach.rule).collect()
}

#[test]
fn a_crash_survived_breaks_nothing() {
    assert_eq!(judge(&good()), []);
}

#[test]
fn two_owners_that_hear_each_other() {
    let mut seen = good();
    seen.faults = vec![fault(Class::Isolated, "a", 1_000, 4_000)];
    // While a is cut off, both hosts may have the VIP; 400 ms after the heal, a no longer has the VIP.
    seen.holds = holds(&[("a", 0, Some(4_400)), ("b", 1_400, None)]);
    assert_eq!(broken(&seen), []);
    seen.holds = holds(&[("a", 0, Some(4_600)), ("b", 1_400, None)]);
    assert_eq!(broken(&seen), [Rule::TwoOwners]);
    // Without a fault that keeps frames from a, a shared VIP is not allowed before the heal either.
    seen.faults = vec![fault(Class::AgentFrozen, "a", 1_000, 4_000)];
    seen.holds = holds(&[("a", 0, Some(3_000)), ("b", 1_400, None)]);
    assert!(broken(&seen).contains(&Rule::TwoOwners));
    // A frozen agent and a cut at the same time: the agent cannot know.
    seen.faults.push(fault(Class::CutOneWay, "c", 1_000, 1_500));
    assert!(!broken(&seen).contains(&Rule::TwoOwners));
}

#[test]
fn a_starved_agent_hears_of_another_owner_late() {
    let mut seen = good();
    seen.holds = holds(&[("a", 0, Some(3_000)), ("b", 1_400, None)]);
    for (starved, from, allowed) in [("a", 1_000, true), ("c", 1_000, false), ("a", 3_100, false)] {
        seen.faults = vec![fault(Class::AgentStarved, starved, from, 4_000)];
        assert_eq!(!broken(&seen).contains(&Rule::TwoOwners), allowed, "{starved} from {from}");
    }
    seen.faults = vec![fault(Class::AgentStarved, "a", 1_000, 4_000)];
    seen.holds = holds(&[("a", 0, Some(3_400)), ("b", 1_400, None)]);
    assert!(broken(&seen).contains(&Rule::TwoOwners), "not for ever");
}

#[test]
fn no_fence_and_a_fence_outlived() {
    let mut seen = good();
    seen.lifetimes.push(lifetime("b", 9_000, u32::MAX));
    assert_eq!(broken(&seen), [Rule::Fence]);
    let mut seen = good();
    seen.to = at(40_000);
    seen.requests.clear();
    assert_eq!(broken(&seen), [Rule::Fence], "the last lifetime of b ended at 22.5 s");
    seen.lifetimes.push(lifetime("b", 30_000, 13));
    assert_eq!(broken(&seen), []);
    seen.lifetimes.push(Lifetime { preferred: 9, ..lifetime("b", 31_000, 13) });
    assert_eq!(broken(&seen), [Rule::Fence]);
}

#[test]
fn a_late_kernel_is_no_fault_of_the_agent() {
    let mut seen = good();
    // The last lifetime of b ends at 21 s.
    seen.to = at(40_000);
    seen.requests.clear();
    seen.faults = vec![fault(Class::AgentKilled, "a", 1_000, 12_000)];
    let lapse = |host: &str, end, gone: Option<u64>| Lapse { host: host.into(), end: at(end), gone: gone.map(at) };
    let fenced = |seen: &Seen| broken(seen).contains(&Rule::Fence);
    seen.holds = holds(&[("a", 0, Some(1_000)), ("b", 1_400, Some(22_400)), ("a", 22_500, None)]);
    seen.lifetimes.extend([22_500, 32_000].map(|ms| lifetime("a", ms, 13)));
    assert!(!fenced(&seen) && allowances(&seen).is_empty(), "{:?}", judge(&seen));
    seen.holds = holds(&[("a", 0, Some(1_000)), ("b", 1_400, Some(26_000)), ("a", 26_100, None)]);
    assert!(fenced(&seen));
    // Addresses of the lab on the same host went in time: the kernel was not late.
    seen.floor = [19_000, 20_000, 21_000, 22_000].map(|end| lapse("b", end, Some(end + 700))).into();
    assert!(fenced(&seen) && allowances(&seen).is_empty());
    // Late was another host, or the kernel was late at another time.
    seen.floor.push(lapse("a", 21_500, Some(26_000)));
    seen.floor.push(lapse("b", 12_000, Some(18_000)));
    seen.floor.push(lapse("b", 25_000, Some(27_000)));
    assert!(fenced(&seen));
    // The kernel kept an address of the lab as long; a little less long is not enough.
    seen.floor.push(lapse("b", 21_900, Some(25_700)));
    assert!(fenced(&seen));
    seen.floor.push(lapse("b", 21_900, Some(25_990)));
    assert!(!fenced(&seen), "{:?}", judge(&seen));
    assert_eq!(allowances(&seen).len(), 1);
    // Still there at the end.
    seen.to = at(26_000);
    seen.floor = vec![lapse("b", 21_900, None)];
    assert!(!fenced(&seen), "{:?}", judge(&seen));
}

#[test]
fn nobody_or_two_or_late_or_unnamed_after_the_faults() {
    let mut seen = good();
    seen.holds = holds(&[("a", 0, Some(1_000)), ("b", 1_400, Some(9_000))]);
    assert_eq!(broken(&seen), [Rule::OneHolder]);
    seen.holds = holds(&[("a", 0, None), ("b", 1_400, None)]);
    assert!(broken(&seen).contains(&Rule::OneHolder));
    let mut late = good();
    late.to = at(60_000);
    late.lifetimes.extend([20_000, 30_000, 40_000, 50_000].map(|ms| lifetime("b", ms, 13)));
    late.requests.clear();
    assert_eq!(broken(&late), []);
    late.gaps.push(Gap { from: at(32_000), to: at(32_100), lost: 100 });
    assert_eq!(broken(&late), [Rule::OneHolder], "silent once more 28 s after the heal");
    let unnamed = Seen { named: None, ..good() };
    assert_eq!(broken(&unnamed), [Rule::OneHolder]);
}

#[test]
fn a_long_outage_and_ping_pong() {
    let mut seen = good();
    seen.gaps[0].to = at(4_100);
    assert_eq!(broken(&seen), [Rule::Outage]);
    seen.stalls = vec![Interval { from: at(1_500), to: at(1_700) }];
    assert_eq!(broken(&seen), [], "the machine stood still for 200 ms");
    seen.stalls.clear();
    seen.spent = true;
    assert_eq!(broken(&seen), [], "when the witness may not decide, the Lease has to run out");
    let mut seen = good();
    seen.holds =
        holds(&[("a", 0, Some(1_000)), ("b", 1_400, Some(2_000)), ("c", 2_000, Some(3_000)), ("b", 3_000, None)]);
    assert_eq!(broken(&seen), [Rule::Moves]);
}

#[test]
fn a_gap_before_the_fault_is_not_the_cost_of_the_fault() {
    let mut seen = good();
    seen.gaps[0].to = at(3_900);
    seen.gaps.insert(0, Gap { from: at(300), to: at(700), lost: 40 });
    assert_eq!(broken(&seen), [], "400 ms before the fault, 2,900 ms after it");
    seen.gaps[0].to = at(900);
    let found = judge(&seen);
    assert_eq!(broken(&seen), [Rule::Outage], "600 ms, and nothing explains them");
    assert!(found[0].detail.contains("before the first fault") && found[0].at == at(300), "{found:?}");
    seen.left = Duration::from_millis(600);
    assert_eq!(broken(&seen), [], "the faults of the round before may cost that much");
    assert_eq!(left(&seen), Duration::from_millis(100), "of 3 s");
    // A gap in which the fault begins is its cost.
    seen.gaps[0].to = at(1_000);
    seen.left = Duration::from_secs(9);
    assert_eq!(broken(&seen), [Rule::Outage]);
    assert_eq!(left(&seen), Duration::ZERO);
}

#[test]
fn the_vip_that_was_put_back_did_not_move() {
    let mut seen = good();
    seen.faults = vec![fault(Class::AddressDeleted, "a", 5_000, 5_000)];
    seen.gaps.clear();
    seen.lifetimes = [0, 2_000, 4_000, 6_000, 8_000].map(|ms| lifetime("a", ms, 13)).into();
    seen.from = at(3_000);
    // In the round before, b had the VIP for a while as well.
    seen.holds = holds(&[("a", 0, Some(5_000)), ("b", 1_400, Some(2_000)), ("a", 5_004, None)]);
    assert_eq!(broken(&seen), []);
    // Here b had it last: the VIP moved.
    seen.holds = holds(&[("a", 0, Some(5_000)), ("b", 1_400, Some(5_002)), ("a", 5_004, None)]);
    assert!(broken(&seen).contains(&Rule::Moves));
    seen.holds = holds(&[("a", 0, Some(5_000)), ("b", 5_004, None)]);
    assert!(broken(&seen).contains(&Rule::Moves));
}

#[test]
fn a_storm_a_steady_rain_and_agents_that_misbehave() {
    let mut seen = good();
    seen.requests = (0..=BURST as u64).map(|n| at(5_000 + n)).collect();
    assert_eq!(broken(&seen), [Rule::Requests]);
    seen.requests = (0..130).map(|n| at(n * 76)).collect();
    assert_eq!(broken(&seen), [Rule::Requests]);
    let what = "killed by SIGABRT".to_owned();
    let seen = Seen { unasked: vec![Unasked { host: "b".into(), at: at(2_000), what }], ..good() };
    assert_eq!(broken(&seen), [Rule::Agents]);
    let seen = Seen { memory: vec![("b".into(), MEMORY + 1)], ..good() };
    assert_eq!(broken(&seen), [Rule::Agents]);
}

#[test]
fn a_machine_without_time_is_told_from_one_with() {
    assert!(!is_starved(&good()));
    assert!(is_starved(&Seen { starved: Duration::from_millis(1_001), ..good() }));
    let stalls = vec![Interval { from: at(2_000), to: at(3_100) }];
    assert!(is_starved(&Seen { stalls, ..good() }));
    // Rules that do not depend on time are judged in any case.
    assert!(Rule::ALL.into_iter().filter(|rule| !rule.needs_time()).eq([
        Rule::Fence,
        Rule::Requests,
        Rule::Agents,
        Rule::Lab
    ]));
}
