//! Where each Service has a Lease of its own, nodes are watched instead of VIPs.

use super::*;
use crate::lease::{Declaration, Participant};

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
    let renewed = Some(WallTime(i64::try_from(world.version).unwrap()));
    let record = Record { holder: "w2".into(), duration: ms(15_000), transitions: 1, renewed, ..Record::default() };
    notes.tenure = takes_part.then(|| Declaration {
        holder: "w2".into(),
        transitions: 1,
        acquired: None,
        macs: vec![OTHER],
        vips: vec![vip],
    });
    let view = LeaseView { version: world.version.to_string(), record, notes };
    world.leases.insert(name.to_owned(), view.clone());
    world.tell(Event::Input(Input::Lease { name: name.into(), event: ForElector::Seen(Some(view)) }));
}

/// A node that watches `w2`, which holds three Leases, for ten seconds.
fn watching(takes_part: bool) -> World {
    let mut world = World::new();
    world.lease_vips = LeaseVips::new(rules()).watching_nodes(ms(100));
    world.others = [(vip(66), OTHER), (vip(67), THIRD)].into();
    world.others.extend(LEASES.map(|(_, n)| (vip(n), OTHER)));
    world.begin(&LEASES.map(|(name, n)| (name, assignment(&[n]))));
    for _ in 0..5 {
        for (name, n) in LEASES {
            renew(&mut world, name, vip(n), takes_part);
        }
        world.run(ms(2_000));
    }
    assert!(LEASES.iter().all(|(name, _)| world.holder(name) == "w2"));
    world
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
    for _ in 0..5 {
        for (name, n) in LEASES {
            renew(&mut world, name, vip(n), true);
        }
        world.run(ms(2_000));
    }
    let probed = world.probed - before;
    assert!(probed <= 130, "{probed} probes in 10 s, for one node at ten a second");
}

#[test]
fn a_node_whose_own_address_has_changed_loses_nothing() {
    let mut world = watching(true);
    world.others.remove(&vip(66));
    for _ in 0..5 {
        for (name, n) in LEASES {
            renew(&mut world, name, vip(n), true);
        }
        world.run(ms(2_000));
    }
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
