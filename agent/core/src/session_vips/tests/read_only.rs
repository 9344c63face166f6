//! Writes are refused for a while, and reads work: a webhook is away, etcd is full, a right was taken away.

use super::world::{World, ms};
use crate::rules::Rules;

const VIPS: u8 = 20;

#[test]
pub(super) fn nobody_takes_from_nodes_that_answer() {
    for seconds in (5..80).step_by(5) {
        let world = &mut World::settled(4, VIPS, &Rules::default());
        let (since, moves) = (world.now, world.moves);
        world.read_only = true;
        world.run(ms(seconds * 1_000));
        world.read_only = false;
        world.run(ms(40_000));

        assert_eq!(world.moves, moves, "{seconds} s");
        assert!(world.worst(VIPS, since, |n| n != 1).is_zero(), "{seconds} s");
        world.each_is_carried(VIPS);
    }
}
