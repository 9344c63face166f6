//! Interfaces that refuse a VIP: the VIP goes to a node whose interface takes it. If none does, it is tried ever less often, and
//! told once.

use super::world::{World, ms, vip};
use crate::rules::Rules;
use crate::session_vips::{Event, Report};

/// A world in which no node's interface takes the VIP, for 10 s.
fn refused_everywhere(nodes: u8) -> World {
    let mut world = World::new(nodes, &Rules::default());
    for n in 0..usize::from(nodes) {
        world.start(n);
        world.hosts[n].refuses = vec![vip(0)];
    }
    world.run(ms(1_000));
    world.create(vip(0));
    world.run(ms(10_000));
    world
}

fn holder(world: &World) -> usize {
    let holder = world.addresses[&vip(0)].holder.as_ref().unwrap();
    world.hosts.iter().position(|host| host.name == holder.node).unwrap()
}

#[test]
fn a_vip_that_no_node_can_carry_is_tried_ever_less_often() {
    for nodes in [1, 2, 3, 7] {
        let world = &mut World::new(nodes, &Rules::default());
        let count = usize::from(nodes);
        for n in 0..count {
            world.start(n);
            world.hosts[n].refuses = vec![vip(0)];
        }
        world.run(ms(1_000));
        let calls = world.calls();
        world.create(vip(0));
        world.run(ms(30_000));
        let (moves, spent) = (world.moves, world.calls() - calls);
        assert!(moves <= 4 * count, "{nodes} nodes: {moves} moves in 30 s");
        // Renewals, and for each move two writes, of which some meet another node's.
        assert!(spent <= 17 * count + 8 * moves + 10, "{nodes} nodes: {spent} calls in 30 s");
        world.run(ms(120_000));
        let (moves, calls) = (world.moves, world.calls());
        world.run(ms(300_000));
        let (moves, spent) = (world.moves - moves, world.calls() - calls);
        assert!(moves <= 6 * count, "{nodes} nodes: {moves} moves in 5 min");
        assert!(spent <= 155 * count + 8 * moves, "{nodes} nodes: {spent} calls in 5 min");
        for n in 0..count {
            let told = world.reported(n, |r| matches!(r, Report::CannotCarry { .. }));
            assert_eq!(told, 1, "{nodes} nodes");
            let all = world.hosts[n]
                .reports
                .iter()
                .filter(|(_, r)| !matches!(r, Report::Outrun { .. } | Report::Answered))
                .count();
            assert!(all <= 8, "{nodes} nodes: {:?}", world.hosts[n].reports);
        }
    }
}

#[test]
fn the_holder_carries_the_vip_within_seconds_of_being_able_to() {
    for wait in [0, 20_000, 200_000] {
        let world = &mut refused_everywhere(3);
        world.run(ms(wait));
        let able = holder(world);
        world.hosts[able].refuses.clear();
        world.run(ms(5_200));
        assert_eq!(world.carriers(vip(0)), [able], "after {wait} ms");
        world.run(ms(500));
        assert!(world.addresses[&vip(0)].holder.as_ref().unwrap().to.is_none(), "it is offered no more");
        for host in &mut world.hosts {
            host.refuses.clear();
        }
        let since = world.now;
        world.run(ms(130_000));
        assert!(world.time_with(vip(0), since, |n| n != 1).is_zero(), "it stays");
        let took = |n| world.reported(n, |r| matches!(r, Report::Took { .. }));
        let let_go = |n| world.reported(n, |r| matches!(r, Report::LetGo { .. }));
        for n in 0..3 {
            assert_eq!(took(n), let_go(n) + usize::from(n == able), "{:?}", world.hosts[n].reports);
        }
    }
}

#[test]
fn another_node_carries_it_at_once_when_what_was_in_the_way_is_gone() {
    for wait in [0, 20_000, 200_000] {
        for told in [true, false] {
            let world = &mut refused_everywhere(3);
            world.run(ms(wait));
            let able = (holder(world) + 1) % 3;
            world.hosts[able].refuses.clear();
            if told {
                world.tell(able, Event::Gone(vip(0)));
            }
            // A node that is not told of it tries again once a minute.
            world.run(if told { ms(1_000) } else { ms(62_000) });
            assert_eq!(world.carriers(vip(0)), [able], "after {wait} ms, {told}");
        }
    }
}

#[test]
fn a_new_interface_is_tried_at_once() {
    let world = &mut refused_everywhere(3);
    world.run(ms(200_000));
    let able = (holder(world) + 1) % 3;
    world.tell(able, Event::Node { interfaces: vec![], macs: vec![] });
    world.run(ms(1_000));
    world.hosts[able].refuses.clear();
    world.tell_node(able);
    world.run(ms(1_000));
    assert_eq!(world.carriers(vip(0)), [able]);
}

#[test]
fn a_refusal_long_ago_is_forgotten() {
    let world = &mut World::settled(2, 1, &Rules::default());
    for _ in 0..3 {
        let node = holder(world);
        let before = world.reported(node, |r| matches!(r, Report::CannotCarry { .. }));
        world.hosts[node].refuses = vec![vip(0)];
        world.run(ms(10_000));
        world.hosts[node].refuses.clear();
        assert_eq!(world.reported(node, |r| matches!(r, Report::CannotCarry { .. })), before + 1);
        assert_ne!(world.carriers(vip(0)), [node]);
        world.run(ms(200_000));
    }
}
