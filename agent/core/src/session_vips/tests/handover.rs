//! Planned hand-over: shutdown, drain, endpoints, links, rebalancing.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::crash::busiest;
use super::world::{Api, STRANGER, World, ms, vip};
use crate::placement::Demand;
use crate::rules::Rules;
use crate::session_vips::{Event, Input, Report};

/// The API answers more slowly than a challenge waits, and the last holder hears its successor late.
#[test]
pub(super) fn a_planned_hand_over_overlaps_though_the_api_is_slow() {
    for (delay, wire) in
        [(150, 0), (300, 0), (300, 20), (600, 40), (250, 120), (600, 120), (300, 200), (600, 250), (150, 300)]
    {
        let world = &mut World::settled(3, 12, &Rules::default());
        let (since, leaves) = (world.now, busiest(world));
        world.hosts.iter_mut().for_each(|host| host.delay = ms(delay));
        world.wire += ms(wire);
        world.tell(leaves, Event::Shutdown);
        world.run(ms(12_000));
        let (none, two) = (world.worst(12, since, |n| n == 0), world.worst(12, since, |n| n > 1));
        assert!(none < ms(100), "{delay} ms, {wire} ms: nobody for {none:?}");
        assert!(two < ms(1_000), "{delay} ms, {wire} ms: two for {two:?}");
        assert!(world.hosts[leaves].carries.is_empty());
    }
}

#[test]
fn a_node_that_ends_hands_all_over_without_a_gap() {
    let world = &mut World::settled(5, 100, &Rules::default());
    let (since, leaving) = (world.now, busiest(world));
    world.tell(leaving, Event::Shutdown);
    world.run(ms(5_000));
    assert!(world.hosts[leaving].exited);
    assert!(world.worst(100, since, |n| n == 0).is_zero());
    assert!(world.worst(100, since, |n| n > 1) < ms(100), "{:?}", world.worst(100, since, |n| n > 1));
    assert!(!world.sessions[&world.hosts[leaving].name].is_live(), "its session is ended");
    world.restart(leaving, &Rules::default());
    let back = world.now;
    world.run(ms(20_000));
    assert!(world.worst(100, back, |n| n != 1).is_zero());
}

#[test]
fn a_drained_node_hands_all_over_and_goes_on() {
    let world = &mut World::settled(4, 40, &Rules::default());
    let (since, leaving) = (world.now, busiest(world));
    world.tell(leaving, Event::Input(Input::Drain(true)));
    world.run(ms(5_000));
    assert!(world.hosts[leaving].carries.is_empty() && world.hosts[leaving].running);
    world.create(vip(41));
    world.run(ms(3_000));
    assert_ne!(world.carriers(vip(41)), [leaving]);
    assert!(world.worst(40, since, |n| n == 0).is_zero());
}

#[test]
pub(super) fn a_record_that_is_stripped_as_it_names_the_successor_leaves_one_holder() {
    for leaves in [Event::Shutdown, Event::Input(Input::Drain(true))] {
        // Without an answer to its first write, a successor does not write again.
        for answered in [false, true] {
            for kernel_takes in [0, 3, 30, 300] {
                hands_over_though_records_are_stripped(leaves.clone(), answered, ms(kernel_takes));
            }
        }
    }
}

fn hands_over_though_records_are_stripped(leaves: Event, answered: bool, kernel_takes: Duration) {
    let world = &mut World::settled(3, 10, &Rules::default());
    let (since, leaving) = (world.now, busiest(world));
    let mut handed: BTreeSet<IpAddr> = world.hosts[leaving].carries.keys().copied().collect();
    for host in &mut world.hosts {
        (host.loses_records, host.kernel_takes) = (!answered, kernel_takes);
    }
    let name = world.hosts[leaving].name.clone();
    let case = format!("{leaves:?}, answered: {answered}, {kernel_takes:?}");
    let ends = matches!(leaves, Event::Shutdown);
    world.tell(leaving, leaves);
    for _ in 0..1_000 {
        let moved =
            |address: &IpAddr| world.addresses[address].holder.as_ref().is_some_and(|holder| holder.node != name);
        let (stripped, rest) = handed.into_iter().partition::<BTreeSet<_>, _>(moved);
        for address in stripped {
            world.store_holder(address, None);
        }
        handed = rest;
        world.run(ms(1));
    }
    assert!(handed.is_empty(), "{case}");
    world.hosts.iter_mut().for_each(|host| host.loses_records = false);
    world.run(ms(5_000));
    assert_eq!(world.hosts[leaving].exited, ends, "{case}");
    assert!(world.hosts[leaving].carries.is_empty(), "{case}");
    for (count, wanted, most) in [("none", (|n| n == 0) as fn(usize) -> bool, 0), ("two", |n| n > 1, 200)] {
        let worst = world.worst(10, since, wanted);
        assert!(worst <= ms(most), "{case}: {count} for {worst:?}");
    }
    world.each_is_carried(10);
}

#[test]
fn the_last_node_leaves_its_vips_for_its_next_agent() {
    let world = &mut World::settled(1, 10, &Rules::default());
    let since = world.now;
    world.tell(0, Event::Shutdown);
    world.run(ms(1_000));
    assert!(world.hosts[0].exited);
    world.restart(0, &Rules::default());
    world.run(ms(10_000));
    assert!(world.worst(10, since, |n| n != 1).is_zero());
}

#[test]
fn shutdown_without_an_api_leaves_a_short_fence() {
    let world = &mut World::settled(3, 10, &Rules::default());
    let leaving = busiest(world);
    world.set_api(leaving, Api::Refused);
    world.run(ms(3_000));
    world.tell(leaving, Event::Shutdown);
    world.run(ms(10));
    assert!(world.hosts[leaving].exited && !world.hosts[leaving].carries.is_empty());
    world.run(ms(5_500));
    assert!(world.hosts[leaving].carries.is_empty());
}

#[test]
fn a_vip_follows_the_endpoints_and_never_goes_to_nobody() {
    let world = &mut World::settled(3, 1, &Rules::default());
    let (since, holder) = (world.now, world.carriers(vip(0))[0]);
    let on = |nodes: &[usize], world: &World| {
        let names = nodes.iter().map(|n| world.hosts[*n].name.clone()).collect();
        Demand { local: Some(Arc::new(names)), ..Demand::of(vip(0)) }
    };
    let other = (holder + 1) % 3;
    for (nodes, expected) in
        [(vec![holder, other], holder), (vec![other], other), (vec![], other), (vec![holder], holder)]
    {
        let demand = on(&nodes, world);
        world.demand(&demand);
        world.run(ms(4_000));
        assert_eq!(world.carriers(vip(0)), [expected], "{nodes:?}");
    }
    assert!(world.time_with(vip(0), since, |n| n == 0).is_zero());
    assert!(world.time_with(vip(0), since, |n| n > 1) < ms(200));
}

#[test]
fn a_link_that_is_down_hands_over_what_was_on_it() {
    let world = &mut World::settled(4, 40, &Rules::default());
    let (since, down) = (world.now, busiest(world));
    world.hosts[down].group = 9;
    world.tell(down, Event::Link { interface: 2, up: false });
    world.run(ms(3_000));
    assert!(world.hosts[down].carries.is_empty());
    let silent = world.worst(40, since, |n| n == 0);
    assert!(silent < ms(100), "{silent:?}");
    assert!(world.sessions[&world.hosts[down].name].is_live());
}

#[test]
fn an_interface_that_refuses_gives_the_vip_on() {
    let world = &mut World::new(3, &Rules::default());
    for n in 0..3 {
        world.start(n);
    }
    world.run(ms(1_000));
    world.hosts[0].refuses = (0..10).map(vip).collect();
    for v in 0..10 {
        world.create(vip(v));
    }
    world.run(ms(3_000));
    for v in 0..10 {
        assert!(matches!(world.carriers(vip(v))[..], [1 | 2]), "{v}");
    }
}

#[test]
fn a_vip_that_is_not_gone_from_the_interface_is_given_to_nobody() {
    for confirmed in [true, false] {
        let world = &mut World::settled(3, 1, &Rules::default());
        let (since, holder) = (world.now, world.carriers(vip(0))[0]);
        world.hosts[holder].keeps = true;
        let reason = "no answer from the kernel".into();
        world.tell(holder, Event::EnsureFailed { address: vip(0), reason });
        world.run(ms(2_000));
        assert_eq!(world.carriers(vip(0)), [holder], "it is still there");
        if confirmed {
            world.hosts[holder].carries.clear();
            world.tell(holder, Event::Removed(vec![vip(0)]));
            world.run(ms(500));
            let carriers = world.carriers(vip(0));
            assert!(carriers.len() == 1 && carriers != [holder], "{carriers:?}");
        }
        world.run(ms(30_000));
        assert_eq!(world.carriers(vip(0)).len(), 1);
        assert!(world.time_with(vip(0), since, |n| n > 1).is_zero(), "two owners: {confirmed}");
    }
}

#[test]
fn only_a_request_moves_for_preference() {
    let world = &mut World::new(3, &Rules::default());
    world.start(0);
    world.run(ms(1_000));
    for v in 0..30 {
        world.create(vip(v));
    }
    world.run(ms(3_000));
    assert_eq!(world.hosts[0].carries.len(), 30);
    let since = world.now;
    world.start(1);
    world.start(2);
    world.run(ms(20_000));
    assert_eq!(world.hosts[0].carries.len(), 30, "sticky");
    world.tell(0, Event::Input(Input::Rebalance));
    world.run(ms(5_000));
    assert!(world.hosts.iter().all(|h| h.carries.len() >= 4), "spread");
    assert!(world.worst(30, since, |n| n == 0).is_zero());
}

#[test]
fn all_drained_move_nothing() {
    let world = &mut World::settled(3, 12, &Rules::default());
    let since = world.now;
    for n in 0..3 {
        world.tell(n, Event::Input(Input::Drain(true)));
    }
    world.run(ms(3_000));
    let settled = world.now;
    world.run(ms(20_000));
    assert!(world.worst(12, settled, |n| n != 1).is_zero());
    assert!(world.worst(12, since, |n| n == 0).is_zero());
}

#[test]
fn a_link_that_is_down_without_an_api_is_no_storm() {
    let world = &mut World::settled(3, 60, &Rules::default());
    let down = busiest(world);
    world.set_api(down, Api::Refused);
    world.run(ms(1_000));
    world.hosts[down].group = 9;
    world.tell(down, Event::Link { interface: 2, up: false });
    let calls = world.hosts[down].calls;
    world.run(ms(10_000));
    let calls = world.hosts[down].calls - calls;
    assert!(calls < 60, "{calls} calls in 10 s");
}

#[test]
fn a_node_whose_mac_address_changes_tells_the_segment_at_once() {
    let world = &mut World::settled(2, 12, &Rules::default());
    let changed = busiest(world);
    let (now, carries) = (world.now, world.hosts[changed].carries.len());
    world.hosts[changed].mac = STRANGER;
    world.tell_node(changed);
    world.run(ms(10));
    let announced = world.hosts[changed].announced.iter().filter(|(at, _)| *at >= now).count();
    assert_eq!(announced, carries);
}

#[test]
fn a_vip_is_said_to_be_put_back_when_the_kernel_has_it() {
    for refused in [false, true] {
        let world = &mut World::settled(3, 10, &Rules::default());
        let holder = world.carriers(vip(0))[0];
        if refused {
            world.hosts[holder].refuses = vec![vip(0)];
        }
        world.hosts[holder].carries.remove(&vip(0));
        world.tell(holder, Event::Gone(vip(0)));
        world.run(ms(1_000));
        let restored = world.reported(holder, |r| matches!(r, Report::Restored { .. }));
        assert_eq!((restored == 0, world.carriers(vip(0)) != [holder]), (refused, refused));
    }
}
