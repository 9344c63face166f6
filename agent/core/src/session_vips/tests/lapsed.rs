//! A node whose session lapsed answers for its VIPs and does not call, and goes on only while it hears another node.

use super::crash::busiest;
use super::world::{Api, World, ms, vip};
use crate::action::Why;
use crate::peers::Quorum;
use crate::rules::Rules;
use crate::session_vips::Report;

const VIPS: u8 = 20;

/// A node is cut from the API and from all other nodes, and goes on hearing the gateway: its clients are there.
fn cut_off(world: &mut World, node: usize, how: Api) {
    for n in (0..world.hosts.len()).filter(|n| *n != node) {
        world.hosts[n].group = 1;
    }
    world.set_api(node, how);
}

fn carried_by(world: &World, node: usize) -> usize {
    (0..VIPS).filter(|v| world.carriers(vip(*v)).contains(&node)).count()
}

#[test]
fn a_node_that_is_cut_off_lets_go_when_its_session_ends_and_calls_nobody() {
    for (count, how) in [(2, Api::Refused), (4, Api::Refused), (4, Api::Hanging)] {
        let rules = Rules { announce_refresh: ms(2_000), ..Rules::default() };
        let world = &mut World::settled(count, VIPS, &rules);
        let (since, node) = (world.now, busiest(world));
        let held = carried_by(world, node);
        cut_off(world, node, how);
        world.run(ms(14_600));
        assert_eq!(carried_by(world, node), 0, "{count} nodes, {how:?}");
        world.run(ms(60_000));
        assert_eq!(carried_by(world, node), 0, "{count} nodes, {how:?}: it does not come back");
        for v in 0..VIPS {
            assert_eq!(world.carriers(vip(v)).len(), 1, "{count} nodes, {how:?}: {}", vip(v));
        }
        // Its next renewal tells it that something is wrong.
        let called = world.hosts[node].announced.iter().filter(|(at, _)| *at > since + ms(2_300)).count();
        assert_eq!(called, 0, "{count} nodes, {how:?}");
        let cut_off = |r: &Report| matches!(r, Report::LetGo { why: Why::CutOff, .. });
        assert_eq!(world.reported(node, cut_off), held, "{count} nodes, {how:?}");
    }
}

/// Many more nodes than watch one another: those that watch nobody know of others all the same.
#[test]
fn no_node_of_many_takes_or_keeps_anything_alone() {
    for node in 0..20 {
        let world = &mut World::settled(20, VIPS, &Rules::default());
        cut_off(world, node, Api::Hanging);
        world.run(ms(30_000));
        assert_eq!(carried_by(world, node), 0, "node {node}");
    }
}

#[test]
fn a_node_without_the_api_answers_and_does_not_call() {
    let rules = Rules { announce_refresh: ms(2_000), ..Rules::default() };
    let world = &mut World::settled(4, VIPS, &rules);
    let since = world.now;
    world.set_api_everywhere(Api::Refused);
    world.run(ms(60_000));
    assert!(world.worst(VIPS, since, |n| n != 1).is_zero(), "{:?}", world.worst(VIPS, since, |n| n != 1));
    for host in &world.hosts {
        assert_eq!(host.announced.iter().filter(|(at, _)| *at > since + ms(10_500)).count(), 0, "{}", host.name);
    }
    world.set_api_everywhere(Api::Up);
    let back = world.now;
    world.run(ms(10_000));
    for host in world.hosts.iter().filter(|host| !host.carries.is_empty()) {
        assert!(host.announced.iter().any(|(at, _)| *at > back), "{}: its session is renewed", host.name);
    }
}

#[test]
fn the_last_of_two_nodes_lets_go_without_the_api_unless_it_is_told_to_stay() {
    for (quorum, left) in [(Quorum::Most, 0), (Quorum::Nobody, usize::from(VIPS))] {
        let world = &mut World::settled(2, VIPS, &Rules { quorum, ..Rules::default() });
        world.set_api_everywhere(Api::Refused);
        world.run(ms(20_000));
        world.crash(0);
        world.run(ms(20_000));
        assert_eq!(carried_by(world, 1), left, "{quorum:?}");
    }
}

#[test]
fn a_vip_for_which_the_datapath_never_answers_is_let_go_like_any_other() {
    for node in 0..3 {
        let world = &mut World::settled(3, VIPS, &Rules::default());
        world.hosts.iter_mut().for_each(|host| host.mute = true);
        world.crash((node + 1) % 3);
        world.run(ms(3_000));
        let held = carried_by(world, node);
        assert_eq!(held + carried_by(world, (node + 2) % 3), usize::from(VIPS), "all were taken");
        cut_off(world, node, Api::Hanging);
        world.run(ms(20_000));
        assert_eq!(carried_by(world, node), 0, "node {node}");
        let cut_off = |r: &Report| matches!(r, Report::LetGo { why: Why::CutOff, .. });
        assert_eq!(world.reported(node, cut_off), held, "node {node}: the agent knows that they are gone");
    }
}

/// Each node hears nobody, and cannot know that the others live. That is what the rule costs.
#[test]
fn a_segment_that_is_deaf_in_an_outage_costs_the_vips_until_nodes_hear_one_another() {
    let world = &mut World::settled(3, VIPS, &Rules::default());
    world.set_api_everywhere(Api::Refused);
    let deaf = |world: &mut World, deaf| world.hosts.iter_mut().for_each(|host| host.deaf = deaf);
    deaf(world, true);
    world.run(ms(20_000));
    assert_eq!((0..VIPS).filter(|v| !world.carriers(vip(*v)).is_empty()).count(), 0);
    deaf(world, false);
    world.run(ms(5_000));
    let since = world.now;
    world.run(ms(10_000));
    assert!(world.worst(VIPS, since, |n| n != 1).is_zero(), "all are back, though the API is not");
}
