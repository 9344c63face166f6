//! What a machine gets, in which order, and when.

use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::{PoolKind, PoolRef, Version};
use mooring_allocator_core::retained_meta::MachineOwner;
use serde_json::json;

use super::objects::{device, key, labels, machine, pool, template};
use super::world::{Stored, World};
use super::{LONG, message, reason};
use crate::device::Device;
use crate::machine::Report;
use crate::objects::{Labels, VSphereMachine};

/// What was written, in order.
fn wrote(world: &World) -> Vec<String> {
    let wrote = |report: &Report| match report {
        Report::Wrote { what, .. } => Some(what.clone()),
        _ => None,
    };
    world.reports.iter().filter_map(wrote).collect()
}

/// A machine whose template names pool `p4`.
pub(super) fn one(world: &mut World, name: &str) -> VSphereMachine {
    world.put_template(template("t", labels(Some("p4"), None)));
    let uid = world.uid();
    machine(name, uid, &[device("net")])
}

/// Another controller makes claims that the machine owns.
#[test]
fn claims_of_other_controllers_are_left_alone() {
    for address in [None, Some("10.0.0.9".parse().unwrap())] {
        let mut world = World::new(4);
        let machine = one(&mut world, "m");
        let devices = [json!({"networkName": "net", "dhcp4": true})];
        let machine = VSphereMachine { devices: devices.iter().map(Device::read).collect(), ..machine };
        let owner = Some(MachineOwner { name: "m".into(), uid: machine.uid.clone() });
        world.put_machine(machine);
        let (uid, claims) = (world.uid(), ["theirs", "m-eth0", "other-0"]);
        for name in claims {
            let theirs = Stored {
                key: key(name),
                uid: uid.clone(),
                version: Version::from(""),
                owner: owner.clone(),
                in_use: false,
                deleting: false,
                pool: Arc::new(PoolRef::new(PoolKind::InClusterIPPool, "n", "p4")),
                address,
                refused: false,
                had: None,
                requested: None,
            };
            world.put_claim(theirs);
        }
        world.settle(LONG);
        assert!(claims.iter().all(|name| world.claims.contains_key(&key(name))), "{:?}", world.claims);
        assert_eq!(world.writes, 0, "{:?}", wrote(&world));
    }
}

#[test]
fn a_machine_gets_an_address_which_is_released_with_it() {
    let mut world = World::new(4);
    let new = one(&mut world, "m");
    world.put_machine(new);
    world.settle(LONG);
    assert_eq!(wrote(&world), ["claim m-0 of InClusterIPPool p4", "spec.network.devices: 10.0.0.1"]);
    assert_eq!(
        world.machines[&key("m")].devices[0].whole,
        json!({"networkName": "net", "mtu": 9_000, "ipAddrs": ["10.0.0.1/24"], "gateway4": "10.0.0.254",
            "nameservers": ["10.0.0.253"], "searchDomains": ["example.com"]})
    );
    assert_eq!((reason(&world, "m"), world.writes), ("Written", 2));
    let claim = world.claims[&key("m-0")].clone();
    assert!(claim.in_use);
    // Whoever deletes the claim: it stays as long as the machine does.
    world.put_claim(Stored { deleting: true, ..claim });
    world.settle(LONG);
    assert!(world.claims.contains_key(&key("m-0")));
    let there = world.machines[&key("m")].clone();
    world.put_machine(VSphereMachine { deleting: true, ..there });
    world.settle(LONG);
    assert!(world.claims.contains_key(&key("m-0")), "its virtual machine is still there");
    world.remove_machine(&key("m"));
    world.settle(LONG);
    assert!(world.claims.is_empty());
    assert!(world.reports.contains(&Report::Released { claim: key("m-0") }));
}

#[test]
fn without_a_garbage_collector_the_claims_go_too() {
    let mut world = World::new(4);
    world.no_collector = true;
    let new = one(&mut world, "m");
    world.put_machine(new);
    world.settle(LONG);
    world.remove_machine(&key("m"));
    world.settle(LONG);
    assert!(world.claims.is_empty());
}

#[test]
fn both_families_and_several_devices_in_one_write() {
    let mut world = World::new(4);
    world.put_template(template("t", labels(None, Some("g"))));
    let uid = world.uid();
    let dhcp = json!({"networkName": "x", "dhcp4": true});
    let fixed = json!({"networkName": "x", "ipAddrs": ["192.0.2.1/24"]});
    let pools = json!({"networkName": "x", "addressesFromPools": [{"name": "other"}]});
    let all = [device("a"), dhcp.clone(), fixed.clone(), pools.clone(), device("b")];
    world.put_machine(machine("m", uid, &all));
    world.settle(LONG);
    let devices = &world.machines[&key("m")].devices;
    let ips = |at: usize| devices[at].whole["ipAddrs"].clone();
    assert_eq!((ips(0), ips(4)), (json!(["10.0.0.1/24", "fd00::1/64"]), json!(["10.0.0.2/24", "fd00::2/64"])));
    assert_eq!((&devices[1].whole, &devices[2].whole, &devices[3].whole), (&dhcp, &fixed, &pools));
    assert_eq!(devices[0].whole["gateway6"], "fd00::ffff");
    let names: Vec<String> = world.claims.keys().map(|key| key.name.to_string()).collect();
    assert_eq!(names, ["m-0", "m-0-v6", "m-4", "m-4-v6"]);
    assert_eq!(world.writes, 5);
}

pub(super) fn no_label_names_no_pool() {
    let mut world = World::new(4);
    world.put_template(template("t", Labels::default()));
    let uid = world.uid();
    world.put_machine(machine("m", uid, &[device("net")]));
    world.settle(LONG);
    assert_eq!((reason(&world, "m"), world.writes), ("NoSelector", 0));
    let said = message(&world, "m");
    assert!(said.contains("cluster.x-k8s.io/ip-pool-name") && said.contains("VSphereMachineTemplate t"), "{said}");
    let told =
        |report: &Report| matches!(report, Report::ConditionChanged { condition, .. } if condition.message == said);
    assert_eq!(world.reports.iter().filter(|report| told(report)).count(), 1, "{:?}", world.reports);
    // The template's labels come later.
    world.put_template(template("t", labels(Some("p6"), None)));
    world.settle(LONG);
    assert_eq!(world.machines[&key("m")].devices[0].whole["ipAddrs"], json!(["fd00::1/64"]));
}

#[test]
fn no_label_is_an_error_that_says_so() {
    no_label_names_no_pool();
}

#[test]
fn the_machines_labels_count_before_the_templates() {
    let mut world = World::new(4);
    let new = one(&mut world, "m");
    world.put_machine(VSphereMachine { labels: labels(Some("p6"), None), search: Some("a, b".into()), ..new });
    world.settle(LONG);
    let whole = &world.machines[&key("m")].devices[0].whole;
    assert_eq!((&whole["ipAddrs"], &whole["searchDomains"]), (&json!(["fd00::1/64"]), &json!(["a", "b"])));
}

#[test]
fn a_pool_that_is_not_there_is_said_and_waited_for() {
    let mut world = World::new(4);
    world.put_template(template("t", labels(Some("late"), None)));
    let uid = world.uid();
    world.put_machine(machine("m", uid, &[device("net")]));
    world.settle(LONG);
    assert_eq!(reason(&world, "m"), "NoPool");
    assert!(message(&world, "m").contains("cluster.x-k8s.io/ip-pool-name=late"), "{}", message(&world, "m"));
    world.addresses.insert("late".into(), ["10.0.1.1".parse().unwrap()].into());
    world.put_pool(pool("late", "h", Family::V4));
    world.settle(LONG);
    assert_eq!(reason(&world, "m"), "Written");
}

#[test]
fn an_empty_pool_is_said_and_a_bad_annotation_too() {
    let mut world = World::new(1);
    let (a, b) = (one(&mut world, "a"), one(&mut world, "b"));
    world.put_machine(a);
    world.put_machine(b);
    world.settle(LONG);
    assert_eq!((reason(&world, "a"), reason(&world, "b")), ("Written", "PoolExhausted"));
    world.addresses.insert("p4".into(), ["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()].into());
    let bad = crate::objects::nameservers("10.0.0.9, ns1");
    world.put_pool(crate::objects::Pool { nameservers: bad, ..pool("p4", "g", Family::V4) });
    world.settle(LONG);
    assert_eq!(reason(&world, "b"), "InvalidRequest");
    world.put_pool(pool("p4", "g", Family::V4));
    world.settle(LONG);
    assert_eq!(reason(&world, "b"), "Written");
}

#[test]
fn while_paused_nothing_is_written_and_nothing_released() {
    let mut world = World::new(4);
    let new = one(&mut world, "m");
    let paused = |paused| crate::objects::Cluster { paused, ..super::objects::cluster("prod") };
    world.put_cluster(paused(true));
    world.put_machine(new.clone());
    world.settle(LONG);
    assert_eq!((reason(&world, "m"), world.writes), ("Paused", 0));
    world.put_machine(VSphereMachine { held: true, ..new.clone() });
    world.settle(LONG);
    world.put_cluster(paused(false));
    world.settle(LONG);
    assert_eq!((reason(&world, "m"), world.writes), ("Paused", 0));
    world.put_machine(new);
    world.settle(LONG);
    assert_eq!(reason(&world, "m"), "Written");
    world.put_cluster(paused(true));
    world.remove_machine(&key("m"));
    world.settle(LONG);
    assert_eq!(world.claims.len(), 1, "its address may move with the Cluster");
    world.put_cluster(paused(false));
    world.settle(LONG);
    assert!(world.claims.is_empty());
}

#[test]
fn an_address_that_somebody_replaces_stays_taken_and_is_said() {
    let mut world = World::new(4);
    let new = one(&mut world, "m");
    world.put_machine(new);
    world.settle(LONG);
    let there = world.machines[&key("m")].clone();
    let theirs = json!({"networkName": "net", "ipAddrs": ["192.0.2.7/24"]});
    world.put_machine(VSphereMachine { devices: vec![Device::read(&theirs)], ..there });
    world.settle(LONG);
    assert_eq!(reason(&world, "m"), "NotInUse");
    assert!(message(&world, "m").contains("claim m-0 has 10.0.0.1"), "{}", message(&world, "m"));
    assert_eq!(world.machines[&key("m")].devices[0].whole, theirs);
    assert_eq!(world.claims.len(), 1);
}
