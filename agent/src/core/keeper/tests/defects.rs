//! Interleavings that broke the keeper once.

use super::world::{Api, World, ms};
use crate::core::rules::Rules;

#[test]
fn who_yielded_a_provisional_hold_comes_back_when_the_other_is_gone() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.set_api_everywhere(Api::Refused);
    world.run(ms(5_000));
    world.crash(holder);
    world.run(ms(3_000));
    let first = world.owners()[0];
    let second = (0..3).find(|n| *n != holder && *n != first).unwrap();
    let mac = world.hosts[second].mac;
    world.claim(first, mac);
    assert_eq!(world.owners(), [0_usize; 0]);
    world.crash(second);
    world.run(ms(5_000));
    assert_eq!(world.owners(), [first]);
}

#[test]
fn two_provisional_holders_of_one_instant_resolve() {
    for wire in [1, 20, 60, 120] {
        let (mut world, holder) = World::settled(3, &Rules::default());
        world.set_api_everywhere(Api::Refused);
        world.run(ms(5_000));
        world.crash(holder);
        // Frames take longer than turns differ: both begin.
        world.wire = ms(wire) / 3;
        let since = world.now;
        world.run(ms(30_000));
        assert_eq!(world.owners().len(), 1, "{wire}");
        assert!(
            world.time_with(since, |n| n == 0) < ms(8_000),
            "{wire}: {:?}",
            world.time_with(since, |n| n == 0)
        );
    }
}
