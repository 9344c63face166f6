//! Claims from a backup: their owner has another uid by now, so the garbage collector deletes them at once, with status or without.

use std::net::IpAddr;
use std::time::Duration;

use mooring_allocator_core::names::Uid;
use mooring_allocator_core::retained_meta::ClusterOwner;

use super::objects::{cluster, config_map, infrastructure, key, paused};
use super::world::{Stored, World};
use super::{LONG, create, reason};
use crate::machine::Write;
use crate::objects::{Cluster, Infrastructure};

fn vip() -> IpAddr {
    [10, 0, 0, 3].into()
}

/// A claim of Cluster `c` as a backup brings it, deleted already.
fn put(world: &mut World, name: &str, had: IpAddr, bound: bool) {
    world.chart_claim(name);
    let owner = Some(ClusterOwner { name: "c".into(), uid: Uid::from("before") });
    let address = bound.then_some(had);
    let claim = world.claims[&key(name)].clone();
    let (label, had) = (Some("c".into()), Some(had));
    world.put_claim(Stored { label, owner, had, address, in_use: true, deleting: true, ..claim });
}

/// The Cluster, with its host.
fn put_cluster(world: &mut World, change: impl FnOnce(&mut Cluster)) {
    let mut one = cluster("c", world.uid());
    one.host = Some(vip().to_string().into());
    change(&mut one);
    create(world, one);
    world.put_infrastructure(Infrastructure { host: Some(vip().to_string().into()), ..infrastructure("c") });
}

fn has_it_again(world: &World) {
    let claim = &world.claims[&key("c")];
    assert_eq!((claim.address, world.host(&key("c"))), (Some(vip()), Some(vip())), "{claim:?}");
}

pub(super) fn what_comes_before_its_cluster_waits() {
    for bound in [false, true] {
        let mut world = World::new(4);
        put(&mut world, "c", vip(), bound);
        world.settle(Duration::from_secs(280));
        assert!(world.claims[&key("c")].in_use, "with status: {bound}");
        put_cluster(&mut world, |_| {});
        world.settle(LONG * 10);
        has_it_again(&world);
    }
}

#[test]
fn a_claim_that_is_deleted_at_once_waits_for_its_cluster() {
    what_comes_before_its_cluster_waits();
}

#[test]
fn a_claim_whose_cluster_does_not_come_goes() {
    for bound in [false, true] {
        let mut world = World::new(4);
        put(&mut world, "c", vip(), bound);
        world.settle(Duration::from_secs(330));
        assert!(world.claims.is_empty(), "with status: {bound}");
        put(&mut world, "c", vip(), bound);
        let claim = world.claims[&key("c")].clone();
        world.put_claim(Stored { deleting: false, ..claim });
        world.settle(Duration::from_secs(330));
        assert!(world.claims.is_empty(), "nobody deletes it, with status: {bound}");
    }
}

/// The Cluster is deleted for real, also where the allocator begins anew in between.
#[test]
fn a_claim_goes_with_its_cluster() {
    for restarts in [false, true] {
        let mut world = World::new(1);
        let uid = world.uid();
        create(&mut world, paused("c", uid));
        world.settle(LONG);
        world.remove_cluster(&key("c"));
        if restarts {
            world.start();
        }
        world.settle(Duration::from_secs(if restarts { 330 } else { 5 }));
        assert!(world.claims.is_empty(), "restarts: {restarts}");
    }
}

pub(super) fn what_a_paused_cluster_has_stays() {
    for (paused, held) in [(true, false), (false, true)] {
        let mut world = World::new(4);
        put(&mut world, "c", vip(), false);
        put_cluster(&mut world, |one| (one.paused, one.held) = (paused, held));
        world.settle(Duration::from_hours(1));
        world.start();
        world.settle(LONG);
        let claim = &world.claims[&key("c")];
        assert!(claim.in_use && claim.deleting, "the allocation protocol keeps what it had as long as it is there");
        assert_eq!(reason(&world, "c"), "Paused");
        let one = world.clusters[&key("c")].clone();
        world.put_cluster(Cluster { paused: false, held: false, ..one });
        world.settle(LONG);
        has_it_again(&world);
        assert!(!world.claims[&key("c")].deleting);
    }
}

#[test]
fn a_claim_of_a_paused_cluster_is_made_anew_when_it_goes_on() {
    what_a_paused_cluster_has_stays();
}

fn lb(last: u8) -> IpAddr {
    [10, 0, 1, last].into()
}

fn wants_services(one: &mut Cluster) {
    one.notes.service_pool = Some("GlobalInClusterIPPool/lb".into());
    one.notes.service_count = Some("2".into());
    one.notes.service_target = Some("ConfigMap/c-kubevip/cidr-global".into());
}

pub(super) fn claims_for_services_wait_for_what_says_what_they_had() {
    for bound in [false, true] {
        let mut world = World::new(4);
        // Not in the order in which they would be given again.
        for (name, last) in [("c-svc-lb-0", 14), ("c-svc-lb-1", 13)] {
            put(&mut world, name, lb(last), bound);
        }
        put_cluster(&mut world, |one| {
            wants_services(one);
            one.held = true;
        });
        world.texts.remove(&config_map("c"));
        world.settle(LONG * 10);
        let one = world.clusters[&key("c")].clone();
        world.put_cluster(Cluster { held: false, ..one });
        world.settle(LONG * 10);
        let stays = |claim: &&Stored| claim.deleting && claim.in_use;
        assert_eq!(world.claims.values().filter(stays).count(), 2, "the target is not there: {:?}", world.claims);
        world.put_text(&config_map("c"), "10.0.1.13/32,10.0.1.14/32");
        world.settle(LONG * 3);
        let has = ["c-svc-lb-0", "c-svc-lb-1"].map(|name| world.claims[&key(name)].address);
        assert_eq!(has, [Some(lb(14)), Some(lb(13))], "with status: {bound}");
        let held = world.claims.values().filter(stays).count();
        assert_eq!(held, if bound { 2 } else { 0 }, "what the target lists is not released");
        assert_eq!(world.texts[&config_map("c")].text.as_deref(), Some("10.0.1.13/32,10.0.1.14/32"));
    }
}

#[test]
fn claims_for_services_wait_for_their_target() {
    claims_for_services_wait_for_what_says_what_they_had();
}

/// Otherwise each would get what stands in the other's place of the list.
#[test]
fn claims_for_services_are_made_anew_one_after_the_other() {
    let mut world = World::new(4);
    for (name, last) in [("c-svc-lb-0", 14), ("c-svc-lb-1", 13)] {
        put(&mut world, name, lb(last), false);
    }
    put_cluster(&mut world, wants_services);
    world.put_text(&config_map("c"), "10.0.1.13/32,10.0.1.14/32");
    let releases = |(_, write): &&(u64, Write)| matches!(write, Write::ReleaseClaim(_));
    let mut times = 0;
    while (0..8).any(|at| world.go_on(at)) {
        let now = world.todo.iter().filter(releases).count();
        assert!(now < 2, "{:?}", world.todo);
        times += now;
    }
    world.settle(LONG);
    assert!(times > 0);
    let has = ["c-svc-lb-0", "c-svc-lb-1"].map(|name| world.claims[&key(name)].address);
    assert_eq!(has, [Some(lb(14)), Some(lb(13))]);
}
