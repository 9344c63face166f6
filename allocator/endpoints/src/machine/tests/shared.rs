//! A `Secret` that the machines of two Clusters get.

use std::time::Duration;

use super::objects::{POD, cluster, infrastructure, key, paused, plane, plane_with, secret};
use super::world::World;
use super::{LONG, create, reason};

fn message(world: &World, name: &str) -> String {
    world.machine.standing(&key(name)).unwrap().message.clone()
}

/// Cluster `d` gets its static pod from the `Secret` of Cluster `c`.
fn sharing(world: &mut World) {
    let uid = world.uid();
    world.put_cluster(paused("d", uid));
    world.put_infrastructure(infrastructure("d"));
    world.put_plane(plane_with("d", &secret("c")));
}

pub(super) fn one_has_its_address_and_the_other_waits() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.settle(LONG);
    let text = world.texts[&secret("c")].clone();
    sharing(&mut world);
    world.settle(LONG);
    assert_eq!(world.texts[&secret("c")], text, "it belongs to c");
    assert_eq!((reason(&world, "c"), reason(&world, "d")), ("Written", "ManifestNotUsable"));
    assert!(message(&world, "d").contains("Cluster c"), "{}", message(&world, "d"));
    assert!(world.clusters[&key("d")].paused);
    // It gets one of its own.
    world.put_plane(plane("d"));
    world.put_text(&secret("d"), POD);
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), reason(&world, "d")), ("Written", "Written"));
}

#[test]
fn the_first_keeps_it_and_the_second_is_told() {
    one_has_its_address_and_the_other_waits();
}

/// Another Cluster's mistake harms nobody: a Cluster that has machines gets its own address back.
#[test]
fn what_is_emptied_is_filled_again_although_another_cluster_gets_it_too() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, cluster("c", uid));
    world.settle(LONG);
    let text = world.texts[&secret("c")].text.clone();
    sharing(&mut world);
    world.settle(LONG);
    for initialised in [false, true] {
        let mut one = world.clusters[&key("c")].clone();
        one.initialised = initialised;
        world.put_cluster(one);
        world.put_text(&secret("c"), POD);
        world.settle(Duration::from_mins(2));
        assert_eq!((&world.texts[&secret("c")].text, reason(&world, "c")), (&text, "Written"), "{initialised}");
        assert!(world.clusters[&key("d")].paused && reason(&world, "d") == "ManifestNotUsable");
    }
}

#[test]
fn neither_gets_it_if_both_come_at_once() {
    let mut world = World::new(4);
    sharing(&mut world);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), reason(&world, "d")), ("ManifestNotUsable", "ManifestNotUsable"));
    assert_eq!(world.texts[&secret("c")].text.as_deref(), Some(POD));
    // The other Cluster goes.
    let mut one = world.clusters[&key("d")].clone();
    one.deleting = true;
    world.put_cluster(one);
    world.remove_cluster(&key("d"));
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "Written");
}
