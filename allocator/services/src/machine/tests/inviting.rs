//! A sharing key that names another namespace: who may use it.

use mooring_allocator_core::names::Key;

use super::world::World;
use crate::machine::testing::{ports, service};
use crate::objects::{Ingress, Service};
use crate::ports::Protocol::Tcp;

fn world() -> World {
    World::new(&[("range-global", "10.0.0.1-10.0.0.9")])
}

/// With the key `infra/dns`, on one port.
fn keyed(namespace: &str, name: &str, port: u16) -> Service {
    let mut one = Service { ports: ports(&[(port, Tcp)]), ..service(namespace, name) };
    one.notes.sharing_key = Some("infra/dns".into());
    one
}

fn inviting(mut one: Service, whom: &str) -> Service {
    one.notes.sharing_namespaces = Some(whom.into());
    one
}

fn has_nothing(world: &World, key: &Key) {
    assert_eq!((&*world.shows(key), world.claims_of(key).len()), ("", 0), "{:?}", world.condition(key));
    world.refused(
        key,
        "SharingNotAllowed",
        "a Service of infra with the same key needs the annotation mooring.dev/sharing-namespaces=",
    );
}

#[test]
fn a_key_of_another_namespace_gives_nothing_by_itself() {
    let mut world = world();
    // It comes first, to have the port and the address.
    let evil = world.apply(keyed("evil", "web", 53));
    world.run();
    has_nothing(&world, &evil);
    let dns = world.apply(keyed("infra", "dns", 53));
    let web = world.apply(keyed("infra", "web", 443));
    world.run();
    // Nobody of the key's own namespace is disturbed by it.
    assert_eq!([world.shows(&dns), world.shows(&web)], ["10.0.0.1", "10.0.0.1"]);
    has_nothing(&world, &evil);
    // Nor with a port that is free, nor by asking for the address, nor by an invitation of its own, nor of others.
    world.edit(&evil, |one| one.ports = ports(&[(8080, Tcp)]));
    world.run();
    has_nothing(&world, &evil);
    world.edit(&evil, |one| one.notes.addresses = Some("10.0.0.1".into()));
    world.run();
    has_nothing(&world, &evil);
    world.edit(&evil, |one| one.notes.sharing_namespaces = Some("*".into()));
    world.edit(&web, |one| one.notes.sharing_namespaces = Some("evi, evil2,evil/web".into()));
    world.apply(inviting(keyed("other", "web", 99), "evil"));
    world.run();
    has_nothing(&world, &evil);
    world.later(60);
    world.start();
    world.run();
    has_nothing(&world, &evil);
    assert!(!world.condition(&dns).1.contains("evil"));
}

#[test]
fn who_is_invited_shares_at_once() {
    for whom in ["shop", "other, shop", "*"] {
        let mut world = world();
        let shop = world.apply(keyed("shop", "web", 443));
        let dns = world.apply(keyed("infra", "dns", 53));
        world.run();
        has_nothing(&world, &shop);
        world.edit(&dns, |one| one.notes.sharing_namespaces = Some(whom.into()));
        world.run();
        assert_eq!([world.shows(&dns), world.shows(&shop)], ["10.0.0.1", "10.0.0.1"], "{whom}");
        // One port is one Service's: which it is, is not told to another namespace.
        let clash = world.apply(keyed("shop", "clash", 53));
        world.run();
        world.refused(&clash, "PortConflict", "a Service of another namespace has port 53/TCP");
        assert!(!world.condition(&clash).1.contains("infra/dns has"));
    }
}

#[test]
fn the_configmap_invites_too() {
    let config = [("range-global", "10.0.0.1-10.0.0.9"), ("allow-share-global", "true"), ("cidr-own", "10.1.0.0/24")];
    let mut world = World::new(&config);
    let dns = world.apply(keyed("infra", "dns", 53));
    let (shop, own) = (world.apply(keyed("shop", "web", 443)), world.apply(keyed("own", "web", 8080)));
    world.run();
    assert_eq!([world.shows(&dns), world.shows(&shop)], ["10.0.0.1", "10.0.0.1"]);
    // Its addresses are of another entry, which the others do not share.
    has_nothing(&world, &own);
}

#[test]
fn an_invitation_can_be_taken_back() {
    let mut world = world();
    let dns = world.apply(inviting(keyed("infra", "dns", 53), "shop"));
    world.run();
    let shop = world.apply(keyed("shop", "web", 443));
    world.run();
    assert_eq!([world.shows(&dns), world.shows(&shop)], ["10.0.0.1", "10.0.0.1"]);
    let web = world.apply(keyed("infra", "web", 443));
    world.run();
    world.refused(&web, "PortConflict", "443/TCP");
    world.edit(&dns, |one| one.notes.sharing_namespaces = None);
    world.run();
    has_nothing(&world, &shop);
    assert!(world.services[&shop].notes.record.is_none());
    assert_eq!([world.shows(&dns), world.shows(&web)], ["10.0.0.1", "10.0.0.1"]);
}

#[test]
fn what_nobody_has_taken_back_stays() {
    let mut world = world();
    let dns = world.apply(inviting(keyed("infra", "dns", 53), "shop"));
    world.run();
    let shop = world.apply(keyed("shop", "web", 443));
    world.run();
    let again = Service { uid: "uid-again".into(), ..inviting(keyed("infra", "dns", 53), "shop") };
    // The Service that invited is replaced, or restored later: "not there" is not "no".
    world.delete(&dns);
    world.run();
    world.start();
    world.run();
    assert_eq!(world.shows(&shop), "10.0.0.1");
    let late = world.apply(keyed("shop", "late", 8080));
    world.run();
    has_nothing(&world, &late);
    world.apply(again);
    world.run();
    assert_eq!([&dns, &shop, &late].map(|key| world.shows(key)), ["10.0.0.1", "10.0.0.1", "10.0.0.1"]);
}

#[test]
fn whoever_was_left_alone_makes_room_for_those_whose_key_it_is() {
    let mut world = world();
    let dns = world.apply(inviting(keyed("infra", "dns", 53), "shop"));
    world.run();
    let shop = world.apply(keyed("shop", "web", 443));
    world.run();
    world.delete(&dns);
    world.run();
    let dns = world.apply(Service { uid: "uid-again".into(), ..keyed("infra", "dns", 53) });
    world.run();
    has_nothing(&world, &shop);
    assert!(!world.shows(&dns).is_empty());
}

#[test]
fn an_address_of_its_own_stays_and_is_told_of() {
    let mut world = world();
    world.apply(keyed("infra", "dns", 53));
    let web = world.apply(service("shop", "web"));
    world.run();
    let had = world.shows(&web);
    world.edit(&web, |one| one.notes.sharing_key = Some("infra/dns".into()));
    world.run();
    assert_eq!(world.shows(&web), had);
    world.refused(&web, "SharingNotAllowed", &format!("(it keeps {had})"));
}

/// kube-vip's name of a Lease may name a namespace too.
fn leased(namespace: &str, name: &str, port: u16) -> Service {
    let mut one = keyed(namespace, name, port);
    one.notes.lease_name = one.notes.sharing_key.take();
    one
}

#[test]
fn a_lease_of_another_namespace_gives_nothing_by_itself() {
    let mut world = world();
    let dns = world.apply(leased("infra", "dns", 53));
    world.run();
    let ip = world.shows(&dns);
    let mut asks = leased("shop", "web", 443);
    asks.notes.addresses = Some((*ip).into());
    let (asks, plain) = (world.apply(asks), world.apply(leased("shop", "plain", 443)));
    world.run();
    world.refused(
        &asks,
        "AddressTaken",
        "write mooring.dev/sharing-namespaces=shop on a Service with the same kube-vip.io/leaseName",
    );
    // It is the name of a Lease, and no wish to share.
    assert!(world.condition(&plain).0 == "Advertised" && world.shows(&plain) != ip);
    // As kube-vip leaves it: what clients reach stays in the status until people have decided.
    let mut old = leased("shop", "old", 444);
    old.ingress = vec![Ingress { ip: super::world::ip(&ip), vip: true }];
    let old = world.apply(old);
    world.run();
    world.edit(&dns, |one| one.notes.sharing_namespaces = Some("shop".into()));
    world.run();
    assert_eq!([&dns, &asks, &old].map(|key| world.shows(key)), [&*ip, &*ip, &*ip]);
}
