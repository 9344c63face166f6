//! From `kubectl expose` to an address, and back.

use super::world::{World, ip};
use crate::machine::Report;
use crate::machine::testing::service;
use crate::objects::Ingress;

#[test]
fn the_tutorials_session() {
    let mut world = World::new(&[("cidr-global", "10.10.222.231/32")]);
    let web = world.apply(service("default", "nginx"));
    world.agents = false;
    world.run();
    // It has its address; pending until a node advertises it.
    assert_eq!((world.says(&web), &*world.shows(&web)), (Some("10.10.222.231"), ""));
    world.agents = true;
    world.run();
    let object = &world.services[&web];
    assert_eq!(object.ingress, [Ingress { ip: ip("10.10.222.231"), vip: true }]);
    assert_eq!(object.notes.host.as_deref(), Some("node-a"));
    assert!(object.implementation);
    assert_eq!(world.condition(&web), ("Advertised".into(), "10.10.222.231".into()));

    // There is one address, and a second Service has to wait for it.
    let second = world.apply(service("default", "second"));
    world.run();
    world.refused(&second, "PoolExhausted", "nothing is free");
    assert_eq!(world.shows(&second), "");
    world.delete(&web);
    world.run();
    // The allocator's protocol wakes the claim; here, whoever is asked again.
    assert_eq!(world.shows(&second), "10.10.222.231");
    world.delete(&second);
    world.run();
    assert!(world.claims.is_empty() && world.addresses.is_empty());
}

#[test]
fn what_it_costs() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let before = world.writes;
    world.apply(service("a", "web"));
    world.run();
    // The claim, annotations (twice: the holder comes later), the status.
    assert!(world.writes - before <= 4, "{}", world.writes - before);
    let before = world.writes;
    world.later(60);
    assert_eq!(world.writes, before, "nothing changes, nothing is written");
}

#[test]
fn why_it_waits_is_told_only_when_it_lasts() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    world.agents = false;
    let web = world.apply(service("a", "web"));
    world.run();
    assert_eq!(world.services[&web].condition, None);
    assert_eq!(world.machine.standing(&web).map(|c| &*c.reason), Some("WaitingForNode"));
    world.later(6);
    world.refused(&web, "WaitingForNode", "no node advertises 10.0.0.1 yet");
    world.agents = true;
    world.run();
    assert_eq!(world.condition(&web).0, "Advertised");
}

#[test]
fn an_address_that_no_node_carries_any_more_is_told() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let web = world.apply(service("a", "web"));
    world.run();
    world.agents = false;
    world.addresses.values_mut().for_each(|address| address.holder = None);
    let address = world.addresses.values().next().unwrap().clone();
    world.push(crate::machine::Event::Address(std::sync::Arc::new(address)));
    world.run();
    assert_eq!(&*world.condition(&web).0, "Advertised", "between two holders");
    world.later(6);
    world.refused(&web, "WaitingForNode", "no node advertises 10.0.0.1 now");
    assert_eq!(world.shows(&web), "10.0.0.1");
    assert!(world.reports.iter().any(|report| matches!(report, Report::ConditionChanged { warning: true, .. })));
    world.agents = true;
    world.run();
    assert_eq!(&*world.condition(&web).0, "Advertised");
}

#[test]
fn where_nobody_records_a_holder_an_address_that_is_shown_is_carried() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    world.agents = false;
    let web = world.apply(service("a", "web"));
    world.run();
    // kube-vip's agent, or one that may not see `IPAddress` objects.
    world.edit(&web, |service| service.ingress = vec![Ingress { ip: ip("10.0.0.1"), vip: true }]);
    world.later(120);
    assert_eq!(&*world.condition(&web).0, "Advertised");
}

#[test]
fn nobody_is_told_to_wait_while_others_get_on() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    world.agents = false;
    let web = world.apply(service("a", "web"));
    world.run();
    for n in 0..6 {
        world.later(1);
        // It gets its address, and then waits too.
        world.apply(service("a", &format!("other-{n}")));
        world.run();
    }
    world.later(1);
    assert_eq!(world.services[&web].condition, None, "7 s, but others got on");
    world.later(2);
    world.refused(&web, "WaitingForNode", "no node advertises 10.0.0.1 yet");
}

#[test]
fn between_two_holders_the_status_stays() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let web = world.apply(service("a", "web"));
    world.run();
    world.agents = false;
    let mut address = world.addresses.values().next().unwrap().clone();
    address.holder = None;
    world.push(crate::machine::Event::Address(std::sync::Arc::new(address.clone())));
    world.run();
    assert_eq!((&*world.shows(&web), world.services[&web].notes.host.as_deref()), ("10.0.0.1", Some("node-a")));
    address.holder = Some("node-b".into());
    world.push(crate::machine::Event::Address(std::sync::Arc::new(address)));
    world.run();
    assert_eq!(world.services[&web].notes.host.as_deref(), Some("node-b"));
}

#[test]
fn no_longer_a_load_balancer() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24"), ("interface-global", "eth1")]);
    let web = world.apply(service("a", "web"));
    world.run();
    assert_eq!(world.services[&web].notes.interface.as_deref(), Some("eth1"));
    world.edit(&web, |service| {
        service.load_balancer = false;
        // The API server does this.
        service.ingress.clear();
    });
    world.run();
    let object = &world.services[&web];
    assert_eq!(object.notes, crate::notes::Notes::default());
    assert!(!object.implementation && object.condition.is_none());
    assert!(world.claims.is_empty());
    assert!(world.reports.contains(&Report::Released { service: web.clone(), addresses: "10.0.0.1".into() }));
    assert_eq!(world.machine.standing(&web), None);
}

#[test]
fn ignored_or_of_another_class_it_is_left_alone() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let mut other = service("a", "other");
    other.class = Some("example.com/other".into());
    other.ingress = vec![Ingress { ip: ip("10.9.9.9"), vip: true }];
    let other = world.apply(other);
    let before = world.writes;
    world.run();
    assert_eq!((world.writes, &*world.shows(&other)), (before, "10.9.9.9"));
    let web = world.apply(service("a", "web"));
    world.run();
    world.edit(&web, |service| service.notes.ignore = true);
    world.run();
    assert_eq!((world.says(&web), &*world.shows(&web), world.claims.len()), (None, "", 0));
}

#[test]
fn a_service_that_is_being_deleted_keeps_its_address_and_loses_the_old_finalizer() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let mut web = service("a", "web");
    web.cleanup = true;
    let web = world.apply(web);
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.1");
    world.delete(&web);
    world.run();
    assert!(world.services.is_empty() && world.claims.is_empty());
}

#[test]
fn a_conflict_on_the_wire_gives_it_another() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let web = world.apply(service("a", "web"));
    world.run();
    let claim = world.claims.keys().next().unwrap().clone();
    world.conflict(&claim);
    world.run();
    assert_eq!((world.says(&web), &*world.shows(&web)), (Some("10.0.0.2"), "10.0.0.2"));
}

#[test]
fn edits_of_what_is_written_are_put_right() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let web = world.apply(service("a", "web"));
    world.run();
    world.edit(&web, |service| {
        service.notes.addresses = None;
        service.notes.record = Some("nonsense".into());
        service.ingress.clear();
        service.implementation = false;
    });
    world.run();
    assert_eq!((world.says(&web), &*world.shows(&web)), (Some("10.0.0.1"), "10.0.0.1"));
    assert!(world.services[&web].implementation);
    assert_eq!(world.claims.len(), 1);
}

#[test]
fn a_restart_changes_nothing() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24,fd00::/112"), ("allow-share-b", "true")]);
    for namespace in ["a", "b"] {
        for name in ["one", "two", "three"] {
            world.apply(service(namespace, name));
        }
    }
    world.run();
    let (before, services) = (world.writes, world.services.clone());
    world.reports.clear();
    world.start();
    world.later(60);
    assert_eq!((world.writes, &world.services), (before, &services));
    assert_eq!(world.reports, []);
}

#[test]
fn a_claim_deleted_by_hand_is_made_again() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let web = world.apply(service("a", "web"));
    world.run();
    let claim = world.claims.values_mut().next().unwrap();
    claim.deleting = true;
    let claim = claim.clone();
    world.push(crate::machine::Event::Claim(Box::new(claim.shown())));
    world.run();
    assert_eq!((&*world.shows(&web), world.claims.len()), ("10.0.0.1", 1));
}

#[test]
fn without_the_lead_nothing_is_done() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    world.deliver(crate::machine::Event::Leading(None));
    let before = world.writes;
    let web = world.apply(service("a", "web"));
    world.run();
    assert_eq!(world.writes, before);
    world.push(crate::machine::Event::Leading(Some(world.now * 2)));
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.1");
}

#[test]
fn a_thousand_at_once() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/16"), ("allow-share-global", "true")]);
    let before = world.writes;
    for i in 0..1000 {
        world.apply(service("a", &format!("web-{i}")));
    }
    world.run();
    assert_eq!(world.claims.len(), 1000);
    assert!(world.services.values().all(|service| service.ingress.len() == 1));
    assert!(world.writes - before <= 4000, "{}", world.writes - before);
    println!("the machine thought {:?} over {} Services", world.thought, world.services.len());
}

#[test]
fn a_restart_in_the_middle_of_a_move_keeps_what_is_shown() {
    // Whatever the names, and so the order, of the three claims are.
    for name in ["a", "b", "c", "d", "e", "f"] {
        let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
        let web = world.apply(service("a", name));
        world.run();
        for asked in ["10.0.0.7", "10.0.0.8"] {
            // No node advertises what it asks for; so it keeps what it has.
            world.agents = false;
            world.edit(&web, |service| service.notes.addresses = Some(asked.into()));
            world.run();
            assert_eq!((&*world.shows(&web), world.claims.len()), ("10.0.0.1", 2), "{name}");
            world.start();
            world.run();
            assert_eq!((&*world.shows(&web), world.claims.len()), ("10.0.0.1", 2), "{name}");
        }
        world.agents = true;
        world.run();
        assert_eq!((&*world.shows(&web), world.claims.len()), ("10.0.0.8", 1), "{name}");
    }
}
