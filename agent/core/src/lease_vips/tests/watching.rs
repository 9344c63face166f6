//! Where each Service has a Lease of its own, nodes are watched instead of VIPs.

use super::*;
use crate::lease::{Declaration, Tenure};

const THIRD: Mac = Mac([2, 0, 0, 0, 0, 0x67]);
const LEASES: [(&str, u8); 3] = [("shop/kubevip-a", 100), ("shop/kubevip-b", 101), ("blog/kubevip-c", 102)];

fn participant(mac: Mac, address: IpAddr) -> Participant {
    Participant { macs: vec![mac], addresses: vec![address], ..Participant::default() }
}

/// `holder` renews the Lease. `takes_part`: it is an agent of ours, and says so.
fn renew(world: &mut World, name: &str, vip: IpAddr, takes_part: bool) {
    world.version += 1;
    let old = world.leases.get(name).cloned();
    let mut notes = old.as_ref().map(|view| view.notes.clone()).unwrap_or_default();
    notes.participants.insert("w2".into(), participant(OTHER, super::vip(66)));
    notes.participants.insert("w3".into(), participant(THIRD, super::vip(67)));
    notes.participants.extend(world.more.clone());
    let renewed = Some(WallTime(i64::try_from(world.version).unwrap()));
    let record = Record { holder: "w2".into(), duration: ms(15_000), transitions: 1, renewed, ..Record::default() };
    let declared =
        Declaration { holder: "w2".into(), transitions: 1, acquired: None, macs: vec![OTHER], vips: vec![vip] };
    notes.tenure = takes_part.then_some(Tenure { declared, renewed, unheard: false });
    let view = LeaseView { version: world.version.to_string(), record, notes };
    world.leases.insert(name.to_owned(), view.clone());
    world.tell(Event::Input(Input::Lease { name: name.into(), event: ForElector::Seen(Some(view)) }));
}

/// A node that watches `w2`, which holds three Leases, for ten seconds.
fn watching(takes_part: bool) -> World {
    watching_as("w1", takes_part, &[])
}

/// The same for a node of this name, where these nodes take part too.
fn watching_as(me: &str, takes_part: bool, more: &[(&str, Participant)]) -> World {
    let mut world = World::new();
    world.lease_vips = LeaseVips::new(Rules { node: me.into(), ..rules() }).watching_nodes(ms(100));
    world.others = [(vip(66), OTHER), (vip(67), THIRD)].into();
    world.others.extend(LEASES.map(|(_, n)| (vip(n), OTHER)));
    world.more = more.iter().map(|(name, one)| ((*name).to_owned(), one.clone())).collect();
    world.begin(&LEASES.map(|(name, n)| (name, assignment(&[n]))));
    renewed(&mut world, takes_part);
    assert!(LEASES.iter().all(|(name, _)| world.holder(name) == "w2"));
    world
}

/// All Leases are renewed for ten seconds.
fn renewed(world: &mut World, takes_part: bool) {
    for _ in 0..5 {
        for (name, n) in LEASES {
            renew(world, name, vip(n), takes_part);
        }
        world.run(ms(2_000));
    }
}

fn crash(world: &mut World) {
    world.others.retain(|_, mac| *mac != OTHER);
}

#[test]
fn all_leases_of_a_node_that_fell_silent_are_taken_early() {
    let mut world = watching(true);
    crash(&mut world);
    world.run(ms(1_200));
    assert!(LEASES.iter().all(|(name, _)| world.holder(name) == "w1"), "{:?}", world.leases);
    assert_eq!(world.carried().len(), 3);
    assert_eq!(world.reported(|r| *r == Report::Took(Cause::Witness)).len(), 3);
}

#[test]
fn one_node_is_probed_and_not_each_vip() {
    let mut world = watching(true);
    let before = world.probed;
    renewed(&mut world, true);
    let probed = world.probed - before;
    assert!(probed <= 130, "{probed} probes in 10 s, for one node at ten a second");
}

#[test]
fn a_node_whose_own_address_has_changed_loses_nothing() {
    let mut world = watching(true);
    world.others.remove(&vip(66));
    renewed(&mut world, true);
    assert!(LEASES.iter().all(|(name, _)| world.holder(name) == "w2"), "its VIPs answer");
}

#[test]
fn a_kube_vip_is_judged_by_its_lease_alone() {
    let mut world = watching(false);
    crash(&mut world);
    world.run(ms(10_000));
    assert!(LEASES.iter().all(|(name, _)| world.holder(name) == "w2"));
    world.run(ms(10_000));
    assert!(LEASES.iter().all(|(name, _)| world.holder(name) == "w1"), "it has expired");
}

#[test]
fn a_node_that_hears_nobody_takes_nothing_early() {
    let mut world = watching(true);
    world.others.clear();
    world.run(ms(5_000));
    assert!(LEASES.iter().all(|(name, _)| world.holder(name) == "w2"));
}

#[test]
fn a_link_that_was_down_says_nothing() {
    let mut world = watching(true);
    for _ in 0..10 {
        crash(&mut world);
        world.run(ms(250));
        world.others.extend([(vip(66), OTHER)]);
        world.others.extend(LEASES.map(|(_, n)| (vip(n), OTHER)));
        world.tell(Event::Link { interface: 2, up: true });
        world.run(ms(100));
    }
    assert!(LEASES.iter().all(|(name, _)| world.holder(name) == "w2"));
}

fn taken(world: &World, by: &str) -> usize {
    LEASES.iter().filter(|(name, _)| world.holder(name) == by).count()
}

#[test]
fn watchers_take_one_after_the_other() {
    // Each of these is a watcher, with another place among the three.
    let mut took = Vec::new();
    let names = ["w1", "w4", "w5"];
    for me in names {
        let others = names.iter().enumerate().filter(|(_, name)| **name != me);
        let n = |n: usize| u8::try_from(n).unwrap();
        let own = |at: usize| (Mac([2, 0, 0, 0, 1, n(at)]), vip(200 + n(at)));
        let more: Vec<(&str, Participant)> =
            others.map(|(at, name)| (*name, participant(own(at).0, own(at).1))).collect();
        let mut world = watching_as(me, true, &more);
        // The third party that takes part in all Leases is gone for long, so it has no place among the watchers.
        world.others.remove(&vip(67));
        world.others.extend((0..names.len()).filter(|at| names[*at] != me).map(|at| (own(at).1, own(at).0)));
        for _ in 0..4 {
            renewed(&mut world, true);
        }
        crash(&mut world);
        let begin = world.now;
        while taken(&world, me) < LEASES.len() && world.now.since(begin) < ms(5_000) {
            world.run(ms(50));
        }
        took.push(world.now.since(begin));
    }
    took.sort_unstable();
    assert!(took[0] < ms(1_200), "{took:?}");
    assert!(took.is_sorted_by(|one, next| *next >= *one + ms(400)), "{took:?}");
    assert!(took[2] < ms(2_300), "{took:?}");
}

#[test]
fn what_another_interface_shows_says_nothing() {
    let mut world = World::new();
    world.lease_vips = LeaseVips::new(rules()).watching_nodes(ms(100));
    world.others = [(vip(66), OTHER), (vip(67), THIRD)].into();
    // The nodes' own addresses are on the first interface, and the VIPs are on the second, where this node hears nothing.
    let interfaces = vec![interface(2, vip(1)), interface(3, Ipv4Addr::new(198, 51, 100, 1).into())];
    world.tell(Event::Node { interfaces, macs: vec![ME] });
    let vips = LEASES.map(|(name, n)| (name, Assignment { vips: [(vip(n), 3)].into(), ..assignment(&[]) }));
    world.assignments(&vips);
    renewed(&mut world, true);
    assert_eq!(taken(&world, "w2"), LEASES.len());
    crash(&mut world);
    world.run(ms(5_000));
    assert_eq!(taken(&world, "w2"), LEASES.len());
}

#[test]
fn a_frame_of_the_holder_ends_the_suspicion() {
    let mut world = watching(true);
    crash(&mut world);
    for _ in 0..20 {
        world.run(ms(200));
        world.tell(Event::Heard { interface: 2, address: vip(100), mac: OTHER, form: Form::Claim });
    }
    assert_eq!(taken(&world, "w2"), LEASES.len());
}

#[test]
fn what_was_found_of_one_tenure_says_nothing_about_the_next() {
    let mut world = watching(true);
    // Only its own address is silent. It is suspected, and hands its Leases to another, whose VIPs this node has never heard.
    crash(&mut world);
    while world.reported(|r| *r == Report::ProbeMissed).is_empty() {
        world.run(ms(20));
    }
    for (name, n) in LEASES {
        renew(&mut world, name, vip(n), true);
        let lease = world.leases.get_mut(name).unwrap();
        lease.record.holder = "w3".into();
        lease.record.transitions = 2;
        let declared =
            Declaration { holder: "w3".into(), transitions: 2, acquired: None, macs: vec![THIRD], vips: vec![vip(n)] };
        lease.notes.tenure = Some(Tenure { declared, renewed: lease.record.renewed, unheard: false });
        let view = lease.clone();
        world.tell(Event::Input(Input::Lease { name: name.into(), event: ForElector::Seen(Some(view)) }));
    }
    world.run(ms(3_000));
    assert_eq!(taken(&world, "w3"), LEASES.len());
}

#[test]
fn nodes_that_take_part_and_do_not_watch_delay_a_take_and_do_not_prevent_it() {
    // They have left, or have no endpoint: their kernels answer, and nobody takes anything there.
    let names = ["a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"];
    let own = |n: u8| (Mac([2, 0, 0, 0, 1, n]), vip(200 + n));
    let more: Vec<(&str, Participant)> =
        (0_u8..).zip(names).map(|(n, name)| (name, participant(own(n).0, own(n).1))).collect();
    let mut world = watching_as("w1", true, &more);
    world.others.extend((0_u8..).zip(names).map(|(n, _)| (own(n).1, own(n).0)));
    for _ in 0..4 {
        renewed(&mut world, true);
    }
    crash(&mut world);
    world.run(ms(8_000));
    assert_eq!(taken(&world, "w1"), LEASES.len());
}

#[test]
fn under_a_limit_of_frames_the_leases_are_taken_when_they_have_ended_at_the_latest() {
    for limit in [3, 6, 15] {
        let mut world = World::new();
        let rules = Rules { frames_per_second: Some(limit), ..rules() };
        world.lease_vips = LeaseVips::new(rules).watching_nodes(ms(100));
        world.others = [(vip(66), OTHER), (vip(67), THIRD)].into();
        world.others.extend(LEASES.map(|(_, n)| (vip(n), OTHER)));
        world.begin(&LEASES.map(|(name, n)| (name, assignment(&[n]))));
        for _ in 0..4 {
            renewed(&mut world, true);
        }
        crash(&mut world);
        world.run(ms(25_000));
        assert_eq!(taken(&world, "w1"), LEASES.len(), "a limit of {limit}");
    }
}

#[test]
fn without_the_api_vips_are_not_asked_for_again_and_again() {
    let mut world = watching(true);
    world.away = true;
    world.run(ms(5_000));
    crash(&mut world);
    world.others.extend(LEASES.map(|(_, n)| (vip(n), THIRD)));
    world.run(ms(5_000));
    let before = world.probed;
    world.run(ms(10_000));
    let probed = world.probed - before;
    assert!(probed <= 150, "{probed} probes in 10 s, for three VIPs that another node has and a node that is gone");
}
