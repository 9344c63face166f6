//! Planned hand-over, shutdown and restart.

use super::world::{Api, STRANGER, VIP, World, ms};
use crate::action::{Cause, HandsOver, Report};
use crate::event::Event;
use crate::health::Verdict;
use crate::lease::Record;
use crate::rules::Rules;

#[test]
fn a_planned_hand_over_overlaps() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let since = world.now;
    world.tell(holder, Event::Shutdown);
    world.run(ms(5_000));
    assert!(world.time_with(since, |n| n == 0).is_zero());
    assert!(world.time_with(since, |n| n > 1) < ms(100));
    assert!(!world.hosts[holder].running);
    let new = world.owners()[0];
    assert_eq!(world.reported(new, |r| *r == Report::Took(Cause::Handover)), 1);
}

/// The API answers more slowly than a challenge waits, and the last holder hears its successor late.
#[test]
pub(super) fn a_planned_hand_over_overlaps_though_the_api_is_slow() {
    for (delay, wire) in [(150, 0), (300, 0), (300, 20), (600, 40), (250, 120)] {
        let (mut world, holder) = World::settled(3, &Rules::default());
        let since = world.now;
        world.hosts.iter_mut().for_each(|host| host.delay = ms(delay));
        world.wire += ms(wire);
        world.tell(holder, Event::Shutdown);
        while world.owners() == [holder] {
            world.run(ms(1));
        }
        // A client asks for the VIP, and the last holder answers: it has not heard its successor yet.
        let successor = world.owners().into_iter().find(|n| *n != holder).unwrap();
        world.claim(successor, world.hosts[holder].mac);
        world.run(ms(8_000));
        let (none, two) = (world.time_with(since, |n| n == 0), world.time_with(since, |n| n > 1));
        assert!(none.is_zero(), "{delay} ms, {wire} ms: nobody for {none:?}");
        assert!(two < ms(500), "{delay} ms, {wire} ms: two for {two:?}");
        assert!(!world.owners().contains(&holder));
    }
}

#[test]
fn a_successor_is_found_among_many_of_whom_most_are_dead() {
    let (mut world, holder) = World::settled(7, &Rules::default());
    let others: Vec<usize> = (0..7).filter(|n| *n != holder).collect();
    for n in &others[..5] {
        world.crash(*n);
    }
    let since = world.now;
    world.tell(holder, Event::Shutdown);
    world.run(ms(5_000));
    assert!(world.time_with(since, |n| n == 0).is_zero());
    assert_eq!(world.owners(), [others[5]]);
}

#[test]
fn a_successor_is_waited_for_though_its_api_server_is_not() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.wire = ms(10);
    let since = world.now;
    world.tell(holder, Event::Shutdown);
    world.run(ms(5_000));
    assert!(world.time_with(since, |n| n == 0).is_zero());
}

/// The API server hangs while the Lease is released, and then answers again.
#[test]
pub(super) fn one_release_that_is_not_answered_costs_the_vips_nothing() {
    for hangs in [400, 1_200, 2_250] {
        let (mut world, holder) = World::settled(3, &Rules::default());
        let since = world.now;
        world.set_api_everywhere(Api::Hanging);
        world.tell(holder, Event::Shutdown);
        world.run(ms(hangs));
        world.set_api_everywhere(Api::Up);
        world.run(ms(15_000));
        let none = world.time_with(since, |n| n == 0);
        assert!(none.is_zero(), "{hangs} ms: nobody for {none:?}");
        assert!(!world.hosts[holder].running && !world.owners().contains(&holder));
    }
}

/// A Service is deleted, and made again later, and another Service has had its address meanwhile: its Lease is the last holder's no longer.
#[test]
pub(super) fn a_lease_whose_vips_nobody_wants_is_released_to_nobody() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.tell(holder, Event::Vips(vec![]));
    world.tell(holder, Event::Withdraw { unwanted: true });
    for n in (0..3).filter(|n| *n != holder) {
        world.tell(n, Event::Vips(vec![]));
    }
    world.run(ms(3_000));
    assert_eq!(world.holder(), "");
    assert_eq!(world.lease.as_ref().and_then(|view| view.notes.handover.clone()), None);
}

/// The interface of the VIPs is gone on the holder alone: others want them, and the holder has dropped them.
#[test]
fn what_the_holder_alone_has_no_longer_is_handed_over() {
    for limit in [None, Some(15), Some(3)] {
        let rules = Rules { frames_per_second: limit, ..Rules::default() };
        let (mut world, holder) = World::settled(3, &rules);
        let since = world.now;
        world.tell(holder, Event::Vips(vec![]));
        world.tell(holder, Event::Withdraw { unwanted: false });
        world.run(ms(15_000));
        let none = world.time_with(since, |n| n == 0);
        assert!(none < ms(100), "limit {limit:?}: on nobody for {none:?}");
    }
}

#[test]
fn a_release_whose_answer_is_lost_leaves_no_second_owner_behind() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let since = world.now;
    world.hosts[holder].api = Api::Lossy;
    world.hosts[(holder + 1) % 3].delay = ms(40);
    world.hosts[(holder + 2) % 3].delay = ms(40);
    world.tell(holder, Event::Shutdown);
    world.run(ms(15_000));
    assert!(world.time_with(since, |n| n > 1) < ms(200), "{:?}", world.time_with(since, |n| n > 1));
    assert!(world.time_with(since, |n| n == 0).is_zero());
}

#[test]
fn shutdown_without_an_api_leaves_a_short_fence() {
    for peers in [1, 3] {
        let (mut world, holder) = World::settled(peers, &Rules::default());
        world.set_api_everywhere(Api::Refused);
        world.run(ms(5_000));
        world.tell(holder, Event::Shutdown);
        while world.hosts[holder].running {
            world.run(ms(10));
            assert!(world.owners().contains(&holder));
        }
        world.run(ms(5_000));
        assert!(!world.owners().contains(&holder));
    }
}

#[test]
fn a_strangers_frame_is_no_successor() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    for n in (0..3).filter(|n| *n != holder) {
        world.hosts[n].delay = ms(300);
    }
    let since = world.now;
    world.tell(holder, Event::Shutdown);
    world.run(ms(100));
    assert_eq!(world.role(holder), "leaving");
    world.claim(holder, STRANGER);
    world.run(ms(5_000));
    assert!(world.time_with(since, |n| n == 0).is_zero());
}

#[test]
fn unhealthy_everywhere_moves_nothing() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let since = world.now;
    for n in 0..3 {
        world.hosts[n].ready = false;
    }
    for n in 0..3 {
        world.set_health(n, false);
    }
    world.run(ms(60_000));
    assert_eq!(world.owners(), [holder]);
    assert!(world.time_with(since, |n| n != 1).is_zero());
}

#[test]
fn unhealthy_only_here_hands_over() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let since = world.now;
    world.set_health(holder, false);
    world.run(ms(20_000));
    assert_ne!(world.owners(), [holder]);
    assert!(world.time_with(since, |n| n == 0).is_zero());
    assert!(world.time_with(since, |n| n > 1) < ms(100));
}

#[test]
fn a_service_that_is_well_again_is_not_left_before_its_verdict_says_so() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let since = world.now;
    // Every service answers again after a shared outage, and the verdicts lag behind.
    world.tell(holder, Event::Health(Verdict::Unhealthy));
    world.run(ms(20_000));
    assert_eq!(world.owners(), [holder]);
    assert!(world.time_with(since, |n| n != 1).is_zero());
}

#[test]
fn a_restarted_holder_adopts_without_a_gap() {
    for how in [Api::Up, Api::Refused, Api::Hanging] {
        let (mut world, holder) = World::settled(3, &Rules::default());
        let since = world.now;
        world.kill(holder);
        world.run(ms(4_000));
        world.set_api_everywhere(how);
        world.restart(holder, &Rules::default());
        world.run(ms(20_000));
        assert!(world.time_with(since, |n| n != 1).is_zero(), "{how:?}");
        assert_eq!(world.owners(), [holder]);
    }
}

#[test]
fn what_was_left_over_is_not_put_back_before_an_own_write() {
    let (mut world, _) = World::settled(1, &Rules::default());
    world.kill(0);
    let end = *world.hosts[0].carries.values().next().unwrap();
    world.run(end.since(world.now).checked_sub(ms(600)).unwrap());
    world.hosts[0].delay = ms(700);
    world.restart(0, &Rules::default());
    world.run(ms(1_000));
    assert!(world.owners().is_empty());
    world.run(ms(3_000));
    assert_eq!(world.owners(), [0]);
}

#[test]
fn a_released_lease_without_a_successor_is_taken_by_one() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let mut lease = world.lease.clone().unwrap();
    world.crash(holder);
    lease.record.holder = String::new();
    world.store(lease.record, lease.notes);
    world.run(ms(1_000));
    assert_eq!(world.owners().len(), 1);
}

#[test]
fn a_successor_that_has_only_just_started_is_served_for() {
    let mut world = World::new(3, &Rules::default());
    world.start(0, &[VIP]);
    world.run(ms(5_000));
    assert_eq!(world.owners(), [0]);
    // No node has declared anything when the holder is asked to end.
    for n in [1, 2] {
        world.start(n, &[VIP]);
    }
    let since = world.now;
    world.tell(0, Event::Shutdown);
    world.run(ms(5_000));
    assert!(world.time_with(since, |n| n == 0).is_zero());
    assert!(world.time_with(since, |n| n > 1) < ms(100), "{:?}", world.time_with(since, |n| n > 1));
    assert!(!world.hosts[0].running && world.owners().len() == 1);
}

#[test]
fn a_successor_that_polls_the_lease_is_served_for() {
    let (mut world, holder) = World::settled(1, &Rules::default());
    world.tell(holder, Event::Shutdown);
    world.run(ms(2_400));
    assert!(world.holder().is_empty(), "released");
    assert_eq!(world.owners(), [holder], "and still served");
    let lease = world.lease.clone().unwrap();
    world.store(Record { holder: "kube-vip".into(), ..lease.record }, lease.notes);
    world.claim(holder, STRANGER);
    world.run(ms(60));
    assert!(world.owners().is_empty() && !world.hosts[holder].running);
}

#[test]
fn nobody_is_not_waited_for_long() {
    let (mut world, _) = World::settled(1, &Rules::default());
    world.tell(0, Event::Shutdown);
    world.run(ms(3_400));
    assert!(world.holder().is_empty() && world.owners().is_empty() && !world.hosts[0].running);
}

#[test]
fn a_former_name_of_a_successors_host_is_not_named() {
    for unhealthy in [false, true] {
        let (mut world, holder) = World::settled(2, &Rules::default());
        super::defects::with_former_name(&mut world, 1 - holder);
        let since = world.now;
        if unhealthy {
            world.set_health(holder, false);
        } else {
            world.tell(holder, Event::Shutdown);
        }
        world.run(ms(2_500));
        assert_eq!(world.owners(), [1 - holder]);
        assert!(world.time_with(since, |n| n == 0).is_zero());
        let cause = if unhealthy { HandsOver::Unhealthy } else { HandsOver::Ending };
        assert_eq!(world.reported(holder, |r| *r == Report::HandingOver { to: None, cause }), 1);
    }
}

#[test]
fn a_successor_without_a_former_name_is_preferred() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let [first, last] = [(1 + holder) % 3, (2 + holder) % 3];
    let [first, last] = [first.min(last), first.max(last)];
    super::defects::with_former_name(&mut world, first);
    world.tell(holder, Event::Shutdown);
    world.run(ms(2_500));
    assert_eq!(world.holder(), world.hosts[last].name);
}
