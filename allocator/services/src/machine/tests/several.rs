//! Several allocators, each with a Lease of its own.

use mooring_allocator_core::names::Key;
use mooring_allocator_core::scope::Scope;

use super::world::{Queue, World, settings};
use crate::class::ClassRules;
use crate::machine::testing::{ports, service};
use crate::machine::{Kind, Settings};
use crate::objects::Service;
use crate::ports::Protocol::Tcp;

/// One that handles the Services of these namespaces.
pub(super) fn of_namespaces(names: &[&str]) -> Settings {
    let namespaces = names.iter().chain(&["mooring"]).map(|&name| name.to_owned()).collect();
    Settings { scope: Scope { namespaces, watch_filter: None }, ..settings() }
}

/// One that handles the Services of this class.
pub(super) fn of_class(name: &str) -> Settings {
    let classes = ClassRules { names: vec![name.to_owned()], only: false, legacy: false };
    Settings { classes, ..settings() }
}

fn classed(name: &str, class: &str) -> Service {
    Service { class: Some(class.into()), ..service("n", name) }
}

/// The key and uid of each claim.
pub(super) fn claims(world: &World) -> Vec<String> {
    world.claims.values().filter(|claim| !claim.deleting).map(|claim| format!("{} {}", claim.key, claim.uid)).collect()
}

/// Time passes, and nothing is to change.
pub(super) fn nothing_changes(world: &mut World) {
    let (before, services, writes) = (claims(world), world.services.clone(), world.writes);
    for _ in 0..4 {
        world.later(40);
    }
    assert_eq!((claims(world), &world.services, world.writes), (before, &services, writes));
}

#[test]
fn allocators_of_different_namespaces_leave_each_others_claims_alone() {
    for data in
        [&[("cidr-global", "10.0.0.0/24")][..], &[("cidr-global", "10.0.0.0/24"), ("allow-share-global", "true")]]
    {
        let mut world = World::before(data);
        world.set(of_namespaces(&["b"]));
        world.start();
        let theirs = world.apply(service("b", "web"));
        world.run();
        assert_eq!(world.shows(&theirs), "10.0.0.1");
        world.start_another(of_namespaces(&["a"]));
        world.run();
        nothing_changes(&mut world);
        // The claim of a new Service is left alone too, also by an allocator that is started again.
        let second = world.apply(service("b", "second"));
        let ours = world.apply(service("a", "web"));
        world.run();
        nothing_changes(&mut world);
        world.start();
        world.run();
        nothing_changes(&mut world);
        let all = [&theirs, &second, &ours].map(|key| world.shows(key));
        assert!(all.iter().all(|one| !one.is_empty()) && all[0] != all[1] && all[1] != all[2], "{all:?}");
        world.delete(&theirs);
        world.delete(&ours);
        world.run();
        assert_eq!(world.claims.len(), 1, "each gives back what is its own");
    }
}

#[test]
fn an_allocator_whose_namespaces_were_narrowed_leaves_the_others_alone() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let keyed = |namespace: &str, port| {
        let mut one = service(namespace, "shared");
        one.notes.sharing_key = Some("a/k".into());
        one.notes.sharing_namespaces = Some("b".into());
        one.ports = ports(&[(port, Tcp)]);
        one
    };
    let alone = world.apply(service("b", "web"));
    let (ours, theirs) = (world.apply(keyed("a", 80)), world.apply(keyed("b", 443)));
    world.run();
    assert_eq!(world.shows(&ours), world.shows(&theirs));
    world.set(of_namespaces(&["a"]));
    world.start();
    world.run();
    nothing_changes(&mut world);
    assert!(!world.shows(&alone).is_empty());
    // Nobody knows here which ports the other Service has: no further one joins.
    let third = world.apply(Service { key: Key::new("a", "third"), uid: "uid-third".into(), ..keyed("a", 8080) });
    world.run();
    world.refused(&third, "AddressTaken", "a Service of another namespace, which another allocator handles");
    world.delete(&ours);
    world.delete(&third);
    world.run();
    let claim = world.claims_of(&theirs)[0].clone();
    assert!(!claim.deleting && claim.members == [(theirs, world.services[&Key::new("b", "shared")].uid.clone())]);
    nothing_changes(&mut world);
}

#[test]
fn allocators_of_different_classes_leave_each_others_services_alone() {
    let mut world = World::before(&[("range-global", "10.0.0.1-10.0.0.2")]);
    world.set(of_class("x/one"));
    world.start();
    let one = world.apply(classed("web", "x/one"));
    world.run();
    world.start_another(of_class("x/two"));
    world.run();
    nothing_changes(&mut world);
    let two = world.apply(classed("web-two", "x/two"));
    world.run();
    nothing_changes(&mut world);
    // One that is refused, and so has a condition and nothing else.
    let none = world.apply(classed("none", "x/one"));
    world.run();
    world.refused(&none, "PoolExhausted", "");
    nothing_changes(&mut world);
    assert_eq!((&*world.shows(&one), &*world.shows(&two)), ("10.0.0.1", "10.0.0.2"));
}

#[test]
fn a_claim_of_a_service_that_was_not_shown_yet_is_left_alone() {
    let mut world = World::before(&[("range-global", "10.0.0.1-10.0.0.9")]);
    world.set(of_class("x/one"));
    world.start();
    world.start_another(of_class("x/two"));
    world.run();
    let one = world.apply(classed("web", "x/one"));
    // The first allocator makes the claim; for the second, the watch of Services is behind that of claims.
    while let Some(queue) = world.busy_queues().first().copied() {
        let event = world.pop_of(queue).unwrap();
        world.deliver(event);
    }
    let (_, write) = world.todo.pop_front().unwrap();
    world.execute(&write).unwrap();
    world.swap();
    while let Some(event) = world.pop_of(Queue::Of(Kind::Claims)) {
        world.deliver(event);
    }
    assert!(world.todo.is_empty(), "{:?}", world.todo);
    world.swap();
    world.start();
    world.run();
    nothing_changes(&mut world);
    assert_eq!(world.shows(&one), "10.0.0.1");
    // One whose Service never comes is given back.
    let mut left_over = world.claims.values().next().unwrap().clone();
    (left_over.key, left_over.uid, left_over.bound) = (Key::new("n", "left-over"), "uid-left-over".into(), None);
    left_over.members[0].1 = "uid-gone".into();
    left_over.version = world.fresh();
    let key = left_over.key.clone();
    world.put_claim(left_over);
    world.later(5);
    assert!(!world.claims.contains_key(&key));
}
