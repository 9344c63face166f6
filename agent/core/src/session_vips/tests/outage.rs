//! The API is away: nothing happens to traffic.

use std::time::Duration;

use super::crash::busiest;
use super::world::{Api, Ports, World, ms, vip};
use crate::rules::Rules;
use crate::session_vips::Report;

#[test]
fn an_api_outage_moves_nothing() {
    for how in [Api::Refused, Api::Hanging] {
        let world = &mut World::settled(4, 40, &Rules::default());
        let (since, before) = (world.now, (0..40).map(|v| world.carriers(vip(v))).collect::<Vec<_>>());
        world.set_api_everywhere(how);
        world.run(ms(60_000));
        world.set_api_everywhere(Api::Up);
        let calls = world.calls();
        world.run(ms(30_000));
        assert!(world.worst(40, since, |n| n != 1).is_zero(), "{how:?}: {:?}", world.worst(40, since, |n| n != 1));
        assert_eq!(before, (0..40).map(|v| world.carriers(vip(v))).collect::<Vec<_>>(), "{how:?}");
        let calls = world.calls() - calls;
        assert!(calls < 4 * 15 + 60, "{calls} calls after it");
    }
}

#[test]
fn a_crash_without_an_api_is_made_up_for() {
    for how in [Api::Refused, Api::Hanging] {
        for before in [100, 5_000, 20_000] {
            let world = &mut World::settled(4, 40, &Rules::default());
            world.set_api_everywhere(how);
            world.run(ms(before));
            let (since, gone) = (world.now, busiest(world));
            world.crash(gone);
            world.run(ms(10_000));
            let silent = world.worst(40, since, |n| n == 0);
            assert!(silent < ms(4_000), "{how:?} after {before} ms: {silent:?}");
            assert!(world.worst(40, since, |n| n > 1) < ms(700), "{:?}", world.worst(40, since, |n| n > 1));
            let (back, where_) = (world.now, (0..40).map(|v| world.carriers(vip(v))).collect::<Vec<_>>());
            world.set_api_everywhere(Api::Up);
            world.run(ms(40_000));
            assert!(world.worst(40, back, |n| n == 0).is_zero(), "{:?}", world.worst(40, back, |n| n == 0));
            assert_eq!(where_, (0..40).map(|v| world.carriers(vip(v))).collect::<Vec<_>>(), "they stay there");
        }
    }
}

/// ARP suppression (EVPN, NSX, OVN) answers for the node that crashed.
fn network_answers_for_the_dead(late: Duration) {
    let world = &mut World::settled(4, 40, &Rules::default());
    world.suppressed_late = late;
    world.set_api_everywhere(Api::Refused);
    world.run(ms(5_000));
    let (since, gone) = (world.now, busiest(world));
    let mac = world.hosts[gone].mac;
    world.suppressed = (0..40).map(vip).filter(|vip| world.carriers(*vip) == [gone]).map(|vip| (vip, mac)).collect();
    world.crash(gone);
    world.run(ms(10_000));
    let silent = world.worst(40, since, |n| n == 0);
    assert!(silent < ms(6_000), "{silent:?}");
    let taken = world.now;
    world.run(ms(20_000));
    assert!(world.worst(40, taken, |n| n != 1).is_zero(), "answers {late:?} late: nothing goes to and fro");
    let told = |n| world.reported(n, |report| matches!(report, Report::Echo { .. }));
    assert_eq!((0..4).map(told).sum::<usize>(), 0, "other hosts answer all probes");
}

#[test]
pub(super) fn who_carries_without_the_api_does_not_yield_to_a_network_that_answers_for_the_dead() {
    network_answers_for_the_dead(ms(0));
}

/// A switch may have to ask its controller first.
#[test]
pub(super) fn nor_to_one_that_answers_late() {
    for late in [30, 50, 100, 200] {
        network_answers_for_the_dead(ms(late));
    }
}

/// No port of the switch lets nodes hear each other. One node's API server hangs for a second now and then, until it asks another one.
#[test]
pub(super) fn a_moment_without_the_api_moves_nothing_where_nodes_do_not_hear_each_other() {
    let world = &mut World::new(3, &Rules::default());
    world.ports = Ports::Isolated;
    world.begin(ms(2_000), 12, ms(20_000));
    let since = world.now;
    for _ in 0..3 {
        world.set_api(1, Api::Hanging);
        world.run(ms(1_000));
        world.set_api(1, Api::Up);
        world.run(ms(9_000));
    }
    let worst = world.worst(12, since, |n| n != 1);
    assert!(worst.is_zero(), "{worst:?}");
}

#[test]
fn answers_that_are_lost_move_nothing() {
    let world = &mut World::settled(4, 40, &Rules::default());
    let since = world.now;
    let one = busiest(world);
    world.set_api(one, Api::Lossy);
    world.run(ms(12_000));
    world.set_api(one, Api::Up);
    world.run(ms(30_000));
    assert!(world.worst(40, since, |n| n == 0).is_zero(), "{:?}", world.worst(40, since, |n| n == 0));
}

#[test]
fn strict_settings_let_go_at_the_deadline() {
    let rules = Rules { hold_without_api: false, provisional: false, ..Rules::default() };
    let world = &mut World::settled(3, 10, &rules);
    world.set_api_everywhere(Api::Refused);
    world.run(ms(12_500));
    for v in 0..10 {
        assert_eq!(world.carriers(vip(v)), [0_usize; 0]);
    }
    world.set_api_everywhere(Api::Up);
    world.run(ms(20_000));
    for v in 0..10 {
        assert_eq!(world.carriers(vip(v)).len(), 1);
    }
}

/// A session was ended, its VIPs are taken, and the API goes away before their records are written.
#[test]
fn strict_settings_count_for_vips_whose_record_is_not_written_yet() {
    let rules = Rules { hold_without_api: false, provisional: false, ..Rules::default() };
    for how in [Api::Refused, Api::Hanging] {
        let world = &mut World::settled(4, 20, &rules);
        let node = super::crash::busiest(world);
        let name = world.hosts[node].name.clone();
        let moved: Vec<u8> = (0..20).filter(|v| world.carriers(vip(*v)) == [node]).collect();
        world.crash(node);
        while world.sessions[&name].is_live() {
            world.run(ms(1));
        }
        // The answer is on its way.
        world.set_api_everywhere(how);
        world.run(ms(500));
        let beside = moved.iter().filter(|v| !world.carriers(vip(**v)).is_empty()).count();
        assert!(beside > 0, "{how:?}: nothing was taken");
        world.run(ms(8_500));
        for v in &moved {
            let recorded = world.addresses[&vip(*v)].holder.as_ref().is_some_and(|holder| holder.node != name);
            assert!(recorded || world.carriers(vip(*v)).is_empty(), "{how:?}: {}", vip(*v));
        }
        world.run(ms(7_000));
        for v in 0..20 {
            assert_eq!(world.carriers(vip(v)), [0_usize; 0], "{how:?}: {}", vip(v));
        }
    }
}

#[test]
fn a_short_session_takes_back_what_is_its_own() {
    let rules = Rules {
        lease_duration: ms(3_000),
        renew_deadline: ms(2_010),
        retry_period: ms(385),
        hold_without_api: false,
        provisional: false,
        ..Rules::default()
    };
    let world = &mut World::settled(2, 12, &rules);
    for host in &mut world.hosts {
        host.delay = ms(60);
    }
    for wait in [0, 130, 290] {
        world.run(ms(5_000 + wait));
        world.set_api_everywhere(Api::Refused);
        world.run(ms(2_400));
        world.set_api_everywhere(Api::Up);
        world.run(ms(12_000));
        for v in 0..12 {
            assert_eq!(world.carriers(vip(v)).len(), 1, "{v} after {wait} ms");
        }
    }
}

/// One answered call tells that the API is back: until then each kind of call is tried now and then, however many wait.
#[test]
fn a_node_that_is_left_alone_without_the_api_asks_for_it_in_moderation() {
    for how in [Api::Refused, Api::Hanging] {
        let world = &mut World::settled(8, 40, &Rules::default());
        world.set_api(0, how);
        world.run(ms(100));
        let before = world.hosts[0].calls;
        (1..8).for_each(|n| world.crash(n));
        world.run(ms(20_000));
        let calls = world.hosts[0].calls - before;
        assert!(calls <= 100, "{how:?}: {calls} calls in 20 s");
    }
}
