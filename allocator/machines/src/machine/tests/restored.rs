//! Machines and claims from a backup: other uids, in any order, with status or without.

use std::net::IpAddr;
use std::time::Duration;

use mooring_allocator_core::names::Uid;
use mooring_allocator_core::retained_meta::MachineOwner;

use super::LONG;
use super::basics::one;
use super::objects::{cluster, key};
use super::world::{Stored, World};
use super::{message, reason};
use crate::objects::{Cluster, VSphereMachine};

const IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

/// A world in which there is nothing but what a backup has: a machine with its address, and its claim.
fn backup() -> (World, VSphereMachine, Stored) {
    let mut world = World::new(1);
    let new = one(&mut world, "m");
    world.put_machine(new);
    world.settle(LONG);
    let (machine, claim) = (world.machines[&key("m")].clone(), world.claims[&key("m-0")].clone());
    world.remove_machine(&key("m"));
    world.settle(LONG);
    assert!(world.claims.is_empty());
    (world, machine, claim)
}

fn put_machine(world: &mut World, machine: &VSphereMachine) {
    let uid = world.uid();
    world.put_machine(VSphereMachine { uid, ..machine.clone() });
}

/// The claim, which the garbage collector deletes at once, or not.
fn put_claim(world: &mut World, claim: &Stored, deleting: bool, bound: bool) {
    let owner = Some(MachineOwner { name: "m".into(), uid: Uid::from("before") });
    let (uid, address) = (world.uid(), Some(IP).filter(|_| bound));
    world.put_claim(Stored { uid, owner, deleting, address, had: Some(IP), ..claim.clone() });
}

/// Another machine wants the only address.
fn put_other(world: &mut World) {
    let other = one(world, "other");
    world.put_machine(other);
}

fn has_it_again(world: &World, what: &str) {
    let claim = world.claims.get(&key("m-0")).unwrap_or_else(|| panic!("{what}: no claim"));
    let owned = claim.is_owned_by(&world.machines[&key("m")].uid);
    assert_eq!((claim.address, owned || claim.deleting, claim.in_use), (Some(IP), true, true), "{what}: {claim:?}");
    assert_eq!(reason(world, "m"), "Written", "{what}");
}

pub(super) fn it_has_its_address_again_in_any_order() {
    for (deleting, bound, first, waits) in (0..24).map(|n| (n & 1 > 0, n & 2 > 0, n & 4 > 0, [0, 20, 280][n >> 3])) {
        let what = format!("deleted: {deleting}, with status: {bound}, claim first: {first}, after {waits} s");
        let (mut world, machine, claim) = backup();
        let wait = Duration::from_secs(waits);
        if first {
            put_claim(&mut world, &claim, deleting, bound);
            world.settle(wait);
            assert!(world.claims.contains_key(&key("m-0")), "{what}");
            put_machine(&mut world, &machine);
        } else {
            put_machine(&mut world, &machine);
            put_claim(&mut world, &claim, deleting, bound);
        }
        world.settle(LONG);
        put_other(&mut world);
        world.settle(LONG * 10);
        has_it_again(&world, &what);
    }
}

#[test]
fn a_restored_machine_has_its_address_again() {
    it_has_its_address_again_in_any_order();
}

#[test]
fn a_restored_machine_without_claim_gets_one_for_its_address_and_says_who_has_it() {
    let (mut world, machine, _) = backup();
    put_machine(&mut world, &machine);
    world.settle(LONG);
    assert_eq!(world.claims[&key("m-0")].requested, Some(IP));
    has_it_again(&world, "");
    let (mut world, machine, _) = backup();
    put_other(&mut world);
    world.settle(LONG);
    put_machine(&mut world, &machine);
    world.settle(LONG);
    assert_eq!(reason(&world, "m"), "PoolExhausted");
    assert!(message(&world, "m").contains("claim m-0, for 10.0.0.1 that the machine has"), "{}", message(&world, "m"));
    world.remove_machine(&key("other"));
    world.settle(LONG);
    has_it_again(&world, "");
}

/// No claim is made for it before, so the former keeps what it had.
#[test]
fn a_claim_that_is_deleted_stays_until_another_can_be_made() {
    for paused in [false, true] {
        let (mut world, machine, claim) = backup();
        let pools = std::mem::take(&mut world.pools);
        if paused {
            world.pools.clone_from(&pools);
            world.put_cluster(Cluster { paused, ..cluster("prod") });
        }
        world.start();
        put_machine(&mut world, &machine);
        put_claim(&mut world, &claim, true, false);
        world.settle(LONG * 20);
        assert!(world.claims[&key("m-0")].deleting, "paused: {paused}");
        for pool in pools.into_values() {
            world.put_pool(pool);
        }
        world.put_cluster(cluster("prod"));
        world.settle(LONG);
        assert!(!world.claims[&key("m-0")].deleting);
        has_it_again(&world, "");
    }
}

#[test]
fn a_claim_whose_machine_does_not_come_goes() {
    for (deleting, bound) in [(false, false), (true, false), (false, true), (true, true)] {
        let (mut world, _, claim) = backup();
        put_claim(&mut world, &claim, deleting, bound);
        world.settle(Duration::from_secs(330));
        assert!(world.claims.is_empty(), "{deleting} {bound}");
    }
}
