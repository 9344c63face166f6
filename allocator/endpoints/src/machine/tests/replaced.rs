//! Parts of a Cluster that are deleted and made again, namesakes in other namespaces, and a pool that is named anew.

use std::net::IpAddr;

use mooring_allocator_core::names::Key;
use mooring_allocator_core::retained_meta::ClusterOwner;

use super::objects::{POD, carries, cluster, infrastructure, key, paused, plane, secret};
use super::world::{Stored, World};
use super::{LONG, create, reason};
use crate::objects::{Cluster, Companion, ControlPlane, File, Infrastructure, Place};

fn one_cluster() -> World {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "Written");
    world
}

#[test]
fn a_part_that_is_made_again_gets_the_same_address() {
    let mut world = one_cluster();
    let ip = world.host(&key("c")).unwrap();
    let writes = world.writes;
    world.replace_infrastructure(infrastructure("c"));
    world.replace_plane(plane("c"));
    world.settle(LONG);
    let one = world.clusters[&key("c")].clone();
    assert_eq!((reason(&world, "c"), world.host(&key("c"))), ("Written", Some(ip)));
    assert!(carries(&world, &one, ip) && world.writes == writes + 2, "{} writes", world.writes - writes);
    // Once it is initialised, too: nothing stands in them.
    world.put_cluster(Cluster { initialised: true, host: Some(ip.to_string().into()), ..one.clone() });
    world.replace_infrastructure(infrastructure("c"));
    world.replace_plane(plane("c"));
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), world.host(&key("c"))), ("Written", Some(ip)));
    assert!(carries(&world, &one, ip), "machines are rolled out");
}

/// A control plane is made again while the write to the former one is under way.
#[test]
fn a_write_to_what_was_there_before_has_no_effect_on_what_is_there_now() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    let is_plane = |write: &crate::machine::Write| matches!(write, crate::machine::Write::ControlPlane(..));
    while !world.todo.front().is_some_and(|(_, write)| is_plane(write)) {
        assert!((0..8).any(|at| world.go_on(at)), "no write to the control plane");
    }
    world.replace_plane(ControlPlane { sans: vec!["other".into()], ..plane("c") });
    world.settle(LONG);
    let sans = &world.planes.values().next().unwrap().sans;
    assert_eq!((reason(&world, "c"), &**sans), ("Written", &["other".into(), "10.0.0.1".into()][..]));
}

/// Two Clusters of one name, each in its namespace, with all that they name, and one pool for both.
#[test]
fn namesakes_in_two_namespaces_have_nothing_in_common() {
    let mut world = World::new(4);
    let elsewhere = |at: &Key| Key::new("m", &at.name);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    let mut one = paused("c", world.uid());
    one.key = elsewhere(&one.key);
    for reference in one.infrastructure.iter_mut().chain(&mut one.control_plane) {
        reference.key = elsewhere(&reference.key);
    }
    let mut part = infrastructure("c");
    part.reference.key = elsewhere(&part.reference.key);
    let mut planes = plane("c");
    planes.reference.key = elsewhere(&planes.reference.key);
    world.put_cluster(one.clone());
    world.put_infrastructure(part);
    world.put_plane(planes);
    let Companion::Secret(at, field) = secret("c") else { unreachable!() };
    let theirs = Companion::Secret(elsewhere(&at), field);
    world.put_text(&theirs, POD);
    world.settle(LONG);
    let hosts: Vec<Option<IpAddr>> = [key("c"), one.key.clone()].iter().map(|at| world.host(at)).collect();
    assert!(hosts[0].is_some() && hosts[1].is_some() && hosts[0] != hosts[1], "{hosts:?}");
    for (what, host) in [(secret("c"), hosts[0]), (theirs, hosts[1])] {
        let text = world.texts[&what].text.clone().unwrap();
        assert!(text.contains(&format!("\"{}\"", host.unwrap())), "{what}: {text}");
    }
    // One of them goes, and the other keeps what it has.
    world.remove_cluster(&one.key);
    world.settle(LONG);
    let left: Vec<String> = world.claims.keys().map(ToString::to_string).collect();
    assert_eq!((left, reason(&world, "c")), (vec!["n/c".to_owned()], "Written"));
}

/// A claim of the Cluster's name that a machine owns is no endpoint, whatever its labels say.
#[test]
fn a_claim_of_something_else_is_not_taken() {
    for label in [None, Some("c")] {
        let mut world = World::new(4);
        world.chart_claim("c");
        let claim = world.claims[&key("c")].clone();
        world.put_claim(Stored { label: label.map(Into::into), of_a_machine: true, ..claim });
        let uid = world.uid();
        create(&mut world, paused("c", uid));
        world.settle(LONG);
        assert_eq!(reason(&world, "c"), "NameTaken", "{label:?}");
        let claim = &world.claims[&key("c")];
        assert!(claim.owner.is_none() && world.host(&key("c")).is_none(), "{claim:?}");
    }
}

/// Nor is it deleted because there is no such Cluster.
#[test]
fn a_label_on_a_claim_of_something_else_has_no_effect() {
    let mut world = World::new(4);
    world.chart_claim("vm");
    let claim = world.claims[&key("vm")].clone();
    world.put_claim(Stored { label: Some("none".into()), of_a_machine: true, ..claim });
    world.settle(LONG * 20);
    assert!(world.claims.get(&key("vm")).is_some_and(|claim| !claim.deleting), "a machine's claim is deleted");
}

/// What an earlier Cluster of the name left is taken over, although it is owned.
#[test]
fn a_claim_of_an_earlier_cluster_is_taken_over() {
    let mut world = World::new(4);
    world.chart_claim("c");
    let claim = world.claims[&key("c")].clone();
    let owner = Some(ClusterOwner { name: "c".into(), uid: "before".into() });
    world.put_claim(Stored { label: Some("c".into()), in_use: true, owner, ..claim });
    let uid = world.uid();
    create(&mut world, paused("c", uid.clone()));
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "Written");
    assert!(world.claims[&key("c")].is_owned_by(&uid));
}

#[test]
fn another_pool_in_the_annotation_is_said_while_the_claim_has_no_address_and_changes_nothing_afterwards() {
    let mut world = World::new(0);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "PoolExhausted");
    let mut one = world.clusters[&key("c")].clone();
    one.notes.pool = Some("GlobalInClusterIPPool/lb".into());
    world.put_cluster(one);
    world.settle(LONG);
    let message = world.machine.standing(&key("c")).unwrap().message.clone();
    assert!(message.contains("GlobalInClusterIPPool lb") && message.contains("delete the claim"), "{message}");
    // As it says.
    let claim = world.claims[&key("c")].clone();
    world.put_claim(Stored { deleting: true, ..claim });
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), world.host(&key("c"))), ("Written", "10.0.1.1".parse().ok()));
    let mut one = world.clusters[&key("c")].clone();
    one.notes.pool = Some("GlobalInClusterIPPool/cp".into());
    world.put_cluster(one);
    let writes = world.writes;
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), world.writes), ("Written", writes));
}

/// The Cluster is deleted at each moment of the work, and what the allocator had under way reaches the API server or does not.
#[test]
fn deleted_before_any_write_or_after_it() {
    let mut undisturbed = World::new(1);
    let uid = undisturbed.uid();
    create(&mut undisturbed, paused("c", uid));
    undisturbed.settle(LONG);
    for moment in 0..=undisturbed.writes {
        for reached in [false, true] {
            let mut world = World::new(1);
            let uid = world.uid();
            create(&mut world, paused("c", uid));
            while world.writes <= moment && (0..8).any(|at| world.go_on(at)) {}
            let one = world.clusters[&key("c")].clone();
            world.put_cluster(Cluster { deleting: true, ..one });
            if reached && let Some((_, write)) = world.todo.front().cloned() {
                let _ = world.apply(&write);
            }
            let had = world.claims.get(&key("c")).and_then(|claim| claim.address);
            world.settle(LONG);
            let has = world.claims.get(&key("c")).and_then(|claim| claim.address);
            assert!(had.is_none() || had == has, "it is released before the Cluster is gone");
            world.remove_cluster(&key("c"));
            world.settle(LONG);
            assert!(world.claims.is_empty(), "deleted at write {moment}: {:?}", world.claims);
            // The only address is another's now.
            let uid = world.uid();
            create(&mut world, paused("d", uid));
            world.settle(LONG);
            assert_eq!(reason(&world, "d"), "Written", "deleted at write {moment}");
        }
    }
}

#[test]
fn an_ipv6_endpoint_stands_in_every_place() {
    let mut world = World::new(0);
    let ip: IpAddr = "fd00::5".parse().unwrap();
    world.pools.insert("cp".into(), [ip].into());
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.settle(LONG);
    let one = world.clusters[&key("c")].clone();
    assert!(!one.paused && carries(&world, &one, ip), "{one:?}");
    assert_eq!(world.host(&key("c")), Some(ip));
}

#[test]
fn the_services_of_a_cluster_get_as_many_addresses_as_there_may_be() {
    let mut world = World::new(4);
    let mut one = cluster("c", world.uid());
    one.notes.service_pool = Some("GlobalInClusterIPPool/lb".into());
    one.notes.service_count = Some("64".into());
    one.notes.service_target = Some("HelmRelease/c/cm.data.cidr-global".into());
    create(&mut world, one);
    let what = Companion::HelmRelease(key("c"), "cm.data.cidr-global".into());
    world.put_text(&what, "");
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), world.claims.len()), ("Written", 65));
    let text = world.texts[&what].text.clone().unwrap();
    let all: std::collections::BTreeSet<&str> = text.split(',').collect();
    assert!(all.len() == 64 && all.iter().all(|one| one.starts_with("10.0.1.") && one.ends_with("/32")), "{text}");
}

/// What an API server refuses is said; when it does not any more, the work goes on where it stood.
#[test]
fn what_is_refused_is_said_and_tried_again() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.refuses = true;
    world.settle(LONG);
    let standing = world.machine.standing(&key("c")).unwrap().clone();
    assert_eq!((standing.reason.name(), &*standing.message), ("WriteRefused", "the API server refuses: a policy"));
    assert!(world.writes < 20, "{} writes in a minute", world.writes);
    world.refuses = false;
    world.settle(LONG * 10);
    assert_eq!(reason(&world, "c"), "Written");
}

/// A webhook that is down: nobody need look into the log.
#[test]
fn what_the_api_server_fails_at_is_said_while_it_lasts() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    while world.claims.get(&key("c")).is_none_or(|claim| claim.address.is_none()) {
        assert!((0..8).any(|at| world.go_on(at)));
    }
    world.fails = Some("failed calling webhook \"kcp\"".to_owned());
    world.settle(LONG);
    let (reason_now, message) = world.claims[&key("c")].condition.clone().unwrap();
    assert_eq!(&*reason_now, "Writing");
    assert!(message.contains("failed calling webhook"), "{message}");
    world.fails = None;
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), &*world.claims[&key("c")].condition.clone().unwrap().0), ("Written", "Written"));
}

/// Files whose pods hold nothing, and a part without files: nothing is made up.
#[test]
fn a_control_plane_without_a_static_pod_gets_its_names() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    let other = File {
        path: "/etc/kubernetes/manifests/etcd.yaml".into(),
        content: Some("kind: Pod\nspec: {containers: [{name: etcd}]}\n".into()),
        encoded: false,
        secret: None,
        whole: serde_json::json!({"path": "/etc/kubernetes/manifests/etcd.yaml", "owner": "root"}),
    };
    world.put_plane(ControlPlane { place: Place::Files(vec![other.clone()]), ..plane("c") });
    world.put_infrastructure(Infrastructure { port: Some(7443), ..infrastructure("c") });
    world.settle(LONG);
    let one = world.planes.values().next().unwrap();
    assert_eq!((reason(&world, "c"), &one.place), ("Written", &Place::Files(vec![other])));
    assert_eq!(one.sans, ["localhost".into(), "10.0.0.1".into()]);
    assert_eq!(world.infrastructures.values().next().unwrap().port, Some(7443));
}
