//! Claims that come from another management cluster or from a backup, and claims whose marks somebody edits.

use std::time::Duration;

use mooring_allocator_core::retained_meta::ClusterOwner;

use super::objects::{cluster, infrastructure, key, paused};
use super::world::{Stored, World};
use super::{LONG, create, reason};
use crate::machine::Report;
use crate::objects::{Cluster, Place};

fn wrote(world: &World) -> bool {
    world.reports.iter().any(|report| matches!(report, Report::Wrote { .. }))
}

/// A Cluster that runs and is paused by `clusterctl move`, with its claim.
fn leaving(world: &mut World) -> (Cluster, Stored) {
    let uid = world.uid();
    create(world, cluster("c", uid));
    world.settle(LONG);
    let mut one = world.clusters[&key("c")].clone();
    (one.initialised, one.paused, one.host) = (true, true, Some("10.0.0.1".into()));
    world.put_cluster(one.clone());
    world.settle(LONG);
    (one, world.claims[&key("c")].clone())
}

#[test]
fn a_move_makes_nothing_anew_on_this_side() {
    let mut here = World::new(4);
    let _ = leaving(&mut here);
    // It takes all finalizers off and deletes what is owned first.
    here.claims.remove(&key("c"));
    let writes = here.writes;
    here.start();
    here.settle(LONG);
    assert_eq!((here.writes, here.claims.len(), reason(&here, "c")), (writes, 0, "Paused"));
}

/// The other side: group after group, and no status comes along. So the claim is there before its `IPAddress`.
#[test]
fn a_moved_claim_waits_for_its_own_address() {
    let mut here = World::new(4);
    let (mut one, claim) = leaving(&mut here);
    let mut there = World::new(4);
    // Another Cluster takes the lowest address there.
    let uid = there.uid();
    create(&mut there, paused("d", uid));
    there.settle(LONG);
    there.reports.clear();
    let uid = there.uid();
    one.uid = uid.clone();
    there.put_cluster(one.clone());
    there.settle(LONG);
    let owner = Some(ClusterOwner { name: "c".into(), uid });
    there.put_claim(Stored { owner, address: None, condition: None, ..claim });
    there.settle(LONG);
    let mut part = infrastructure("c");
    part.host = Some("10.0.0.1".into());
    there.put_infrastructure(part);
    there.put_plane(here.planes.values().next().unwrap().clone());
    for (what, reading) in &here.texts {
        there.put_text(what, reading.text.as_deref().unwrap());
    }
    there.settle(LONG);
    assert_eq!((there.claims[&key("c")].address, reason(&there, "c")), (None, "Paused"));
    there.moved.insert(key("c"), "10.0.0.1".parse().unwrap());
    there.settle(LONG);
    one.paused = false;
    there.put_cluster(one);
    there.settle(LONG);
    assert_eq!(there.claims[&key("c")].address, "10.0.0.1".parse().ok());
    assert_eq!((reason(&there, "c"), wrote(&there)), ("Written", false), "nothing but the condition");
}

/// No status comes along, so nothing says that the control plane is initialised. What machines are made from stays as people left it.
#[test]
fn a_moved_cluster_whose_control_plane_differs_is_not_rolled() {
    let mut here = World::new(4);
    let (mut one, claim) = leaving(&mut here);
    let mut there = World::new(4);
    let mut part = infrastructure("c");
    part.host = Some("10.0.0.1".into());
    there.put_infrastructure(part);
    let mut differs = here.planes.values().next().unwrap().clone();
    let Place::Files(files) = &mut differs.place else { unreachable!() };
    for file in files.iter_mut() {
        file.content = file.content.as_ref().map(|text| text.replace("10.0.0.1", "10.9.9.9").into());
    }
    differs.initialised = false;
    there.put_plane(differs);
    for (what, reading) in &here.texts {
        there.put_text(what, &reading.text.as_deref().unwrap().replace("10.0.0.1", "10.9.9.9"));
    }
    one.uid = there.uid();
    (one.initialised, one.paused) = (false, true);
    there.put_cluster(one.clone());
    let owner = Some(ClusterOwner { name: "c".into(), uid: one.uid.clone() });
    there.moved.insert(key("c"), "10.0.0.1".parse().unwrap());
    there.put_claim(Stored { owner, address: None, condition: None, stood: None, ..claim });
    there.settle(LONG);
    one.paused = false;
    there.put_cluster(one);
    there.settle(LONG);
    assert_eq!((reason(&there, "c"), wrote(&there)), ("Drifted", false));
}

/// A backup may bring back the claim before its Cluster.
#[test]
fn a_claim_that_comes_before_its_cluster_stays_for_minutes_and_has_no_address() {
    let mut here = World::new(4);
    let (one, claim) = leaving(&mut here);
    let mut there = World::new(4);
    there.settle(LONG);
    there.put_claim(Stored { address: None, ..claim.clone() });
    there.settle(Duration::from_mins(4));
    assert_eq!(there.claims.get(&key("c")).map(|claim| (claim.deleting, claim.address)), Some((false, None)));
    create(&mut there, one);
    there.settle(LONG);
    assert!(!there.claims[&key("c")].deleting);
    // Nobody's garbage collector takes what has no owner.
    let mut there = World::new(4);
    there.put_claim(Stored { address: None, ..claim });
    there.settle(Duration::from_mins(6));
    assert!(there.claims.is_empty());
}

pub(super) fn labels_are_put_back() {
    for label in [Some("d"), None] {
        let mut world = World::new(4);
        let uid = world.uid();
        let mut one = paused("c", uid.clone());
        one.notes.service_pool = Some("GlobalInClusterIPPool/lb".into());
        create(&mut world, one);
        world.settle(LONG);
        for name in ["c", "c-svc-lb-0"] {
            let claim = world.claims[&key(name)].clone();
            world.put_claim(Stored { label: label.map(Into::into), ..claim });
        }
        world.settle(LONG * 10);
        for name in ["c", "c-svc-lb-0"] {
            let claim = &world.claims[&key(name)];
            assert!(!claim.deleting && claim.is_owned_by(&uid) && claim.label.as_deref() == Some("c"), "{claim:?}");
        }
        assert_eq!(reason(&world, "c"), "Written");
    }
}

#[test]
fn a_label_that_somebody_changes_or_takes_off_is_put_back() {
    labels_are_put_back();
}
