//! Watches that are late, and writes that others come before.

use mooring_allocator_core::names::Key;

use super::world::{BOTH, Queue, World};
use crate::machine::testing::service;
use crate::machine::{Event, Kind, Write};
use crate::objects::{FamilyPolicy, Service};

/// Everybody goes on, except that the watch of claims shows nothing.
fn run_without_claims(world: &mut World) {
    loop {
        let claims: Vec<Key> = world.claims.keys().cloned().collect();
        let queue = world.busy_queues().into_iter().find(|queue| *queue != Queue::Of(Kind::Claims));
        if let Some(event) = queue.and_then(|queue| world.pop_of(queue)) {
            world.deliver(event);
        } else if let Some((id, write)) = world.todo.pop_front() {
            let result = world.execute(&write);
            world.push(Event::Answer { id, result });
        } else if !claims.iter().any(|key| world.allocate(key) || world.advertise(key)) {
            return;
        }
    }
}

/// Everybody goes on until a record was written; the allocator has not seen it yet.
fn run_until_a_record_is_written(world: &mut World) {
    loop {
        let claims: Vec<Key> = world.claims.keys().cloned().collect();
        if let Some(event) = world.busy_queues().first().and_then(|queue| world.pop_of(*queue)) {
            world.deliver(event);
        } else if let Some((id, write)) = world.todo.pop_front() {
            let result = world.execute(&write);
            world.push(Event::Answer { id, result });
            if matches!(write, Write::Annotate(..)) {
                return;
            }
        } else {
            assert!(claims.iter().any(|key| world.allocate(key) || world.advertise(key)), "nothing goes on");
        }
    }
}

#[test]
fn a_late_watch_of_claims_takes_no_address_away() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let web = world.apply(service("a", "web"));
    world.run();
    // Another host has its address, and the claim gets another one.
    let claim = world.claims_of(&web)[0].key.clone();
    world.conflict(&claim);
    run_without_claims(&mut world);
    assert_eq!(world.shows(&web), "10.0.0.2");
    // The claim is shown without an address, while the Service asks for one that it cannot have.
    for asked in ["192.168.0.1", "nonsense"] {
        world.edit(&web, |service| service.notes.addresses = Some(asked.into()));
        run_without_claims(&mut world);
        if let Some(event) = world.pop_of(Queue::Of(Kind::Claims)) {
            world.deliver(event);
        }
        let writes = world.todo.iter().map(|(_, write)| write);
        let gives_up = |write: &Write| match write {
            Write::DeleteClaim(_) => true,
            Write::Status(_, status) => status.ingress.as_ref().is_some_and(Vec::is_empty),
            _ => false,
        };
        assert!(!writes.into_iter().any(gives_up), "{:?}", world.todo);
    }
    world.run();
    assert_eq!((&*world.shows(&web), world.claims.len()), ("10.0.0.2", 1));
    world.refused(&web, "InvalidRequest", "nonsense");
}

#[test]
fn an_allocator_that_starts_on_a_late_view_of_claims_takes_no_address_away() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let web = world.apply(service("a", "web"));
    world.run();
    let claim = world.claims_of(&web)[0].key.clone();
    world.conflict(&claim);
    run_without_claims(&mut world);
    world.edit(&web, |service| service.notes.addresses = Some("192.168.0.1".into()));
    let before = world.claims[&claim].clone();
    // The list of claims is of the moment in which the claim had no address.
    world.start();
    world.claims.get_mut(&claim).unwrap().bound = None;
    while let Some(event) = world.busy_queues().first().and_then(|queue| world.pop_of(*queue)) {
        world.deliver(event);
    }
    assert!(world.make_list(0));
    while world.make_list(0) {}
    world.claims.insert(claim, before.clone());
    run_without_claims(&mut world);
    while let Some(event) = world.pop_of(Queue::Of(Kind::Claims)) {
        world.deliver(event);
    }
    world.push(Event::Claim(Box::new(before.shown())));
    world.run();
    assert_eq!((&*world.shows(&web), world.claims.len()), ("10.0.0.2", 1));
    world.refused(&web, "AddressNotInPool", "192.168.0.1");
}

#[test]
fn a_released_service_shows_no_address_that_it_lost() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24,fd00::10/124")]);
    let (families, policy) = (BOTH.to_vec(), FamilyPolicy::PreferDualStack);
    let web = world.apply(Service { families, policy, ..service("a", "web") });
    world.run();
    let lost = world.shows(&web).split(',').nth(1).unwrap().to_owned();
    let claim = world.claims_of(&web).into_iter().find(|claim| claim.key.name.ends_with("ipv6")).unwrap().key.clone();
    // Another host has one of its two addresses, and no other is given.
    world.conflict(&claim);
    world.claims.get_mut(&claim).unwrap().requested = lost.parse().ok();
    run_until_a_record_is_written(&mut world);
    // Before the next write, the Service is no longer Mooring's.
    world.edit(&web, |service| service.notes.ignore = true);
    world.later(40);
    assert_eq!((&*world.shows(&web), world.claims.len()), ("", 0));
    assert!(world.services[&web].notes.record.is_none());
}

#[test]
fn a_released_service_shows_no_address_that_it_moves_away_from() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let web = world.apply(service("a", "web"));
    world.run();
    world.edit(&web, |service| service.notes.addresses = Some("10.0.0.5".into()));
    run_until_a_record_is_written(&mut world);
    assert_eq!(world.shows(&web), "10.0.0.1");
    world.edit(&web, |service| service.notes.ignore = true);
    world.later(40);
    assert_eq!((&*world.shows(&web), world.claims.len()), ("", 0));
    assert!(world.services[&web].notes.record.is_none());
}

#[test]
fn a_released_service_shows_no_address_of_a_family_that_it_gave_up() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24,fd00::10/124")]);
    let (families, policy) = (BOTH.to_vec(), FamilyPolicy::PreferDualStack);
    let web = world.apply(Service { families, policy, ..service("a", "web") });
    world.run();
    let claim = world.claims_of(&web).into_iter().find(|claim| claim.key.name.ends_with("ipv6")).unwrap().key.clone();
    world.edit(&web, |service| {
        service.families.truncate(1);
        service.policy = FamilyPolicy::SingleStack;
    });
    run_until_a_record_is_written(&mut world);
    // Before the next write, another host has the address that is given up, and the Service is no longer Mooring's.
    world.conflict(&claim);
    world.edit(&web, |service| service.notes.ignore = true);
    world.later(40);
    assert_eq!((&*world.shows(&web), world.claims.len()), ("", 0));
}
