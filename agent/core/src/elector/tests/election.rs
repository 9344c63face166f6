//! Election, crash, freeze: with an API that answers.

use super::world::{STRANGER, VIP, World, ms};
use crate::action::{Cause, Report};
use crate::event::Event;
use crate::rules::Rules;

#[test]
fn a_cold_election_has_one_holder_soon() {
    let mut world = World::new(3, &Rules::default());
    for n in 0..3 {
        world.start(n, &[VIP]);
    }
    world.run(ms(1_000));
    assert_eq!(world.owners().len(), 1);
    let since = world.now;
    world.run(ms(60_000));
    assert!(world.time_with(since, |n| n != 1).is_zero());
}

#[test]
fn a_crashed_holder_is_replaced_by_the_witness() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let since = world.now;
    world.crash(holder);
    world.run(ms(5_000));
    assert!(world.time_with(since, |n| n == 0) < ms(500));
    assert_eq!(world.owners().len(), 1);
    let new = world.owners()[0];
    assert_eq!(world.reported(new, |r| *r == Report::Took(Cause::Witness)), 1);
}

#[test]
fn a_frozen_holder_is_fenced_before_another_takes_over() {
    for freeze_at in (0..2_000).step_by(130) {
        let (mut world, holder) = World::settled(3, &Rules::default());
        world.run(ms(freeze_at));
        let since = world.now;
        world.freeze(holder);
        world.run(ms(40_000));
        world.thaw(holder);
        world.run(ms(20_000));
        assert!(world.time_with(since, |n| n > 1).is_zero(), "two owners");
        assert!(world.time_with(since, |n| n == 0) < ms(1_500));
    }
}

#[test]
fn a_deaf_candidate_robs_nobody() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let deaf = (holder + 1) % 3;
    world.hosts[deaf].deaf = true;
    world.run(ms(60_000));
    assert_eq!(world.owners(), [holder]);
}

#[test]
fn a_claim_is_answered_by_a_write_sent_after_it() {
    let (mut world, holder) = World::settled(2, &Rules::default());
    world.claim(holder, STRANGER);
    world.run(ms(100));
    assert_eq!(world.reported(holder, |r| *r == Report::Defended { address: VIP }), 1);
    assert_eq!(world.owners(), [holder]);
}

#[test]
fn events_out_of_order_move_nothing() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let mut old = world.lease.clone().unwrap();
    old.version = "7".into();
    old.record.holder = "cp9".into();
    world.tell(holder, Event::Seen(Some(old)));
    world.run(ms(5_000));
    assert_eq!(world.owners(), [holder]);
}

#[test]
fn quiet_means_few_calls() {
    let (mut world, _) = World::settled(3, &Rules::default());
    let calls: usize = world.hosts.iter().map(|h| h.calls).sum();
    world.run(ms(60_000));
    let calls = world.hosts.iter().map(|h| h.calls).sum::<usize>() - calls;
    assert!(calls <= 60, "{calls} calls a minute");
}
