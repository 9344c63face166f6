//! Interruptions, views of different age, and what others do to claims.

use std::time::Duration;

use super::basics::one;
use super::objects::{device, key, machine};
use super::world::{Stored, World};
use super::{LONG, reason};
use crate::machine::Kind;
use crate::objects::VSphereMachine;

/// The watch of claims is ahead of the watch of machines: the claim of a new machine is not an orphan's.
pub(super) fn what_is_shown_before_its_machine_stays() {
    let mut world = World::new(4);
    let new = one(&mut world, "m");
    world.settle(LONG);
    world.put_machine(new.clone());
    let owner = mooring_allocator_core::retained_meta::MachineOwner { name: "m".into(), uid: new.uid };
    let pool = world.pools.keys().next().unwrap().clone();
    let uid = world.uid();
    world.put_claim(Stored {
        key: key("m-0"),
        uid,
        version: "".into(),
        owner: Some(owner),
        in_use: true,
        deleting: false,
        pool,
        address: "10.0.0.1".parse().ok(),
        refused: false,
        had: None,
        requested: None,
    });
    world.deliver(Kind::Claims);
    world.settle(LONG);
    assert_eq!(reason(&world, "m"), "Written");
    let released = |claim: &Stored| claim.deleting;
    assert!(!world.claims.values().any(released));
}

#[test]
fn a_claim_that_is_shown_before_its_machine_stays() {
    what_is_shown_before_its_machine_stays();
}

/// Another allocator has led, and the Cluster was paused meanwhile: the machines are listed first.
pub(super) fn what_was_seen_before_others_led_does_not_count() {
    let mut world = World::new(4);
    let new = one(&mut world, "m");
    world.settle(LONG);
    world.leads(false);
    world.put_cluster(crate::objects::Cluster { paused: true, ..super::objects::cluster("prod") });
    world.put_machine(new);
    world.leads(true);
    let machines = Kind::ALL.iter().position(|kind| *kind == Kind::Machines).unwrap();
    world.go_on(machines);
    assert_eq!(world.writes, 0);
    world.settle(LONG);
    assert_eq!((reason(&world, "m"), world.writes), ("Paused", 0));
}

#[test]
fn a_new_leader_waits_for_every_list() {
    what_was_seen_before_others_led_does_not_count();
}

#[test]
fn a_restart_writes_and_says_nothing_again() {
    let mut world = World::new(40);
    for name in 0..20 {
        let new = one(&mut world, &format!("m{name}"));
        world.put_machine(new);
    }
    world.settle(LONG);
    assert_eq!(world.writes, 40);
    world.start();
    world.reports.clear();
    world.settle(LONG * 2);
    assert_eq!((world.writes, world.reports.len()), (40, 0));
}

pub(super) fn what_is_put_back_is_not_written_for_ever() {
    let mut world = World::new(4);
    world.reverts = true;
    let new = one(&mut world, "m");
    world.put_machine(new);
    world.settle(Duration::from_hours(1));
    assert!(world.writes < 20, "{} writes", world.writes);
    assert_eq!(reason(&world, "m"), "WriteRefused");
}

#[test]
fn a_write_without_effect_is_repeated_ever_more_slowly() {
    what_is_put_back_is_not_written_for_ever();
}

pub(super) fn what_hid_the_name_is_deleted() {
    let mut world = World::new(4);
    world.foreign.insert(key("m-0"));
    let new = one(&mut world, "m");
    world.put_machine(new);
    world.settle(LONG);
    assert_eq!(reason(&world, "m"), "NameTaken");
    world.foreign.clear();
    world.settle(LONG * 2);
    assert_eq!(reason(&world, "m"), "Written");
}

#[test]
fn a_claim_of_somebody_else_with_that_name_makes_way() {
    what_hid_the_name_is_deleted();
}

#[test]
fn a_claim_without_address_is_made_anew_for_the_pool_that_the_labels_name_now() {
    let mut world = World::new(0);
    let new = one(&mut world, "m");
    world.put_machine(new.clone());
    world.settle(LONG);
    assert_eq!(reason(&world, "m"), "PoolExhausted");
    world.addresses.insert("p4b".into(), ["10.0.2.1".parse().unwrap()].into());
    world.put_pool(super::objects::pool("p4b", "h", mooring_allocator_core::block::Family::V4));
    let there = world.machines[&key("m")].clone();
    world.put_machine(VSphereMachine { labels: super::objects::labels(Some("p4b"), None), ..there });
    world.settle(LONG);
    assert_eq!((reason(&world, "m"), &*world.claims[&key("m-0")].pool.name), ("Written", "p4b"));
}

/// A backup brings the machine back with another uid, and its claim with the old owner.
#[test]
fn a_restored_machine_keeps_the_claim_whose_address_it_has() {
    let mut world = World::new(4);
    world.no_collector = true;
    let new = one(&mut world, "m");
    world.put_machine(new);
    world.settle(LONG);
    let there = world.machines[&key("m")].clone();
    world.remove_machine(&key("m"));
    let uid = world.uid();
    world.put_machine(VSphereMachine { uid: uid.clone(), ..there });
    world.settle(LONG);
    assert!(world.claims[&key("m-0")].is_owned_by(&uid));
    assert_eq!(reason(&world, "m"), "Written");
    // One of the same name that has another address does not: the old claim goes first.
    world.remove_machine(&key("m"));
    let uid = world.uid();
    world.put_machine(machine("m", uid.clone(), &[device("net")]));
    world.settle(LONG);
    assert!(world.claims[&key("m-0")].is_owned_by(&uid) && world.claims.len() == 1);
    assert_eq!(reason(&world, "m"), "Written");
}

#[test]
fn finalizer_and_owner_are_put_back() {
    let mut world = World::new(4);
    let new = one(&mut world, "m");
    world.put_machine(new.clone());
    world.settle(LONG);
    for (owner, in_use) in [(None, true), (world.claims[&key("m-0")].owner.clone(), false)] {
        let claim = world.claims[&key("m-0")].clone();
        world.put_claim(Stored { owner, in_use, ..claim });
        world.settle(LONG * 2);
        let claim = &world.claims[&key("m-0")];
        assert!(claim.is_owned_by(&new.uid) && claim.in_use, "{claim:?}");
    }
}
