//! Other controllers serve Services too, and API servers and webhooks do not keep what is written.

use std::time::Duration;

use mooring_allocator_core::names::Key;
use mooring_allocator_core::pool::PoolSpec;
use mooring_names::metallb::MetalLb;

use super::world::{World, ip};
use crate::machine::testing::{pool, service};
use crate::machine::{Event, Failure, Report};
use crate::objects::{Ingress, Pool, Service};

fn spec(addresses: &str) -> PoolSpec {
    PoolSpec { addresses: vec![addresses.to_owned()], prefix: 16, ..PoolSpec::default() }
}

/// As `MetalLB` leaves it: only the status.
fn metallbs(name: &str, address: &str) -> Service {
    Service { ingress: vec![Ingress { ip: ip(address), vip: true }], ..service("a", name) }
}

#[test]
pub(super) fn nothing_is_written_before_there_is_something_to_give() {
    let mut world = World::without_config();
    // A pool for machines is no pool for Services.
    let machines = Pool { default: false, ..pool("machines", &["10.0.0.1-10.0.0.99"]) };
    world.pool(machines, spec("10.0.0.1-10.0.0.99"));
    world.apply(service("a", "plain"));
    world.apply(metallbs("theirs", "10.0.0.5"));
    world.apply(Service { load_balancer_ip: Some("10.0.0.7".into()), ..service("a", "asks") });
    let cloud = world.apply(Service { cleanup: true, ..service("a", "cloud") });
    let before = world.services.clone();
    world.start();
    world.later(60);
    world.delete(&cloud);
    world.later(60);
    let [rest, pools] = [world.writes, world.pools.len()];
    assert_eq!((rest, pools, world.claims.len()), (0, 1, 0));
    assert!(world.services[&cloud].cleanup, "the finalizer is the other controller's to remove");
    assert!(world.reports.is_empty(), "{:?}", world.reports);
    for (key, service) in &world.services {
        assert!(*key == cloud || before[key] == *service);
    }
    // A pool for Services comes: those that nobody serves get addresses.
    world.pool(pool("all", &["10.7.0.1-10.7.0.9"]), spec("10.7.0.1-10.7.0.9"));
    world.run();
    let shows = |name: &str| world.shows(&mooring_allocator_core::names::Key::new("a", name));
    assert_eq!((&*shows("plain"), &*shows("theirs")), ("10.7.0.1", "10.0.0.5"));
}

#[test]
fn something_to_give_is_a_class_an_annotation_a_configmap_or_a_pool() {
    type Change = fn(&mut Service);
    let changes: [Change; 3] = [
        |one| one.class = Some("kube-vip.io/kube-vip-class".into()),
        |one| one.notes.pool = Some("nowhere".into()),
        |one| one.notes.sharing_key = Some("k".into()),
    ];
    for change in changes {
        let mut world = World::without_config();
        world.start();
        let mut one = service("a", "web");
        change(&mut one);
        let web = world.apply(one);
        world.run();
        assert!(!world.condition(&web).1.is_empty());
    }
    let mut world = World::without_config();
    world.start();
    let web = world.apply(service("a", "web"));
    world.run();
    assert!(world.services[&web].condition.is_none());
    world.configure(&[]);
    world.run();
    world.refused(&web, "NoPool", "cidr-global");
}

#[test]
pub(super) fn what_another_controller_serves_is_left_alone_and_its_addresses_too() {
    // A pool that people made, and pools that are made from the ConfigMap.
    for made in [false, true] {
        let mut world = World::without_config();
        if made {
            world.configure(&[("range-global", "10.0.0.1-10.0.0.9")]);
        } else {
            world.pool(pool("all", &["10.0.0.1-10.0.0.9"]), spec("10.0.0.1-10.0.0.9"));
        }
        let cloud = world.apply({
            let mut one = service("a", "cloud");
            one.names = vec![r#"{"hostname":"lb.example.com"}"#.into()];
            one.cleanup = true;
            one
        });
        let far = world.apply(metallbs("far", "192.168.0.1"));
        // Of a class that Mooring does not serve, with the first address of Mooring's pool.
        let other = world.apply(Service { class: Some("example.com/lb".into()), ..metallbs("zzz", "10.0.0.1") });
        let before = world.services.clone();
        world.start();
        let web = world.apply(service("a", "web"));
        world.run();
        assert_eq!(world.shows(&web), "10.0.0.2", "{made}");
        let asks = world.apply({
            let mut one = service("a", "asks");
            one.notes.addresses = Some("10.0.0.1".into());
            one
        });
        world.run();
        assert_eq!(world.shows(&asks), "", "{made}");
        for key in [&cloud, &far, &other] {
            assert_eq!(world.services[key], before[key]);
        }
        world.delete(&cloud);
        world.later(60);
        assert!(world.services[&cloud].cleanup);
        // It goes: who asked for its address gets it, once the address has rested.
        world.delete(&other);
        if !made {
            world.untaken("10.0.0.1");
        }
        world.run();
        assert_eq!(world.shows(&asks), "10.0.0.1", "{made}");
    }
}

#[test]
pub(super) fn a_finalizer_is_removed_only_where_kube_vips_cloud_provider_left_it() {
    // An allocator with a pool for Services; a Service that got nothing, and has the finalizer of a cloud controller.
    let mut world = World::without_config();
    world.pool(pool("all", &["10.0.0.1"]), spec("10.0.0.1"));
    world.start();
    world.apply(service("a", "first"));
    world.run();
    let web = world.apply(Service { cleanup: true, ..service("a", "web") });
    world.later(10);
    world.refused(&web, "PoolExhausted", "");
    world.delete(&web);
    world.later(60);
    assert!(world.services[&web].cleanup);
    // The cloud provider makes a ConfigMap.
    world.configure(&[]);
    world.run();
    assert!(!world.services.contains_key(&web));
}

#[test]
fn an_address_of_another_controller_that_is_in_a_pool_for_services_is_kept() {
    let mut world = World::without_config();
    world.pool(pool("all", &["10.0.0.1-10.0.0.9"]), spec("10.0.0.1-10.0.0.9"));
    let old = world.apply(metallbs("old", "10.0.0.1"));
    let new = world.apply(service("a", "aaa-new"));
    world.start();
    world.run();
    assert_eq!((&*world.shows(&old), &*world.shows(&new)), ("10.0.0.1", "10.0.0.2"));
    assert_eq!(&*world.condition(&old).0, "Advertised");
}

/// A pool for all Services, and an allocator.
fn with_one_pool() -> World {
    let mut world = World::without_config();
    world.pool(pool("all", &["10.0.0.1-10.0.0.9"]), spec("10.0.0.1-10.0.0.9"));
    world.start();
    world
}

/// Another controller writes its address into the status until the allocator decides to leave the Service to it.
fn insists_until_left(world: &mut World, web: &Key) {
    let left = |world: &World| world.reports.iter().any(|report| matches!(report, Report::Contested { .. }));
    while !left(world) {
        world.edit(web, |service| service.ingress = vec![Ingress { ip: ip("192.168.0.1"), vip: true }]);
        while !left(world) && world.go_on() {}
    }
}

#[test]
pub(super) fn two_controllers_do_not_fight_for_ever() {
    let mut world = with_one_pool();
    let web = world.apply(service("a", "web"));
    let theirs = vec![Ingress { ip: ip("192.168.0.1"), vip: true }];
    world.run();
    let mut replaced = 0;
    for _ in 0..100 {
        if world.services[&web].ingress != theirs {
            replaced += 1;
            world.edit(&web, |service| service.ingress.clone_from(&theirs));
        }
        world.later(1);
    }
    assert!((2..=5).contains(&replaced), "{replaced}");
    let left = &world.services[&web];
    assert_eq!((&left.ingress, &left.condition, left.implementation), (&theirs, &None, false));
    assert_eq!((left.notes.record.as_deref(), world.claims.len()), (None, 0));
    assert!(world.reports.iter().any(|report| matches!(report, Report::Contested { .. })));
    assert!(left.notes.left);
    // An allocator that starts leaves it, too.
    world.start();
    world.later(400);
    let left = &world.services[&web];
    assert_eq!((&left.ingress, left.notes.left, world.claims.len()), (&theirs, true, 0));
    // The other controller goes.
    world.edit(&web, |service| service.ingress.clear());
    world.later(30);
    assert_eq!(world.shows(&web), "");
    world.later(60);
    assert_eq!((&*world.shows(&web), world.services[&web].notes.left), ("10.0.0.1", false));
}

#[test]
fn a_failed_write_is_no_round_of_a_contest() {
    let mut world = with_one_pool();
    let web = world.apply(service("a", "web"));
    world.run();
    world.edit(&web, |service| service.ingress = vec![Ingress { ip: ip("192.168.0.1"), vip: true }]);
    for _ in 0..20 {
        while world.todo.is_empty() && world.go_on() {}
        while let Some((id, _)) = world.todo.pop_front() {
            world.push(Event::Answer { id, result: Err(Failure::Unknown) });
        }
        while world.todo.is_empty() && !world.busy_queues().is_empty() && world.go_on() {}
        world.now += Duration::from_secs(1);
        world.tick();
    }
    world.later(60);
    assert_eq!(world.shows(&web), "10.0.0.1");
}

#[test]
fn a_service_whose_mark_people_take_off_is_served_whatever_its_status_shows() {
    let mut world = with_one_pool();
    let mut one = service("a", "web");
    (one.notes.left, one.ingress) = (true, vec![Ingress { ip: ip("192.168.0.1"), vip: true }]);
    let web = world.apply(one);
    world.later(400);
    assert_eq!(world.shows(&web), "192.168.0.1");
    // The other controller was uninstalled, and its address stays in the status.
    world.edit(&web, |service| service.notes.left = false);
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.1");
}

#[test]
fn one_that_leads_again_knows_only_by_the_mark_what_was_left() {
    let mut world = with_one_pool();
    let web = world.apply(service("a", "web"));
    world.run();
    insists_until_left(&mut world, &web);
    // It loses the lead before it has written anything, and another one puts the status right.
    while let Some((id, _)) = world.todo.pop_front() {
        world.push(Event::Answer { id, result: Err(Failure::Unknown) });
    }
    world.push(Event::Leading(None));
    world.run();
    world.edit(&web, |service| service.ingress = vec![Ingress { ip: ip("10.0.0.1"), vip: true }]);
    world.push(Event::Leading(Some(Duration::MAX)));
    for _ in 0..20 {
        world.later(5);
        assert_eq!((&*world.shows(&web), world.services[&web].notes.left), ("10.0.0.1", false));
    }
}

#[test]
fn a_service_that_was_left_is_served_again_without_the_mark() {
    let mut world = with_one_pool();
    let theirs = vec![Ingress { ip: ip("192.168.0.1"), vip: true }];
    let mut one = service("a", "web");
    (one.notes.left, one.ingress) = (true, theirs);
    let web = world.apply(one);
    world.later(400);
    assert_eq!((&*world.shows(&web), world.claims.len()), ("192.168.0.1", 0));
    // People give it a class of Mooring's.
    world.edit(&web, |service| {
        service.notes.left = false;
        service.class = Some("kube-vip.io/kube-vip-class".into());
    });
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.1");
    // The mark goes with what made Mooring leave it.
    let mut one = service("a", "ignored");
    one.notes.left = true;
    let ignored = world.apply(one);
    world.edit(&ignored, |service| service.notes.ignore = true);
    world.run();
    assert!(!world.services[&ignored].notes.left);
}

#[test]
fn a_service_stays_left_to_a_controller_that_writes_late() {
    let mut world = with_one_pool();
    let web = world.apply(service("a", "web"));
    let theirs = vec![Ingress { ip: ip("192.168.0.1"), vip: true }];
    world.run();
    let mut replaced = 0;
    for _ in 0..20 {
        if world.services[&web].ingress != theirs {
            replaced += 1;
            world.edit(&web, |service| service.ingress.clone_from(&theirs));
        }
        while world.todo.is_empty() && world.go_on() {}
        // The Service is shown once more while a write is under way.
        let shown = Box::new(world.services[&web].clone());
        world.push(Event::Service(shown));
        world.go_on();
        world.later(2);
        assert_eq!(world.services[&web].ingress != theirs, replaced < 4);
        assert_eq!(world.claims.len(), usize::from(replaced < 4));
    }
    assert_eq!(replaced, 4);
    let left = &world.services[&web];
    assert_eq!((&left.ingress, left.notes.record.as_deref(), world.claims.len()), (&theirs, None, 0));
    let gave_in = world.reports.iter().filter(|report| matches!(report, Report::Contested { .. }));
    assert_eq!(gave_in.count(), 1);
}

#[test]
fn a_service_that_was_left_is_served_again_once_nobody_has_shown_an_address_for_long() {
    let mut world = with_one_pool();
    let web = world.apply(service("a", "web"));
    world.run();
    insists_until_left(&mut world, &web);
    // The other controller takes its address away before Mooring has withdrawn.
    world.edit(&web, |service| service.ingress.clear());
    world.later(30);
    assert_eq!((&*world.shows(&web), world.claims.len()), ("", 0));
    world.later(60);
    assert!(!world.shows(&web).is_empty());
}

#[test]
fn a_service_that_moves_often_contests_nothing() {
    let mut world = World::new(&[("range-global", "10.0.0.1-10.0.0.9")]);
    let web = world.apply(service("a", "web"));
    for last in [5, 6, 7, 8, 9, 5, 6, 7, 8, 9] {
        world.edit(&web, |service| service.notes.addresses = Some(format!("10.0.0.{last}").into()));
        world.run();
        assert_eq!(world.shows(&web), format!("10.0.0.{last}"));
    }
    assert!(world.reports.iter().all(|report| !matches!(report, Report::Contested { .. })));
}

#[test]
fn one_edit_of_the_status_is_put_right() {
    let mut world = World::new(&[("range-global", "10.0.0.1-10.0.0.9")]);
    let web = world.apply(service("a", "web"));
    world.run();
    for _ in 0..6 {
        world.edit(&web, |service| service.ingress = vec![Ingress { ip: ip("1.2.3.4"), vip: true }]);
        world.later(400);
        assert_eq!(world.shows(&web), "10.0.0.1");
    }
}

#[test]
pub(super) fn a_field_that_is_not_kept_is_not_written_for_ever() {
    // The CRDs of the in-cluster provider have no `allowedNamespaces` and no `strategy`.
    let mut world = World::before(&[("range-team", "10.0.0.1-10.0.0.9"), ("search-order", "desc")]);
    world.prunes = Some(|made| made.spec.policy = mooring_allocator_core::pool::Policy::default());
    world.start();
    let web = world.apply(service("team", "web"));
    world.run();
    assert!(!world.shows(&web).is_empty());
    within_budget(&mut world, &web, |world, web| !world.shows(web).is_empty());
}

#[test]
pub(super) fn what_a_webhook_reverts_is_not_written_for_ever() {
    type Reverts = fn(&mut Service);
    let reverts: [Reverts; 4] = [
        |service| service.implementation = false,
        |service| service.notes.record = None,
        |service| service.notes.host = None,
        |service| service.ingress.clear(),
    ];
    for change in reverts {
        let mut world = World::new(&[("range-global", "10.0.0.1-10.0.0.9")]);
        world.reverts = Some(change);
        let web = world.apply(service("a", "web"));
        within_budget(&mut world, &web, |_, _| true);
        // The webhook goes.
        world.reverts = None;
        world.later(1_200);
        assert_eq!((&*world.shows(&web), world.services[&web].implementation), ("10.0.0.1", true));
    }
}

/// In half an hour there are a few dozen writes at most, and at least one more try.
fn within_budget(
    world: &mut World,
    web: &mooring_allocator_core::names::Key,
    holds: fn(&World, &mooring_allocator_core::names::Key) -> bool,
) {
    let before = world.writes;
    for _ in 0..1_800 {
        world.later(1);
        assert!(holds(world, web));
    }
    let writes = world.writes - before;
    assert!((1..60).contains(&writes), "{writes} writes in half an hour");
    world.push(Event::Tick);
}

#[test]
fn who_asks_in_metallbs_words_is_told_once_what_to_write_instead() {
    let told = |world: &mut World| -> Vec<String> {
        let all = std::mem::take(&mut world.reports);
        all.into_iter()
            .filter_map(|one| if let Report::NotHonoured { text, .. } = one { Some(text) } else { None })
            .collect()
    };
    let reads = |names: &[&str]| MetalLb::read(|name| names.contains(&name).then_some("x"));
    let mut world = World::new(&[("range-global", "10.0.0.1-10.0.0.9")]);
    let mut one = service("a", "web");
    one.notes.metallb = reads(&["metallb.universe.tf/loadBalancerIPs", "metallb.io/allow-shared-ip"]);
    let web = world.apply(one);
    // Of another class: not Mooring's, and nobody's business.
    let mut other = Service { class: Some("example.com/lb".into()), ..service("a", "other") };
    other.notes.metallb = reads(&["metallb.io/address-pool"]);
    world.apply(other);
    // It says the same in Mooring's words.
    let mut both = service("a", "both");
    both.notes.metallb = reads(&["metallb.io/loadBalancerIPs", "metallb.io/allow-shared-ip"]);
    (both.notes.addresses, both.notes.sharing_key) = (Some("10.0.0.7".into()), Some("k".into()));
    world.apply(both);
    world.run();
    let all = told(&mut world);
    assert_eq!(all.len(), 1, "{all:?}");
    for part in ["metallb.universe.tf/loadBalancerIPs", "kube-vip.io/loadbalancerIPs", "mooring.dev/sharing-key"] {
        assert!(all[0].contains(part), "{all:?}");
    }
    world.later(60);
    world.fail_over();
    world.later(60);
    assert_eq!(told(&mut world), Vec::<String>::new(), "neither again, nor by the next allocator");
    world.edit(&web, |web| web.notes.metallb = reads(&["metallb.io/address-pool"]));
    world.run();
    let all = told(&mut world);
    assert!(all.len() == 1 && all[0].contains("mooring.dev/pool"), "{all:?}");
}
