//! A node is ended early only if the node, its links or its agent is gone, not if its agent has let go of some VIPs.

use std::net::IpAddr;
use std::sync::Arc;

use super::crash::busiest;
use super::world::{Api, World, ms, second_vip, vip};
use crate::evidence::Form;
use crate::placement::Demand;
use crate::rules::Rules;
use crate::session_vips::{Event, Report};

fn carried_by(world: &World, node: usize, vips: u8) -> Vec<u8> {
    (0..vips).filter(|v| world.carriers(vip(*v)) == [node]).collect()
}

fn ends(world: &World) -> usize {
    (0..world.hosts.len()).map(|n| world.reported(n, |r| matches!(r, Report::EndedOther { .. }))).sum()
}

/// A namespace is deleted: many VIPs of a node go at once, neighbours in the order in which watchers ask for them.
#[test]
fn vips_that_watchers_still_ask_for_after_they_were_deleted_end_no_session() {
    for (nodes, behind) in [(2, 400), (2, 2_000), (4, 400), (4, 900), (4, 5_000)] {
        for wait in [0, 70, 330, 650] {
            let world = &mut World::settled(nodes, 40, &Rules::default());
            world.run(ms(wait));
            let node = busiest(world);
            let had = carried_by(world, node, 40);
            for other in (0..world.hosts.len()).filter(|n| *n != node) {
                world.hosts[other].behind = ms(behind);
            }
            let (first, since) = (had[0], world.now);
            for v in &had[1..] {
                world.delete(vip(*v));
            }
            world.run(ms(10_000));
            assert_eq!(ends(world), 0, "{nodes} nodes, {behind} ms behind");
            assert_eq!(world.carriers(vip(first)), [node], "{nodes} nodes, {behind} ms behind");
            assert!(world.time_with(vip(first), since, |n| n != 1).is_zero(), "{nodes} nodes, {behind} ms behind");
        }
    }
}

/// The kernel of a node refuses some of its VIPs, and no other node may have them.
#[test]
fn vips_that_a_node_has_and_cannot_carry_end_no_session() {
    let world = &mut World::settled(3, 30, &Rules::default());
    let node = busiest(world);
    let had = carried_by(world, node, 30);
    let only = Arc::new([world.hosts[node].name.clone()].into());
    for v in &had[1..] {
        world.demand(&Demand { local: Some(Arc::clone(&only)), ..Demand::of(vip(*v)) });
    }
    world.hosts[node].refuses = had[1..].iter().map(|v| vip(*v)).collect();
    let since = world.now;
    world.run(ms(60_000));
    assert_eq!(ends(world), 0);
    assert!(world.time_with(vip(had[0]), since, |n| n != 1).is_zero());
    assert_eq!(carried_by(world, node, 30), had[..1]);
}

/// The node answers from its own address, and its VIPs go with their fence: before its session expires.
#[test]
fn a_dead_agent_on_a_living_node_is_noticed_as_soon_as_its_fence_ends() {
    for wait in (0..2_000).step_by(290) {
        let world = &mut World::settled(4, 30, &Rules::default());
        world.run(ms(wait));
        let (since, killed) = (world.now, busiest(world));
        world.hosts[killed].running = false;
        world.run(ms(20_000));
        assert!(world.worst(30, since, |n| n == 0) < ms(450), "{wait}: {:?}", world.worst(30, since, |n| n == 0));
        assert!(world.worst(30, since, |n| n > 1).is_zero());
        assert_eq!(ends(world), 1);
    }
}

/// Two interfaces of a node have one MAC address, and the second one came back while the watchers did not see the API: the node is
/// heard where it declares nothing.
#[test]
fn a_node_that_is_heard_on_another_interface_is_not_ended() {
    for heard in [true, false] {
        let world = &mut World::settled(3, 6, &Rules::default());
        let (address, mac) = (world.hosts[1].address, world.hosts[1].mac);
        world.crash(1);
        for _ in 0..40 {
            world.run(ms(50));
            for n in [0, 2].into_iter().filter(|_| heard) {
                world.tell(n, Event::Heard { interface: 9, address, mac, form: Form::Claim });
            }
        }
        assert_eq!(ends(world), usize::from(!heard));
    }
}

/// A dead node is watched for as long as the API is away. That is no reason for all others to hear whom its watchers ask.
#[test]
fn among_many_nodes_third_parties_are_asked_by_unicast() {
    for (nodes, all_hear) in [(4, true), (12, false)] {
        let world = &mut World::settled(nodes, 10, &Rules::default());
        world.set_api_everywhere(Api::Refused);
        world.crash(1);
        // Its VIPs are elsewhere.
        world.run(ms(5_000));
        let begun: Vec<_> = world.hosts.iter().map(|host| (host.broadcast.len(), host.asked.len())).collect();
        world.run(ms(10_000));
        let own: Vec<_> = (0..world.hosts.len()).filter(|n| *n != 1).map(|n| world.hosts[n].address).collect();
        let parties = |asked: &[IpAddr]| asked.iter().filter(|one| own.contains(one)).count();
        let broadcast: usize = world.hosts.iter().zip(&begun).map(|(h, b)| parties(&h.broadcast[b.0..])).sum();
        let all: usize = world.hosts.iter().zip(&begun).map(|(h, b)| parties(&h.asked[b.1..])).sum();
        let share = if all_hear { 50..=100 } else { 0..=10 };
        assert!(all > 20 && share.contains(&(broadcast * 100 / all)), "{nodes} nodes: {broadcast} of {all}");
    }
}

/// One of its two cables is pulled: the node hands over what it has on that segment, and keeps what it has on the other one.
#[test]
fn a_node_that_loses_one_of_two_segments_is_not_ended() {
    let mut world = World::new(3, &Rules::default());
    world.second_network = true;
    world.begin(ms(1_000), 9, ms(3_000));
    (0..9).for_each(|v| world.create(second_vip(v)));
    world.run(ms(12_000));
    let (node, since) = (busiest(&world), world.now);
    let had: Vec<_> = (0..9).map(|v| world.carriers(second_vip(v))).collect();
    world.pull(node);
    world.run(ms(30_000));
    assert_eq!(ends(&world), 0);
    assert!(world.worst(9, since, |n| n == 0) < ms(500), "{:?}", world.worst(9, since, |n| n == 0));
    assert_eq!((0..9).map(|v| world.carriers(second_vip(v))).collect::<Vec<_>>(), had);
}
