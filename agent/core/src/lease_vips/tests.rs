//! One node with many Leases, a store of them, a segment, and a kernel: a small world that runs the same way every time.

mod filtered;
mod interfaces;
mod limited;
mod many;
mod watching;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::{Assignment, Call, Event, Input, LeaseVips, Output};
use crate::action::{Action as OfElector, Cause, Report};
use crate::core::{Core, Interface, Vip};
use crate::echo::State;
use crate::event::{Event as ForElector, Failure, Moment};
use crate::evidence::{Form, Sender};
use crate::fence;
use crate::lease::{Declaration, LeaseView, Notes, Participant, Record, Tenure};
use crate::mac::Mac;
use crate::rules::{FENCE_ENDS, Rules};
use crate::session::{Link, Subnet};
use crate::time::{Time, WallTime};

const ALL: &str = "kube-system/plndr-svcs-lock";
const ME: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OTHER: Mac = Mac([2, 0, 0, 0, 0, 0x66]);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn vip(n: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, n).into()
}

/// The n-th other node.
fn host(n: u8) -> Mac {
    Mac([2, 0, 0, 0, 2, n])
}

fn rules() -> Rules {
    let defaults = Rules::default();
    Rules { node: "w1".into(), refresh: defaults.lease_duration.saturating_sub(FENCE_ENDS) / 3, ..defaults }
}

struct World {
    lease_vips: LeaseVips,
    now: Time,
    leases: BTreeMap<String, LeaseView>,
    version: u64,
    /// Nodes that take part in every Lease, beside those that a test names itself.
    more: BTreeMap<String, Participant>,
    /// Who answers for a VIP beside this node.
    others: BTreeMap<IpAddr, Mac>,
    /// What is on the interface, and when the kernel drops it.
    carries: BTreeMap<IpAddr, Time>,
    /// On which interface each VIP was put last.
    at: BTreeMap<IpAddr, u32>,
    /// How often VIPs were given an end.
    refreshed: usize,
    reports: Vec<(String, Vec<IpAddr>, Report)>,
    probed: usize,
    /// When each probe left, and for which address.
    sent: Vec<(Time, IpAddr)>,
    announced: Vec<IpAddr>,
    /// The network drops ARP from 0.0.0.0.
    filters: bool,
    away: bool,
    exited: bool,
}

impl World {
    fn new() -> Self {
        Self {
            lease_vips: LeaseVips::new(rules()),
            now: Time::default() + ms(60_000),
            leases: BTreeMap::new(),
            version: 10,
            more: BTreeMap::new(),
            others: BTreeMap::new(),
            carries: BTreeMap::new(),
            at: BTreeMap::new(),
            refreshed: 0,
            reports: vec![],
            probed: 0,
            sent: vec![],
            announced: vec![],
            filters: false,
            away: false,
            exited: false,
        }
    }

    /// A node, and these assignments.
    fn with(assignments: &[(&str, Assignment)]) -> Self {
        let mut world = Self::new();
        world.begin(assignments);
        world
    }

    fn begin(&mut self, assignments: &[(&str, Assignment)]) {
        self.tell(Event::Node { interfaces: vec![interface(2, vip(1))], macs: vec![ME] });
        self.assignments(assignments);
    }

    fn assignments(&mut self, assignments: &[(&str, Assignment)]) {
        self.tell(Event::Input(Input::Assignments(
            assignments.iter().map(|(name, assignment)| ((*name).to_owned(), assignment.clone())).collect(),
        )));
    }

    fn tell(&mut self, event: Event) {
        let wall = WallTime(i64::try_from(self.now.as_nanos() / 1_000).unwrap());
        let outputs = self.lease_vips.step(Moment { now: self.now, wall }, event);
        for output in outputs {
            self.act(output);
        }
    }

    fn act(&mut self, output: Output) {
        match output {
            Output::Call(Call { name, action }) => {
                let event = match action {
                    OfElector::Read { id, .. } if self.away => ForElector::Read { id, result: Err(Failure::Away) },
                    OfElector::Write { id, .. } if self.away => ForElector::Wrote { id, result: Err(Failure::Away) },
                    OfElector::Read { id, .. } => ForElector::Read { id, result: Ok(self.leases.get(&name).cloned()) },
                    OfElector::Write { id, base, record, notes, .. } => {
                        let result = self.write(&name, base.as_deref(), record, notes);
                        ForElector::Wrote { id, result }
                    }
                    OfElector::AskPeers { id, .. } => ForElector::Peers { id, healthy: vec![] },
                    other => panic!("not of a Lease: {other:?}"),
                };
                self.tell(Event::Input(Input::Lease { name, event }));
            }
            Output::Ensure { vips, deadline } => {
                let lifetime = fence::lifetime(self.now, deadline).unwrap();
                self.refreshed += 1;
                for vip in &vips {
                    self.carries.insert(vip.address, self.now + Duration::from_secs(u64::from(lifetime)));
                    self.at.insert(vip.address, vip.interface);
                }
                self.tell(Event::Ensured(vips.iter().map(|vip| vip.address).collect()));
            }
            Output::Remove(addresses) => {
                self.carries.retain(|address, _| !addresses.contains(address));
                self.tell(Event::Removed(addresses));
            }
            Output::Probe(asks) => {
                self.probed += asks.len();
                self.sent.extend(asks.iter().map(|ask| (self.now, ask.address)));
                for ask in asks {
                    let passes = !self.filters || ask.sender == Sender::Own || ask.address.is_ipv6();
                    if let Some(mac) = self.others.get(&ask.address).copied().filter(|_| passes) {
                        self.tell(Event::Heard {
                            interface: ask.interface,
                            address: ask.address,
                            mac,
                            form: Form::Answer(ask.sender),
                        });
                    }
                }
            }
            Output::Announce(vips) => self.announced.extend(vips.iter().map(|vip| vip.address)),
            Output::Report(report) => self.reports.push((report.name, report.vips, report.what)),
            Output::Exit => self.exited = true,
        }
    }

    fn write(&mut self, name: &str, base: Option<&str>, record: Record, notes: Notes) -> Result<LeaseView, Failure> {
        if base != self.leases.get(name).map(|view| view.version.as_str()) {
            return Err(Failure::Conflict);
        }
        self.version += 1;
        let view = LeaseView { version: self.version.to_string(), record, notes };
        self.leases.insert(name.to_owned(), view.clone());
        Ok(view)
    }

    /// The Lease as its holder has just renewed it: the holder declares that VIP.
    fn renewed(&mut self, holder: &str, participants: &BTreeMap<String, Participant>, address: IpAddr) -> LeaseView {
        self.version += 1;
        let macs = participants.get(holder).map(|participant| participant.macs.clone()).unwrap_or_default();
        let declared = Declaration { holder: holder.into(), transitions: 1, acquired: None, macs, vips: vec![address] };
        let renewed = Some(WallTime(i64::try_from(self.version).unwrap()));
        let tenure = Some(Tenure { declared, renewed, unheard: false });
        let notes = Notes { participants: participants.clone(), tenure, ..Notes::default() };
        let record =
            Record { holder: holder.into(), duration: ms(15_000), transitions: 1, renewed, ..Record::default() };
        LeaseView { version: self.version.to_string(), record, notes }
    }

    /// The most probes within a second since then.
    fn worst(&self, since: Time) -> usize {
        let sent: Vec<Time> = self.sent.iter().map(|(at, _)| *at).filter(|at| *at >= since).collect();
        let from = |first: usize| sent[first..].iter().take_while(|later| **later < sent[first] + ms(1_000)).count();
        (0..sent.len()).map(from).max().unwrap_or(0)
    }

    /// Another elector writes the Lease; it is watched.
    fn elect(&mut self, name: &str, holder: &str) {
        self.version += 1;
        let old = self.leases.get(name).cloned();
        let transitions = old.as_ref().map_or(0, |view| view.record.transitions + 1);
        let notes = old.map(|view| view.notes).unwrap_or_default();
        let record = Record { holder: holder.into(), duration: ms(15_000), transitions, ..Record::default() };
        let view = LeaseView { version: self.version.to_string(), record, notes };
        self.leases.insert(name.to_owned(), view.clone());
        self.tell(Event::Input(Input::Lease { name: name.into(), event: ForElector::Seen(Some(view)) }));
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let wake = self.lease_vips.wake().into_iter().chain(self.carries.values().copied()).min();
            let Some(next) = wake.filter(|wake| *wake <= end) else { break };
            self.now = self.now.max(next);
            let over: Vec<IpAddr> =
                self.carries.iter().filter(|(_, ends)| **ends <= self.now).map(|(address, _)| *address).collect();
            for address in over {
                self.carries.remove(&address);
                self.tell(Event::Gone(address));
            }
            self.tell(Event::Tick);
            assert!(self.lease_vips.wake().is_none_or(|wake| wake > self.now), "a busy loop");
        }
        self.now = end;
    }

    fn carried(&self) -> Vec<IpAddr> {
        self.carries.keys().copied().collect()
    }

    fn holder(&self, name: &str) -> &str {
        self.leases.get(name).map_or("", |view| view.record.holder.as_str())
    }

    /// What is known of the segment, by the electors of those Leases.
    fn known(&self, of: impl Fn(&str) -> bool) -> BTreeSet<State> {
        let states = self.lease_vips.states();
        let these = states.iter().filter(|state| of(&state.name));
        these.filter_map(|state| Some(state.elector.as_ref()?.echo)).collect()
    }

    fn reported(&self, wanted: impl Fn(&Report) -> bool) -> Vec<Vec<IpAddr>> {
        self.reports.iter().filter(|(_, _, report)| wanted(report)).map(|(_, vips, _)| vips.clone()).collect()
    }
}

fn interface(index: u32, address: IpAddr) -> Interface {
    let subnets = vec![Subnet::of(address, 24)];
    let link = Link {
        name: format!("eth{index}"),
        altnames: vec![],
        macs: vec![ME],
        addresses: vec![address],
        subnets,
        up: true,
        unheard: false,
    };
    Interface { index, link, gateways: vec![] }
}

fn assignment(vips: &[u8]) -> Assignment {
    let vips = vips.iter().map(|n| (vip(*n), 2)).collect();
    Assignment { vips, up: true, campaigns: true, ..Assignment::default() }
}

#[test]
fn who_has_the_lease_carries_all() {
    let mut world = World::with(&[(ALL, assignment(&[100, 101, 102]))]);
    world.run(ms(5_000));
    assert_eq!(world.holder(ALL), "w1");
    assert_eq!(world.carried(), [vip(100), vip(101), vip(102)]);
    assert_eq!(world.lease_vips.held().count(), 3);
    assert_eq!(world.reported(|r| *r == Report::Took(Cause::Free)), [world.carried()], "told once");
}

#[test]
fn who_has_it_not_carries_nothing_until_it_is_released_and_the_segment_is_quiet() {
    let mut world = World::new();
    world.elect(ALL, "kube-vip");
    world.others = [(vip(100), OTHER), (vip(101), OTHER)].into();
    world.begin(&[(ALL, assignment(&[100, 101]))]);
    for _ in 0..10 {
        world.run(ms(2_000));
        world.elect(ALL, "kube-vip");
    }
    assert!(world.carried().is_empty());
    // As kube-vip does it: the Lease first, the addresses a little later.
    world.elect(ALL, "");
    world.run(ms(400));
    assert!(world.carried().is_empty(), "taken beside it");
    world.others.clear();
    world.run(ms(3_000));
    assert_eq!((world.holder(ALL), world.carried().len()), ("w1", 2));
    assert!(world.reported(|r| matches!(r, Report::ForeignOwner { .. })).is_empty(), "{:?}", world.reports);
}

#[test]
fn the_lease_lost_is_every_vip_dropped_at_once() {
    let mut world = World::with(&[(ALL, assignment(&[100, 101]))]);
    world.run(ms(5_000));
    world.elect(ALL, "kube-vip");
    assert!(world.carried().is_empty());
}

#[test]
fn each_lease_decides_for_its_own_vips() {
    let (one, two) = ("shop/kubevip-a", "shop/kubevip-b");
    let mut world = World::new();
    world.elect(two, "kube-vip");
    world.begin(&[(one, assignment(&[100])), (two, assignment(&[101]))]);
    world.run(ms(5_000));
    assert_eq!(world.carried(), [vip(100)]);
    world.elect(one, "other");
    world.elect(two, "");
    world.run(ms(5_000));
    assert_eq!(world.carried(), [vip(101)]);
}

#[test]
fn foreign_owners_of_some_keep_none_of_the_others() {
    let mut world = World::new();
    let third = Mac([2, 0, 0, 0, 0, 0x67]);
    world.others = [(vip(101), OTHER), (vip(103), third), (vip(104), OTHER)].into();
    world.begin(&[(ALL, assignment(&[100, 101, 102, 103, 104]))]);
    world.run(ms(3_000));
    assert_eq!(world.carried(), [vip(100), vip(102)]);
    let told = world.reported(|r| matches!(r, Report::ForeignOwner { .. }));
    assert_eq!(told, [[vip(101)], [vip(103)], [vip(104)]], "once, and of those only");
    world.run(ms(30_000));
    assert_eq!(world.carried().len(), 2);
    world.others.clear();
    world.run(ms(12_000));
    assert_eq!(world.carried().len(), 5);
}

#[test]
fn where_others_have_all_nothing_is_taken_and_that_is_told() {
    let mut world = World::new();
    world.others = [(vip(100), OTHER), (vip(101), OTHER)].into();
    world.begin(&[(ALL, assignment(&[100, 101]))]);
    world.run(ms(15_000));
    assert!(world.carried().is_empty() && world.holder(ALL).is_empty());
    assert_eq!(world.reported(|r| matches!(r, Report::ForeignOwner { .. })).len(), 4, "each, every ten seconds");
    world.others.clear();
    world.run(ms(3_000));
    assert_eq!(world.carried().len(), 2);
}

#[test]
fn the_last_of_a_kube_vip_that_lets_go_is_no_foreign_owner() {
    let mut world = World::new();
    world.elect(ALL, "kube-vip");
    world.others = [(vip(100), OTHER), (vip(101), OTHER), (vip(102), OTHER)].into();
    world.begin(&[(ALL, assignment(&[100, 101, 102]))]);
    world.elect(ALL, "");
    for n in 100..103 {
        world.run(ms(250));
        world.others.remove(&vip(n));
    }
    world.run(ms(1_500));
    assert_eq!(world.carried().len(), 3);
    assert!(world.reported(|r| matches!(r, Report::ForeignOwner { .. })).is_empty(), "{:?}", world.reports);
}

#[test]
fn what_comes_while_the_lease_is_held_is_looked_for_first() {
    let mut world = World::with(&[(ALL, assignment(&[100]))]);
    world.run(ms(5_000));
    world.others = [(vip(102), OTHER)].into();
    world.assignments(&[(ALL, assignment(&[100, 101, 102]))]);
    assert_eq!(world.carried(), [vip(100)]);
    world.run(ms(500));
    assert_eq!(world.carried(), [vip(100), vip(101)]);
    world.run(ms(3_000));
    assert_eq!(world.reported(|r| matches!(r, Report::ForeignOwner { .. })), [[vip(102)]]);
    // And what goes is dropped at once.
    world.assignments(&[(ALL, assignment(&[101, 102]))]);
    assert_eq!(world.carried(), [vip(101)]);
    assert_eq!(world.reported(|r| matches!(r, Report::LetGo(_))), [[vip(100)]]);
}

#[test]
fn a_vip_that_changes_its_lease_is_dropped_before_it_is_looked_for() {
    let (one, two) = ("shop/kubevip-a", "shop/kubevip-b");
    let mut world = World::with(&[(one, assignment(&[100])), (two, assignment(&[101]))]);
    world.run(ms(5_000));
    world.assignments(&[(one, assignment(&[100, 101]))]);
    assert_eq!(world.carried(), [vip(100)]);
    world.run(ms(5_000));
    assert_eq!((world.carried().len(), world.holder(two)), (2, ""), "it is released");
    assert_eq!(world.lease_vips.leases().collect::<Vec<_>>(), [one]);
}

#[test]
fn who_may_not_have_it_any_more_hands_over_and_serves_until_then() {
    let name = "shop/kubevip-a";
    let mut world = World::with(&[(name, assignment(&[100]))]);
    world.run(ms(5_000));
    world.assignments(&[(name, Assignment { campaigns: false, ..assignment(&[100]) })]);
    world.run(ms(1_000));
    assert_eq!((world.holder(name), world.carried().len()), ("", 1));
    // kube-vip takes it, and is heard.
    world.elect(name, "kube-vip");
    world.tell(Event::Heard { interface: 2, address: vip(100), mac: OTHER, form: Form::Claim });
    world.run(ms(100));
    assert!(world.carried().is_empty());
    world.elect(name, "");
    world.run(ms(20_000));
    assert_eq!(world.holder(name), "", "it does not campaign");
    world.assignments(&[(name, assignment(&[100]))]);
    world.run(ms(5_000));
    assert_eq!((world.holder(name), world.carried().len()), ("w1", 1));
}

#[test]
fn every_fence_ends_before_the_lease_and_is_not_renewed_each_time() {
    let mut world = World::with(&[(ALL, assignment(&[100, 101]))]);
    world.run(ms(5_000));
    let (before, version) = (world.refreshed, world.version);
    world.run(ms(60_000));
    let renewals = world.version - version;
    let refreshed = world.refreshed - before;
    assert!(renewals >= 28 && (8..=15).contains(&refreshed), "{renewals} renewals, {refreshed} refreshes");
    assert_eq!(world.carried().len(), 2);
    // No answer any more, and no hold without the API: gone in time.
    let mut strict = World::new();
    strict.lease_vips = LeaseVips::new(Rules { hold_without_api: false, provisional: false, ..rules() });
    strict.begin(&[(ALL, assignment(&[100]))]);
    strict.run(ms(7_300));
    strict.away = true;
    let renewed = strict.leases[ALL].record.renewed.unwrap();
    while strict.leases[ALL].record.holder == "w1" && !strict.carries.is_empty() {
        strict.run(ms(50));
        let since = strict.now.as_nanos() / 1_000 - u64::try_from(renewed.0).unwrap();
        assert!(since < 15_000_000, "carried beyond the Lease");
    }
    assert!(strict.carried().is_empty());
}

#[test]
fn an_outage_of_the_api_takes_nothing_down() {
    let mut world = World::with(&[(ALL, assignment(&[100, 101]))]);
    world.run(ms(5_000));
    world.away = true;
    for _ in 0..60 {
        world.run(ms(1_000));
        assert_eq!(world.carried().len(), 2);
    }
    // Another is heard: all go, for one has the Lease.
    world.tell(Event::Heard { interface: 2, address: vip(101), mac: OTHER, form: Form::Claim });
    assert!(world.carried().is_empty());
}

#[test]
fn the_segment_is_not_flooded_for_many_vips() {
    let many: Vec<u8> = (20..220).collect();
    let mut world = World::with(&[(ALL, assignment(&many))]);
    world.run(ms(5_000));
    assert_eq!(world.carried().len(), 200);
    world.away = true;
    world.run(ms(15_000));
    let before = world.probed;
    world.run(ms(10_000));
    let probed = world.probed - before;
    assert!((430..=530).contains(&probed), "{probed} probes in 10 s");
}

#[test]
fn under_a_limit_of_frames_probes_leave_room_for_announcements() {
    let many: Vec<u8> = (20..40).collect();
    let mut world = World::new();
    world.lease_vips = LeaseVips::new(Rules { frames_per_second: Some(15), ..rules() });
    world.begin(&[(ALL, assignment(&many))]);
    world.run(ms(20_000));
    assert_eq!(world.carried().len(), 20);
    world.away = true;
    world.run(ms(15_000));
    let before = world.probed;
    world.run(ms(10_000));
    let probed = world.probed - before;
    assert!((40..=50).contains(&probed), "{probed} probes in 10 s: a third of the limit");
}

#[test]
fn a_host_on_another_segment_is_no_owner() {
    let mut world = World::new();
    let interfaces = vec![interface(2, vip(1)), interface(3, Ipv4Addr::new(198, 51, 100, 1).into())];
    world.tell(Event::Node { interfaces, macs: vec![ME] });
    world.assignments(&[(ALL, assignment(&[100]))]);
    for _ in 0..20 {
        world.run(ms(100));
        world.tell(Event::Heard { interface: 3, address: vip(100), mac: OTHER, form: Form::Claim });
    }
    assert_eq!((world.holder(ALL), world.carried()), ("w1", vec![vip(100)]));
    let owner = world.reported(|r| matches!(r, Report::ForeignOwner { .. } | Report::Contested { .. }));
    assert!(owner.is_empty(), "{:?}", world.reports);
    world.away = true;
    world.run(ms(20_000));
    world.tell(Event::Heard { interface: 3, address: vip(100), mac: OTHER, form: Form::Claim });
    assert_eq!(world.carried(), [vip(100)]);
}

#[test]
fn what_the_kernel_refuses_is_not_held() {
    let mut world = World::with(&[(ALL, assignment(&[100, 101]))]);
    world.run(ms(5_000));
    assert_eq!(world.lease_vips.held().count(), 2);
    assert_eq!(world.lease_vips.counts(), (2, 2));
    world.tell(Event::EnsureFailed { address: vip(100), reason: "another program has it".into() });
    assert_eq!(world.lease_vips.held().collect::<Vec<_>>(), [(vip(101), ALL)]);
    assert_eq!(world.lease_vips.counts(), (2, 1));
    assert!(!world.lease_vips.is_carried(vip(100)) && world.lease_vips.is_carrying(ALL));
}

#[test]
fn what_the_kernel_has_not_answered_yet_is_not_held() {
    let mut world = World::with(&[(ALL, assignment(&[100]))]);
    world.run(ms(5_000));
    // The answer to this request does not come.
    world.tell(Event::Gone(vip(100)));
    let wall = WallTime(i64::try_from(world.now.as_nanos() / 1_000).unwrap());
    let out = world.lease_vips.step(Moment { now: world.now, wall }, Event::Gone(vip(100)));
    assert!(out.iter().any(|output| matches!(output, Output::Ensure { .. })), "{out:?}");
    assert_eq!(world.lease_vips.held().count(), 0);
}

#[test]
fn what_an_earlier_run_left_is_kept_if_it_is_still_this_nodes() {
    let mut world = World::new();
    world.elect(ALL, "w1");
    world.carries = [(vip(100), world.now + ms(8_000)), (vip(150), world.now + ms(8_000))].into();
    world.tell(Event::LeftOver([100, 150].map(|n| Vip { address: vip(n), interface: 2 }).to_vec()));
    world.run(ms(1_000));
    assert_eq!(world.carried().len(), 2, "nothing is known yet");
    world.begin(&[(ALL, assignment(&[100]))]);
    assert_eq!(world.carried(), [vip(100)]);
    world.run(ms(20_000));
    assert_eq!((world.holder(ALL), world.carried()), ("w1", vec![vip(100)]));
    assert!(world.reported(|r| matches!(r, Report::LetGo(_))).is_empty(), "{:?}", world.reports);
}

/// The default route comes late: the interfaces are told, the assignments follow at once, and the left-overs come last.
#[test]
fn what_an_earlier_run_left_is_kept_if_it_is_found_after_the_assignments() {
    let mut world = World::new();
    world.elect(ALL, "w1");
    world.elect("shop/other", "w2");
    world.carries = [100, 120, 150].map(|n| (vip(n), world.now + ms(8_000))).into();
    world.tell(Event::Node { interfaces: vec![interface(2, vip(1))], macs: vec![ME] });
    let wall = WallTime(i64::try_from(world.now.as_nanos() / 1_000).unwrap());
    let at = Moment { now: world.now, wall };
    let not_mine = Assignment { campaigns: false, ..assignment(&[120]) };
    let all = [(ALL.to_owned(), assignment(&[100])), ("shop/other".to_owned(), not_mine)];
    // The API answers after the left-overs.
    let calls = world.lease_vips.step(at, Event::Input(Input::Assignments(all.into())));
    world.tell(Event::LeftOver([100, 120, 150].map(|n| Vip { address: vip(n), interface: 2 }).to_vec()));
    assert_eq!(world.carried(), [vip(100)]);
    for call in calls {
        world.act(call);
    }
    world.run(ms(20_000));
    assert_eq!((world.holder(ALL), world.carried()), ("w1", vec![vip(100)]));
    assert!(world.reported(|r| matches!(r, Report::LetGo(_))).is_empty(), "{:?}", world.reports);
    // A VIP that this run carries is not dropped.
    world.tell(Event::LeftOver(vec![Vip { address: vip(100), interface: 2 }]));
    assert_eq!(world.carried(), [vip(100)]);
}

#[test]
fn the_end_releases_every_lease_and_waits_for_successors() {
    let (one, two) = ("shop/kubevip-a", "shop/kubevip-b");
    let mut world = World::with(&[(one, assignment(&[100])), (two, assignment(&[101]))]);
    world.run(ms(5_000));
    world.tell(Event::Shutdown);
    world.run(ms(1_000));
    assert_eq!((world.holder(one), world.holder(two), world.carried().len()), ("", "", 2));
    assert!(!world.exited);
    // What is learnt meanwhile begins nothing.
    world.assignments(&[(one, assignment(&[100])), (two, assignment(&[101])), ("shop/kubevip-c", assignment(&[102]))]);
    world.run(ms(5_000));
    assert!(world.exited && world.carried().is_empty());
    let open: BTreeSet<&str> = world.lease_vips.leases().filter(|name| !world.holder(name).is_empty()).collect();
    assert!(open.is_empty());
}

#[test]
fn a_vip_goes_to_the_interface_that_it_is_assigned_to() {
    let mut world = World::with(&[(ALL, assignment(&[100, 101]))]);
    world.run(ms(5_000));
    assert_eq!(world.at, [(vip(100), 2), (vip(101), 2)].into());
    let mut moved = assignment(&[100, 101]);
    moved.vips.insert(vip(101), 3);
    let wall = WallTime(i64::try_from(world.now.as_nanos() / 1_000).unwrap());
    let told = Event::Input(Input::Assignments([(ALL.to_owned(), moved)].into()));
    let out = world.lease_vips.step(Moment { now: world.now, wall }, told);
    let order: Vec<&Output> =
        out.iter().filter(|output| matches!(output, Output::Remove(_) | Output::Ensure { .. })).collect();
    let [Output::Remove(removed), Output::Ensure { vips, .. }] = order[..] else { panic!("{out:?}") };
    assert_eq!(*removed, [vip(101)], "first off the one");
    assert_eq!(*vips, [Vip { address: vip(101), interface: 3 }], "then on the other");
}

#[test]
fn an_address_is_asked_for_where_its_subnet_is() {
    let mut world = World::new();
    let far: IpAddr = Ipv4Addr::new(198, 51, 100, 7).into();
    let eth3 = interface(3, Ipv4Addr::new(198, 51, 100, 1).into());
    world.tell(Event::Node { interfaces: vec![interface(2, vip(1)), eth3], macs: vec![ME] });
    let places = &world.lease_vips.places;
    assert_eq!(places.near(far), Some(3));
    assert_eq!(places.near(Ipv4Addr::new(203, 0, 113, 9).into()), Some(2), "nowhere else: the first");
}
