//! The API is away: nothing happens to traffic.

use std::time::Duration;

use super::world::{Api, VIP, World, ms};
use crate::action::{Report, Why};
use crate::event::Event;
use crate::health::Verdict;
use crate::peers::Quorum;
use crate::rules::Rules;

#[test]
fn an_api_outage_moves_nothing() {
    for how in [Api::Refused, Api::Hanging] {
        let (mut world, holder) = World::settled(3, &Rules::default());
        let since = world.now;
        world.set_api_everywhere(how);
        world.run(ms(60_000));
        world.set_api_everywhere(Api::Up);
        world.run(ms(30_000));
        assert!(world.time_with(since, |n| n != 1).is_zero(), "{how:?}");
        assert_eq!(world.owners(), [holder]);
        assert_eq!(world.role(holder), "holding");
    }
}

#[test]
fn a_renew_deadline_behind_the_fence_leaves_no_gap() {
    for (duration, renew, retry) in [(15_000, 14_000, 2_000), (5_000, 3_000, 1_000), (3_000, 2_000, 500)] {
        for delay in [2, 200] {
            let (lease_duration, renew_deadline, retry_period) = (ms(duration), ms(renew), ms(retry));
            let rules = Rules { lease_duration, renew_deadline, retry_period, ..Rules::default() };
            let (mut world, holder) = World::settled(3, &rules);
            // The kernel may drop the address on time.
            world.kernel_late = ms(0);
            world.hosts.iter_mut().for_each(|host| host.delay = ms(delay));
            world.run(ms(4 * retry));
            let since = world.now;
            world.set_api_everywhere(Api::Hanging);
            world.run(ms(40_000));
            assert_eq!(world.owners(), [holder], "{duration}/{renew}/{retry}, {delay} ms to the API");
            assert!(world.time_with(since, |n| n == 0).is_zero(), "{duration}/{renew}/{retry}, {delay} ms to the API");
        }
    }
}

#[test]
fn a_vip_that_its_fence_ended_was_not_removed_by_others() {
    let rules = Rules { renew_deadline: ms(14_000), hold_without_api: false, provisional: false, ..Rules::default() };
    let (mut world, holder) = World::settled(1, &rules);
    world.kernel_late = ms(0);
    world.run(ms(4_000));
    world.set_api_everywhere(Api::Refused);
    world.run(ms(20_000));
    let reports = world.hosts[holder].reports.iter().map(|(_, report)| report);
    let reports: Vec<&Report> = reports.filter(|report| **report != Report::ProbeMissed).collect();
    assert_eq!(reports.last(), Some(&&Report::LetGo(Why::ApiLost)), "{reports:?}");
    assert!(!reports.iter().any(|r| matches!(r, Report::Restored { .. } | Report::CannotCarry { .. })), "{reports:?}");
}

/// ARP suppression (EVPN, NSX, OVN) answers for the holder that crashed, and for everybody else.
fn network_answers_for_the_dead(late: Duration) {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.set_api_everywhere(Api::Refused);
    world.run(ms(5_000));
    world.suppressed = vec![(VIP, world.hosts[holder].mac)];
    world.suppressed_late = late;
    let since = world.now;
    world.crash(holder);
    world.run(ms(20_000));
    assert!(world.time_with(since, |n| n == 0) < ms(2_500));
    assert_eq!(world.owners().len(), 1);
    let yielded = |n: usize| world.reported(n, |report| *report == Report::LetGo(Why::Yielded));
    assert_eq!((0..3).map(yielded).sum::<usize>(), 0, "{late:?}");
}

#[test]
pub(super) fn who_carries_without_the_api_does_not_yield_to_a_network_that_answers_for_the_dead() {
    network_answers_for_the_dead(ms(0));
}

/// A switch may have to ask its controller first.
#[test]
pub(super) fn nor_to_one_that_answers_late() {
    for late in [30, 50, 100, 200, 700] {
        network_answers_for_the_dead(ms(late));
    }
}

#[test]
fn a_crash_during_an_api_outage_is_made_up_for_by_one_provisional_holder() {
    for how in [Api::Refused, Api::Hanging] {
        for before in [100, 5_000, 20_000] {
            let (mut world, holder) = World::settled(3, &Rules::default());
            world.set_api_everywhere(how);
            world.run(ms(before));
            let since = world.now;
            world.crash(holder);
            world.run(ms(20_000));
            assert!(world.time_with(since, |n| n == 0) < ms(1_500), "{how:?} {before}");
            let owners = world.owners();
            assert_eq!(owners.len(), 1);
            world.set_api_everywhere(Api::Up);
            world.run(ms(30_000));
            assert_eq!(world.owners(), owners, "no ping-pong");
            assert_eq!(world.role(owners[0]), "holding");
        }
    }
}

#[test]
fn a_holder_cut_from_the_api_yields_to_who_takes_by_expiry() {
    for how in [Api::Refused, Api::Hanging] {
        let (mut world, holder) = World::settled(3, &Rules::default());
        let since = world.now;
        world.set_api(holder, how);
        world.run(ms(40_000));
        assert_ne!(world.owners(), [holder]);
        assert!(world.time_with(since, |n| n == 0).is_zero());
        assert!(world.time_with(since, |n| n > 1) < ms(100));
        world.set_api(holder, Api::Up);
        world.run(ms(20_000));
        assert_eq!(world.owners().len(), 1);
    }
}

#[test]
fn a_partition_heals_in_a_frame() {
    let alone = Rules { quorum: Quorum::Nobody, ..Rules::default() };
    let (mut world, holder) = World::settled(3, &alone);
    world.hosts[holder].group = 1;
    world.set_api(holder, Api::Hanging);
    world.run(ms(40_000));
    assert_eq!(world.owners().len(), 2, "one a segment");
    let since = world.now;
    world.hosts[holder].group = 0;
    world.set_api(holder, Api::Up);
    world.run(ms(20_000));
    assert!(world.time_with(since, |n| n > 1) < ms(300));
    assert!(world.time_with(since, |n| n == 0).is_zero());
    assert_ne!(world.owners(), [holder]);
}

#[test]
fn lost_answers_move_nothing_while_the_lease_can_be_read() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.set_api_everywhere(Api::Lossy);
    let since = world.now;
    world.run(ms(60_000));
    assert!(world.time_with(since, |n| n != 1).is_zero());
    assert_eq!((world.owners(), world.role(holder)), (vec![holder], "holding"), "its renewals took effect");
    world.crash(holder);
    let since = world.now;
    world.run(ms(60_000));
    assert!(world.time_with(since, |n| n == 0) < ms(1_000), "{:?}", world.time_with(since, |n| n == 0));
    let took: usize = (0..3).map(|n| world.reported(n, |r| matches!(r, Report::Took(_)))).sum();
    assert_eq!(took, 2, "the first, and the successor");
    assert_eq!(world.role(world.owners()[0]), "holding");
}

#[test]
fn a_peer_that_recovers_a_moment_earlier_is_not_better() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    for n in (1..=3).map(|n| (holder + n) % 3) {
        world.set_health(n, false);
    }
    world.run(ms(5_000));
    assert!(world.reported(holder, |r| *r == Report::NobodyBetter) > 0);
    world.set_health((holder + 1) % 3, true);
    // The next look finds that server healthy.
    world.run(ms(2_300));
    world.set_health(holder, true);
    world.run(ms(10_000));
    assert_eq!(world.owners(), [holder]);
    world.set_health(holder, false);
    world.run(ms(3_000));
    assert_eq!(world.owners(), [(holder + 1) % 3], "one that stays better gets it");
}

#[test]
fn who_is_unhealthy_takes_what_no_healthy_one_is_there_for() {
    let mut world = World::new(3, &Rules::default());
    for n in 0..3 {
        (world.hosts[n].ready, world.hosts[n].verdict) = (false, Verdict::Unhealthy);
        world.start(n, &[super::world::VIP]);
    }
    world.run(ms(10_000));
    assert_eq!(world.owners().len(), 1);
    let better = (world.owners()[0] + 1) % 3;
    world.set_health(better, true);
    world.run(ms(10_000));
    assert_eq!(world.owners(), [better]);
}

#[test]
fn an_interface_that_refuses_is_not_tried_all_the_time() {
    let alone = Rules { quorum: Quorum::Nobody, ..Rules::default() };
    let (mut world, holder) = World::settled(2, &alone);
    world.hosts[1 - holder].refuses = vec![super::world::VIP];
    world.set_api_everywhere(Api::Refused);
    world.crash(holder);
    world.run(ms(31_000));
    let tried = world.reported(1 - holder, |r| matches!(r, Report::CannotCarry { .. }));
    assert!((3..=7).contains(&tried), "{tried}");
}

#[test]
fn an_outage_as_long_as_the_lease_moves_nothing_whatever_the_retry_period() {
    for retry in [2_000, 5_000, 8_000, 9_000] {
        let rules = Rules { retry_period: ms(retry), renew_deadline: ms(14_000), ..Rules::default() };
        let (mut world, holder) = World::settled(3, &rules);
        // The candidates' API comes back first, when the Lease has just ended by what they saw before the outage.
        let writes = world.hosts[holder].writes;
        while world.hosts[holder].writes == writes {
            world.run(ms(1));
        }
        world.run(ms(10));
        world.set_api_everywhere(Api::Refused);
        world.run(ms(15_300));
        for n in (0..3).filter(|n| *n != holder) {
            world.set_api(n, Api::Up);
            world.tell(n, Event::WatchLost);
        }
        world.run(ms(1_000));
        world.set_api(holder, Api::Up);
        world.run(ms(12_000));
        assert_eq!(world.owners(), [holder], "retry-period {retry} ms");
    }
}

/// With `release` no VIP is carried without the API for longer than its Lease lasts.
#[test]
fn release_is_honoured_by_an_agent_that_restarts_without_the_api() {
    let rules = Rules { hold_without_api: false, provisional: false, ..Rules::default() };
    for how in [Api::Refused, Api::Hanging] {
        for restarts_after in [1_000, 7_000] {
            let (mut world, holder) = World::settled(3, &rules);
            world.set_api_everywhere(how);
            world.run(ms(restarts_after - 500));
            world.kill(holder);
            world.run(ms(500));
            world.restart(holder, &rules);
            assert_eq!(world.owners(), [holder], "{how:?}: it finds its VIP");
            world.run(ms(16_000 - restarts_after));
            assert_eq!(world.owners(), [0_usize; 0], "{how:?}: it restarted after {restarts_after} ms");
            world.set_api_everywhere(Api::Up);
            world.run(ms(25_000));
            assert_eq!(world.owners().len(), 1, "{how:?}: the API is back");
        }
    }
}

#[test]
fn release_is_honoured_by_a_holder_whose_successor_never_came() {
    let rules = Rules { hold_without_api: false, provisional: false, ..Rules::default() };
    for how in [Api::Refused, Api::Hanging] {
        let (mut world, holder) = World::settled(2, &rules);
        // The successor says that it is healthy, and does nothing.
        world.freeze(1 - holder);
        world.set_health(holder, false);
        while !world.holder().is_empty() {
            world.run(ms(10));
        }
        world.run(ms(10));
        world.set_api_everywhere(how);
        world.run(ms(16_000));
        assert_eq!(world.owners(), [0_usize; 0], "{how:?}");
    }
}

/// Two thirds of the limit are for probes. Who carries a VIP without the API asks the segment all the time.
#[test]
fn who_carries_a_vip_without_the_api_keeps_to_a_limit_of_frames() {
    for crashes in [false, true] {
        let rules = Rules { frames_per_second: Some(15), ..Rules::default() };
        let (mut world, holder) = World::settled(3, &rules);
        (0..3).for_each(|n| world.set_api(n, Api::Hanging));
        world.run(ms(6_000));
        if crashes {
            world.crash(holder);
            world.run(ms(10_000));
        }
        let [owner] = world.owners()[..] else { panic!("{:?}", world.owners()) };
        let (mut worst, end) = (0, world.now + ms(20_000));
        while world.now < end {
            let before = world.hosts[owner].probes;
            world.run(ms(1_000));
            worst = worst.max(world.hosts[owner].probes - before);
        }
        assert_eq!(world.owners(), [owner]);
        assert!(worst <= 10, "{worst} probes in a second, the holder crashed: {crashes}");
    }
}
