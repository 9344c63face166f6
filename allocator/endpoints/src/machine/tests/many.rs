//! Races, many Clusters, and how much is written.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use super::objects::{key, paused, secret};
use super::world::World;
use super::{LONG, POD, create, reason};

#[test]
fn two_clusters_race_for_the_last_address_and_the_other_gets_the_next() {
    let mut world = World::new(1);
    for name in ["a", "b"] {
        let uid = world.uid();
        create(&mut world, paused(name, uid));
    }
    world.settle(LONG);
    let mut reasons = [reason(&world, "a"), reason(&world, "b")];
    reasons.sort_unstable();
    assert_eq!(reasons, ["PoolExhausted", "Written"]);
    if let Some(pool) = world.pools.get_mut("cp") {
        pool.insert(IpAddr::from([10, 0, 0, 2]));
    }
    world.settle(LONG);
    assert_eq!([reason(&world, "a"), reason(&world, "b")], ["Written"; 2]);
}

#[test]
fn two_hundred_clusters_at_once_have_as_many_addresses_and_six_writes_each() {
    let mut world = World::new(200);
    let names: Vec<String> = (0..200).map(|number| format!("c{number}")).collect();
    for name in &names {
        let uid = world.uid();
        create(&mut world, paused(name, uid));
    }
    world.settle(LONG);
    let hosts: BTreeSet<IpAddr> = names.iter().filter_map(|name| world.host(&key(name))).collect();
    assert_eq!(hosts.len(), 200);
    assert_eq!(world.writes, 1200);
    world.settle(Duration::from_hours(1));
    assert_eq!(world.writes, 1200, "nothing is written once all is");
}

pub(super) fn what_is_put_back_is_not_written_for_ever() {
    let mut world = World::new(4);
    world.reverts = true;
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.put_text(&secret("c"), POD);
    world.settle(Duration::from_mins(10));
    assert!(world.writes < 20, "{} writes", world.writes);
}

/// Whatever is listed first.
pub(super) fn what_is_done_is_not_done_again_after_a_restart() {
    for order in 0..64 {
        let mut world = World::new(4);
        for name in ["a", "b"] {
            let uid = world.uid();
            create(&mut world, paused(name, uid));
        }
        world.settle(LONG);
        let writes = world.writes;
        world.start();
        let mut at = order;
        while world.go_on(at % 4) {
            at /= 4;
        }
        world.settle(LONG);
        assert_eq!(world.writes, writes, "order {order}");
    }
}

#[test]
fn a_restart_writes_nothing() {
    what_is_done_is_not_done_again_after_a_restart();
}

#[test]
fn what_a_webhook_puts_back_is_not_written_for_ever() {
    what_is_put_back_is_not_written_for_ever();
}
