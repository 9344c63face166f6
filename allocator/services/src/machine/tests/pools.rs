//! Pools, and the `ConfigMap` under living Services.

use mooring_allocator_core::pool::PoolSpec;

use super::world::World;
use crate::machine::testing::{pool, service};
use crate::machine::{Event, Report};
use crate::objects::{Pool, Reserved};

fn spec(addresses: &str) -> PoolSpec {
    PoolSpec { addresses: vec![addresses.to_owned()], prefix: 16, ..PoolSpec::default() }
}

#[test]
fn a_namespaces_range_is_not_shadowed_and_scopes_may_overlap() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/30"), ("range-team", "10.0.0.1-10.0.0.3")]);
    let (one, two) = (world.apply(service("team", "one")), world.apply(service("other", "two")));
    world.run();
    let names: Vec<&str> = world.pools.keys().map(|reference| &*reference.name).collect();
    assert_eq!(names, ["kubevip-global-ipv4", "kubevip-team-ipv4"]);
    let mut all = [world.shows(&one), world.shows(&two)];
    all.sort();
    assert_eq!(all, ["10.0.0.1", "10.0.0.2"]);
    let pool = |key| world.claims_of(key)[0].pool.name.to_string();
    assert_eq!((&*pool(&one), &*pool(&two)), ("kubevip-team-ipv4", "kubevip-global-ipv4"));
}

#[test]
fn who_finds_no_address_is_told_which_entry_to_change() {
    let mut world = World::new(&[("range-global", "10.0.0.1-10.0.0.1"), ("cidr-team", "10.0.1.1/32")]);
    for name in ["one", "two"] {
        world.apply(service("team", name));
        world.apply(service("other", name));
        world.run();
    }
    let key = |namespace| service(namespace, "two").key;
    world.refused(&key("team"), "PoolExhausted", "cidr-team or range-team in the ConfigMap kubevip");
    world.refused(&key("other"), "PoolExhausted", "cidr-global or range-global in the ConfigMap kubevip");
}

#[test]
fn one_bad_entry_is_told_and_the_rest_works() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24,10.0.0.300/32"), ("cidr-team", "nonsense")]);
    let problems = world.reports.iter().filter(|report| matches!(report, Report::Problem(_))).count();
    assert_eq!(problems, 2);
    let (web, team) = (world.apply(service("a", "web")), world.apply(service("team", "web")));
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.1");
    world.refused(&team, "NoPool", "cidr- or range- entry");
    // Told once.
    world.configure(&[("cidr-global", "10.0.0.0/24,10.0.0.300/32"), ("cidr-team", "10.1.0.0/24")]);
    world.run();
    assert_eq!(world.reports.iter().filter(|report| matches!(report, Report::Problem(_))).count(), 2);
    assert_eq!(world.shows(&team), "10.1.0.1");
}

#[test]
fn a_second_pool_of_the_same_rank_enlarges_the_first() {
    let mut world = World::new(&[]);
    world.pool(pool("a", &["10.0.0.1"]), spec("10.0.0.1"));
    world.pool(pool("b", &["10.0.1.1-10.0.1.9"]), spec("10.0.1.1-10.0.1.9"));
    let keyed = |name: &str, port| {
        let mut one = service("n", name);
        one.notes.sharing_key = Some("k".into());
        one.ports = crate::machine::testing::ports(&[(port, crate::ports::Protocol::Tcp)]);
        one
    };
    let (one, two) = (world.apply(keyed("one", 80)), world.apply(service("n", "two")));
    world.run();
    assert_eq!((&*world.shows(&one), &*world.shows(&two)), ("10.0.0.1", ""));
    world.refused(&two, "PoolExhausted", "");
    // Its status says so a moment later.
    let full = |is| Pool { exhausted: is, ..pool("a", &["10.0.0.1"]) };
    world.pool(full(true), spec("10.0.0.1"));
    world.run();
    assert_eq!(&*world.shows(&two), "10.0.1.1");
    assert_eq!(world.claims.len(), 2, "the claim that waited is gone");
    // Who shares goes where the others are.
    let three = world.apply(keyed("three", 81));
    world.run();
    assert_eq!(&*world.shows(&three), "10.0.0.1");
    // What has an address stays; the next goes to the first again.
    world.delete(&one);
    world.delete(&three);
    world.run();
    world.pool(full(false), spec("10.0.0.1"));
    let four = world.apply(service("n", "four"));
    world.run();
    assert_eq!((&*world.shows(&two), &*world.shows(&four)), ("10.0.1.1", "10.0.0.1"));
}

#[test]
fn a_pool_edited_under_living_services_moves_nobody() {
    let mut world = World::new(&[("range-global", "10.0.0.1-10.0.0.9")]);
    let web = world.apply(service("a", "web"));
    world.run();
    world.configure(&[("range-global", "10.0.0.5-10.0.0.9")]);
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.1");
    let (reason, message) = world.condition(&web);
    assert!(reason == "Advertised" && message.contains("10.0.0.1 is no longer in"), "{message}");
    // Unless asked: it has its address until the new one is advertised.
    world.agents = false;
    world.edit(&web, |service| service.notes.reallocate = true);
    world.run();
    assert_eq!((&*world.shows(&web), world.claims.len()), ("10.0.0.1", 2));
    world.agents = true;
    world.run();
    assert_eq!((world.says(&web), &*world.shows(&web), world.claims.len()), (Some("10.0.0.5"), "10.0.0.5", 1));
    assert!(!world.services[&web].notes.reallocate);
    // Asked once more, it keeps what its pool has, and that is told.
    let told = |world: &World| world.reports.iter().filter(|report| matches!(report, Report::Kept { .. })).count();
    assert_eq!(told(&world), 0, "{:?}", world.reports);
    world.edit(&web, |service| service.notes.reallocate = true);
    world.run();
    assert_eq!((&*world.shows(&web), world.services[&web].notes.reallocate, told(&world)), ("10.0.0.5", false, 1));
}

#[test]
fn another_network_is_another_pool() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let web = world.apply(service("a", "web"));
    world.run();
    world.configure(&[("cidr-global", "192.168.0.0/24")]);
    let second = world.apply(service("a", "second"));
    world.run();
    assert_eq!((&*world.shows(&web), &*world.shows(&second), world.pools.len()), ("10.0.0.1", "192.168.0.1", 2));
    // Asked to, it moves, and the old pool goes with its last claim.
    world.edit(&web, |service| service.notes.reallocate = true);
    world.run();
    assert_eq!((&*world.shows(&web), world.pools.len()), ("192.168.0.2", 1));
}

#[test]
fn without_the_configmap_what_lives_stays() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let web = world.apply(service("a", "web"));
    world.run();
    world.configure(&[]);
    let second = world.apply(service("a", "second"));
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.1");
    world.refused(&second, "NoPool", "mooring.dev/service-default");
    world.delete(&web);
    world.run();
    assert!(world.pools.is_empty());
    // As it was before.
    world.configure(&[("cidr-global", "10.0.0.0/24")]);
    world.run();
    assert_eq!(world.shows(&second), "10.0.0.1");
}

#[test]
fn a_pool_whose_spec_becomes_invalid_keeps_its_rank() {
    let mut world = World::new(&[]);
    world.pool(pool("all", &["10.0.0.1"]), spec("10.0.0.1-10.0.0.9"));
    let team = |addresses: &str| {
        let mut spec = spec(addresses);
        spec.policy.allowed_namespaces = Some(["team".to_owned()].into());
        spec
    };
    world.pool(pool("team", &["10.1.0.1"]), team("10.1.0.1-10.1.0.9"));
    let first = world.apply(service("team", "first"));
    world.run();
    assert_eq!(world.shows(&first), "10.1.0.1");
    world.pool(pool("team", &["10.1.0.1"]), team("10.1.0.1-10.1.0.900"));
    let second = world.apply(service("team", "second"));
    let other = world.apply(service("other", "web"));
    world.run();
    assert_eq!([&first, &second, &other].map(|key| world.shows(key)), ["10.1.0.1", "", "10.0.0.1"]);
    world.refused(&second, "PoolNotUsable", "GlobalInClusterIPPool team cannot be used");
    // One that can be used stands in if it is of the same rank.
    world.pool(pool("team-2", &["10.2.0.1"]), team("10.2.0.1-10.2.0.9"));
    world.run();
    assert_eq!(world.shows(&second), "10.2.0.1");
    world.pool(pool("team", &["10.1.0.1"]), team("10.1.0.1-10.1.0.9"));
    let third = world.apply(service("team", "third"));
    world.run();
    assert_eq!([&second, &third].map(|key| world.shows(key)), ["10.2.0.1", "10.1.0.2"]);
}

#[test]
fn one_that_asks_for_an_address_does_not_wait_for_a_pool_that_is_gone() {
    let mut world = World::new(&[]);
    world.pool(pool("first", &["10.0.0.1"]), spec("10.0.0.1-10.0.0.9"));
    world.allocates = false;
    let asking = |name: &str, port: u16| {
        let mut one = service("a", name);
        one.notes.addresses = Some("10.0.0.5".into());
        one.notes.sharing_key = Some("k".into());
        one.ports = crate::machine::testing::ports(&[(port, crate::ports::Protocol::Tcp)]);
        one
    };
    let (web, dns) = (world.apply(asking("web", 80)), world.apply(asking("dns", 53)));
    world.run();
    assert_eq!(world.claims.len(), 1);
    // People replace the pool before the claim has its address.
    let (reference, (gone, _)) = world.pools.pop_first().unwrap();
    world.push(Event::PoolGone(reference, gone.uid));
    world.allocates = true;
    world.run();
    world.refused(&web, "AddressNotInPool", "10.0.0.5 is in no pool");
    world.pool(pool("second", &["10.0.0.1"]), spec("10.0.0.1-10.0.0.9"));
    world.run();
    assert_eq!([&web, &dns].map(|key| world.shows(key)), ["10.0.0.5", "10.0.0.5"]);
    assert_eq!(world.claims.len(), 1);
}

#[test]
fn another_pool_is_asked_for_and_got() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let mut other = pool("other", &["10.7.0.1"]);
    other.default = false;
    world.pool(other, spec("10.7.0.1-10.7.0.9"));
    let web = world.apply(service("a", "web"));
    world.run();
    world.edit(&web, |service| service.notes.pool = Some("other".into()));
    world.run();
    assert_eq!((&*world.shows(&web), world.claims.len()), ("10.7.0.1", 1));
    world.edit(&web, |service| service.notes.pool = Some("no-such".into()));
    world.run();
    world.refused(&web, "PoolNotUsable", "it keeps 10.7.0.1");
    assert_eq!(world.shows(&web), "10.7.0.1");
    // Without the annotation nobody asks for anything.
    world.edit(&web, |service| service.notes.pool = None);
    world.run();
    assert_eq!((&*world.shows(&web), &*world.condition(&web).0), ("10.7.0.1", "Advertised"));
}

#[test]
fn a_pool_that_comes_later() {
    let mut world = World::new(&[]);
    let web = world.apply(service("a", "web"));
    world.run();
    world.refused(&web, "NoPool", "no pool has IPv4 addresses for Services of namespace a");
    world.pool(pool("all", &["10.7.0.1"]), spec("10.7.0.1-10.7.0.9"));
    world.run();
    assert_eq!(world.shows(&web), "10.7.0.1");
}

#[test]
fn nodes_addresses_are_not_given_out() {
    let mut world = World::new(&[("range-global", "10.0.0.1-10.0.0.9")]);
    world.reserve(&[("10.0.0.1", Reserved::Node("n".into())), ("10.0.0.2", Reserved::ControlPlane)]);
    world.run();
    let web = world.apply(service("a", "web"));
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.3");
    // A node that says it has what it holds for us is no reason to take it away.
    world.reserve(&[("10.0.0.3", Reserved::Node("n".into()))]);
    world.run();
    assert_eq!((&*world.shows(&web), &*world.condition(&web).0), ("10.0.0.3", "Advertised"));
}

#[test]
fn the_interface_of_the_configmap_is_its_pools() {
    let mut world =
        World::new(&[("cidr-global", "10.0.0.0/24"), ("cidr-team", "10.1.0.0/24"), ("interface-team", "eth1")]);
    world.run();
    let interface = |world: &World, name: &str| {
        let (pool, _) = world.pools.iter().find(|(reference, _)| *reference.name == *name).unwrap().1;
        pool.made.as_ref().unwrap().interface.as_deref().map(str::to_owned)
    };
    assert_eq!(interface(&world, "kubevip-team-ipv4").as_deref(), Some("eth1"));
    assert_eq!(interface(&world, "kubevip-global-ipv4"), None);
    world.configure(&[("cidr-global", "10.0.0.0/24"), ("cidr-team", "10.1.0.0/24"), ("interface-global", "eth2")]);
    world.run();
    for name in ["kubevip-team-ipv4", "kubevip-global-ipv4"] {
        assert_eq!(interface(&world, name).as_deref(), Some("eth2"), "{name}");
    }
}
