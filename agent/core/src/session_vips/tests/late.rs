//! Answers that come late, and objects that were made again meanwhile: one agent alone, told by hand.

use std::net::IpAddr;
use std::time::Duration;

use super::world::{STRANGER, ms, vip};
use crate::core::{Core as _, Interface};
use crate::event::{Failure, Moment};
use crate::evidence::Form;
use crate::lease::Record;
use crate::mac::Mac;
use crate::placement::Demand;
use crate::rules::Rules;
use crate::session::{AddressView, Declared, Holder, Link, Subnet, View};
use crate::session_vips::{Call, Event, Input, Output, SessionVips};
use crate::time::{Time, WallTime};

const ME: &str = "node1";
const OTHER: &str = "node2";

struct One {
    session_vips: SessionVips,
    now: Time,
    version: u64,
    session: Option<View>,
    others: Vec<View>,
}

fn link(n: u8) -> Link {
    let address = IpAddr::from([192, 0, 2, n]);
    let subnets = vec![Subnet::of(address, 24)];
    Link {
        name: "eth0".into(),
        altnames: vec![],
        macs: vec![Mac([2, 0, 0, 0, 0, n])],
        addresses: vec![address],
        subnets,
        up: true,
        unheard: false,
    }
}

impl One {
    /// An agent with a live session, and no VIP.
    fn new() -> Self {
        let rules = Rules { node: ME.into(), ..Rules::default() };
        let mut one = Self {
            session_vips: SessionVips::new(rules),
            now: Time::default() + ms(60_000),
            version: 100,
            session: None,
            others: vec![],
        };
        let interfaces = vec![Interface { index: 2, link: link(1), gateways: vec![] }];
        for event in [Event::Node { interfaces, macs: link(1).macs }, Event::Input(Input::Synced)] {
            let actions = one.tell(event);
            one.answer(actions);
        }
        one.run(ms(100));
        assert_eq!(one.session_vips.snapshot().session, "live");
        one
    }

    fn tell(&mut self, event: Event) -> Vec<Output> {
        let wall = WallTime(i64::try_from(self.now.as_nanos() / 1_000).unwrap());
        self.session_vips.step(Moment { now: self.now, wall }, event)
    }

    /// Writes of the own session are answered, and shown by the watch; so are lists of sessions. No other call is answered.
    fn answer(&mut self, actions: Vec<Output>) -> Vec<Output> {
        let mut rest = vec![];
        for action in actions {
            match action {
                Output::Call(Call::WriteSession { id, node, record, declared, end, .. }) if node == ME => {
                    let view = View {
                        node,
                        uid: "mine".into(),
                        version: self.next(),
                        record,
                        declared,
                        end,
                        published: false,
                    };
                    self.session = Some(view.clone());
                    let more = self.tell(Event::Input(Input::WroteSession { id, result: Ok(view.clone()) }));
                    rest.extend(self.answer(more));
                    let more = self.tell(Event::Input(Input::Session(view)));
                    rest.extend(self.answer(more));
                }
                Output::Call(Call::ReadSessions { id, .. }) => {
                    let all = self.session.iter().chain(&self.others).cloned().collect();
                    let more = self.tell(Event::Input(Input::Sessions { id: Some(id), result: Ok(all) }));
                    rest.extend(self.answer(more));
                }
                other => rest.push(other),
            }
        }
        rest
    }

    fn next(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    /// Time passes. Returns what the agent wanted meanwhile.
    fn run(&mut self, time: Duration) -> Vec<Output> {
        let (end, mut all) = (self.now + time, vec![]);
        while let Some(wake) = self.session_vips.wake().filter(|wake| *wake <= end) {
            self.now = wake;
            let actions = self.tell(Event::Tick);
            all.extend(self.answer(actions));
        }
        self.now = end;
        all
    }

    fn shows(&mut self, v: u8, uid: &str, holder: Option<Holder>) -> Vec<Output> {
        let view = Some(AddressView { uid: uid.into(), version: self.next(), holder, by_lease: false });
        let actions = self.tell(Event::Input(Input::Address { listed: false, address: vip(v), view }));
        self.answer(actions)
    }

    fn mine(&self) -> Holder {
        Holder { node: ME.into(), session: self.session.as_ref().unwrap().incarnation(), to: None }
    }

    /// The agent carries a VIP by its record.
    fn carries(&mut self, v: u8) {
        let mine = self.mine();
        self.tell(Event::Input(Input::Wanted(vec![Demand::of(vip(v))])));
        self.shows(v, "a", Some(mine));
        self.tell(Event::Ensured(vec![vip(v)]));
        assert_eq!(self.carried(v), Some("recorded"));
    }

    fn carried(&self, v: u8) -> Option<&'static str> {
        self.session_vips.vip(vip(v)).and_then(|state| state.carried)
    }

    fn record_state(&self, v: u8) -> &'static str {
        self.session_vips.vip(vip(v)).map_or("none", |state| state.record)
    }

    /// The watch shows that another node's session is so.
    fn is_now(&mut self, view: View) -> Vec<Output> {
        self.others = vec![view.clone()];
        let actions = self.tell(Event::Input(Input::Session(view)));
        self.answer(actions)
    }

    /// Another node's session, at its transitions.
    fn other(&mut self, uid: &str, transitions: u32, live: bool) -> View {
        let holder = if live { OTHER.into() } else { String::new() };
        let record = Record { holder, duration: Duration::from_secs(15), transitions, ..Record::default() };
        let declared = Declared { transitions, links: vec![link(2)], ..Declared::default() };
        let version = self.next();
        View {
            node: OTHER.into(),
            uid: uid.into(),
            version,
            record,
            declared: Some(declared),
            end: None,
            published: false,
        }
    }
}

fn read_of(actions: &[Output]) -> Option<u64> {
    actions.iter().find_map(|a| if let Output::Call(Call::ReadAddresses { id, .. }) = a { Some(*id) } else { None })
}

fn writes(actions: &[Output]) -> Vec<(u64, IpAddr, Option<Holder>)> {
    let all = actions.iter().filter_map(|a| match a {
        Output::Call(Call::WriteHolder { id, address, holder, .. }) => Some((*id, *address, holder.clone())),
        _ => None,
    });
    all.collect()
}

/// Otherwise the VIP would count as deleted here until its object changes again: the record names this node, which lets the
/// VIP go, and all other nodes wait for this one.
#[test]
fn an_address_that_was_made_again_while_a_read_was_under_way_is_not_lost() {
    let mut one = One::new();
    one.carries(3);
    let actions = one.tell(Event::Heard { interface: 2, address: vip(3), mac: STRANGER, form: Form::Claim });
    let actions = one.answer(actions);
    let id = read_of(&actions).unwrap();
    // The object was read between the two: it was not there.
    one.tell(Event::Input(Input::Address { listed: false, address: vip(3), view: None }));
    let mine = one.mine();
    one.shows(3, "b", Some(mine));
    one.tell(Event::Ensured(vec![vip(3)]));
    let actions = one.tell(Event::Input(Input::Addresses { id, result: Ok(vec![(vip(3), None)]) }));
    assert_eq!((one.record_state(3), one.carried(3)), ("mine", Some("recorded")));
    assert!(read_of(&actions).is_some(), "it is read once more");
}

#[test]
fn the_answer_to_a_write_says_nothing_of_the_object_that_came_after() {
    let mut one = One::new();
    one.carries(3);
    let mine = one.mine();
    // The record was stripped: it is written again.
    let actions = one.shows(3, "a", None);
    let (id, ..) = writes(&actions)[0].clone();
    let version = one.next();
    one.tell(Event::Input(Input::Address { listed: false, address: vip(3), view: None }));
    one.shows(3, "b", None);
    let late = AddressView { uid: "a".into(), version, holder: Some(mine), by_lease: false };
    one.tell(Event::Input(Input::WroteHolder { id, result: Ok(late) }));
    assert_ne!(one.record_state(3), "mine", "nobody is in the record of the new one");
}

#[test]
fn a_watch_that_is_behind_a_read_does_not_end_what_was_read() {
    let mut one = One::new();
    one.carries(3);
    let actions = one.tell(Event::Heard { interface: 2, address: vip(3), mac: STRANGER, form: Form::Claim });
    let id = read_of(&one.answer(actions)).unwrap();
    let read = AddressView { uid: "b".into(), version: one.next(), holder: Some(one.mine()), by_lease: false };
    one.tell(Event::Input(Input::Addresses { id, result: Ok(vec![(vip(3), Some(read))]) }));
    let actions = one.tell(Event::Input(Input::Address { listed: false, address: vip(3), view: None }));
    assert_eq!(one.carried(3), Some("recorded"), "that was the object before");
    let id = read_of(&actions).unwrap();
    one.tell(Event::Input(Input::Addresses { id, result: Ok(vec![(vip(3), None)]) }));
    assert_eq!(one.carried(3), None, "but a read that was asked for since is believed");
}

#[test]
fn the_own_session_is_not_lost_to_a_watch_that_is_behind() {
    let mut one = One::new();
    let before = one.session.clone().unwrap();
    one.tell(Event::Input(Input::SessionDeleted(ME.into())));
    assert_eq!(one.session_vips.snapshot().session, "none");
    one.now = one.now + ms(300);
    let actions = one.tell(Event::Tick);
    let begin = actions.into_iter().find_map(|a| match a {
        Output::Call(Call::WriteSession { id, record, declared, .. }) => Some((id, record, declared)),
        _ => None,
    });
    let (id, record, declared) = begin.unwrap();
    let view = View {
        node: ME.into(),
        uid: "again".into(),
        version: one.next(),
        record,
        declared,
        end: None,
        published: false,
    };
    one.tell(Event::Input(Input::WroteSession { id, result: Ok(view) }));
    assert_eq!(one.session_vips.snapshot().session, "live");
    one.tell(Event::Input(Input::Session(before)));
    assert_eq!(one.session_vips.snapshot().session, "live", "an event of the Lease before");
    one.tell(Event::Input(Input::SessionDeleted(ME.into())));
    assert_eq!(one.session_vips.snapshot().session, "live", "and its end");
}

#[test]
fn the_answer_to_an_end_says_nothing_of_the_lease_that_came_after() {
    let mut one = One::new();
    let (first, ended) = (one.other("first", 0, true), one.other("first", 0, false));
    one.is_now(first);
    one.is_now(ended.clone());
    one.tell(Event::Input(Input::SessionDeleted(OTHER.into())));
    let second = one.other("second", 0, true);
    let holder = Holder { node: OTHER.into(), session: second.incarnation(), to: None };
    one.is_now(second);
    one.tell(Event::Input(Input::Wanted(vec![Demand::of(vip(3))])));
    one.shows(3, "a", Some(holder));
    one.tell(Event::Input(Input::WroteSession { id: 999_999, result: Ok(ended) }));
    assert_eq!(one.record_state(3), "others", "its second session lives");
    let actions = one.run(ms(1_000));
    assert!(writes(&actions).is_empty(), "{actions:?}");
}

/// The watch is behind: the version that is known of an expired session is old.
#[test]
fn the_end_of_a_session_that_has_changed_is_not_written_again_and_again() {
    let mut one = One::new();
    let other = one.other("first", 0, true);
    one.is_now(other);
    let actions = one.run(ms(17_500));
    let end = ends(&actions).pop().expect("it has expired");
    // A list of all sessions is asked for, and not answered.
    let actions = one.tell(Event::Input(Input::WroteSession { id: end, result: Err(Failure::Conflict) }));
    assert!(ends(&actions).is_empty(), "{actions:?}");
    assert!(ends(&one.run(ms(1_900))).is_empty());
    assert_eq!(ends(&one.run(ms(200))).len(), 1, "nothing else was shown");
}

fn ends(actions: &[Output]) -> Vec<u64> {
    let end = |action: &Output| match action {
        Output::Call(Call::WriteSession { id, node, .. }) if node == OTHER => Some(*id),
        _ => None,
    };
    actions.iter().filter_map(end).collect()
}

/// VIPs that had their turn and found no reason to write used a turn up, and the rest waited for ever.
#[test]
fn who_waits_to_write_its_record_is_not_forgotten() {
    let mut one = One::new();
    let all: Vec<u8> = (0..60).collect();
    one.tell(Event::Input(Input::Wanted(all.iter().map(|v| Demand::of(vip(*v))).collect())));
    for v in &all {
        one.shows(*v, "a", None);
    }
    let first = writes(&one.run(ms(900)));
    assert_eq!(first.len(), 16, "so many at once");
    // Thirty of those that wait are not wanted any more.
    for v in 16..46 {
        one.tell(Event::Input(Input::Unwanted(vip(v))));
    }
    let mut next = vec![];
    for (id, ..) in first {
        let actions = one.tell(Event::Input(Input::WroteHolder { id, result: Err(Failure::Conflict) }));
        next.extend(one.answer(actions));
    }
    next.extend(one.run(ms(50)));
    for v in 46..60 {
        assert!(writes(&next).iter().any(|(_, ip, _)| *ip == vip(v)), "{} is written", vip(v));
    }
}

#[test]
fn the_record_of_what_is_not_wanted_any_more_is_cleared_after_a_while() {
    let mut one = One::new();
    one.carries(3);
    one.tell(Event::Input(Input::Unwanted(vip(3))));
    one.tell(Event::Removed(vec![vip(3)]));
    assert_eq!(one.carried(3), None);
    assert!(writes(&one.run(ms(900))).is_empty(), "it may be deleted, or wanted again");
    let cleared = writes(&one.run(ms(200)));
    assert_eq!(cleared.iter().map(|(_, ip, holder)| (*ip, holder.clone())).collect::<Vec<_>>(), [(vip(3), None)]);
    let version = one.next();
    let view = AddressView { uid: "a".into(), version, holder: None, by_lease: false };
    one.tell(Event::Input(Input::WroteHolder { id: cleared[0].0, result: Ok(view) }));
    assert!(writes(&one.run(ms(5_000))).is_empty(), "once");
}

/// The last holder has been gone for long: another host may have the address by now.
#[test]
fn what_was_not_wanted_when_its_holder_ended_is_looked_for_first() {
    for wanted in [true, false] {
        let mut one = One::new();
        let session = one.other("first", 0, true);
        let holder = Holder { node: OTHER.into(), session: session.incarnation(), to: None };
        one.is_now(session);
        one.shows(3, "a", Some(holder));
        if wanted {
            one.tell(Event::Input(Input::Wanted(vec![Demand::of(vip(3))])));
        }
        let ended = one.other("first", 0, false);
        let mut actions = one.is_now(ended);
        if !wanted {
            actions = one.tell(Event::Input(Input::Wanted(vec![Demand::of(vip(3))])));
        }
        let carries = actions.iter().any(|a| matches!(a, Output::Ensure { .. }));
        assert_eq!(carries, wanted, "{actions:?}");
        assert!(wanted || actions.iter().any(|a| matches!(a, Output::Probe(_))));
    }
}

#[test]
fn without_its_namespace_a_session_asks_seldom_and_then_begins() {
    let rules = Rules { node: ME.into(), ..Rules::default() };
    let mut session_vips = SessionVips::new(rules);
    let interfaces = vec![Interface { index: 2, link: link(1), gateways: vec![] }];
    let mut now = Time::default() + ms(60_000);
    let mut todo = vec![Event::Node { interfaces, macs: link(1).macs }, Event::Input(Input::Synced)];
    let end = now + Duration::from_mins(10);
    let (mut writes, mut lists) = (0, 0);
    while now < end {
        let event = todo.pop().unwrap_or(Event::Tick);
        let wall = WallTime(i64::try_from(now.as_nanos() / 1_000).unwrap());
        for output in session_vips.step(Moment { now, wall }, event) {
            match output {
                Output::Call(Call::WriteSession { id, .. }) => {
                    writes += 1;
                    todo.push(Event::Input(Input::WroteSession { id, result: Err(Failure::NoNamespace) }));
                }
                // Lists of a namespace that does not exist are empty.
                Output::Call(Call::ReadSessions { id, .. }) => {
                    lists += 1;
                    todo.push(Event::Input(Input::Sessions { id: Some(id), result: Ok(vec![]) }));
                }
                _ => {}
            }
        }
        if todo.is_empty() {
            now = session_vips.wake().map_or_else(|| now + ms(1_000), |wake| wake.max(now + ms(1)));
        }
    }
    assert!((15..=25).contains(&writes) && lists <= 25, "{writes} writes and {lists} lists in ten minutes");
}
