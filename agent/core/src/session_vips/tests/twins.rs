//! Two machines with the same node name: a cloned machine, or copied settings.

use super::world::{Api, World, ms, vip};
use crate::mac::Mac;
use crate::rules::Rules;
use crate::session::Link;
use crate::session_vips::Report;

const TWIN: usize = 2;

/// Two nodes with so many VIPs each way, and a third machine, which is not running yet, with the name of the first.
fn world(vips: u8) -> World {
    let rules = &Rules::default();
    let mut world = World::new(3, rules);
    world.hosts[TWIN].up = false;
    for n in 0..2 {
        world.start(n);
    }
    world.run(ms(1_000));
    for v in 0..vips {
        world.create(vip(v));
    }
    world.run(ms(12_000));
    assert!((0..2).all(|n| !world.hosts[n].carries.is_empty()), "spread");
    world.hosts[TWIN].name = world.hosts[0].name.clone();
    world
}

fn told(world: &World, n: usize) -> usize {
    world.reported(n, |r| matches!(r, Report::NameTaken { .. }))
}

fn twin_of(world: &World, n: usize) -> Option<Vec<Mac>> {
    world.hosts[n].session_vips.snapshot().twin
}

#[test]
fn a_machine_with_the_name_of_one_that_lives_carries_and_writes_nothing() {
    let (world, rules) = (&mut world(12), &Rules::default());
    let (since, calls) = (world.now, world.calls());
    world.restart(TWIN, rules);
    world.run(ms(60_000));
    assert!(world.hosts[TWIN].carries.is_empty());
    assert!(world.worst(12, since, |n| n != 1).is_zero(), "the first goes on as if nothing was");
    let calls = world.calls() - calls;
    assert!(calls <= 65, "{calls} calls of two nodes in a minute, and none of the third");
    assert_eq!((told(world, TWIN), told(world, 0)), (1, 0), "said once in a while");
    assert_eq!(twin_of(world, TWIN), Some(vec![world.hosts[0].mac]));
    world.run(ms(600_000));
    assert_eq!(told(world, TWIN), 2);
}

#[test]
fn an_agent_that_is_restarted_does_not_lose_its_name_to_another_machine() {
    let (world, rules) = (&mut world(12), &Rules::default());
    world.restart(TWIN, rules);
    world.run(ms(5_000));
    let since = world.now;
    world.restart(0, rules);
    world.run(ms(10_000));
    assert!(world.worst(12, since, |n| n != 1).is_zero(), "adopted at once");
    // The other node takes the VIPs, and the session is ended.
    world.tell(0, crate::session_vips::Event::Shutdown);
    world.run(ms(8_000));
    assert!(!world.sessions["node1"].is_live() && world.hosts[0].exited);
    world.restart(0, rules);
    world.run(ms(60_000));
    assert!(world.hosts[TWIN].carries.is_empty());
    assert_eq!(world.sessions["node1"].links()[0].macs, [world.hosts[0].mac]);
    assert!(world.worst(12, since, |n| n > 1) < ms(200), "no more than hand-overs take");
}

#[test]
fn the_name_is_free_when_the_other_machine_is_gone() {
    let (world, rules) = (&mut world(12), &Rules::default());
    world.restart(TWIN, rules);
    world.run(ms(5_000));
    let since = world.now;
    world.crash(0);
    world.run(ms(25_000));
    assert_eq!(world.sessions["node1"].links()[0].macs, [world.hosts[TWIN].mac]);
    assert_eq!(twin_of(world, TWIN), None);
    assert!(world.worst(12, since, |n| n > 1).is_zero());
    // Now it is the first machine that has to wait.
    world.restart(0, rules);
    world.run(ms(20_000));
    assert!(world.hosts[0].carries.is_empty());
    assert_eq!((told(world, 0), twin_of(world, 0)), (1, Some(vec![world.hosts[TWIN].mac])));
}

#[test]
fn a_machine_whose_session_was_taken_by_another_lets_go() {
    let (world, rules) = (&mut world(12), &Rules::default());
    world.restart(TWIN, rules);
    world.run(ms(5_000));
    // Cut off from the API, and for a while nobody hears it: its session ends, and the other machine has the name.
    world.set_api(0, Api::Refused);
    world.hosts[0].group = 1;
    world.run(ms(40_000));
    world.hosts[0].group = 0;
    world.set_api(0, Api::Up);
    let since = world.now;
    world.run(ms(30_000));
    assert_eq!(world.sessions["node1"].links()[0].macs, [world.hosts[TWIN].mac]);
    assert!(world.hosts[0].carries.is_empty());
    assert_eq!(told(world, 0), 1);
    assert!(world.worst(12, since + ms(1_500), |n| n != 1).is_zero());
}

#[test]
fn two_machines_of_one_name_that_start_together_are_one_node() {
    let rules = &Rules::default();
    let mut world = World::new(3, rules);
    world.hosts[TWIN].name = "node1".into();
    for v in 0..12 {
        world.create(vip(v));
    }
    for n in [0, TWIN] {
        world.restart(n, rules);
    }
    world.start(1);
    world.run(ms(60_000));
    assert_eq!([0, TWIN].map(|n| world.hosts[n].carries.is_empty()).iter().filter(|none| **none).count(), 1);
    assert_eq!([0, TWIN].map(|n| told(&world, n)).iter().sum::<usize>(), 1);
    assert!((0..12).all(|v| world.carriers(vip(v)).len() == 1));
}

#[test]
fn a_machine_with_another_card_waits_for_the_end_of_its_session() {
    let rules = &Rules::default();
    let world = &mut World::settled(1, 3, rules);
    world.crash(0);
    world.hosts[0].mac = Mac([2, 0, 0, 0, 9, 9]);
    world.restart(0, rules);
    world.run(ms(3_000));
    assert!(world.hosts[0].carries.is_empty(), "the other may be alive");
    world.run(ms(14_000));
    assert!((0..3).all(|v| world.carriers(vip(v)) == [0]));
    assert_eq!(twin_of(world, 0), None);
    // With other nodes there, they have ended its session by the time it is back.
    let world = &mut World::settled(3, 9, rules);
    world.crash(0);
    world.run(ms(5_000));
    world.hosts[0].mac = Mac([2, 0, 0, 0, 9, 9]);
    world.restart(0, rules);
    world.run(ms(1_000));
    assert!(world.sessions["node1"].is_live(), "at once");
    assert_eq!(told(world, 0), 0);
}

#[test]
fn an_interface_that_is_found_late_shows_whose_the_session_is() {
    let rules = &Rules::default();
    let world = &mut World::settled(1, 3, rules);
    let mac = std::mem::replace(&mut world.hosts[0].mac, Mac([2, 0, 0, 0, 9, 9]));
    world.restart(0, rules);
    world.run(ms(2_000));
    assert_eq!(twin_of(world, 0), Some(vec![mac]));
    world.hosts[0].mac = mac;
    world.tell_node(0);
    world.run(ms(1_000));
    assert_eq!(twin_of(world, 0), None);
    assert!((0..3).all(|v| world.carriers(vip(v)) == [0]), "adopted");
}

#[test]
fn a_mac_address_that_changes_while_the_agent_runs_is_its_own() {
    let rules = &Rules::default();
    let world = &mut World::settled(2, 6, rules);
    let since = world.now;
    for last in 1..4 {
        world.hosts[0].mac = Mac([2, 0, 0, 0, 9, last]);
        world.tell_node(0);
        // What it declared before is on the Lease until its write has taken effect.
        world.run(ms(if last == 2 { 0 } else { 3_000 }));
    }
    // Its session is ended and begins anew, or it was declared by what the machine had before.
    world.delete_session("node1");
    world.run(ms(30_000));
    assert_eq!(told(world, 0), 0);
    assert!(world.worst(6, since, |n| n > 1).is_zero());
    assert!(world.sessions["node1"].is_live());
}

#[test]
fn a_session_that_declares_no_mac_address_is_adopted() {
    let rules = &Rules::default();
    let world = &mut World::settled(2, 6, rules);
    world.freeze(0);
    let mut view = world.sessions["node1"].clone();
    let without = |link: &Link| Link { macs: vec![], ..link.clone() };
    let declared = view.declared.as_mut().unwrap();
    declared.links = declared.links.iter().map(without).collect();
    world.store("node1".into(), Some(view.uid), view.record, view.declared, None);
    world.hosts[0].frozen = None;
    let since = world.now;
    world.restart(0, rules);
    world.run(ms(10_000));
    assert_eq!(told(world, 0), 0);
    assert!(world.worst(6, since, |n| n != 1).is_zero());
}

/// The other machine runs an agent that does not look whose session it is.
#[test]
fn a_session_that_another_machine_renews_too_is_reported_and_kept() {
    let world = &mut world(12);
    let since = world.now;
    for _ in 0..10 {
        let view = world.sessions["node1"].clone();
        let mut declared = view.declared.clone().unwrap();
        declared.links[0].macs = vec![world.hosts[TWIN].mac];
        let mut record = view.record.clone();
        record.renewed = record.renewed.map(|at| crate::time::WallTime(at.0 + 1));
        world.store("node1".into(), Some(view.uid), record, Some(declared), None);
        world.run(ms(1_500));
    }
    assert_eq!(told(world, 0), 1);
    assert_eq!(twin_of(world, 0), Some(vec![world.hosts[TWIN].mac]));
    assert!(world.worst(12, since, |n| n != 1).is_zero());
    world.run(ms(20_000));
    assert_eq!(twin_of(world, 0), None);
}
