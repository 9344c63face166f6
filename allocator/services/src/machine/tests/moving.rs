//! A Service moves to another address.

use mooring_allocator_core::names::Key;
use mooring_allocator_core::pool::PoolSpec;

use super::world::{BOTH, World, ip};
use crate::machine::testing::{pool, service};
use crate::objects::{FamilyPolicy, Ingress, Service};
use crate::record;

/// With a Service that has 10.0.0.1 and asks for nothing.
fn served(change: impl FnOnce(&mut Service)) -> (World, Key) {
    let mut world = World::new(&[("range-global", "10.0.0.1-10.0.0.9,fd00::1-fd00::9")]);
    let mut web = service("a", "web");
    change(&mut web);
    let web = world.apply(web);
    world.endpoints(&web, &["n1"]);
    world.run();
    assert!(world.shows(&web).starts_with("10.0.0.1"), "{:?}", world.services[&web]);
    (world, web)
}

fn asks(world: &mut World, key: &Key, address: &str) {
    world.edit(key, |service| service.notes.addresses = Some(address.into()));
}

/// What agents advertise for it, by what it names.
fn named(world: &World, key: &Key) -> String {
    record::addresses(&record::named(&world.services[key].notes))
}

#[test]
fn at_each_moment_agents_advertise_what_the_status_shows() {
    let (mut world, web) = served(|_| {});
    asks(&mut world, &web, "10.0.0.5");
    let mut steps: Vec<String> = Vec::new();
    for _ in 0..200 {
        let step = format!("{} of {}", world.shows(&web), named(&world, &web));
        if steps.last() != Some(&step) {
            steps.push(step);
        }
        if !world.go_on() {
            break;
        }
    }
    assert_eq!(
        steps,
        [
            "10.0.0.1 of 10.0.0.1",
            "10.0.0.1 of 10.0.0.1,10.0.0.5",
            "10.0.0.1 of 10.0.0.5,10.0.0.1",
            "10.0.0.5 of 10.0.0.5,10.0.0.1",
            "10.0.0.5 of 10.0.0.5",
        ]
    );
    assert_eq!((world.claims.len(), world.condition(&web).1.as_str()), (1, "10.0.0.5"));
}

#[test]
fn without_agents_it_keeps_what_it_has_and_says_so_and_moves_when_they_are_back() {
    let (mut world, web) = served(|_| {});
    world.agents = false;
    asks(&mut world, &web, "10.0.0.5");
    world.later(20);
    assert_eq!(world.condition(&web).1, "10.0.0.1");
    world.later(20);
    world.refused(&web, "Advertised", "no node advertises 10.0.0.5 yet");
    assert_eq!((&*world.shows(&web), &*named(&world, &web)), ("10.0.0.1", "10.0.0.1,10.0.0.5"));
    // The next allocator goes on with it.
    world.start();
    world.later(3_600);
    assert_eq!((&*world.shows(&web), &*named(&world, &web)), ("10.0.0.1", "10.0.0.1,10.0.0.5"));
    world.agents = true;
    world.run();
    assert_eq!((&*world.shows(&web), &*named(&world, &web)), ("10.0.0.5", "10.0.0.5"));
    assert_eq!((world.claims.len(), world.condition(&web).1.as_str()), (1, "10.0.0.5"));
}

#[test]
fn agents_that_see_no_addresses_say_in_the_status_that_they_have_the_next() {
    let (mut world, web) = served(|_| {});
    world.agents = false;
    asks(&mut world, &web, "10.0.0.5");
    world.run();
    world.edit(&web, |service| service.ingress.push(Ingress { ip: ip("10.0.0.5"), vip: false }));
    world.run();
    assert_eq!((&*world.shows(&web), &*named(&world, &web), world.claims.len()), ("10.0.0.5", "10.0.0.5", 1));
}

#[test]
fn it_changes_its_mind_on_the_way() {
    let (mut world, web) = served(|_| {});
    world.agents = false;
    for (asked, expected) in
        [("10.0.0.5", "10.0.0.1,10.0.0.5"), ("10.0.0.6", "10.0.0.1,10.0.0.6"), ("10.0.0.1", "10.0.0.1")]
    {
        asks(&mut world, &web, asked);
        world.run();
        assert_eq!((named(&world, &web).as_str(), &*world.shows(&web)), (expected, "10.0.0.1"));
    }
    assert_eq!(world.claims.len(), 1);
    // It is no Service of ours any more, on the way.
    asks(&mut world, &web, "10.0.0.5");
    world.run();
    world.edit(&web, |service| service.notes.ignore = true);
    world.run();
    let left = &world.services[&web];
    assert!(left.ingress.is_empty() && world.claims.is_empty(), "{left:?}");
    assert_eq!((&left.notes.record, &left.notes.moving), (&None, &None));
}

#[test]
fn it_waits_for_no_node_while_it_shows_no_address() {
    let mut world = World::new(&[("range-global", "10.0.0.1-10.0.0.9")]);
    world.agents = false;
    let web = world.apply(service("a", "web"));
    world.run();
    asks(&mut world, &web, "10.0.0.5");
    world.run();
    assert_eq!((named(&world, &web).as_str(), world.claims.len()), ("10.0.0.5", 1));
}

#[test]
fn one_that_no_node_can_serve_moves_after_a_while() {
    let (mut world, web) = served(|service| service.local = true);
    world.endpoints(&web, &[]);
    asks(&mut world, &web, "10.0.0.5");
    world.later(20);
    assert_eq!((&*world.shows(&web), &*named(&world, &web)), ("10.0.0.1", "10.0.0.1,10.0.0.5"));
    world.later(20);
    assert_eq!((&*world.shows(&web), &*named(&world, &web), world.claims.len()), ("", "10.0.0.5", 1));
    world.later(40);
    world.refused(&web, "WaitingForNode", "no node advertises 10.0.0.5 yet");
    world.endpoints(&web, &["n2"]);
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.5");
    // With an endpoint it waits, however long no agent can advertise the next.
    world.agents = false;
    asks(&mut world, &web, "10.0.0.6");
    world.later(40);
    world.later(3_600);
    assert_eq!((&*world.shows(&web), &*named(&world, &web)), ("10.0.0.5", "10.0.0.5,10.0.0.6"));
}

#[test]
fn endpoints_are_asked_for_only_when_a_local_service_moves() {
    let mut world = World::before(&[("range-global", "10.0.0.1-10.0.0.9")]);
    world.lists_endpoints = false;
    world.start();
    let mut web = service("a", "web");
    web.local = true;
    let web = world.apply(web);
    world.endpoints(&web, &["n1"]);
    world.run();
    assert!(!world.machine.wants_endpoints());
    world.endpoints(&web, &[]);
    asks(&mut world, &web, "10.0.0.5");
    world.later(40);
    assert!(world.machine.wants_endpoints());
    assert_eq!(world.shows(&web), "10.0.0.1", "nobody has told of the endpoints yet");
    world.list_endpoints();
    world.run();
    assert_eq!(named(&world, &web), "10.0.0.5");
}

#[test]
fn another_owner_of_the_next_address_is_named() {
    let (mut world, web) = served(|_| {});
    world.agents = false;
    asks(&mut world, &web, "10.0.0.5");
    world.run();
    let next = world.addresses.values().find(|one| one.address == Some(ip("10.0.0.5"))).unwrap().key.clone();
    world.heard(&next, "n1: 02:00:00:00:00:01 answers for it");
    world.later(40);
    world.refused(&web, "Advertised", "somebody else has it (n1: 02:00:00:00:00:01 answers for it): ask for another");
    assert_eq!(world.shows(&web), "10.0.0.1");
    world.agents = true;
    asks(&mut world, &web, "10.0.0.6");
    world.run();
    assert_eq!((&*world.shows(&web), world.claims.len()), ("10.0.0.6", 1));
}

#[test]
fn each_family_moves_by_itself() {
    let (mut world, web) = served(|service| {
        (service.families, service.policy) = (BOTH.to_vec(), FamilyPolicy::RequireDualStack);
    });
    world.agents = false;
    asks(&mut world, &web, "10.0.0.5,fd00::5");
    world.run();
    assert_eq!(named(&world, &web), "10.0.0.1,fd00::1,10.0.0.5,fd00::5");
    let next = world.addresses.values().find(|one| one.address == Some(ip("fd00::5"))).unwrap().key.clone();
    assert!(world.advertise(&next));
    world.run();
    assert_eq!((&*world.shows(&web), &*named(&world, &web)), ("10.0.0.1,fd00::5", "10.0.0.1,fd00::5,10.0.0.5"));
    world.agents = true;
    world.run();
    assert_eq!((&*world.shows(&web), &*named(&world, &web)), ("10.0.0.5,fd00::5", "10.0.0.5,fd00::5"));
    assert_eq!((world.says(&web), world.claims.len()), (Some("10.0.0.5,fd00::5"), 2));
}

#[test]
fn whatever_asks_for_another_address() {
    type Edit = fn(&mut Service);
    let changes: [(&str, Edit); 4] = [
        ("10.0.0.5", |service| service.notes.addresses = Some("10.0.0.5".into())),
        ("10.0.0.6", |service| service.load_balancer_ip = Some("10.0.0.6".into())),
        ("10.9.0.1", |service| service.notes.pool = Some("p".into())),
        ("10.0.0.2", |service| service.notes.reallocate = true),
    ];
    for (expected, change) in changes {
        let (mut world, web) = served(|_| {});
        let spec = PoolSpec { addresses: vec!["10.9.0.1-10.9.0.3".to_owned()], prefix: 16, ..PoolSpec::default() };
        if expected == "10.9.0.1" {
            world.pool(pool("p", &["10.9.0.1-10.9.0.3"]), spec);
        }
        if expected == "10.0.0.2" {
            world.configure(&[("range-global", "10.0.0.2-10.0.0.9")]);
        }
        world.run();
        world.edit(&web, change);
        world.run();
        assert_eq!((&*world.shows(&web), named(&world, &web).as_str()), (expected, expected));
        assert!(!world.services[&web].notes.reallocate && world.claims.len() == 1);
    }
}
