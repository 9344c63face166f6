//! The kernel does not give VIPs their new lifetimes: they stand, and the fence decides.

use super::crash::busiest;
use super::world::{Api, World, ms, vip};
use crate::rules::Rules;
use crate::session_vips::Report;

const VIPS: u8 = 20;

#[test]
fn a_refresh_that_the_kernel_does_not_answer_moves_nothing() {
    for (hangs_for, api) in [(1_000, Api::Up), (4_500, Api::Up), (3_000, Api::Refused), (3_000, Api::Hanging)] {
        for wait in [0, 1_000, 2_000, 3_000] {
            let world = &mut World::settled(4, VIPS, &Rules::default());
            world.run(ms(wait));
            let (since, node) = (world.now, busiest(world));
            world.hosts[node].kernel_hangs = true;
            world.set_api_everywhere(api);
            world.run(ms(hangs_for));
            world.hosts[node].kernel_hangs = false;
            world.run(ms(20_000));
            world.set_api_everywhere(Api::Up);
            world.run(ms(10_000));
            let case = format!("{hangs_for} ms, {api:?}, after {wait} ms");
            assert!(world.worst(VIPS, since, |n| n != 1).is_zero(), "{case}");
            assert_eq!(world.reported(node, |r| matches!(r, Report::LetGo { .. })), 0, "{case}");
        }
    }
}

#[test]
fn a_kernel_that_never_answers_leaves_the_end_to_the_fence() {
    let world = &mut World::settled(4, VIPS, &Rules::default());
    let (since, node) = (world.now, busiest(world));
    let held = world.hosts[node].carries.len();
    world.hosts[node].kernel_hangs = true;
    world.run(ms(5_000));
    assert_eq!(world.hosts[node].carries.len(), held);
    world.run(ms(30_000));
    assert_eq!(world.hosts[node].carries.len(), 0, "other nodes' kernels can");
    for v in 0..VIPS {
        assert_eq!(world.carriers(vip(v)).len(), 1, "{}", vip(v));
    }
    assert!(world.worst(VIPS, since, |n| n == 0) < ms(6_000), "{:?}", world.worst(VIPS, since, |n| n == 0));
}
