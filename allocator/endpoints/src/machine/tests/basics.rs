//! What a Cluster gets, in which order, and when.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::json;

use super::objects::{POD, carries, cluster, config_map, key, paused, plane, reference, secret};
use super::world::World;
use super::{LONG, create, reason};
use crate::machine::{Event, Report};
use crate::objects::{Companion, Place};

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

/// What was written, in order.
fn wrote(world: &World) -> Vec<String> {
    let wrote = |report: &Report| match report {
        Report::Wrote { what, .. } => Some(what.clone()),
        _ => None,
    };
    world.reports.iter().filter_map(wrote).collect()
}

#[test]
fn the_address_goes_to_every_place_and_then_the_cluster_goes_on() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.settle(LONG);
    assert_eq!(
        wrote(&world),
        [
            "claim c of GlobalInClusterIPPool cp",
            "Secret c-kubevip-pod (key content)",
            "KubeadmControlPlane c",
            "VSphereCluster c: spec.controlPlaneEndpoint.host 10.0.0.1",
            "spec.paused: false",
        ]
    );
    let cluster = &world.clusters[&key("c")];
    assert!(!cluster.paused && !cluster.notes.paused_for_endpoint && carries(&world, cluster, ip(1)));
    assert_eq!(world.host(&key("c")), Some(ip(1)));
    assert_eq!(world.planes[&reference(super::objects::PLANE, "c")].sans, ["localhost".into(), "10.0.0.1".into()]);
    let claim = &world.claims[&key("c")];
    assert_eq!(claim.condition, Some(("Written".into(), "10.0.0.1".into())));
    assert!(claim.in_use && claim.is_owned_by(&cluster.uid));
    assert_eq!(world.writes, 6, "with the condition, and no other");
}

#[test]
fn a_cluster_that_asks_for_nothing_is_left_alone() {
    let mut world = World::new(4);
    let uid = world.uid();
    let mut one = paused("c", uid);
    one.notes.pool = None;
    create(&mut world, one.clone());
    one.notes.pool = Some("none".into());
    one.key = key("d");
    world.defaults.insert("n".into(), "GlobalInClusterIPPool/cp".into());
    let uid = world.uid();
    one.uid = uid;
    world.defaults.clear();
    create(&mut world, one);
    world.settle(LONG);
    assert_eq!(world.writes, 0);
    assert_eq!((reason(&world, "c"), reason(&world, "d")), ("none", "none"));
}

#[test]
fn a_namespace_or_a_variable_may_name_the_pool() {
    let mut world = World::new(4);
    world.defaults.insert("n".into(), "GlobalInClusterIPPool/cp".into());
    let (uid, other) = (world.uid(), world.uid());
    let mut one = paused("c", uid);
    one.notes.pool = None;
    create(&mut world, one);
    let mut off = paused("d", other);
    off.notes.pool = Some("none".into());
    create(&mut world, off);
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), reason(&world, "d")), ("Written", "none"));
}

#[test]
fn an_annotation_that_cannot_be_read_is_said() {
    let mut world = World::new(4);
    let uid = world.uid();
    let mut one = paused("c", uid);
    one.notes.pool = Some("pool".into());
    create(&mut world, one);
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), world.writes), ("InvalidRequest", 0));
}

#[test]
fn parts_may_come_late_and_in_any_order() {
    let mut world = World::new(4);
    let uid = world.uid();
    world.put_cluster(paused("c", uid));
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "WaitingForInfrastructure");
    world.put_infrastructure(super::infrastructure("c"));
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "WaitingForControlPlane");
    world.put_plane(plane("c"));
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "WaitingForSecret");
    assert_eq!(world.claims[&key("c")].condition.as_ref().map(|(reason, _)| &**reason), Some("WaitingForSecret"));
    assert_eq!(world.host(&key("c")), None);
    world.put_text(&secret("c"), POD);
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "Written");
}

#[test]
fn a_file_that_cannot_be_written_is_said() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.put_text(&secret("c"), "kind: Pod\nspec: {containers: [{name: kube-vip}]}");
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), world.host(&key("c"))), ("ManifestNotUsable", None));
    world.put_text(&secret("c"), POD);
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "Written");
}

#[test]
fn what_others_pause_stays_paused() {
    let mut world = World::new(4);
    for (name, marked, held) in [("a", false, false), ("b", true, true)] {
        let uid = world.uid();
        let mut one = paused(name, uid);
        (one.notes.paused_for_endpoint, one.held) = (marked, held);
        create(&mut world, one);
    }
    world.settle(LONG);
    for name in ["a", "b"] {
        assert_eq!((reason(&world, name), world.host(&key(name))), ("Paused", None));
        assert!(world.claims[&key(name)].address.is_some(), "the claim is made nevertheless");
        assert!(world.clusters[&key(name)].paused);
    }
    let mut one = world.clusters[&key("b")].clone();
    one.held = false;
    world.put_cluster(one);
    world.settle(LONG);
    assert!(!world.clusters[&key("b")].paused);
    // The mark of one that is not paused any more goes, so that a later pause is the user's.
    let mut one = world.clusters[&key("a")].clone();
    (one.paused, one.notes.paused_for_endpoint) = (false, true);
    world.put_cluster(one);
    world.settle(LONG);
    let mut one = world.clusters[&key("a")].clone();
    assert!(!one.notes.paused_for_endpoint);
    one.paused = true;
    world.put_cluster(one);
    world.settle(LONG);
    assert!(world.clusters[&key("a")].paused);
}

#[test]
fn a_lack_is_repaired_before_the_control_plane_is_initialised_and_only_an_empty_place_afterwards() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, cluster("c", uid));
    world.settle(LONG);
    world.put_text(&secret("c"), POD);
    world.put_plane(plane("c"));
    // Nobody tells of a Secret: it is read again after a while.
    world.settle(Duration::from_mins(10));
    assert!(carries(&world, &world.clusters[&key("c")], ip(1)));
    let mut one = world.clusters[&key("c")].clone();
    one.initialised = true;
    world.put_cluster(one.clone());
    world.put_plane(plane("c"));
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), carries(&world, &one, ip(1))), ("Written", true));
    let mut other = plane("c");
    let Place::Files(files) = &mut other.place else { unreachable!() };
    files[3].content = Some(POD.replace("''", "10.9.9.9").into());
    world.put_plane(other);
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), carries(&world, &one, ip(1))), ("Drifted", false));
    // An upgrade that pauses for this has it written again.
    (one.paused, one.notes.paused_for_endpoint) = (true, true);
    world.put_cluster(one.clone());
    world.settle(LONG);
    assert!(carries(&world, &one, ip(1)) && !world.clusters[&key("c")].paused);
}

#[test]
fn a_topology_gets_its_variables_written_and_nothing_else() {
    let mut world = World::new(4);
    let uid = world.uid();
    let mut one = paused("c", uid);
    (one.infrastructure, one.control_plane, one.notes.pool) = (None, None, None);
    one.variables = Some(vec![
        json!({"name": "mooringEndpointPool", "value": "GlobalInClusterIPPool/cp"}),
        json!({"name": "controlPlaneIpAddr", "value": ""}),
        json!({"name": "kubeVipPodManifest", "value": POD}),
    ]);
    world.put_cluster(one.clone());
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "NeedsVariable");
    one = world.clusters[&key("c")].clone();
    one.notes.variables = Some("controlPlaneIpAddr,kubeVipPodManifest".into());
    world.put_cluster(one);
    world.settle(LONG);
    let now = &world.clusters[&key("c")];
    assert!(!now.paused && carries(&world, now, ip(1)));
    assert_eq!(now.variables.as_ref().unwrap()[1]["value"], "10.0.0.1");
}

#[test]
fn an_address_in_a_variable_of_the_topology_was_given() {
    for (given, end, said) in [("10.0.0.3", Some(ip(3)), "Written"), ("10.9.9.9", None, "PoolExhausted")] {
        let mut world = World::new(4);
        let uid = world.uid();
        let mut one = paused("c", uid);
        (one.infrastructure, one.control_plane) = (None, None);
        one.variables = Some(vec![json!({"name": "ip", "value": given}), json!({"name": "pod", "value": POD})]);
        one.notes.variables = Some("ip,pod".into());
        world.put_cluster(one);
        world.settle(LONG);
        assert_eq!((world.claims[&key("c")].address, reason(&world, "c")), (end, said));
        assert_eq!(world.clusters[&key("c")].variables.as_ref().unwrap()[0]["value"], given, "it stays");
    }
}

#[test]
fn a_port_is_written_with_the_host_if_there_is_none() {
    for (own, of_cluster, expected) in [(None, None, 6443), (None, Some(443), 443), (Some(8443), Some(443), 8443)] {
        let mut world = World::new(4);
        let uid = world.uid();
        let mut one = paused("c", uid);
        one.port = of_cluster;
        create(&mut world, one);
        let mut part = super::infrastructure("c");
        part.port = own;
        world.put_infrastructure(part);
        world.settle(LONG);
        assert_eq!(world.infrastructures[&reference(super::objects::INFRASTRUCTURE, "c")].port, Some(expected));
    }
}

#[test]
fn a_target_for_addresses_of_services_that_holds_something_else_is_left_alone() {
    let mut world = World::new(4);
    let uid = world.uid();
    let mut one = paused("c", uid);
    one.notes.service_pool = Some("GlobalInClusterIPPool/lb".into());
    one.notes.service_target = Some("ConfigMap/c-kubevip/cidr-global".into());
    create(&mut world, one);
    world.put_text(&config_map("c"), "server: 10.0.0.1, port: 80");
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "ManifestNotUsable");
    assert_eq!(world.texts[&config_map("c")].text.as_deref(), Some("server: 10.0.0.1, port: 80"));
}

#[test]
fn an_encoded_file_from_a_secret_is_refused() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    let mut one = plane("c");
    if let Place::Files(files) = &mut one.place {
        files[2].encoded = true;
    }
    world.put_plane(one);
    world.put_text(&secret("c"), "a2luZDogUG9kICMga3ViZS12aXA=");
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), world.host(&key("c"))), ("ManifestNotUsable", None));
    assert!(world.clusters[&key("c")].paused);
}

#[test]
fn kamaji_gets_its_service_address_and_another_one_stays() {
    for (before, after) in [(None, "Written"), (Some("10.0.0.9"), "EndpointDiffers")] {
        let mut world = World::new(4);
        let uid = world.uid();
        let mut one = paused("c", uid);
        let kind = ("controlplane.cluster.x-k8s.io", "KamajiControlPlane");
        one.control_plane = Some(reference(kind, "c"));
        world.put_cluster(one);
        world.put_infrastructure(super::infrastructure("c"));
        let mut one = plane("c");
        (one.reference, one.place) = (reference(kind, "c"), Place::ServiceAddress(before.map(Into::into)));
        world.put_plane(one);
        world.settle(LONG);
        assert_eq!(reason(&world, "c"), after);
        let address = before.unwrap_or("10.0.0.1");
        assert_eq!(world.planes[&reference(kind, "c")].place, Place::ServiceAddress(Some(address.into())));
    }
}

#[test]
fn services_get_their_addresses_where_asked() {
    let mut world = World::new(4);
    let uid = world.uid();
    let mut one = paused("c", uid);
    one.notes.service_pool = Some("GlobalInClusterIPPool/lb".into());
    one.notes.service_count = Some("3".into());
    one.notes.service_target = Some("ConfigMap/c-kubevip/cidr-global".into());
    create(&mut world, one);
    world.settle(LONG);
    let text = |world: &World, what: &Companion| world.texts[what].text.clone().unwrap();
    let all = "10.9.0.0/24,10.0.1.1/32,10.0.1.2/32,10.0.1.3/32";
    assert_eq!(&*text(&world, &config_map("c")), all);
    assert_eq!(reason(&world, "c"), "Written");
    assert_eq!(world.claims.len(), 4);
    // With a smaller number, a claim that is deleted goes.
    let mut one = world.clusters[&key("c")].clone();
    one.notes.service_count = Some("2".into());
    world.put_cluster(one);
    for name in ["c-svc-lb-1", "c-svc-lb-2"] {
        let claim = world.claims[&key(name)].clone();
        world.put_claim(super::world::Stored { deleting: true, ..claim });
    }
    world.settle(LONG);
    assert!(world.claims.contains_key(&key("c-svc-lb-1")) && !world.claims.contains_key(&key("c-svc-lb-2")));
    let mut one = world.clusters[&key("c")].clone();
    one.notes.service_count = Some("many".into());
    world.put_cluster(one);
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "InvalidRequest");
}

#[test]
fn a_kind_that_is_not_followed_is_said() {
    let mut world = World::new(4);
    let uid = world.uid();
    let mut one = paused("c", uid);
    one.infrastructure = Some(reference(("infrastructure.cluster.x-k8s.io", "OtherCluster"), "c"));
    create(&mut world, one);
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), world.writes), ("KindNotFollowed", 0));
}

#[test]
fn nothing_is_decided_before_it_leads() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    let mut machine = crate::machine::Machine::new(super::world::settings());
    let one = world.clusters[&key("c")].clone();
    assert!(machine.step(mooring_allocator_core::work::Moment::default(), Event::Cluster(Box::new(one))).is_empty());
}
