//! What the machine is not shown, or cannot write, and what it says then.

use std::time::Duration;

use super::objects::{INFRASTRUCTURE, cluster, config_map, key, paused, reference, secret};
use super::world::{Stored, World, parts};
use super::{LONG, create, reason};
use crate::machine::{Kind, Machine, Report};

fn said(world: &World) -> Vec<(&'static str, bool)> {
    let condition = |report: &Report| match report {
        Report::ConditionChanged { condition, warning, .. } => Some((condition.reason.name(), *warning)),
        _ => None,
    };
    world.reports.iter().filter_map(condition).collect()
}

pub(super) fn what_hid_the_name_is_deleted() {
    let mut world = World::new(4);
    world.foreign.insert(key("c"));
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), said(&world)), ("Allocating", vec![("Allocating", true)]));
    // Nobody tells of its end: it was never shown.
    world.foreign.clear();
    world.settle(LONG * 2);
    assert_eq!(reason(&world, "c"), "Written");
}

#[test]
fn a_claim_of_another_providers_pool_that_is_deleted_makes_way() {
    what_hid_the_name_is_deleted();
}

#[test]
fn claims_for_services_that_a_chart_made_are_taken_over() {
    let mut world = World::new(4);
    let uid = world.uid();
    let mut one = paused("c", uid.clone());
    one.notes.service_pool = Some("GlobalInClusterIPPool/lb".into());
    one.notes.service_count = Some("2".into());
    one.notes.service_target = Some("ConfigMap/c-kubevip/cidr-global".into());
    create(&mut world, one);
    for name in ["c-svc-lb-0", "c-svc-lb-1"] {
        world.chart_claim(name);
    }
    world.settle(LONG);
    assert!(["c-svc-lb-0", "c-svc-lb-1"].iter().all(|name| world.claims[&key(name)].is_owned_by(&uid)));
    assert_eq!(world.texts[&config_map("c")].text.as_deref(), Some("10.9.0.0/24,10.0.0.2/32,10.0.0.3/32"));
    assert_eq!(reason(&world, "c"), "Written");
}

#[test]
fn what_is_wrong_with_addresses_for_services_is_said() {
    let asks = |world: &mut World, target: &str| {
        let uid = world.uid();
        let mut one = paused("c", uid);
        one.notes.service_pool = Some("GlobalInClusterIPPool/lb".into());
        one.notes.service_target = Some(target.into());
        create(world, one);
    };
    let there = "ConfigMap/c-kubevip/cidr-global";
    // The pool has none.
    let mut world = World::new(4);
    world.pools.insert("lb".into(), [].into());
    asks(&mut world, there);
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), world.clusters[&key("c")].paused), ("PoolExhausted", false), "it goes on");
    let stored = world.claims[&key("c")].condition.clone().unwrap();
    assert!(stored.1.contains("c-svc-lb-0"), "{stored:?}");
    // Somebody else has the claim.
    let mut world = World::new(4);
    world.chart_claim("c-svc-lb-0");
    let claim = world.claims[&key("c-svc-lb-0")].clone();
    let owner = mooring_allocator_core::retained_meta::ClusterOwner { name: "x".into(), uid: "u".into() };
    world.put_claim(Stored { owner: Some(owner), ..claim });
    asks(&mut world, there);
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "NameTaken");
    // It is not shown.
    let mut world = World::new(4);
    world.foreign.insert(key("c-svc-lb-0"));
    asks(&mut world, there);
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "Allocating");
    // There is no such target.
    let mut world = World::new(4);
    asks(&mut world, "ConfigMap/none/cidr-global");
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "WaitingForSecret");
}

#[test]
fn a_kind_that_may_not_be_listed_holds_back_only_who_names_it() {
    let mut world = World::new(4);
    world.denied.insert(parts(INFRASTRUCTURE));
    world.start();
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    let uid = world.uid();
    let mut other = cluster("d", uid);
    other.infrastructure = None;
    create(&mut world, other);
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), reason(&world, "d")), ("WaitingForInfrastructure", "Written"));
    assert!(said(&world).contains(&("WaitingForInfrastructure", true)));
    // A Cluster that is gone gives its address back.
    world.remove_cluster(&key("d"));
    world.settle(LONG);
    assert!(world.claims.is_empty());
    let all = super::world::settings().all();
    assert!(all.len() == 6 && Kind::NEEDED.iter().all(|kind| all.contains(kind)), "{all:?}");
}

#[test]
fn what_stands_on_no_claim_is_said_again_before_its_event_is_gone() {
    let mut world = World::new(4);
    let uid = world.uid();
    let mut one = paused("c", uid);
    one.infrastructure = Some(reference(("infrastructure.cluster.x-k8s.io", "OtherCluster"), "c"));
    create(&mut world, one);
    world.settle(Duration::from_hours(3));
    let times = said(&world).iter().filter(|(reason, _)| *reason == "KindNotFollowed").count();
    assert_eq!(times, 4, "{:?}", said(&world));
    // What a claim says stays there.
    let mut world = World::new(0);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.settle(Duration::from_hours(3));
    assert_eq!(said(&world), [("PoolExhausted", true)]);
}

#[test]
fn a_name_for_a_host_warns_who_waits_for_an_address() {
    for (waits, warning) in [(true, true), (false, false)] {
        let mut world = World::new(4);
        let uid = world.uid();
        let one = if waits { paused("c", uid) } else { cluster("c", uid) };
        create(&mut world, one);
        super::given::set_host(&mut world, "c", Some("api.example.org"));
        world.settle(LONG);
        assert_eq!(said(&world), [("EndpointIsAName", warning)]);
    }
}

#[test]
fn a_write_that_is_put_back_again_and_again_is_said() {
    let mut world = World::new(4);
    world.reverts = true;
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.settle(Duration::from_mins(10));
    assert_eq!(reason(&world, "c"), "WriteRefused");
    let shown = world.claims[&key("c")].condition.clone().unwrap();
    assert!(shown.1.contains(&secret("c").to_string()), "{shown:?}");
    world.reverts = false;
    world.settle(Duration::from_mins(20));
    assert_eq!(reason(&world, "c"), "Written");
}

/// Claims of another allocator's namespace or label are none of ours to ask about.
#[test]
fn no_cluster_of_another_allocator_is_read() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.settle(LONG);
    let mut machine = Machine::new(super::world::settings());
    let claim = world.machine.slots[&key("c")].claims.values().next().unwrap().clone();
    let mut shown = (*claim.shown).clone();
    shown.retained.elsewhere = true;
    let claim = crate::objects::Claim { shown: shown.into(), ..claim };
    let moment = mooring_allocator_core::work::Moment { now: LONG, wall: 0 };
    machine.step(moment, crate::machine::Event::Leading(Some(Duration::MAX)));
    let mut actions = machine.step(moment, crate::machine::Event::Claims(vec![claim]));
    for kind in super::world::settings().all() {
        actions.extend(machine.step(moment, crate::machine::Event::Listed(kind, 1)));
    }
    assert!(actions.is_empty(), "{actions:?}");
}
