//! No node can carry a VIP, or only one that should not: as soon as another node can, it has the VIP.

use std::sync::Arc;
use std::time::Duration;

use super::world::{World, ms, vip};
use crate::placement::Demand;
use crate::rules::Rules;
use crate::session_vips::Event;

const VIPS: u8 = 6;

/// How a node loses its interface.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Gone,
    Down,
}

fn lose(world: &mut World, n: usize, how: Loss) {
    match how {
        Loss::Gone => world.interface_gone(n),
        Loss::Down => world.tell(n, Event::Link { interface: 2, up: false }),
    }
}

fn regain(world: &mut World, n: usize, how: Loss) {
    match how {
        Loss::Gone => world.tell_node(n),
        Loss::Down => world.tell(n, Event::Link { interface: 2, up: true }),
    }
}

#[test]
fn the_first_node_that_gets_its_interface_back_has_all_vips() {
    for how in [Loss::Gone, Loss::Down] {
        for first in 0..3 {
            let world = &mut World::settled(3, VIPS, &Rules::default());
            for n in 0..3 {
                lose(world, n, how);
                world.run(ms(2_000));
            }
            assert!((0..VIPS).all(|v| world.carriers(vip(v)).is_empty()));
            let calls = world.calls();
            world.run(ms(60_000));
            assert!(world.calls() - calls < 120, "{} calls in a minute, {how:?}", world.calls() - calls);
            regain(world, first, how);
            world.run(ms(1_000));
            for v in 0..VIPS {
                assert_eq!(world.carriers(vip(v)), [first], "{} {how:?}", vip(v));
            }
            let since = world.now;
            for n in (0..3).filter(|n| *n != first) {
                regain(world, n, how);
                world.run(ms(2_000));
            }
            world.run(ms(20_000));
            assert!(world.worst(VIPS, since, |n| n != 1).is_zero(), "{how:?}");
        }
    }
}

#[test]
fn a_vip_leaves_a_node_without_endpoint_when_the_node_with_the_endpoint_starts() {
    let world = &mut World::new(3, &Rules::default());
    (0..2).for_each(|n| world.start(n));
    world.run(ms(1_000));
    world.create(vip(0));
    world.run(ms(3_000));
    assert_eq!(world.carriers(vip(0)).len(), 1);
    let local = Some(Arc::new([world.hosts[2].name.clone()].into()));
    let demand = Demand { local, ..Demand::of(vip(0)) };
    world.demand(&demand);
    world.run(ms(10_000));
    assert_eq!(world.carriers(vip(0)).len(), 1, "no other node may have it");
    let since = world.now;
    world.start(2);
    world.demand(&demand);
    world.run(ms(1_000));
    assert_eq!(world.carriers(vip(0)), [2]);
    assert_eq!(world.time_with(vip(0), since, |n| n == 0), Duration::ZERO);
}
