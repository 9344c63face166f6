//! Where each Service has a Lease of its own, and frames are limited.

use super::super::output::{Batch, Places};
use super::super::turns::Reason;
use super::*;
use crate::witness::Probe;

const HOLDERS: u8 = 30;
const SERVICE: &str = "shop/kubevip-own";

/// The Lease of the node `w{n}`, which has just renewed it. All nodes take part in it.
fn lease(world: &mut World, n: u8) -> (String, LeaseView) {
    let participant = |n: u8| Participant { macs: vec![host(n)], addresses: vec![vip(n)], ..Participant::default() };
    let participants = (2..2 + HOLDERS).map(|n| (format!("w{n}"), participant(n))).collect();
    let view = world.renewed(&format!("w{n}"), &participants, vip(100 + n));
    let name = format!("shop/kubevip-{n}");
    world.leases.insert(name.clone(), view.clone());
    (name, view)
}

/// Under this limit, a node that has a VIP, among nodes that have one each.
fn among_holders(limit: u32) -> World {
    let mut world = World::new();
    let rules = Rules { frames_per_second: Some(limit), ..rules() };
    world.lease_vips = LeaseVips::new(rules).watching_nodes(ms(100));
    for n in 2..2 + HOLDERS {
        world.others.extend([(vip(n), host(n)), (vip(100 + n), host(n))]);
    }
    for n in 2..2 + HOLDERS {
        lease(&mut world, n);
    }
    let names: Vec<String> = (2..2 + HOLDERS).map(|n| format!("shop/kubevip-{n}")).collect();
    let all = (2..2 + HOLDERS).zip(&names).map(|(n, name)| (name.as_str(), assignment(&[100 + n])));
    let all: Vec<_> = all.chain([(SERVICE, assignment(&[99]))]).collect();
    world.begin(&all);
    renewed(&mut world, 60, |_| true);
    world
}

fn renewed(world: &mut World, seconds: u64, alive: impl Fn(u8) -> bool) {
    for _ in 0..seconds / 2 {
        for n in (2..2 + HOLDERS).filter(|n| alive(*n)) {
            let (name, view) = lease(world, n);
            world.tell(Event::Input(Input::Lease { name, event: ForElector::Seen(Some(view)) }));
        }
        world.run(ms(2_000));
    }
}

#[test]
fn many_holders_are_watched_within_the_limit_and_leave_room_for_announcements() {
    for limit in [7, 15] {
        let mut world = among_holders(limit);
        let (begin, before) = (world.now, world.announced.len());
        renewed(&mut world, 60, |_| true);
        let most = usize::try_from(crate::rules::probes_of(limit)).unwrap();
        assert!(world.worst(begin) <= most, "{} probes in a second, of {limit} frames", world.worst(begin));
        assert_eq!(world.holder(SERVICE), "w1");
        assert!(world.announced[before..].contains(&vip(99)));
        let asked = |n: u8| world.sent.iter().any(|(at, address)| *at >= begin && *address == vip(n));
        assert!((2..2 + HOLDERS).all(asked), "all are watched, each in its turn");
    }
}

#[test]
fn a_silent_node_among_many_is_judged_within_the_limit() {
    for limit in [7, 15] {
        let mut world = among_holders(limit);
        let begin = world.now;
        world.others.retain(|_, mac| *mac != host(2));
        renewed(&mut world, 60, |n| n != 2);
        assert_eq!(world.holder("shop/kubevip-2"), "w1", "under a limit of {limit}");
        let most = usize::try_from(limit).unwrap();
        assert!(world.worst(begin) <= most, "{} frames in a second, of {limit}", world.worst(begin));
    }
}

/// What is known of the segment, by the electors of all Leases that others take part in.
fn known(world: &World) -> BTreeSet<State> {
    world.known(|name| name != SERVICE)
}

/// One question is for all Leases, and all know what it shows. It leaves in its turn, so the limit holds.
#[test]
fn all_electors_know_that_nobody_answers_and_the_limit_holds() {
    for limit in [7, 15] {
        let mut world = among_holders(limit);
        assert_eq!(known(&world), [State::Answered].into(), "limit {limit}");
        let begin = world.now;
        world.others.clear();
        renewed(&mut world, 90, |_| true);
        assert_eq!(known(&world), [State::Nobody].into(), "limit {limit}");
        let most = usize::try_from(limit).unwrap();
        assert!(world.worst(begin) <= most, "{} frames in a second, of {limit}", world.worst(begin));
        world.others.insert(vip(2), host(2));
        renewed(&mut world, 200, |_| true);
        assert_eq!(known(&world), [State::Answered].into(), "limit {limit}: one of them does");
    }
}

/// A node on one interface that asks for everything.
fn asking(limit: Option<u32>) -> (Batch, Places, Time) {
    let mut places = Places::default();
    places.interfaces.push(interface(2, vip(1)));
    (Batch::new(&Rules { frames_per_second: limit, ..rules() }), places, Time::default() + ms(60_000))
}

/// The probes that leave now.
fn leave(batch: &mut Batch, now: Time, places: &Places) -> Vec<(IpAddr, Sender)> {
    let all = batch.flush(now, places).into_iter().flat_map(|output| match output {
        Output::Probe(probes) => probes,
        other => panic!("{other:?}"),
    });
    all.map(|probe| (probe.address, probe.sender)).collect()
}

/// Whether anybody answers.
const QUESTION: [Probe; 2] = [
    Probe { address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9)), to: None, sender: Sender::Unspecified },
    Probe { address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9)), to: None, sender: Sender::Own },
];

/// A host that was asked by broadcast just before is asked alone a little later: that counts in the second in which it leaves.
#[test]
fn a_probe_that_is_held_back_counts_when_it_leaves() {
    let (mut batch, places, begin) = asking(Some(6));
    let ask = |n: u8, to| Probe { address: vip(n), to, sender: Sender::Own };
    let mut asks = [ask(2, None), ask(2, Some(host(2)))].into_iter().chain((3..).map(|n| ask(n, None))).peekable();
    let mut left: Vec<u64> = vec![];
    for at in 0..3_000 {
        let now = begin + ms(at);
        if batch.watch(now, 2, vec![*asks.peek().unwrap()]).is_ok() {
            asks.next();
        }
        left.extend(leave(&mut batch, now, &places).into_iter().map(|_| at));
    }
    assert!(left.iter().any(|at| (20..1_000).contains(at)), "none was held back: {left:?}");
    let most = usize::try_from(crate::rules::probes_of(6)).unwrap();
    for from in &left {
        let within = left.iter().filter(|at| (*from..*from + 1_000).contains(*at)).count();
        assert!(within <= most, "{within} probes within a second from {from} ms: {left:?}");
    }
}

/// VIPs that are carried, other nodes, looks: as much of one of them as there can be.
#[test]
fn the_question_whether_anybody_answers_comes_after_what_else_is_asked_and_soon() {
    for all_the_time in ["carried", "peers", "looks"] {
        let (mut batch, places, begin) = asking(Some(15));
        let mut asked = vec![];
        for at in 0..20_000 {
            let now = begin + ms(at);
            match all_the_time {
                "carried" => (100..200).for_each(|n| batch.ask(vip(n), Sender::Own)),
                "peers" => (10..30).for_each(|n| batch.ask_peer(Probe { address: vip(n), ..QUESTION[1] })),
                _ => {
                    let window = [100, 10].map(|n| Probe { address: vip(n), ..QUESTION[1] });
                    batch.looks_wait(true);
                    if batch.look(now, Reason::Deciding, &window, &places).is_ok() {
                        for probe in window {
                            batch.probe_counted(probe);
                        }
                    }
                }
            }
            // Nothing else has left yet.
            if at >= 5_000 && !batch.ask_in_turn(now, &QUESTION, &places).is_empty() {
                asked.push(at - 5_000);
            }
            leave(&mut batch, now, &places);
        }
        let first = asked.first().copied();
        assert!(first.is_some_and(|at| (1_000..3_000).contains(&at)), "{all_the_time}: {asked:?}");
        assert!(asked.len() >= 5, "{all_the_time}: {asked:?}");
    }
}

#[test]
fn a_question_that_nobody_has_any_more_keeps_no_room() {
    let (mut batch, places, now) = asking(Some(15));
    batch.ask(vip(100), Sender::Own);
    assert!(batch.ask_in_turn(now, &QUESTION, &places).is_empty(), "there is something else to ask");
    assert_eq!(leave(&mut batch, now, &places), [(vip(100), Sender::Own)]);
    batch.asks_nothing_in_turn();
    let later = now + ms(5_000);
    batch.ask(vip(101), Sender::Own);
    assert_eq!(leave(&mut batch, later, &places), [(vip(101), Sender::Own)]);
}

/// Where frames are not limited, one host is asked with both senders at once.
#[test]
fn a_question_with_one_sender_puts_off_none_with_the_other() {
    let (mut batch, places, now) = asking(None);
    let both = QUESTION.map(|probe| (probe.address, probe.sender));
    for (after, expected) in [(0, &both[..]), (100, &[]), (250, &both)] {
        for probe in QUESTION {
            batch.ask_peer(probe);
        }
        assert_eq!(leave(&mut batch, now + ms(after), &places), expected, "after {after} ms");
    }
}

/// Its interfaces are gone, and nothing can be asked. That is no reason to try it all the time.
#[test]
fn a_node_without_interfaces_asks_nobody_in_turn() {
    let mut world = among_holders(15);
    world.tell(Event::Node { interfaces: vec![], macs: vec![] });
    let begin = world.now;
    world.run(ms(60_000));
    assert!(!world.sent.iter().any(|(at, _)| *at > begin));
}

/// VIPs that foreign hosts have are looked for again and again: that keeps to the limit, too.
#[test]
fn looks_for_what_other_hosts_have_keep_to_the_limit() {
    for count in [3, 5, 20] {
        let mut world = World::new();
        world.lease_vips = LeaseVips::new(Rules { frames_per_second: Some(15), ..rules() });
        world.begin(&[(ALL, assignment(&[99]))]);
        world.run(ms(30_000));
        let these: Vec<u8> = (100..100 + count).collect();
        world.others.extend(these.iter().map(|n| (vip(*n), OTHER)));
        let since = world.now;
        let all: Vec<u8> = these.into_iter().chain([99]).collect();
        world.assignments(&[(ALL, assignment(&all))]);
        world.run(ms(60_000));
        let worst = world.worst(since);
        assert!(worst <= 15, "{count} VIPs: {worst} probes in a second");
    }
}

/// Of so few frames there are never two at once while a holder is watched.
#[test]
fn under_a_very_low_limit_a_host_is_asked_with_the_own_sender_alone() {
    let (mut batch, places, begin) = asking(Some(3));
    let mut left = vec![];
    for at in 0..60_000 {
        let now = begin + ms(at);
        // Not refused for long: its share is its own.
        _ = batch.watch(now, 2, vec![Probe { address: vip(2), ..QUESTION[1] }]);
        left.extend(batch.ask_in_turn(now, &QUESTION, &places).into_iter().map(|probe| probe.sender));
        leave(&mut batch, now, &places);
    }
    assert!(left.len() > 10 && left.contains(&Sender::Own), "{left:?}");
}

/// The other nodes are on the first interface. What they answer says nothing of the second, where the VIPs are.
#[test]
fn who_cannot_hear_an_answer_was_not_asked() {
    let mut world = World::new();
    let rules = Rules { frames_per_second: Some(15), ..rules() };
    world.lease_vips = LeaseVips::new(rules).watching_nodes(ms(100));
    let interfaces = vec![interface(2, vip(1)), interface(3, Ipv4Addr::new(198, 51, 100, 1).into())];
    world.tell(Event::Node { interfaces, macs: vec![ME] });
    let elsewhere = Assignment { vips: [(vip(102), 3)].into(), ..assignment(&[]) };
    let (one, other) = ("shop/kubevip-2", "shop/kubevip-3");
    for n in 2..2 + HOLDERS {
        lease(&mut world, n);
    }
    world.assignments(&[(one, elsewhere), (other, assignment(&[103]))]);
    renewed(&mut world, 90, |_| true);
    assert_eq!(world.known(|name| name == one), [State::Unknown].into());
    assert_eq!(world.known(|name| name == other), [State::Nobody].into());
    let asked = world.sent.iter().filter(|(at, address)| *at + ms(30_000) >= world.now && *address == vip(2)).count();
    assert!(asked < 60, "{asked} questions in 30 s that nobody can use");
}
