//! Somebody changes the host of a Cluster, and deletes its claim.

use super::given::set_host;
use super::objects::{POD, key, paused, plane, secret};
use super::world::{Stored, World};
use super::{LONG, create, reason};
use crate::machine::Kind;

fn delete_claim(world: &mut World) {
    let claim = world.claims[&key("c")].clone();
    world.put_claim(Stored { deleting: true, ..claim });
}

fn address(world: &World) -> String {
    world.claims[&key("c")].address.map(|ip| ip.to_string()).unwrap_or_default()
}

fn message(world: &World) -> String {
    world.machine.standing(&key("c")).unwrap().message.clone()
}

pub(super) fn what_stands_in_places_stays() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.settle(LONG);
    world.touched.insert(key("c"));
    set_host(&mut world, "c", Some("10.0.0.4"));
    delete_claim(&mut world);
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), address(&world)), ("EndpointDiffers", "10.0.0.1".into()));
    let said = message(&world);
    assert!(said.contains("KubeadmControlPlane c") && said.contains("Secret c-kubevip-pod"), "{said}");
    // Whoever wants the host writes it there too; one place is not enough.
    world.put_plane(plane("c"));
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), address(&world)), ("EndpointDiffers", "10.0.0.1".into()));
    world.put_text(&secret("c"), &POD.replace("''", "10.0.0.4"));
    world.settle(LONG);
    assert_eq!(address(&world), "10.0.0.4", "another claim pins the host");
}

#[test]
fn an_address_that_stands_anywhere_is_not_let_go() {
    what_stands_in_places_stays();
}

/// The control plane is deleted meanwhile. The one that comes in its place names the same `Secret`, which has the address.
#[test]
fn an_address_stays_while_nothing_says_where_machines_get_it_from() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.settle(LONG);
    world.touched.insert(key("c"));
    let one = world.remove_plane("c");
    set_host(&mut world, "c", Some("10.0.0.4"));
    delete_claim(&mut world);
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), address(&world)), ("WaitingForControlPlane", "10.0.0.1".into()));
    world.put_plane(one);
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), address(&world)), ("EndpointDiffers", "10.0.0.1".into()));
}

#[test]
fn an_address_that_was_written_nowhere_goes_at_once() {
    let mut world = World::new(4);
    let uid = world.uid();
    let mut one = paused("c", uid);
    one.held = true;
    create(&mut world, one.clone());
    world.settle(LONG);
    assert_eq!(address(&world), "10.0.0.1");
    set_host(&mut world, "c", Some("10.0.0.4"));
    world.touched.insert(key("c"));
    delete_claim(&mut world);
    one.held = false;
    world.put_cluster(one);
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), address(&world)), ("Written", "10.0.0.4".into()));
}

#[test]
fn the_address_of_an_initialised_cluster_goes_only_by_hand() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.settle(LONG);
    world.touched.insert(key("c"));
    let mut one = world.clusters[&key("c")].clone();
    one.initialised = true;
    world.put_cluster(one);
    set_host(&mut world, "c", Some("10.0.0.4"));
    world.put_plane(plane("c"));
    world.put_text(&secret("c"), POD);
    delete_claim(&mut world);
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), address(&world)), ("EndpointDiffers", "10.0.0.1".into()));
    assert!(message(&world).contains("take the finalizer mooring.dev/endpoint-in-use off"), "{}", message(&world));
    // Somebody has looked at the machines.
    let claim = world.claims[&key("c")].clone();
    world.claims.remove(&key("c"));
    world.gone(&claim);
    world.settle(LONG);
    assert_eq!(address(&world), "10.0.0.4");
}

/// What becomes of the write of a place while the claim is deleted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// It is under way.
    UnderWay,
    /// It has taken effect, and no watch has shown that.
    NotShown,
    /// It never arrives, and nobody knows that.
    Lost,
}

/// A Cluster whose claim is deleted at the moment that a place is written.
fn during(place: &str, fate: Fate) -> World {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    let under_way =
        |world: &World| world.todo.front().is_some_and(|(_, write)| format!("{write:?}").starts_with(place));
    while !under_way(&world) && world.go_on(0) {}
    assert!(under_way(&world), "{place}");
    world.touched.insert(key("c"));
    set_host(&mut world, "c", Some("10.0.0.4"));
    delete_claim(&mut world);
    world.deliver(&super::world::parts(super::objects::INFRASTRUCTURE));
    if fate != Fate::UnderWay {
        world.execute_first(fate == Fate::Lost);
    }
    world.deliver(&Kind::Claims);
    world
}

#[test]
fn an_address_that_is_just_being_written_is_not_let_go() {
    for place in ["Text", "ControlPlane"] {
        for fate in [Fate::UnderWay, Fate::NotShown] {
            let mut world = during(place, fate);
            world.settle(LONG);
            assert_eq!(
                (reason(&world, "c"), address(&world)),
                ("EndpointDiffers", "10.0.0.1".into()),
                "{place} {fate:?}"
            );
        }
    }
    let mut world = during("Text", Fate::Lost);
    assert_eq!(address(&world), "10.0.0.1", "it may arrive late");
    world.settle(LONG);
    assert_eq!(address(&world), "10.0.0.4");
}
