//! One address for several Services.

use mooring_allocator_core::names::Key;
use mooring_allocator_core::pool::PoolSpec;

use super::world::{Queue, World};
use crate::machine::testing::{pool, ports, service};
use crate::machine::{Event, Failure, Kind, Report, Write};
use crate::objects::Service;
use crate::ports::Protocol::{Tcp, Udp};

fn on(name: &str, port: u16, protocol: crate::ports::Protocol) -> Service {
    Service { ports: ports(&[(port, protocol)]), ..service("a", name) }
}

fn keyed(one: Service) -> Service {
    let mut one = one;
    one.notes.sharing_key = Some("k".into());
    one
}

fn both(world: &World, keys: [&Key; 2]) -> [String; 2] {
    keys.map(|key| world.shows(key))
}

#[test]
fn dns_on_tcp_and_udp() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let (tcp, udp) = (world.apply(keyed(on("tcp", 53, Tcp))), world.apply(keyed(on("udp", 53, Udp))));
    world.run();
    assert_eq!(both(&world, [&tcp, &udp]), ["10.0.0.1", "10.0.0.1"]);
    // One claim, one `IPAddress`, and so one node.
    assert_eq!((world.claims.len(), world.addresses.len()), (1, 1));
    let clash = world.apply(keyed(on("clash", 53, Udp)));
    world.run();
    world.refused(&clash, "PortConflict", "Service a/udp has port 53/UDP of 10.0.0.1");
    // The first goes, the address stays with the other; when that goes too, the third has an address of its own.
    world.delete(&tcp);
    world.run();
    assert_eq!(world.shows(&udp), "10.0.0.1");
    world.delete(&udp);
    world.run();
    assert_eq!((&*world.condition(&clash).0, world.claims.len()), ("Advertised", 1));
}

#[test]
fn only_by_a_common_key() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let mut first = on("first", 80, Tcp);
    first.notes.lease_name = Some("lease".into());
    let first = world.apply(first);
    world.run();
    let mut second = on("second", 81, Tcp);
    second.notes.addresses = Some("10.0.0.1".into());
    let second = world.apply(second);
    world.run();
    world.refused(&second, "AddressTaken", "mooring.dev/sharing-key");
    // kube-vip's way to say it.
    world.edit(&second, |service| service.notes.lease_name = Some("lease".into()));
    world.run();
    assert_eq!(both(&world, [&first, &second]), ["10.0.0.1", "10.0.0.1"]);
    // A Lease alone makes nobody share.
    let mut third = on("third", 82, Tcp);
    third.notes.lease_name = Some("lease".into());
    let third = world.apply(third);
    world.run();
    assert_eq!(world.shows(&third), "10.0.0.2");
}

#[test]
fn as_the_configmap_allows_across_namespaces() {
    let mut world =
        World::new(&[("cidr-global", "10.0.0.0/24"), ("allow-share-global", "true"), ("cidr-team", "10.1.0.0/24")]);
    let web = world.apply(on("web", 80, Tcp));
    let mut other = on("dns", 53, Udp);
    other.key = Key::new("b", "dns");
    let other = world.apply(other);
    world.run();
    assert_eq!(both(&world, [&web, &other]), ["10.0.0.1", "10.0.0.1"]);
    // No Service owns it, and a namespace that goes takes nothing along.
    assert_eq!(&*world.claims.keys().next().unwrap().namespace, "mooring");
    world.delete(&web);
    world.run();
    assert_eq!(world.shows(&other), "10.0.0.1");
    // Where there is no room, an address of its own.
    let second = world.apply(on("second", 53, Udp));
    world.run();
    assert_eq!(world.shows(&second), "10.0.0.2");
    // The team has a pool of its own, and shares there.
    let team = ["one", "two"].map(|name| {
        let mut one = on(name, if name == "one" { 80 } else { 81 }, Tcp);
        one.key = Key::new("team", name);
        world.apply(one)
    });
    world.run();
    assert_eq!(both(&world, [&team[0], &team[1]]), ["10.1.0.1", "10.1.0.1"]);
    assert_eq!(&*world.claims_of(&team[0])[0].key.namespace, "team");
}

#[test]
fn local_services_need_a_node_in_common() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let local = |one: Service| Service { local: true, ..keyed(one) };
    let (web, dns) = (world.apply(local(on("web", 80, Tcp))), local(on("dns", 53, Udp)));
    world.endpoints(&web, &["n1", "n2"]);
    world.endpoints(&dns.key, &["n3"]);
    world.run();
    let dns = world.apply(dns);
    world.run();
    world.refused(&dns, "NoCommonNode", "no node has ready endpoints of both");
    world.endpoints(&dns, &["n2", "n3"]);
    world.run();
    assert_eq!(both(&world, [&web, &dns]), ["10.0.0.1", "10.0.0.1"]);
    // Endpoints that move away later take nothing from anybody.
    world.endpoints(&dns, &["n3"]);
    world.run();
    assert_eq!(both(&world, [&web, &dns]), ["10.0.0.1", "10.0.0.1"]);
    // Cluster goes with any.
    let cluster = world.apply(keyed(on("cluster", 443, Tcp)));
    world.run();
    assert_eq!(world.shows(&cluster), "10.0.0.1");
}

#[test]
fn local_services_wait_until_endpoints_are_known() {
    let mut world = World::before(&[("cidr-global", "10.0.0.0/24")]);
    world.lists_endpoints = false;
    world.start();
    world.run();
    assert!(!world.machine.wants_endpoints());
    let local = |one: Service| Service { local: true, ..keyed(one) };
    let (web, dns) = (world.apply(local(on("web", 80, Tcp))), world.apply(local(on("dns", 53, Udp))));
    for key in [&web, &dns] {
        world.endpoints(key, &["n1"]);
    }
    world.run();
    assert!(world.machine.wants_endpoints());
    assert_eq!((&*world.shows(&web), &*world.shows(&dns)), ("10.0.0.1", ""));
    world.list_endpoints();
    world.run();
    assert_eq!(both(&world, [&web, &dns]), ["10.0.0.1", "10.0.0.1"]);
}

#[test]
fn a_key_given_later_and_taken_back() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let (web, dns) = (world.apply(on("web", 80, Tcp)), world.apply(on("dns", 53, Udp)));
    world.run();
    assert_ne!(world.shows(&web), world.shows(&dns));
    for key in [&web, &dns] {
        world.edit(key, |service| service.notes.sharing_key = Some("k".into()));
        world.run();
    }
    assert_eq!(world.shows(&web), world.shows(&dns));
    assert_eq!(world.claims.len(), 1);
    // Taken off, nobody asks for anything; another key parts them.
    world.edit(&web, |service| service.notes.sharing_key = None);
    world.run();
    assert_eq!(world.shows(&web), world.shows(&dns));
    world.edit(&web, |service| service.notes.sharing_key = Some("other".into()));
    world.run();
    assert_ne!(world.shows(&web), world.shows(&dns));
    assert_eq!(world.claims.len(), 2);
}

#[test]
fn two_keyed_at_once_end_up_together() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let keys = [on("a", 1, Tcp), on("b", 2, Tcp), on("c", 3, Tcp)].map(|one| world.apply(one));
    world.run();
    for key in &keys {
        world.edit(key, |service| service.notes.sharing_key = Some("k".into()));
    }
    world.run();
    assert_eq!(world.claims.len(), 1);
    assert!(keys.iter().all(|key| world.shows(key) == world.shows(&keys[0])));
}

#[test]
fn allow_share_turned_off_moves_nobody() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24"), ("allow-share-global", "true")]);
    let (web, dns) = (world.apply(on("web", 80, Tcp)), world.apply(on("dns", 53, Udp)));
    world.run();
    world.configure(&[("cidr-global", "10.0.0.0/24")]);
    world.run();
    assert_eq!(both(&world, [&web, &dns]), ["10.0.0.1", "10.0.0.1"]);
    world.start();
    world.run();
    assert_eq!(both(&world, [&web, &dns]), ["10.0.0.1", "10.0.0.1"]);
}

#[test]
fn who_shows_an_address_keeps_it_when_allow_share_is_turned_off() {
    // The one that is about to share comes before the other in every list, or after it.
    for name in ["dns", "zone"] {
        for written in [false, true] {
            let mut world = World::new(&[("cidr-global", "10.0.0.0/24"), ("allow-share-global", "true")]);
            let web = world.apply(on("web", 80, Tcp));
            world.run();
            assert_eq!(world.shows(&web), "10.0.0.1");
            let other = world.apply(on(name, 53, Udp));
            while let Some(event) = world.busy_queues().first().and_then(|queue| world.pop_of(*queue)) {
                world.deliver(event);
            }
            let (id, joins) = world.todo.pop_front().unwrap();
            assert!(matches!(&joins, Write::UpdateClaim(_, members, ..) if members.len() == 2), "{joins:?}");
            // Before the claim is shown as the other one's, or even before it is the other one's.
            world.configure(&[("cidr-global", "10.0.0.0/24")]);
            let result = if written { world.execute(&joins) } else { Err(Failure::Unknown) };
            let config = world.pop_of(Queue::Of(Kind::Config)).unwrap();
            world.deliver(config);
            world.push(Event::Answer { id, result });
            for _ in 0..4 {
                world.later(40);
                assert_eq!(world.shows(&web), "10.0.0.1", "{name}, {written}");
            }
            // Once the claim is the other one's too, it may show the address before it has another, and then it stays.
            let stays = written && world.shows(&other) == "10.0.0.1";
            assert!(stays || world.shows(&other) == "10.0.0.2", "{name}, {written}: {}", world.shows(&other));
            assert_eq!(world.claims.len(), if stays { 1 } else { 2 });
        }
    }
}

#[test]
fn one_of_two_that_share_an_address_of_no_pool_moves_when_it_is_asked_to() {
    let mut world = World::new(&[("range-global", "10.0.0.1-10.0.0.9")]);
    let (web, dns) = (world.apply(keyed(on("web", 80, Tcp))), world.apply(keyed(on("dns", 53, Udp))));
    world.run();
    world.configure(&[("range-global", "10.0.0.5-10.0.0.9")]);
    world.run();
    assert_eq!(both(&world, [&web, &dns]), ["10.0.0.1", "10.0.0.1"]);
    world.edit(&web, |service| service.notes.reallocate = true);
    world.run();
    assert_eq!(both(&world, [&web, &dns]), ["10.0.0.5", "10.0.0.1"]);
    // The other one follows.
    world.edit(&dns, |service| service.notes.reallocate = true);
    world.run();
    assert_eq!((both(&world, [&web, &dns]), world.claims.len()), (["10.0.0.5", "10.0.0.5"].map(String::from), 1));
}

#[test]
fn a_key_across_namespaces_given_later() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let web = world.apply(on("web", 80, Tcp));
    world.run();
    // It has a claim of its own namespace, which others cannot share: they meet in the allocator's.
    world.edit(&web, |service| {
        service.notes.sharing_key = Some("a/k".into());
        service.notes.sharing_namespaces = Some("b".into());
    });
    world.run();
    let mut dns = on("dns", 53, Udp);
    dns.key = Key::new("b", "dns");
    dns.notes.sharing_key = Some("a/k".into());
    let dns = world.apply(dns);
    world.run();
    assert_eq!(world.shows(&web), world.shows(&dns));
    assert_eq!((world.claims.len(), &*world.claims.keys().next().unwrap().namespace), (1, "mooring"));
}

#[test]
fn a_key_across_namespaces_opens_no_pool_that_does_not_serve_the_service() {
    let mut world = World::new(&[("cidr-global", "192.168.0.0/24")]);
    let mut theirs = pool("theirs", &["10.0.0.1"]);
    theirs.default = false;
    let mut spec = PoolSpec { addresses: vec!["10.0.0.1-10.0.0.9".to_owned()], prefix: 16, ..PoolSpec::default() };
    spec.policy.allowed_namespaces = Some(["mooring", "team-a"].map(str::to_owned).into());
    world.pool(theirs, spec);
    let across = |namespace: &str, name: &str, port: u16| {
        let mut one = Service { ports: ports(&[(port, Tcp)]), ..service(namespace, name) };
        one.notes.sharing_key = Some("team-a/y".into());
        one.notes.sharing_namespaces = Some("*".into());
        one
    };
    let named = |mut one: Service| {
        one.notes.pool = Some("theirs".into());
        one
    };
    let asking = |mut one: Service, ip: &str| {
        one.notes.addresses = Some(ip.into());
        one
    };
    let team = world.apply(named(across("team-a", "web", 80)));
    world.run();
    assert_eq!(world.shows(&team), "10.0.0.1");
    // Naming the pool, asking for an address of it, and joining one that knows the key.
    let first = world.apply(named(across("evil", "names", 81)));
    let asks = world.apply(asking(across("evil", "asks", 81), "10.0.0.7"));
    let joins = world.apply(asking(across("evil", "joins", 81), "10.0.0.1"));
    world.run();
    world.refused(&first, "PoolNotUsable", "does not serve namespace evil");
    world.refused(&asks, "AddressNotInPool", "10.0.0.7 is in no pool");
    world.refused(
        &joins,
        "PoolNotUsable",
        "10.0.0.1 is of GlobalInClusterIPPool theirs, which does not serve namespace evil",
    );
    assert_eq!(world.shows(&team), "10.0.0.1");
}

#[test]
fn a_tenant_does_not_share_by_a_key_that_looks_like_anothers() {
    let mut world = World::new(&[("range-global", "10.0.0.1-10.0.0.9")]);
    // In the allocator's own namespace, where the claims of all who share across namespaces are.
    let mut own = Service { ports: ports(&[(80, Tcp)]), ..service("mooring", "web") };
    own.notes.sharing_key = Some("web".into());
    let own = world.apply(own);
    world.run();
    let mut forged = Service { ports: ports(&[(81, Tcp)]), ..service("evil", "web") };
    forged.notes.sharing_key = Some("mooring/ web".into());
    let forged = world.apply(forged);
    world.run();
    assert_eq!(both(&world, [&own, &forged]), ["10.0.0.1", ""]);
    world.refused(&forged, "SharingNotAllowed", "mooring.dev/sharing-namespaces=evil");
}

#[test]
fn a_message_does_not_grow_with_those_who_share() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24"), ("allow-share-global", "true")]);
    for port in 1..200 {
        world.apply(Service { ports: ports(&[(port, Tcp)]), ..service("n", &format!("web-{port}")) });
    }
    let all = world.apply(Service { ports: ports(&[(5000, Tcp)]), ..service("n", "all") });
    world.run();
    world.edit(&all, |one| one.ports = (1..200).flat_map(|port| ports(&[(port, Tcp)])).collect());
    world.run();
    let (reason, message) = world.condition(&all);
    assert!(reason == "Advertised" && message.contains("; and 19") && message.len() < 4096, "{message}");
}

#[test]
fn both_are_told_when_an_edit_makes_their_ports_clash() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24"), ("allow-share-global", "true")]);
    let shop = world.apply(Service { ports: ports(&[(443, Tcp)]), ..service("shop", "web") });
    let other = world.apply(Service { ports: ports(&[(1, Tcp)]), ..service("other", "web") });
    world.run();
    assert_eq!(both(&world, [&shop, &other]), ["10.0.0.1", "10.0.0.1"]);
    world.edit(&other, |one| one.ports = ports(&[(443, Tcp)]));
    world.run();
    // Nobody loses an address that carries traffic.
    assert_eq!(both(&world, [&shop, &other]), ["10.0.0.1", "10.0.0.1"]);
    for (key, other) in [(&shop, "other/web"), (&other, "shop/web")] {
        let (reason, message) = world.condition(key);
        assert!(
            reason == "Advertised" && message.contains("a Service of another namespace has port 443/TCP"),
            "{message}"
        );
        assert!(!message.contains(other), "{message}");
        let warned = |report: &Report| {
            matches!(report, Report::ConditionChanged { service, condition, warning: true }
                if service == key && condition.message.contains("443/TCP"))
        };
        assert!(world.reports.iter().any(warned), "{key}");
    }
    world.edit(&other, |one| one.ports = ports(&[(1, Tcp)]));
    world.run();
    for key in [&shop, &other] {
        assert_eq!(world.condition(key).1, "10.0.0.1");
    }
}

#[test]
fn of_services_that_share_only_the_one_whose_key_is_edited_leaves() {
    let edits: [fn(&mut Service); 3] = [
        |one| one.notes.sharing_key = Some("other".into()),
        |one| one.notes.sharing_key = Some("infra/dns".into()),
        |one| one.notes.sharing_key = Some("infra/invited".into()),
    ];
    for (at, edit) in edits.into_iter().enumerate() {
        for edited in 0..3 {
            for restarts in [false, true] {
                let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
                let mut host = Service { ports: ports(&[(9, Tcp)]), ..service("infra", "host") };
                host.notes.sharing_key = Some("infra/invited".into());
                host.notes.sharing_namespaces = Some("a".into());
                let host = world.apply(host);
                world.run();
                let all = [("x", 1), ("y", 2), ("z", 3)].map(|(name, port)| world.apply(keyed(on(name, port, Tcp))));
                world.run();
                let shared = world.shows(&all[0]);
                world.edit(&all[edited], edit);
                if restarts {
                    world.start();
                }
                for _ in 0..4 {
                    world.later(20);
                    let others = all.iter().enumerate().filter(|(place, _)| *place != edited);
                    for (_, key) in others {
                        assert_eq!(world.shows(key), shared, "{key}, {at}, {edited}, {restarts}");
                    }
                }
                let now = world.shows(&all[edited]);
                match at {
                    0 => assert!(!now.is_empty() && now != shared, "{now}"),
                    1 => {
                        assert_eq!(now, "");
                        world.refused(&all[edited], "SharingNotAllowed", "infra");
                    }
                    _ => assert_eq!(now, world.shows(&host)),
                }
            }
        }
    }
}

#[test]
fn a_guest_that_takes_another_key_takes_no_address_along() {
    for (asked, restarts) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
        let mut host = Service { ports: ports(&[(53, Udp)]), ..service("infra", "dns") };
        host.notes.sharing_key = Some("infra/dns".into());
        host.notes.sharing_namespaces = Some("b".into());
        host.notes.addresses = asked.then(|| "10.0.0.7".into());
        let host = world.apply(host);
        let mut guest = Service { ports: ports(&[(80, Tcp)]), ..service("b", "web") };
        guest.notes.sharing_key = Some("infra/dns".into());
        let second =
            Service { key: Key::new("b", "api"), ports: ports(&[(81, Tcp)]), uid: "u-api".into(), ..guest.clone() };
        let (guest, second) = (world.apply(guest), world.apply(second));
        world.run();
        let shared = world.shows(&host);
        assert_eq!(both(&world, [&guest, &second]), [shared.clone(), shared.clone()]);
        for key in [&guest, &second] {
            world.edit(key, |one| one.notes.sharing_key = Some("foo/bar".into()));
        }
        if restarts {
            world.start();
        }
        for _ in 0..4 {
            world.later(20);
            assert_eq!(world.shows(&host), shared);
        }
        assert_eq!(world.shows(&guest), "");
        world.refused(&guest, "SharingNotAllowed", "foo");
        assert_eq!(&*world.condition(&host).0, "Advertised");
    }
}

#[test]
fn a_guest_whose_key_is_renamed_before_the_hosts_loses_nothing() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let mut host = Service { ports: ports(&[(53, Udp)]), ..service("infra", "dns") };
    host.notes.sharing_key = Some("infra/old".into());
    host.notes.sharing_namespaces = Some("b".into());
    let host = world.apply(host);
    let mut guest = Service { ports: ports(&[(80, Tcp)]), ..service("b", "web") };
    guest.notes.sharing_key = Some("infra/old".into());
    let guest = world.apply(guest);
    world.run();
    let shared = world.shows(&host);
    for key in [&guest, &host] {
        world.edit(key, |one| one.notes.sharing_key = Some("infra/new".into()));
        world.later(10);
        assert_eq!(both(&world, [&host, &guest]), [shared.clone(), shared.clone()]);
    }
    world.later(60);
    assert_eq!(both(&world, [&host, &guest]), [shared.clone(), shared]);
}
