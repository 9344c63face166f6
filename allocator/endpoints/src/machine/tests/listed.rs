//! Clusters that come back before the claims for their Services: the target lists what these had.

use std::net::IpAddr;

use super::objects::{config_map, key, paused};
use super::world::{Stored, World};
use super::{LONG, create, reason};
use crate::machine::Kind;

fn asks(world: &mut World, name: &str, count: u32) {
    let mut one = paused(name, world.uid());
    one.notes.service_pool = Some("GlobalInClusterIPPool/lb".into());
    one.notes.service_count = Some(count.to_string().into());
    one.notes.service_target = Some(format!("ConfigMap/{name}-kubevip/cidr-global").into());
    create(world, one);
}

fn ip(last: u8) -> IpAddr {
    [10, 0, 1, last].into()
}

/// The addresses of its claims, by number.
fn addresses(world: &World, name: &str) -> Vec<Option<IpAddr>> {
    let claims = world.claims.values().filter(|claim| claim.key.name.starts_with(&format!("{name}-svc-lb-")));
    claims.map(|claim| claim.address).collect()
}

fn text<'a>(world: &'a World, name: &str) -> &'a str {
    world.texts[&config_map(name)].text.as_deref().unwrap()
}

pub(super) fn what_the_list_has_is_had_again() {
    let mut world = World::new(4);
    asks(&mut world, "c", 2);
    world.put_text(&config_map("c"), "10.9.0.0/24,10.0.1.14/32,10.0.1.13");
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), addresses(&world, "c")), ("Written", vec![Some(ip(14)), Some(ip(13))]));
    assert_eq!(text(&world, "c"), "10.9.0.0/24,10.0.1.14/32,10.0.1.13", "nothing is added");
}

#[test]
fn claims_that_come_after_their_cluster_have_what_its_target_lists() {
    what_the_list_has_is_had_again();
}

#[test]
fn a_target_that_comes_after_the_cluster_is_waited_for() {
    let mut world = World::new(4);
    asks(&mut world, "c", 2);
    world.texts.remove(&config_map("c"));
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), addresses(&world, "c")), ("WaitingForSecret", vec![]));
    world.put_text(&config_map("c"), "10.0.1.14/32,10.0.1.13/32");
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), addresses(&world, "c")), ("Written", vec![Some(ip(14)), Some(ip(13))]));
    assert_eq!(text(&world, "c"), "10.0.1.14/32,10.0.1.13/32");
}

#[test]
fn a_list_is_longer_or_shorter_than_what_is_asked_for() {
    for (before, count, had, after) in [
        ("10.9.0.7/32,10.0.1.14/32", 1, &[14][..], "10.9.0.7/32,10.0.1.14/32"),
        ("10.0.1.2/32", 3, &[2, 1, 3], "10.0.1.2/32,10.0.1.1/32,10.0.1.3/32"),
        ("", 2, &[1, 2], "10.0.1.1/32,10.0.1.2/32"),
    ] {
        let mut world = World::new(4);
        asks(&mut world, "c", count);
        world.put_text(&config_map("c"), before);
        world.settle(LONG);
        let had: Vec<Option<IpAddr>> = had.iter().map(|last| Some(ip(*last))).collect();
        assert_eq!((reason(&world, "c"), addresses(&world, "c"), text(&world, "c")), ("Written", had, after));
    }
}

#[test]
fn what_another_has_is_said_until_it_is_taken_out_of_the_list() {
    let mut world = World::new(4);
    asks(&mut world, "d", 1);
    world.settle(LONG);
    asks(&mut world, "c", 2);
    world.put_text(&config_map("c"), "10.0.1.1/32");
    world.settle(LONG);
    let said = world.machine.standing(&key("c")).unwrap().clone();
    let place = "ConfigMap c-kubevip (key cidr-global) lists 10.0.1.1: take it out there";
    assert!(said.message.contains("c-svc-lb-0") && said.message.contains(place), "{said:?}");
    assert_eq!((reason(&world, "c"), text(&world, "c")), ("PoolExhausted", "10.0.1.1/32"));
    world.put_text(&config_map("c"), "");
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), text(&world, "c")), ("Written", "10.0.1.2/32,10.0.1.3/32"));
}

#[test]
fn a_claim_that_is_restored_before_its_cluster_keeps_what_it_had() {
    for (had, moved) in [(Some(ip(13)), None), (None, Some(ip(13))), (None, None)] {
        let mut world = World::new(4);
        world.pools.insert("lb".into(), [].into());
        world.chart_claim("c-svc-lb-0");
        let claim = world.claims[&key("c-svc-lb-0")].clone();
        world.put_claim(Stored { had, pool: super::objects::pool("lb"), ..claim });
        asks(&mut world, "c", 2);
        world.put_text(&config_map("c"), "10.0.1.13/32,10.0.1.14/32");
        world.settle(LONG);
        // Its IPAddress, and the pool, come last.
        world.moved.extend(moved.map(|ip| (key("c-svc-lb-0"), ip)));
        world.pools.insert("lb".into(), [11, 12, 13, 14].map(ip).into());
        world.settle(LONG);
        let first = had.or(moved).unwrap_or_else(|| ip(11));
        assert_eq!((reason(&world, "c"), addresses(&world, "c")), ("Written", vec![Some(first), Some(ip(14))]));
    }
}

pub(super) fn what_was_taken_out_is_not_asked_for() {
    let mut world = World::new(4);
    asks(&mut world, "c", 1);
    world.put_text(&config_map("c"), "10.0.1.14/32");
    world.settle(LONG);
    assert_eq!(addresses(&world, "c"), [Some(ip(14))]);
    // Somebody wants another: nobody tells of the list.
    world.put_text(&config_map("c"), "");
    let claim = world.claims.remove(&key("c-svc-lb-0")).unwrap();
    world.gone(&claim);
    world.deliver(&Kind::Claims);
    // An allocation is quicker than a read.
    world.execute_first(false);
    world.allocate();
    world.settle(LONG);
    assert_eq!((reason(&world, "c"), addresses(&world, "c")), ("Written", vec![Some(ip(1))]));
    assert_eq!(text(&world, "c"), "10.0.1.1/32");
}

#[test]
fn an_address_that_was_taken_out_of_the_list_a_moment_ago_is_not_asked_for() {
    what_was_taken_out_is_not_asked_for();
}
