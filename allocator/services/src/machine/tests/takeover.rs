//! Services that had an address before Mooring came.

use mooring_allocator_core::block::Family;
use mooring_allocator_core::pool::PoolSpec;

use super::world::{World, ip};
use crate::machine::Event;
use crate::machine::testing::{pool, ports, service};
use crate::objects::{FamilyPolicy, Ingress, Pool, Reserved, Service};
use crate::ports::Protocol::Tcp;

/// As kube-vip's cloud provider and kube-vip leave it.
fn theirs(name: &str, address: &str) -> Service {
    let mut one = service("a", name);
    one.notes.addresses = Some(address.into());
    one.load_balancer_ip = Some(address.into());
    one.notes.host = Some("node-z".into());
    one.implementation = true;
    one.cleanup = true;
    one.ingress = vec![Ingress { ip: ip(address), vip: false }];
    one
}

#[test]
fn they_keep_it_and_new_ones_wait() {
    let mut world = World::before(&[("cidr-global", "10.0.0.0/24")]);
    let new = world.apply(service("a", "aaa-new"));
    let old = world.apply(theirs("old", "10.0.0.1"));
    let pinned = world.apply({
        let mut one = theirs("pinned", "10.0.0.3");
        one.load_balancer_ip = None;
        one
    });
    world.start();
    world.run();
    assert_eq!([&new, &old, &pinned].map(|key| world.shows(key)), ["10.0.0.2", "10.0.0.1", "10.0.0.3"]);
    let object = &world.services[&old];
    assert_eq!((object.notes.host.as_deref(), object.load_balancer_ip.as_deref()), (Some("node-a"), None));
    assert!(object.ingress[0].vip);
    // Who chose the address matters when another host turns out to have it.
    assert_eq!(world.claims_of(&old)[0].requested, None);
    assert_eq!(world.claims_of(&pinned)[0].requested, Some(ip("10.0.0.3")));
    assert_eq!(object.notes.requested, None);
    // The status never went dark on the way.
    world.delete(&old);
    world.run();
    assert!(!world.services.contains_key(&old), "nobody else takes the finalizer off");
}

#[test]
fn the_status_is_never_dark() {
    let mut world = World::before(&[("cidr-global", "10.0.0.0/24")]);
    let old = world.apply(theirs("old", "10.0.0.1"));
    world.agents = false;
    world.start();
    world.run();
    assert_eq!((&*world.shows(&old), world.says(&old)), ("10.0.0.1", Some("10.0.0.1")));
    assert!(world.services[&old].notes.record.is_some());
}

#[test]
fn an_address_in_no_pool_gets_one() {
    let mut world = World::before(&[("cidr-global", "10.0.0.0/24")]);
    let old = world.apply(theirs("old", "192.168.7.7"));
    let pinned = world.apply({
        let mut one = theirs("pinned", "192.168.7.9");
        one.load_balancer_ip = None;
        one
    });
    world.start();
    world.run();
    assert_eq!([&old, &pinned].map(|key| world.shows(key)), ["192.168.7.7", "192.168.7.9"]);
    assert_eq!(world.claims_of(&old)[0].pool.name.to_string(), "kubevip-kept.addresses-ipv4");
    assert_eq!(world.condition(&old).0, "Advertised");
    // New ones do not get such an address by asking for it.
    let mut new = service("a", "new");
    new.notes.addresses = Some("192.168.7.8".into());
    let new = world.apply(new);
    world.run();
    world.refused(&new, "AddressNotInPool", "in no pool");
    world.start();
    world.run();
    assert_eq!([&old, &pinned].map(|key| world.shows(key)), ["192.168.7.7", "192.168.7.9"]);
    // The pool goes with its last address.
    world.delete(&old);
    world.delete(&pinned);
    world.run();
    assert_eq!(world.pools.keys().map(|r| r.name.to_string()).collect::<Vec<_>>(), ["kubevip-global-ipv4"]);
}

#[test]
fn the_pool_for_its_address_outlives_a_leader() {
    let mut world = World::before(&[("cidr-global", "10.0.0.0/24")]);
    let old = world.apply(theirs("old", "192.168.7.7"));
    world.start();
    let kept = |world: &World| world.pools.keys().any(|pool| pool.name.contains("kept"));
    // The leader ends when it has made the pool.
    while !kept(&world) {
        if let Some(queue) = world.busy_queues().first().copied() {
            let event = world.pop_of(queue).unwrap();
            world.deliver(event);
        } else if !world.make_list(0) {
            let (id, write) = world.todo.pop_front().unwrap();
            let result = world.execute(&write);
            world.push(Event::Answer { id, result });
        }
    }
    assert!(world.claims.is_empty());
    let writes = world.pools.values().map(|(pool, _)| pool.version.clone()).collect::<Vec<_>>();
    world.start();
    world.run();
    assert_eq!((&*world.shows(&old), &*world.condition(&old).0), ("192.168.7.7", "Advertised"));
    let now = world.pools.values().map(|(pool, _)| pool.version.clone()).collect::<Vec<_>>();
    assert_eq!(now, writes, "the next leader finds the pool, and neither deletes it nor makes it again");
    // If nobody claims the address, the pool does not stay for ever.
    world.delete(&old);
    world.run();
    assert!(!kept(&world));
}

#[test]
fn a_pool_for_an_address_that_nobody_claims_goes() {
    let mut world = World::before(&[("cidr-global", "10.0.0.0/24")]);
    let old = world.apply(theirs("old", "192.168.7.7"));
    world.start();
    world.run();
    // The claim is deleted while no allocator runs, and so is the Service.
    world.claims.clear();
    world.addresses.clear();
    world.services.remove(&old);
    world.start();
    world.run();
    assert_eq!(world.pools.keys().map(|r| r.name.to_string()).collect::<Vec<_>>(), ["kubevip-global-ipv4"]);
}

#[test]
fn an_address_that_the_named_pool_does_not_list_stays() {
    // In no pool, or in another one; chosen by the cloud provider, or by people.
    for (address, pinned) in [("192.168.7.7", false), ("192.168.7.7", true), ("10.0.0.1", false), ("10.0.0.1", true)] {
        let mut world = World::before(&[("range-global", "10.0.0.1-10.0.0.9"), ("range-b", "10.1.0.1-10.1.0.9")]);
        let (other, listed) = (pool("other", &["10.2.0.1-10.2.0.9"]), |addresses: &[&str]| PoolSpec {
            addresses: addresses.iter().map(|&text| text.into()).collect(),
            prefix: 0,
            ..PoolSpec::default()
        });
        let other = Pool { default: false, ..other };
        world.pool(other.clone(), listed(&["10.2.0.1-10.2.0.9"]));
        let mut one = theirs("old", address);
        one.notes.pool = Some("other".into());
        if pinned {
            one.load_balancer_ip = None;
        }
        let old = world.apply(one);
        let new = world.apply(service("a", "new"));
        world.start();
        for _ in 0..3 {
            world.later(40);
            assert_eq!(world.shows(&old), address, "{pinned}");
            world.refused(&old, "Advertised", "GlobalInClusterIPPool other, which the Service names; it stays");
            assert_eq!((world.claims_of(&old).len(), world.shows(&old) == world.shows(&new)), (1, false));
            // The next leader finds the same.
            world.start();
        }
        world.run();
        // In the pool that it names there is nothing to say any more.
        world.pool(other.clone(), listed(&["10.2.0.1-10.2.0.9", address]));
        world.run();
        assert_eq!(world.condition(&old), ("Advertised".to_owned(), address.to_owned()));
        world.pool(other, listed(&["10.2.0.1-10.2.0.9"]));
        world.run();
        // Asked to, it moves to the pool that it names.
        world.edit(&old, |service| {
            service.notes.addresses = None;
            service.notes.reallocate = true;
        });
        world.later(40);
        assert_eq!((&*world.shows(&old), &*world.condition(&old).1), ("10.2.0.1", "10.2.0.1"), "{address} {pinned}");
        assert!(!world.pools.keys().any(|pool| pool.name.contains("kept")), "its pool goes with it");
    }
}

#[test]
fn two_that_shared_without_a_word_go_on_if_their_ports_allow() {
    let mut world = World::before(&[("cidr-global", "10.0.0.0/24")]);
    let first = world.apply(theirs("first", "10.0.0.1"));
    let second = world.apply(Service { ports: ports(&[(443, Tcp)]), ..theirs("second", "10.0.0.1") });
    let third = world.apply(theirs("third", "10.0.0.1"));
    world.start();
    world.run();
    assert_eq!([&first, &second].map(|key| &*world.condition(key).0 == "Advertised"), [true, true]);
    assert_eq!(world.claims.len(), 1);
    // What never worked is said; nothing is taken away.
    world.refused(&third, "PortConflict", "80/TCP");
    // A key for one and then for the other parts nobody.
    for key in [&first, &second] {
        world.edit(key, |service| service.notes.sharing_key = Some("k".into()));
        world.run();
        assert_eq!((world.shows(&first), world.claims.len()), (world.shows(&second), 1));
    }
}

#[test]
fn what_others_show_is_not_taken_over() {
    let mut world = World::before(&[("cidr-global", "10.0.0.0/24")]);
    let mut other = service("a", "web");
    other.class = Some("example.com/other".into());
    other.ingress = vec![Ingress { ip: ip("10.0.0.1"), vip: true }];
    world.apply(other);
    world.start();
    world.run();
    assert!(world.claims.is_empty());
}

#[test]
fn a_request_that_makes_no_sense_takes_no_live_address_away() {
    type Change = fn(&mut Service);
    let changes: [Change; 5] = [
        // Two addresses of one family, and kube-vip answers on both.
        |one| {
            one.notes.addresses = Some("10.0.0.1,10.0.0.2".into());
            one.ingress.push(Ingress { ip: ip("10.0.0.2"), vip: true });
        },
        |one| one.notes.addresses = Some("10.0.0.1,fd00::1".into()),
        |one| one.notes.addresses = Some("lb.example.com".into()),
        |one| one.notes.addresses = Some("0.0.0.0".into()),
        |one| {
            one.notes.addresses = None;
            one.load_balancer_ip = Some("fd00::1".into());
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut world = World::before(&[("range-global", "10.0.0.1-10.0.0.9")]);
        let new = world.apply(service("a", "aaa-new"));
        let mut one = theirs("old", "10.0.0.1");
        one.load_balancer_ip = None;
        change(&mut one);
        let live = one.ingress.clone();
        let old = world.apply(one);
        world.start();
        world.run();
        let shows: Vec<_> = world.services[&old].ingress.iter().map(|one| one.ip).collect();
        assert_eq!(shows, live.iter().map(|one| one.ip).collect::<Vec<_>>(), "{number}");
        assert!(live.iter().all(|one| one.ip.to_string() != world.shows(&new)), "{number}: {}", world.shows(&new));
        assert!(!world.shows(&new).is_empty(), "{number}");
        world.refused(&old, "InvalidRequest", "");
        if live.len() == 2 {
            // People choose the second address.
            world.edit(&old, |one| one.notes.addresses = Some("10.0.0.2".into()));
            world.run();
            assert_eq!((&*world.shows(&old), &*world.condition(&old).0), ("10.0.0.2", "Advertised"));
        }
        // People correct it.
        world.edit(&old, |one| {
            one.notes.addresses = Some("10.0.0.1".into());
            one.load_balancer_ip = None;
        });
        world.run();
        let why = format!("{number}: {:?} {:?}", world.condition(&old), world.claims_of(&old));
        assert_eq!((&*world.shows(&old), &*world.condition(&old).0), ("10.0.0.1", "Advertised"), "{why}");
    }
}

#[test]
pub(super) fn the_annotation_and_the_field_count_before_the_status_does() {
    // kube-vip was down when Mooring came.
    type Change = fn(&mut Service);
    let changes: [Change; 4] = [
        |_| {},
        |one| one.load_balancer_ip = None,
        |one| one.notes.addresses = None,
        // People wrote the field.
        |one| {
            one.notes.addresses = None;
            one.implementation = false;
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut world = World::before(&[("range-global", "10.0.0.1-10.0.0.9")]);
        let new = world.apply(service("a", "aaa-new"));
        let mut one = theirs("old", "10.0.0.1");
        one.ingress.clear();
        change(&mut one);
        let old = world.apply(one);
        world.start();
        world.run();
        assert_eq!((&*world.shows(&old), &*world.shows(&new)), ("10.0.0.1", "10.0.0.2"), "{number}");
    }
}

#[test]
fn one_that_shows_an_address_comes_before_one_that_asks_for_it() {
    let mut world = World::before(&[("range-global", "10.0.0.1-10.0.0.9")]);
    let mut asks = service("b", "aaa");
    asks.notes.addresses = Some("10.0.0.1".into());
    asks.key.namespace = "Z".into();
    let asks = world.apply(asks);
    let old = world.apply(theirs("old", "10.0.0.1"));
    world.start();
    world.run();
    assert_eq!((&*world.shows(&old), &*world.shows(&asks)), ("10.0.0.1", ""));
}

#[test]
fn one_that_is_being_deleted_keeps_its_address_and_nobody_waits_for_it() {
    let mut world = World::before(&[("range-global", "10.0.0.1-10.0.0.9")]);
    let old = world.apply(theirs("old", "10.0.0.1"));
    let new = world.apply(service("a", "new"));
    world.allocates = false;
    world.start();
    world.run();
    // The finalizer of somebody else keeps it, for hours.
    world.edit(&old, |service| {
        service.cleanup = false;
        service.deleting = true;
    });
    world.allocates = true;
    world.run();
    assert_eq!((&*world.shows(&old), &*world.shows(&new)), ("10.0.0.1", "10.0.0.2"));
}

#[test]
fn one_that_cannot_be_claimed_holds_up_the_others_only_for_a_while() {
    let mut world = World::before(&[("cidr-global", "10.0.0.0/24")]);
    let old = world.apply(theirs("old", "10.0.0.1"));
    let new = world.apply(service("a", "new"));
    world.allocates = false;
    world.start();
    world.run();
    assert_eq!(world.claims_of(&new).len(), 0);
    world.later(6);
    world.refused(&new, "Allocating", "it waits until the Services that had an address before");
    world.later(30);
    assert_eq!(world.claims_of(&new).len(), 1);
    assert_eq!(world.shows(&old), "10.0.0.1");
}

/// The Service as kube-vip leaves it when it carries the address that the Service asks for.
fn carried(one: &mut Service, address: &str) {
    one.notes.host = Some("node-z".into());
    one.ingress = vec![Ingress { ip: ip(address), vip: false }];
}

#[test]
fn what_was_refused_is_not_from_before() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    world.reserve(&[("10.0.0.3", Reserved::Node("n1".into()))]);
    for (address, reason) in [("192.168.7.8", "AddressNotInPool"), ("10.0.0.3", "AddressOfNode")] {
        let mut new = service("a", "new");
        new.notes.addresses = Some(address.into());
        let new = world.apply(new);
        world.run();
        world.refused(&new, reason, address);
        // A node carries it all the same, and says so.
        world.edit(&new, |one| carried(one, address));
        world.run();
        world.refused(&new, reason, address);
        // The next leader finds what the last one said.
        world.start();
        world.run();
        world.refused(&new, reason, address);
        assert!(world.claims.is_empty(), "{address}");
        world.delete(&new);
        world.run();
    }
    assert!(world.pools.keys().all(|pool| !pool.name.contains("kept")));
}

#[test]
fn a_refused_address_that_is_carried_is_given_once_a_pool_has_it() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let mut new = service("a", "new");
    new.notes.addresses = Some("10.0.1.8".into());
    let new = world.apply(new);
    world.run();
    world.edit(&new, |one| carried(one, "10.0.1.8"));
    world.run();
    world.refused(&new, "AddressNotInPool", "10.0.1.8");
    world.configure(&[("cidr-global", "10.0.0.0/23")]);
    world.run();
    assert_eq!((&*world.shows(&new), &*world.condition(&new).0), ("10.0.1.8", "Advertised"));
}

#[test]
fn the_control_planes_vip_is_never_from_before() {
    let mut world = World::before(&[("cidr-global", "10.0.0.0/24")]);
    world.reserve(&[("10.0.0.3", Reserved::ControlPlane), ("192.168.7.8", Reserved::ControlPlane)]);
    let both =
        ["10.0.0.3", "192.168.7.8"].map(|address| world.apply(theirs(&format!("of-{}", &address[..2]), address)));
    world.start();
    world.run();
    for key in &both {
        world.refused(key, "AddressOfControlPlane", "control plane");
    }
    assert!(world.claims.is_empty());
}

#[test]
fn an_address_from_before_is_kept_beside_one_that_is_refused() {
    let mut world = World::before(&[("cidr-global", "10.0.0.0/24")]);
    let mut old = theirs("old", "192.168.7.7");
    old.notes.addresses = Some("192.168.7.7,fd77::7".into());
    old.families = vec![Family::V4, Family::V6];
    old.policy = FamilyPolicy::PreferDualStack;
    let old = world.apply(old);
    world.start();
    world.run();
    assert_eq!(world.condition(&old).0, "AddressNotInPool");
    assert_eq!(world.claims_of(&old).len(), 1, "its other address is kept");
}
