//! What else the design says: foreign owners, other electors, short timers, clocks, settings that change.

use std::time::Duration;

use super::world::{Api, STRANGER, VIP, World, ms};
use crate::action::{Cause, Report};
use crate::event::Event;
use crate::lease::{Notes, Record};
use crate::mac::Mac;
use crate::rules::Rules;

fn short() -> Rules {
    Rules { lease_duration: ms(5_000), renew_deadline: ms(3_000), retry_period: ms(1_000), ..Rules::default() }
}

#[test]
fn a_foreign_owner_keeps_the_vip_from_being_taken() {
    let mut world = World::new(2, &Rules::default());
    world.stranger = true;
    for n in 0..2 {
        world.start(n, &[VIP]);
    }
    world.run(ms(10_000));
    assert!(world.owners().is_empty());
    assert!(world.reported(0, |r| matches!(r, Report::ForeignOwner { mac: STRANGER, .. })) >= 1);
    world.stranger = false;
    world.run(ms(4_000));
    assert_eq!(world.owners().len(), 1);
}

#[test]
fn a_stranger_is_not_believed_while_the_api_is_slow() {
    let (mut world, holder) = World::settled(2, &Rules::default());
    world.set_api(holder, Api::Hanging);
    world.claim(holder, STRANGER);
    world.run(ms(1_000));
    assert_eq!(world.owners(), [holder]);
    assert_eq!(world.reported(holder, |r| *r == Report::Defended { address: VIP }), 1);
}

#[test]
fn a_participant_is_yielded_to_while_the_api_is_slow() {
    let (mut world, holder) = World::settled(2, &Rules::default());
    world.set_api(holder, Api::Hanging);
    let mac = world.hosts[1 - holder].mac;
    world.claim(holder, mac);
    world.run(ms(250));
    assert!(!world.owners().contains(&holder));
}

#[test]
fn a_participant_heard_just_after_a_stranger_is_yielded_to_as_soon() {
    let (mut world, holder) = World::settled(2, &Rules::default());
    world.set_api(holder, Api::Hanging);
    let mac = world.hosts[1 - holder].mac;
    world.claim(holder, STRANGER);
    world.run(ms(20));
    world.claim(holder, mac);
    world.claim(holder, STRANGER);
    world.run(ms(250));
    assert!(!world.owners().contains(&holder));
}

#[test]
fn a_holder_that_declares_nothing_is_not_robbed() {
    let mut world = World::new(2, &Rules::default());
    let record = Record { holder: "kube-vip".into(), duration: ms(15_000), ..Record::default() };
    world.store(record, Notes::default());
    for n in 0..2 {
        world.start(n, &[VIP]);
    }
    world.run(ms(14_000));
    assert!(world.owners().is_empty());
    world.run(ms(4_000));
    let new = world.owners()[0];
    assert_eq!(world.reported(new, |r| *r == Report::Took(Cause::Expiry)), 1);
}

#[test]
fn a_conflict_over_a_note_does_not_lose_the_lease() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let since = world.now;
    for _ in 0..50 {
        let lease = world.lease.clone().unwrap();
        world.set_api(holder, Api::Refused);
        world.store(lease.record, lease.notes);
        world.hosts[holder].api = Api::Up;
        world.run(ms(777));
    }
    assert!(world.time_with(since, |n| n != 1).is_zero());
    assert_eq!(world.owners(), [holder]);
}

#[test]
fn answers_that_are_lost_change_no_holder() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let since = world.now;
    world.set_api(holder, Api::Lossy);
    world.run(ms(30_000));
    world.set_api(holder, Api::Up);
    world.run(ms(10_000));
    assert!(world.time_with(since, |n| n != 1).is_zero());
    assert_eq!(world.owners(), [holder]);
}

#[test]
fn short_timers_keep_the_law() {
    for crash in [true, false] {
        let (mut world, holder) = World::settled(3, &short());
        let since = world.now;
        if crash {
            world.crash(holder);
        } else {
            world.freeze(holder);
        }
        world.run(ms(20_000));
        if !crash {
            world.thaw(holder);
        }
        world.run(ms(10_000));
        assert!(world.time_with(since, |n| n > 1).is_zero());
        assert!(world.time_with(since, |n| n == 0) < ms(1_500));
        assert_eq!(world.owners().len(), 1);
    }
}

#[test]
fn short_timers_leave_no_gap_when_the_kernel_is_on_time() {
    for how in [Api::Up, Api::Refused, Api::Hanging] {
        let (mut world, holder) = World::settled(3, &short());
        world.kernel_late = Duration::ZERO;
        world.run(ms(2_000));
        let since = world.now;
        world.set_api_everywhere(how);
        world.run(ms(30_000));
        assert!(world.time_with(since, |n| n != 1).is_zero(), "{how:?}");
        assert_eq!(world.owners(), [holder]);
    }
}

#[test]
fn without_its_namespace_a_lease_is_asked_for_seldom_and_then_taken() {
    let mut world = World::new(3, &Rules::default());
    world.namespace = false;
    for n in 0..3 {
        world.start(n, &[VIP]);
    }
    world.run(ms(600_000));
    for host in &world.hosts {
        assert!(host.writes <= 30, "{} writes in ten minutes", host.writes);
        assert!(host.calls <= 400, "{} calls in ten minutes", host.calls);
    }
    assert!((0..3).all(|n| world.reported(n, |r| *r == Report::NoNamespace) == 1));
    world.namespace = true;
    world.run(ms(33_000));
    assert_eq!(world.owners().len(), 1);
}

#[test]
fn a_namespace_that_comes_soon_is_not_waited_for_long() {
    let mut world = World::new(1, &Rules::default());
    world.namespace = false;
    world.start(0, &[VIP]);
    world.run(ms(2_000));
    world.namespace = true;
    world.run(ms(2_500));
    assert_eq!(world.owners(), [0]);
}

#[test]
fn a_clock_that_jumps_moves_nothing() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let since = world.now;
    for n in 0..3 {
        world.tell(n, Event::ClockJump(ms(5_000)));
    }
    world.run(ms(5_000));
    assert!(world.time_with(since, |n| n != 1).is_zero());
    assert_eq!(world.owners(), [holder]);
}

#[test]
fn vips_come_and_go_without_the_others() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let other = "192.0.2.50".parse().unwrap();
    let since = world.now;
    for vips in [vec![VIP, other], vec![VIP]] {
        for n in 0..3 {
            world.tell(n, Event::Vips(vips.clone()));
        }
        world.run(ms(10_000));
        let has: Vec<_> = world.hosts[holder].carries.keys().copied().collect();
        assert_eq!(has.len(), vips.len());
    }
    assert!(world.time_with(since, |n| n != 1).is_zero());
}

#[test]
fn each_participant_is_answered_at_once_and_strangers_together() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let macs: Vec<Mac> = (1..3).map(|n| world.hosts[(holder + n) % 3].mac).collect();
    let asked = |world: &World| world.hosts[holder].writes;
    for mac in macs {
        let before = asked(&world);
        world.claim(holder, mac);
        world.run(ms(20));
        assert_eq!(asked(&world), before + 1, "a renewal of its own");
    }
    world.run(ms(1_500));
    let before = asked(&world);
    for n in 1..50 {
        world.claim(holder, Mac([2, 0, 0, 0, 7, n]));
        world.run(ms(2));
    }
    assert!(asked(&world) - before <= 2, "however many they claim to be");
}
