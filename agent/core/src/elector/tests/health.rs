//! API servers that are not where the VIP is: on other interfaces, on other hosts, or found well by others only.

use std::net::{IpAddr, Ipv4Addr};

use super::world::{Api, VIP, World, ms};
use crate::action::{Cause, Report};
use crate::event::Event;
use crate::health::Verdict;
use crate::rules::Rules;

const EXTERNAL: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));

/// The address of a node's API server, on another interface than the VIP.
fn elsewhere(n: usize) -> Vec<IpAddr> {
    vec![IpAddr::V4(Ipv4Addr::new(10, 0, 0, u8::try_from(n).unwrap() + 1))]
}

/// Nodes whose own probes all say the same, with an API server that is on none of them.
fn external(verdict: Verdict) -> World {
    let mut world = World::new(3, &Rules::default());
    world.external = vec![EXTERNAL];
    for n in 0..3 {
        (world.hosts[n].ready, world.hosts[n].verdict) = (false, verdict);
        world.start(n, &[VIP]);
    }
    world
}

#[test]
fn nodes_without_an_api_server_carry_the_vip_at_once() {
    let mut world = external(Verdict::NoServer);
    world.run(ms(2_000));
    assert_eq!(world.owners().len(), 1);
    world.run(ms(5_000));
    let (holder, since) = (world.owners()[0], world.now);
    world.crash(holder);
    world.run(ms(5_000));
    assert!(world.time_with(since, |n| n == 0) < ms(1_000), "{:?}", world.time_with(since, |n| n == 0));
}

#[test]
fn a_free_vip_is_carried_whatever_health_says() {
    let mut world = external(Verdict::Unhealthy);
    world.run(ms(10_000));
    assert_eq!(world.owners().len(), 1);
    let (holder, since) = (world.owners()[0], world.now);
    world.run(ms(30_000));
    assert_eq!(world.owners(), [holder]);
    assert!(world.time_with(since, |n| n != 1).is_zero());
}

#[test]
fn a_free_vip_is_carried_before_there_is_any_verdict() {
    let mut world = World::new(2, &Rules::default());
    for n in 0..2 {
        world.start_without_verdict(n, &[VIP]);
    }
    world.run(ms(10_000));
    assert_eq!(world.owners().len(), 1);
}

#[test]
fn a_node_without_an_api_server_leaves_the_vip_to_one_that_has_one() {
    let (mut world, holder) = World::settled_with(3, &Rules::default(), elsewhere);
    let since = world.now;
    // The agent of the holder's node was started again after its API server had died and was listed no more.
    world.hosts[holder].ready = false;
    world.judge(holder, Verdict::NoServer);
    world.run(ms(5_000));
    assert_ne!(world.owners(), [holder]);
    assert!(world.time_with(since, |n| n != 1) < ms(100));
}

#[test]
pub(super) fn a_holder_hands_over_though_api_servers_are_on_another_interface() {
    let (mut world, holder) = World::settled_with(3, &Rules::default(), elsewhere);
    let since = world.now;
    world.set_health(holder, false);
    world.run(ms(5_000));
    assert_ne!(world.owners(), [holder]);
    assert!(world.time_with(since, |n| n == 0).is_zero());
    assert_eq!(world.reported(world.owners()[0], |r| *r == Report::Took(Cause::Handover)), 1);
}

#[test]
fn a_holder_that_is_the_last_to_come_back_from_an_outage_of_all_keeps_the_vip() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.hosts[holder].ready = false;
    world.judge(holder, Verdict::Unhealthy);
    world.run(ms(200));
    // The peers' servers have answered, and the holder's own not yet.
    world.hosts[holder].ready = true;
    world.run(ms(5_000));
    assert_eq!(world.reported(holder, |r| matches!(r, Report::HandingOver { .. })), 0);
    assert_eq!(world.owners(), [holder]);
}

#[test]
fn a_hand_over_waits_for_nothing_but_the_second_look() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.set_health(holder, false);
    world.run(ms(320));
    assert_eq!(world.reported(holder, |r| matches!(r, Report::HandingOver { .. })), 1);
}

#[test]
fn own_probes_that_fail_everywhere_cost_few_hand_overs() {
    // Each node finds its own API server bad, and those of the others good: a firewall on loopback, say.
    let (mut world, holder) = World::settled(3, &Rules::default());
    let since = world.now;
    for n in 0..3 {
        world.hosts[n].own_probe_fails = true;
        world.judge(n, Verdict::Unhealthy);
    }
    world.run(ms(120_000));
    assert!(world.time_with(since, |n| n == 0) < ms(200), "{:?}", world.time_with(since, |n| n == 0));
    let begun: usize = (0..3).map(|n| world.reported(n, |r| matches!(r, Report::HandingOver { .. }))).sum();
    assert!(begun <= 8, "{begun} hand-overs in two minutes");
    assert!(world.reported(holder, |r| matches!(r, Report::HandingOver { .. })) > 0);
    // One that is well gets it.
    let well = (world.owners()[0] + 1) % 3;
    world.hosts[well].own_probe_fails = false;
    world.judge(well, Verdict::Healthy);
    world.run(ms(130_000));
    assert_eq!(world.owners(), [well]);
}

#[test]
fn a_lease_that_was_taken_while_its_release_was_not_answered_is_not_taken_back() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let successor = (holder + 1) % 3;
    for n in (0..3).filter(|n| *n != holder) {
        world.freeze(n);
    }
    world.hosts[holder].api = Api::Hanging;
    world.set_health(holder, false);
    world.run(ms(600));
    assert_eq!(world.role(holder), "leaving");
    // The release took effect, and the successor took the Lease. The watch shows only the end of that; and the answer to the
    // release never comes.
    let mut lease = world.lease.clone().unwrap();
    lease.record.holder = world.hosts[successor].name.clone();
    lease.record.transitions += 1;
    lease.notes.tenure = None;
    let taken = world.store(lease.record, lease.notes);
    world.tell(holder, Event::Seen(Some(taken)));
    world.hosts[holder].api = Api::Up;
    world.run(ms(8_000));
    assert_eq!(world.holder(), world.hosts[successor].name);
    assert!(!world.owners().contains(&holder));
}

/// The holder's agent is gone, and its API server is well. The other nodes are unhealthy, and leave the VIP to that one.
fn the_best_does_nothing(count: u8, rules: &Rules) -> World {
    let (mut world, holder) = World::settled(count, rules);
    for n in (0..world.hosts.len()).filter(|n| *n != holder) {
        world.hosts[n].own_probe_fails = true;
        world.judge(n, Verdict::Unhealthy);
    }
    world.kill(holder);
    world.set_api_everywhere(Api::Refused);
    world
}

#[test]
fn unhealthy_nodes_carry_a_free_vip_in_turn_and_not_all_at_once() {
    let mut world = the_best_does_nothing(5, &Rules::default());
    let since = world.now;
    world.run(ms(30_000));
    assert_eq!(world.owners().len(), 1);
    assert!(world.time_with(since, |n| n > 1).is_zero(), "{:?}", world.time_with(since, |n| n > 1));
}

#[test]
fn an_api_that_answers_now_and_then_does_not_keep_a_vip_from_unhealthy_nodes() {
    // Each silence is blind time, and too short to leave the VIP to others for long enough.
    let rules = Rules { retry_period: ms(1_000), ..Rules::default() };
    let mut world = the_best_does_nothing(3, &rules);
    for _ in 0..8 {
        world.run(ms(4_000));
        world.set_api_everywhere(Api::Up);
        world.run(ms(1_000));
        world.set_api_everywhere(Api::Refused);
    }
    assert_eq!(world.owners().len(), 1);
}

/// An unhealthy node has left the VIP to healthier ones once in this outage. When the VIP is free again, that counts no more.
#[test]
fn an_unhealthy_node_leaves_the_vip_to_others_each_time_it_is_free() {
    for nth in 0..4 {
        let (mut world, first) = World::settled(5, &Rules::default());
        let ill = (0..5).filter(|n| *n != first).nth(nth).unwrap();
        world.hosts[ill].ready = false;
        world.tell(ill, Event::Health(Verdict::Unhealthy));
        world.run(ms(1_000));
        world.set_api_everywhere(Api::Refused);
        world.run(ms(30_000));
        world.crash(first);
        world.run(ms(20_000));
        let second = world.owners()[0];
        assert_ne!(second, ill, "the first time");
        world.crash(second);
        world.run(ms(3_000));
        assert!(world.owners().len() == 1 && world.owners() != [ill], "{:?}, and {ill} is ill", world.owners());
    }
}
