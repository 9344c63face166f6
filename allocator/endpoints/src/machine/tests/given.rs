//! Hosts that others give, take away or change; claims that others make or delete.

use super::objects::{INFRASTRUCTURE, cluster, infrastructure, key, paused, reference};
use super::world::{Stored, World, parts};
use super::{LONG, create, reason};

pub(super) fn set_host(world: &mut World, name: &str, host: Option<&str>) {
    let mut one = world.infrastructures[&reference(INFRASTRUCTURE, name)].clone();
    one.host = host.map(Into::into);
    world.put_infrastructure(one);
}

#[test]
fn a_host_that_is_given_is_pinned_and_nothing_is_written() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, cluster("c", uid));
    world.touched.insert(key("c"));
    set_host(&mut world, "c", Some("10.0.0.3"));
    world.settle(LONG);
    let claim = &world.claims[&key("c")];
    assert_eq!((claim.requested, claim.address), ("10.0.0.3".parse().ok(), "10.0.0.3".parse().ok()));
    assert_eq!((world.writes, reason(&world, "c")), (2, "Drifted"), "the claim and its condition");
    // Nobody else gets it.
    for name in ["d", "e", "f"] {
        let uid = world.uid();
        create(&mut world, paused(name, uid));
    }
    world.settle(LONG);
    let hosts: Vec<String> = ["d", "e", "f"].map(|name| world.host(&key(name)).unwrap().to_string()).into();
    assert_eq!(hosts, ["10.0.0.1", "10.0.0.2", "10.0.0.4"]);
}

#[test]
fn a_host_that_cannot_be_had_leaves_the_cluster_paused() {
    let mut world = World::new(4);
    for name in ["c", "d"] {
        let uid = world.uid();
        create(&mut world, paused(name, uid));
        world.touched.insert(key(name));
    }
    set_host(&mut world, "c", Some("10.0.0.3"));
    set_host(&mut world, "d", Some("10.0.0.3"));
    world.settle(LONG);
    let refused: Vec<&str> = ["c", "d"].into_iter().filter(|name| reason(&world, name) == "PoolExhausted").collect();
    assert_eq!(refused.len(), 1);
    assert!(world.clusters[&key(refused[0])].paused);
    let names = world.claims.values().filter(|claim| claim.address.is_some()).count();
    assert_eq!(names, 1);
}

#[test]
fn a_host_that_is_emptied_is_put_back_and_one_that_is_changed_stays() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.settle(LONG);
    let mut one = world.clusters[&key("c")].clone();
    (one.initialised, one.host) = (true, Some("10.0.0.1".into()));
    world.put_cluster(one);
    set_host(&mut world, "c", None);
    world.settle(LONG);
    assert_eq!(world.host(&key("c")).unwrap().to_string(), "10.0.0.1");
    world.touched.insert(key("c"));
    set_host(&mut world, "c", Some("10.0.0.4"));
    world.settle(LONG);
    assert_eq!(
        (reason(&world, "c"), world.host(&key("c")).unwrap().to_string()),
        ("EndpointDiffers", "10.0.0.4".into())
    );
    set_host(&mut world, "c", Some("api.example.org"));
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "EndpointIsAName");
}

#[test]
fn a_claim_that_is_deleted_keeps_the_endpoint_until_the_cluster_is_gone() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.settle(LONG);
    let claim = world.claims[&key("c")].clone();
    world.put_claim(Stored { deleting: true, ..claim });
    let mut one = world.clusters[&key("c")].clone();
    one.deleting = true;
    world.put_cluster(one);
    world.settle(LONG);
    assert!(world.claims.contains_key(&key("c")));
    world.remove_cluster(&key("c"));
    world.settle(LONG);
    assert!(world.claims.is_empty());
}

#[test]
fn a_claim_that_a_chart_made_is_taken_over() {
    let mut world = World::new(4);
    world.chart_claim("c");
    world.settle(LONG);
    assert_eq!(world.claims[&key("c")].label, None, "as long as there is no such Cluster");
    let uid = world.uid();
    create(&mut world, paused("c", uid.clone()));
    world.settle(LONG);
    let claim = &world.claims[&key("c")];
    assert!(claim.is_owned_by(&uid) && claim.in_use);
    assert_eq!(reason(&world, "c"), "Written");
}

/// The watch of Clusters may be behind the watch of claims.
pub(super) fn what_is_shown_before_its_cluster_stays() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, cluster("c", uid));
    world.settle(LONG);
    let claim = world.claims[&key("c")].clone();
    let mut other = World::new(4);
    other.settle(LONG);
    create(&mut other, world.clusters[&key("c")].clone());
    other.put_claim(claim);
    other.deliver(&crate::machine::Kind::Claims);
    other.settle(LONG);
    assert!(!other.claims[&key("c")].deleting);
}

#[test]
fn a_claim_that_is_shown_before_its_cluster_is_not_released() {
    what_is_shown_before_its_cluster_stays();
}

#[test]
fn a_given_host_is_written_everywhere_if_the_cluster_waits_for_that() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.touched.insert(key("c"));
    set_host(&mut world, "c", Some("10.0.0.3"));
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), world.clusters[&key("c")].paused), ("Written", false));
    // And again, as an upgrade has it.
    let mut one = world.clusters[&key("c")].clone();
    (one.paused, one.initialised, one.notes.paused_for_endpoint) = (true, true, true);
    world.put_plane(super::plane("c"));
    world.put_cluster(one);
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), world.clusters[&key("c")].paused), ("Written", false));
}

#[test]
fn a_claim_for_a_host_that_cannot_be_had_goes_with_the_host() {
    for (host, end) in [(None, "10.0.0.1"), (Some("10.0.0.4"), "10.0.0.4")] {
        let mut world = World::new(4);
        for name in ["c", "d"] {
            world.touched.insert(key(name));
            world.put_infrastructure(infrastructure(name));
            set_host(&mut world, name, Some("10.0.0.3"));
            let (uid, part) = (world.uid(), world.infrastructures[&reference(INFRASTRUCTURE, name)].clone());
            create(&mut world, paused(name, uid));
            world.put_infrastructure(part);
            world.deliver(&parts(INFRASTRUCTURE));
            world.settle(LONG);
        }
        assert_eq!((reason(&world, "c"), reason(&world, "d")), ("Written", "PoolExhausted"));
        set_host(&mut world, "d", host);
        world.settle(LONG);
        let claim = &world.claims[&key("d")];
        assert_eq!((reason(&world, "d"), claim.address), ("Written", end.parse().ok()), "{claim:?}");
        assert_eq!(claim.requested, host.and_then(|host| host.parse().ok()));
    }
}

#[test]
fn a_claim_that_a_chart_made_for_an_address_keeps_it() {
    let mut world = World::new(4);
    world.chart_claim("c");
    let claim = world.claims[&key("c")].clone();
    world.put_claim(Stored { requested: "10.0.0.9".parse().ok(), ..claim });
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "PoolExhausted");
    assert!(!world.claims[&key("c")].deleting);
}
