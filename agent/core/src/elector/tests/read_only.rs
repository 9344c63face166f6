//! Writes are refused for a while, and reads work: a webhook is away, etcd is full, a right was taken away.

use super::world::{Api, World, ms};
use crate::action::{Cause, Report};
use crate::rules::Rules;

fn takes(world: &World) -> usize {
    (0..world.hosts.len()).map(|n| world.reported(n, |r| matches!(r, Report::Took(Cause::Expiry)))).sum()
}

#[test]
pub(super) fn nobody_takes_from_a_holder_that_answers() {
    for seconds in (10..90).step_by(7) {
        for nodes in [2, 3, 5] {
            let (mut world, holder) = World::settled(nodes, &Rules::default());
            let since = world.now;
            let before = takes(&world);
            world.read_only = true;
            world.run(ms(seconds * 1_000));
            world.read_only = false;
            world.run(ms(40_000));
            assert_eq!((takes(&world) - before, world.owners()), (0, vec![holder]), "{nodes} nodes, {seconds} s");
            assert_eq!(world.holder(), world.hosts[holder].name);
            assert!(world.time_with(since, |n| n != 1).is_zero());
        }
    }
}

#[test]
pub(super) fn candidates_try_seldom() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.read_only = true;
    world.run(ms(60_000));
    let before: Vec<usize> = world.hosts.iter().map(|host| host.writes).collect();
    world.run(ms(320_000));
    for n in (0..3).filter(|n| *n != holder) {
        let writes = world.hosts[n].writes - before[n];
        assert!(writes <= 41, "{writes} writes in 320 s");
    }
}

#[test]
fn a_holder_that_dies_meanwhile_is_followed() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.read_only = true;
    world.run(ms(40_000));
    world.crash(holder);
    world.run(ms(30_000));
    world.read_only = false;
    world.run(ms(10_000));
    assert_eq!(world.owners().len(), 1);
    assert_ne!(world.owners(), [holder]);
    assert_eq!(world.holder(), world.hosts[world.owners()[0]].name);
}

/// Writes of all others work: the holder alone is cut off, and its Lease is taken once it had its time.
#[test]
fn a_holder_that_is_cut_off_is_replaced() {
    for api in [Api::Refused, Api::Hanging] {
        let (mut world, holder) = World::settled(3, &Rules::default());
        let since = world.now;
        world.set_api(holder, api);
        world.run(ms(25_000));
        assert_ne!(world.holder(), world.hosts[holder].name);
        assert_eq!(world.owners().len(), 1);
        assert_ne!(world.owners(), [holder]);
        assert!(world.time_with(since, |n| n == 0) < ms(50));
        assert!(world.time_with(since, |n| n > 1) < ms(50));
    }
}

/// The API server of the holder dies, and its agent finds no other: after so many tenths another node has the VIP.
fn tenths_beside_a_dead_api_server(world: &mut World, holder: usize) -> Option<usize> {
    world.set_api(holder, Api::Refused);
    world.hosts[holder].ready = false;
    world.tell(holder, crate::event::Event::Health(crate::health::Verdict::Unhealthy));
    (1..1_000).find(|_| {
        world.run(ms(100));
        !world.owners().is_empty() && !world.owners().contains(&holder)
    })
}

#[test]
fn a_holder_whose_api_server_dies_is_replaced_when_its_lease_ends() {
    for before in [0, 700, 1_700] {
        let (mut world, holder) = World::settled(3, &Rules::default());
        world.run(ms(before));
        let tenths = tenths_beside_a_dead_api_server(&mut world, holder);
        assert!(tenths.is_some_and(|tenths| tenths <= 155), "{tenths:?} tenths, +{before} ms");
    }
}

#[test]
fn a_holder_whose_api_server_dies_after_writes_were_refused_is_replaced_soon() {
    for seconds in [20, 60, 120, 300] {
        let (mut world, holder) = World::settled(3, &Rules::default());
        world.read_only = true;
        world.run(ms(seconds * 1_000));
        world.read_only = false;
        let tenths = tenths_beside_a_dead_api_server(&mut world, holder);
        assert!(tenths.is_some_and(|tenths| tenths <= 110), "{tenths:?} tenths, after {seconds} s");
    }
}
