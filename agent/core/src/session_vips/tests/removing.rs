//! A VIP that was let go, and that the kernel has not removed yet: no other node gets the VIP before.

use super::world::{World, ms, vip};
use crate::rules::Rules;
use crate::session_vips::{Event, Input};

const VIPS: u8 = 10;

/// The holder of the first VIP lets that VIP go, and the kernel does not remove it. Answers with the holder.
fn let_go_and_kept(world: &mut World) -> usize {
    let holder = world.carriers(vip(0))[0];
    world.hosts[holder].keeps = true;
    world.tell(holder, Event::EnsureFailed { address: vip(0), reason: "no answer from the kernel".into() });
    world.hosts[holder].keeps = false;
    holder
}

fn confirm(world: &mut World, node: usize) {
    world.hosts[node].carries.remove(&vip(0));
    world.tell(node, Event::Removed(vec![vip(0)]));
}

#[test]
fn a_node_that_leaves_gives_its_other_vips_away_and_waits_for_the_removal() {
    for (event, confirmed) in [
        (Event::Shutdown, true),
        (Event::Shutdown, false),
        (Event::Input(Input::Drain(true)), true),
        (Event::Input(Input::Drain(true)), false),
    ] {
        let case = format!("{event:?}, {confirmed}");
        let world = &mut World::settled(3, VIPS, &Rules::default());
        let since = world.now;
        let node = let_go_and_kept(world);
        world.tell(node, event);
        world.run(ms(2_000));
        assert_eq!(world.carriers(vip(0)), [node], "it is still there: {case}");
        for other in (1..VIPS).map(vip) {
            let carriers = world.carriers(other);
            assert!(carriers.len() == 1 && carriers != [node], "{other} {carriers:?}: {case}");
            assert!(world.time_with(other, since, |n| n == 0).is_zero(), "{other}: {case}");
        }
        if confirmed {
            confirm(world, node);
            world.run(ms(500));
            let carriers = world.carriers(vip(0));
            assert!(carriers.len() == 1 && carriers != [node], "{carriers:?}: {case}");
        }
        world.run(ms(30_000));
        assert!(world.time_with(vip(0), since, |n| n > 1).is_zero(), "two owners: {case}");
        let carriers = world.carriers(vip(0));
        assert!(carriers.len() == 1 && carriers != [node], "{carriers:?}: {case}");
        assert!(world.hosts[node].carries.is_empty(), "{case}");
    }
}

/// The kernel neither puts the VIP there nor removes it.
#[test]
fn a_vip_that_can_neither_be_put_nor_removed_goes_to_another_node() {
    let world = &mut World::settled(3, 1, &Rules::default());
    let (since, holder) = (world.now, world.carriers(vip(0))[0]);
    (world.hosts[holder].keeps, world.hosts[holder].refuses) = (true, vec![vip(0)]);
    world.tell(holder, Event::EnsureFailed { address: vip(0), reason: "no answer from the kernel".into() });
    world.run(ms(20_000));
    let carriers = world.carriers(vip(0));
    assert!(carriers.len() == 1 && carriers != [holder], "{carriers:?}");
    assert!(world.time_with(vip(0), since, |n| n > 1).is_zero(), "two owners");
}
