//! Addresses that are asked for.

use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::{PoolKind, PoolRef};
use mooring_allocator_core::pool::{Network, PoolSpec};
use mooring_allocator_core::protocol::Rest;

use super::world::{World, ip, settings};
use crate::machine::Settings;
use crate::machine::testing::{pool, service};
use crate::objects::{FamilyPolicy, Reserved, Service};

fn asks(name: &str, ip: &str) -> Service {
    let mut one = service("a", name);
    one.notes.addresses = Some(ip.into());
    one
}

fn world() -> World {
    World::new(&[("range-global", "10.0.0.1-10.0.0.9"), ("range-team", "10.1.0.1-10.1.0.9")])
}

#[test]
fn it_gets_that_one() {
    let mut world = world();
    let web = world.apply(asks("web", " 10.0.0.7 "));
    let mut field = service("a", "field");
    field.load_balancer_ip = Some("10.0.0.8".into());
    let field = world.apply(field);
    world.run();
    assert_eq!((&*world.shows(&web), &*world.shows(&field)), ("10.0.0.7", "10.0.0.8"));
    assert_eq!(
        (world.says(&web), world.services[&web].notes.requested.as_deref()),
        (Some("10.0.0.7"), Some("10.0.0.7"))
    );
    // The field is people's: it stays.
    assert_eq!(world.services[&field].load_balancer_ip.as_deref(), Some("10.0.0.8"));
    assert!(world.claims.values().all(|claim| claim.requested.is_some()));
}

#[test]
fn it_changes_its_mind() {
    let mut world = world();
    let web = world.apply(asks("web", "10.0.0.7"));
    world.run();
    world.edit(&web, |service| service.notes.addresses = Some("10.0.0.8".into()));
    world.run();
    assert_eq!((&*world.shows(&web), world.says(&web), world.claims.len()), ("10.0.0.8", Some("10.0.0.8"), 1));
    // What cannot be had is refused, and what it has stays.
    world.taken("10.0.0.3");
    world.edit(&web, |service| service.notes.addresses = Some("10.0.0.3".into()));
    world.run();
    world.refused(&web, "AddressTaken", "a claim of another namespace has 10.0.0.3");
    assert_eq!((&*world.shows(&web), world.says(&web)), ("10.0.0.8", Some("10.0.0.3")));
    // Without the annotation it asks for nothing, and keeps what it has.
    world.edit(&web, |service| service.notes.addresses = None);
    world.run();
    assert_eq!((&*world.shows(&web), world.says(&web)), ("10.0.0.8", Some("10.0.0.8")));
    assert_eq!((world.services[&web].notes.requested.as_deref(), world.claims.len()), (None, 1));
    assert!(world.claims.values().all(|claim| claim.requested.is_none()));
}

#[test]
fn the_same_address_twice() {
    let mut world = world();
    let first = world.apply(asks("first", "10.0.0.7"));
    world.run();
    let second = world.apply(asks("second", "10.0.0.7"));
    world.run();
    world.refused(&second, "AddressTaken", "Service a/first has 10.0.0.7");
    assert_eq!((&*world.shows(&first), &*world.shows(&second)), ("10.0.0.7", ""));
    world.delete(&first);
    world.run();
    assert_eq!(world.shows(&second), "10.0.0.7");
}

#[test]
fn the_same_address_twice_at_once() {
    let mut world = world();
    let both = ["first", "second"].map(|name| world.apply(asks(name, "10.0.0.7")));
    world.run();
    let shown = both.iter().filter(|key| world.shows(key) == "10.0.0.7").count();
    assert_eq!((shown, world.claims.len()), (1, 1));
}

#[test]
fn what_is_not_to_be_had() {
    let mut world = world();
    world.reserve(&[("10.0.0.2", Reserved::Node("n1".into())), ("10.0.0.3", Reserved::ControlPlane)]);
    for (ip, reason, word) in [
        ("10.0.0.2", "AddressOfNode", "node n1"),
        ("10.0.0.3", "AddressOfControlPlane", "control plane"),
        ("10.9.9.9", "AddressNotInPool", "in no pool"),
        // Another namespace's.
        ("10.1.0.1", "AddressNotInPool", "in no pool"),
        ("lb.example.com", "InvalidRequest", "not an address"),
        ("0.0.0.0", "InvalidRequest", "DHCP"),
        ("fd00::1", "InvalidRequest", "no IPv6"),
    ] {
        let key = world.apply(asks("web", ip));
        world.run();
        world.refused(&key, reason, word);
        assert!(world.claims.is_empty(), "{ip}");
        assert_eq!(world.says(&key), Some(ip), "what people wrote stays");
    }
    // It harms nobody else.
    let other = world.apply(service("a", "other"));
    world.run();
    assert_eq!(world.shows(&other), "10.0.0.1");
    // It is mended, and gets its address.
    let web = world.apply(asks("web", "10.0.0.9"));
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.9");
}

#[test]
fn an_address_that_is_added_to_a_pool_later() {
    let mut world = world();
    let web = world.apply(asks("web", "10.0.0.20"));
    world.run();
    world.refused(&web, "AddressNotInPool", "add it to one");
    world.configure(&[("range-global", "10.0.0.1-10.0.0.30")]);
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.20");
}

#[test]
fn a_conflict_leaves_who_asked_where_he_is() {
    let mut world = world();
    let web = world.apply(asks("web", "10.0.0.7"));
    world.run();
    let claim = world.claims.keys().next().unwrap().clone();
    world.conflict(&claim);
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.7");
}

#[test]
fn who_waits_for_an_address_gets_it_when_it_comes_free() {
    let mut world = world();
    world.taken("10.0.0.7");
    let web = world.apply(asks("web", "10.0.0.7"));
    world.run();
    world.refused(&web, "AddressTaken", "delete that claim");
    world.untaken("10.0.0.7");
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.7");
    // And one that a node has given up.
    world.reserve(&[("10.0.0.8", Reserved::Node("n1".into()))]);
    let other = world.apply(asks("other", "10.0.0.8"));
    world.run();
    world.refused(&other, "AddressOfNode", "node n1");
    world.reserve(&[]);
    world.run();
    assert_eq!(world.shows(&other), "10.0.0.8");
}

/// A pool of three addresses: a node has the first, the control plane the second.
fn with_one_free_address() -> World {
    let mut world = World::new(&[]);
    let spec = PoolSpec { addresses: vec!["10.0.0.1-10.0.0.3".to_owned()], prefix: 16, ..PoolSpec::default() };
    world.reserve(&[("10.0.0.1", Reserved::Node("n1".into())), ("10.0.0.2", Reserved::ControlPlane)]);
    world.pool(pool("p", &["10.0.0.1-10.0.0.3"]), spec);
    world
}

#[test]
fn an_address_that_is_a_nodes_by_chance_is_exchanged() {
    let mut world = with_one_free_address();
    let web = world.apply(service("a", "web"));
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.3");
    // All are in use now: it waits.
    let more = world.apply(service("a", "more"));
    world.run();
    world.refused(&more, "PoolExhausted", "nothing is free");
    // What a Service has is not taken from it because a node says that it has it: it holds it.
    world.reserve(&[("10.0.0.3", Reserved::Node("n1".into()))]);
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.3");
}

/// Agents act within milliseconds: the record of a holder may reach the allocator before the claim's binding or the
/// addresses of nodes do, or in place of the version that the allocator wanted to mark.
#[test]
fn an_address_that_is_a_nodes_is_exchanged_although_an_agent_has_taken_it() {
    let mut world = with_one_free_address();
    let web = world.apply(service("a", "web"));
    world.allocates = false;
    world.agents = false;
    world.run();
    let claim = world.claims.keys().next().unwrap().clone();
    for taken in ["10.0.0.1", "10.0.0.2"] {
        assert!(world.allocate(&claim) && world.hold(&claim), "{taken}");
        assert!(world.used().contains(&ip(taken)));
        world.run();
        assert!(!world.addresses.contains_key(&claim), "{taken} stays");
    }
    world.allocates = true;
    world.agents = true;
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.3");
    // A node that reports an address because it holds the VIP keeps it, although no Service shows the address yet.
    world.agents = false;
    let other = world.apply(service("a", "other"));
    world.untaken("10.0.0.1");
    world.reserve(&[("10.0.0.1", Reserved::Node("node-a".into())), ("10.0.0.2", Reserved::ControlPlane)]);
    world.allocates = false;
    world.run();
    let claim = world.claims_of(&other)[0].key.clone();
    assert!(world.allocate(&claim) && world.hold(&claim));
    world.run();
    assert_eq!(world.shows(&other), "10.0.0.1");
}

#[test]
fn an_address_of_another_network_is_another_address() {
    for (network, expected) in [(Some("t1"), "10.0.0.5"), (None, "")] {
        let mut world = world();
        let mut isolated =
            PoolSpec { addresses: vec!["10.0.0.1-10.0.0.9".to_owned()], prefix: 16, ..PoolSpec::default() };
        isolated.policy.network = network.map_or(Network::Common, |name| Network::Named(name.to_owned()));
        let mut theirs = pool("theirs", &["10.0.0.1-10.0.0.9"]);
        theirs.reference = std::sync::Arc::new(PoolRef::new(PoolKind::InClusterIPPool, "t1", "theirs"));
        theirs.default = false;
        let reference = theirs.reference.clone();
        world.pool(theirs, isolated);
        world.taken_with("10.0.0.5", |address| address.pool = reference);
        let web = world.apply(asks("web", "10.0.0.5"));
        world.run();
        assert_eq!(world.shows(&web), expected, "{network:?}: {:?}", world.condition(&web));
    }
}

#[test]
fn who_asks_for_an_address_that_rests_is_told_until_when() {
    let mut world = world();
    let until = 1_795_168_800;
    world.taken_with("10.0.0.5", |address| address.rest = Some(Rest { of: "uid-old".into(), until }));
    let web = world.apply(asks("web", "10.0.0.5"));
    world.run();
    world.refused(&web, "AddressTaken", "10.0.0.5 rests until 2026-11-20T10:00:00Z");
    assert!(!world.condition(&web).1.contains("delete"), "{:?}", world.condition(&web));
    world.untaken("10.0.0.5");
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.5");
}

#[test]
fn an_address_that_another_host_has_leaves_the_status_though_an_invalid_request_names_it() {
    let mut world = World::new(&[("range-global", "10.0.0.1-10.0.0.9")]);
    let web = world.apply(service("a", "web"));
    world.run();
    world.edit(&web, |service| service.notes.addresses = Some("10.0.0.1,fd00::1".into()));
    world.run();
    world.refused(&web, "InvalidRequest", "it keeps 10.0.0.1");
    let claim = world.claims_of(&web)[0].key.clone();
    // Until the next leader looks, its claim has another.
    world.conflict(&claim);
    assert!(world.allocate(&claim));
    world.start();
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.2");
    world.refused(&web, "InvalidRequest", "it keeps 10.0.0.2");
}

#[test]
fn what_was_written_is_no_request_when_a_family_goes() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24,fd00::10/124")]);
    let mut web = service("a", "web");
    (web.families, web.policy) = (super::world::BOTH.to_vec(), FamilyPolicy::PreferDualStack);
    let web = world.apply(web);
    world.run();
    assert_eq!(world.says(&web), Some("10.0.0.1,fd00::10"));
    world.taken("10.0.0.7");
    world.edit(&web, |service| {
        service.families.truncate(1);
        service.policy = FamilyPolicy::SingleStack;
        service.load_balancer_ip = Some("10.0.0.7".into());
    });
    world.run();
    world.refused(&web, "AddressTaken", "it keeps 10.0.0.1");
    assert_eq!((world.says(&web), &*world.shows(&web)), (Some("10.0.0.1"), "10.0.0.1"));
}

#[test]
fn what_people_ask_for_stays_when_mooring_leaves_a_service() {
    type Edit = fn(&mut Service);
    let leaves: [(Edit, Edit); 2] = [
        (|one| one.load_balancer = false, |one| one.load_balancer = true),
        (|one| one.notes.ignore = true, |one| one.notes.ignore = false),
    ];
    for (leave, back) in leaves {
        let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
        let mut asks = service("a", "asks");
        asks.notes.addresses = Some("10.0.0.9".into());
        let (asks, any) = (world.apply(asks), world.apply(service("a", "any")));
        world.run();
        assert_eq!((&*world.shows(&asks), &*world.shows(&any)), ("10.0.0.9", "10.0.0.1"));
        for key in [&asks, &any] {
            world.edit(key, leave);
        }
        world.run();
        assert_eq!((world.says(&asks), world.says(&any), world.claims.len()), (Some("10.0.0.9"), None, 0));
        assert_eq!(world.services[&asks].notes.requested, None);
        for key in [&asks, &any] {
            world.edit(key, back);
        }
        world.run();
        assert_eq!(world.shows(&asks), "10.0.0.9");
    }
}

#[test]
fn of_what_people_ask_for_only_the_families_that_the_service_has_come_back() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24,fd00::/64")]);
    let mut web = service("a", "web");
    web.families = vec![Family::V4, Family::V6];
    web.policy = FamilyPolicy::RequireDualStack;
    web.notes.addresses = Some("10.0.0.9,fd00::9".into());
    let web = world.apply(web);
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.9,fd00::9");
    world.edit(&web, |one| (one.families, one.policy) = (vec![Family::V4], FamilyPolicy::SingleStack));
    world.run();
    world.edit(&web, |one| one.notes.ignore = true);
    world.run();
    assert_eq!(world.says(&web), Some("10.0.0.9"));
    world.edit(&web, |one| one.notes.ignore = false);
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.9");
}

#[test]
fn an_address_outside_all_pools_is_given_where_that_is_allowed_and_never_twice() {
    let mut world = world();
    world.set(Settings { outside_pools: true, ..settings() });
    world.start();
    world.reserve(&[("10.8.0.2", Reserved::Node("n1".into())), ("10.8.0.3", Reserved::ControlPlane)]);
    let mut own = pool("own", &["10.2.0.1-10.2.0.9"]);
    own.default = false;
    let spec = PoolSpec {
        addresses: vec!["10.2.0.1-10.2.0.9".into()],
        excluded_addresses: vec!["10.2.0.5".into()],
        gateway: Some("10.2.0.254".into()),
        prefix: 24,
        ..PoolSpec::default()
    };
    own.plan = spec.plan().map(Arc::new).map_err(|_| "wrong".into());
    world.pool(own, spec);
    world.run();
    let web = world.apply(asks("web", "10.9.9.9"));
    let mut field = service("a", "field");
    field.load_balancer_ip = Some("192.168.7.7".into());
    let field = world.apply(field);
    world.run();
    assert_eq!((&*world.shows(&web), &*world.shows(&field)), ("10.9.9.9", "192.168.7.7"));
    let second = world.apply(asks("second", "10.9.9.9"));
    world.run();
    world.refused(&second, "AddressTaken", "Service a/web has 10.9.9.9");
    // Nodes, the control plane; another namespace's pool; what a pool excludes, and its gateway; who names a pool.
    for (ip, reason) in [
        ("10.8.0.2", "AddressOfNode"),
        ("10.8.0.3", "AddressOfControlPlane"),
        ("10.1.0.1", "AddressNotInPool"),
        ("10.2.0.5", "AddressNotInPool"),
        ("10.2.0.254", "AddressNotInPool"),
    ] {
        let key = world.apply(asks("not", ip));
        world.run();
        world.refused(&key, reason, ip);
    }
    let mut names = asks("names", "10.9.9.8");
    names.notes.pool = Some("own".into());
    let names = world.apply(names);
    world.run();
    assert_eq!(world.shows(&names), "");
    // The next allocator knows them; the pool that was made goes with the last of them.
    world.fail_over();
    world.later(60);
    assert_eq!((&*world.shows(&web), &*world.shows(&field)), ("10.9.9.9", "192.168.7.7"));
    world.delete(&web);
    world.run();
    assert_eq!(world.shows(&second), "10.9.9.9");
    world.delete(&second);
    world.delete(&field);
    world.later(60);
    assert!(!world.pools.keys().any(|pool| pool.name.contains("kept")), "{:?}", world.pools.keys());
}
