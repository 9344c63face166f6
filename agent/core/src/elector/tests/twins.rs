//! Two machines with the same node name: a cloned machine, or copied settings.

use super::world::{Api, World, ms};
use crate::action::Report;
use crate::lease::LeaseView;
use crate::mac::Mac;
use crate::rules::Rules;

/// Two nodes, the one that holds the VIP, and a third machine, which is not running yet, with its name.
fn world() -> (World, usize, usize) {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let twin = (holder + 1) % 3;
    world.crash(twin);
    world.hosts[twin].name = world.hosts[holder].name.clone();
    world.run(ms(1_000));
    (world, holder, twin)
}

fn begin(world: &mut World, n: usize) {
    world.hosts[n].up = true;
    world.restart(n, &Rules::default());
}

fn told(world: &World, n: usize) -> usize {
    world.reported(n, |r| matches!(r, Report::NameTaken { .. }))
}

fn declares(world: &World) -> Vec<Mac> {
    world.lease.as_ref().and_then(LeaseView::declaration).map(|d| d.macs.clone()).unwrap_or_default()
}

#[test]
fn a_machine_with_the_name_of_the_holder_takes_and_writes_nothing() {
    let (mut world, holder, twin) = world();
    let (since, writes) = (world.now, world.hosts[twin].writes);
    begin(&mut world, twin);
    world.run(ms(60_000));
    assert!(world.time_with(since, |n| n != 1).is_zero());
    assert_eq!(world.owners(), [holder]);
    assert_eq!(world.hosts[twin].writes, writes);
    assert_eq!((told(&world, twin), told(&world, holder)), (1, 0));
    assert_eq!(world.hosts[twin].elector.snapshot().twin, Some(vec![world.hosts[holder].mac]));
    // A restart of the holder's agent is none of its business.
    let since = world.now;
    world.restart(holder, &Rules::default());
    world.run(ms(10_000));
    assert_eq!(world.owners(), [holder]);
    assert!(world.time_with(since, |n| n != 1).is_zero());
}

#[test]
fn what_an_earlier_agent_left_on_a_machine_with_a_taken_name_is_removed() {
    let (mut world, holder, twin) = world();
    world.hosts[twin].carries = world.hosts[holder].carries.clone();
    begin(&mut world, twin);
    world.run(ms(500));
    assert_eq!(world.owners(), [holder]);
    world.run(ms(20_000));
    assert_eq!(world.owners(), [holder]);
}

#[test]
fn a_machine_with_the_name_of_a_holder_that_crashed_takes_the_vip() {
    let (mut world, holder, twin) = world();
    begin(&mut world, twin);
    world.run(ms(5_000));
    let other = 3 - holder - twin;
    world.crash(other);
    world.crash(holder);
    world.run(ms(20_000));
    assert_eq!(world.owners(), [twin]);
    assert_eq!(declares(&world), [world.hosts[twin].mac]);
    assert_eq!(world.hosts[twin].elector.snapshot().twin, None);
    // Now the first machine has to wait.
    begin(&mut world, holder);
    world.run(ms(20_000));
    assert_eq!(world.owners(), [twin]);
    assert_eq!(told(&world, holder), 1);
}

#[test]
fn a_holder_whose_lease_another_machine_took_under_its_name_lets_go() {
    let (mut world, holder, twin) = world();
    let other = 3 - holder - twin;
    world.crash(other);
    begin(&mut world, twin);
    world.run(ms(5_000));
    world.set_api(holder, Api::Refused);
    world.hosts[holder].group = 1;
    world.run(ms(30_000));
    assert!(world.owners().contains(&twin));
    world.hosts[holder].group = 0;
    world.set_api(holder, Api::Up);
    world.run(ms(20_000));
    assert_eq!(world.owners(), [twin]);
    assert_eq!(declares(&world), [world.hosts[twin].mac]);
}

#[test]
fn a_holder_whose_mac_address_changes_keeps_the_vip() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let since = world.now;
    for last in 1..4 {
        world.hosts[holder].mac = Mac([2, 0, 0, 0, 9, last]);
        world.start(holder, &[super::world::VIP]);
        world.run(ms(3_000));
    }
    assert_eq!(world.owners(), [holder]);
    assert_eq!(told(&world, holder), 0);
    assert!(world.time_with(since, |n| n != 1).is_zero());
}

#[test]
fn a_tenure_that_an_older_agent_elsewhere_renews_under_this_name_is_reported_and_kept() {
    let (mut world, holder, twin) = world();
    let since = world.now;
    for _ in 0..10 {
        let mut lease = world.lease.clone().unwrap();
        lease.notes.tenure.as_mut().unwrap().declared.macs = vec![world.hosts[twin].mac];
        world.store(lease.record, lease.notes);
        world.run(ms(1_500));
    }
    assert_eq!(world.owners(), [holder]);
    assert!(world.time_with(since, |n| n != 1).is_zero());
    assert_eq!(told(&world, holder), 1);
}
