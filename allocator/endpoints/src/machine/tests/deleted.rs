//! A Cluster that is deleted while it waits paused: Cluster API does nothing for it until somebody ends the pause.

use super::objects::{key, paused};
use super::world::World;
use super::{LONG, create, reason};
use crate::objects::Cluster;

/// A Cluster that waits, and for what.
fn waiting(addresses: u8, change: impl FnOnce(&mut World, &mut Cluster), why: &str) -> World {
    let mut world = World::new(addresses);
    let mut one = paused("c", world.uid());
    change(&mut world, &mut one);
    create(&mut world, one);
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), why);
    assert!(world.clusters[&key("c")].paused, "{why}");
    world
}

/// Somebody deletes it. Returns whether it is paused then.
fn delete(world: &mut World) -> bool {
    let one = world.clusters[&key("c")].clone();
    world.put_cluster(Cluster { deleting: true, ..one });
    world.settle(LONG);
    world.clusters[&key("c")].paused
}

fn foreign_claim(world: &mut World) {
    world.foreign.insert(key("c"));
}

pub(super) fn the_pause_ends_whatever_it_waits_for() {
    let full = waiting(0, |_, _| {}, "PoolExhausted");
    let misspelt = waiting(4, |_, one| one.notes.pool = Some("GlobalInClusterIPPool/none".into()), "PoolExhausted");
    let unreadable = waiting(4, |_, one| one.notes.pool = Some("Pool".into()), "InvalidRequest");
    let no_pool = waiting(4, |_, one| one.notes.pool = None, "none");
    let no_claim = waiting(4, |world, _| foreign_claim(world), "Allocating");
    let no_parts =
        waiting(4, |_, one| one.infrastructure.as_mut().unwrap().key.name = "other".into(), "WaitingForInfrastructure");
    for mut world in [full, misspelt, unreadable, no_pool, no_claim, no_parts] {
        let claim = world.claims.get(&key("c")).map(|claim| claim.uid.clone());
        assert!(!delete(&mut world), "it is never deleted: {:?}", world.clusters[&key("c")]);
        let marked = world.clusters[&key("c")].notes.paused_for_endpoint;
        assert_eq!((marked, world.claims.get(&key("c")).map(|claim| claim.uid.clone())), (false, claim));
        world.remove_cluster(&key("c"));
        world.settle(LONG);
        assert!(world.claims.is_empty(), "{:?}", world.claims);
    }
}

#[test]
fn a_cluster_that_is_deleted_while_it_waits_goes_on_to_its_end() {
    the_pause_ends_whatever_it_waits_for();
}

/// What it says, and what is done to the Cluster before.
type Case = (&'static str, fn(&mut Cluster));

/// The pause is somebody else's too, or the Cluster is to be left alone, or it is deleted because it has moved elsewhere.
#[test]
fn another_pause_stays_when_the_cluster_is_deleted() {
    let cases: [Case; 4] = [
        ("Paused", |one| one.held = true),
        ("Paused", |one| one.notes.paused_for_endpoint = false),
        ("none", |one| one.notes.pool = Some("none".into())),
        ("PoolExhausted", |one| one.moving = true),
    ];
    for (why, change) in cases {
        let mut world = waiting(u8::from(why == "Paused"), |_, one| change(one), why);
        assert!(delete(&mut world), "{:?} was unpaused", world.clusters[&key("c")]);
    }
}

/// A part of it that is held is no reason: it is the Cluster that is to go.
#[test]
fn a_held_part_does_not_keep_the_pause() {
    let mut world = waiting(0, |_, _| {}, "PoolExhausted");
    let mut part = super::infrastructure("c");
    part.held = true;
    world.put_infrastructure(part);
    assert!(!delete(&mut world));
}
