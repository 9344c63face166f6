//! Nodes that crash, stop, and come back.

use super::world::{Api, World, ms, vip};
use crate::rules::Rules;
use crate::session::EndCause;
use crate::session_vips::Report;

/// The host that carries most of so many VIPs.
pub(super) fn busiest(world: &World) -> usize {
    (0..world.hosts.len()).max_by_key(|n| world.hosts[*n].carries.len()).unwrap()
}

#[test]
fn vips_are_taken_once_and_stay() {
    let world = &mut World::settled(5, 60, &Rules::default());
    let since = world.now;
    assert!(world.hosts.iter().all(|h| h.carries.len() >= 4), "spread");
    let (calls, events) = (world.calls(), world.events());
    world.run(ms(60_000));
    assert!(world.worst(60, since, |n| n != 1).is_zero());
    let calls = world.calls() - calls;
    assert!(calls <= 155, "{calls} calls of five nodes in a minute: one renewal each 2 s");
    let events = world.events() - events;
    assert!(events < 60 * 5 * 100, "{events} steps");
}

#[test]
fn a_crashed_nodes_vips_all_move_at_once() {
    let world = &mut World::settled(5, 100, &Rules::default());
    let (since, gone) = (world.now, busiest(world));
    world.crash(gone);
    world.run(ms(5_000));
    // At most four windows and one end of a session pass before the addresses are there.
    assert!(world.worst(100, since, |n| n == 0) < ms(420), "{:?}", world.worst(100, since, |n| n == 0));
    assert!(world.worst(100, since, |n| n > 1).is_zero());
    let ended =
        (0..5).map(|n| world.reported(n, |r| matches!(r, Report::EndedOther { cause: EndCause::Abandoned, .. })));
    assert_eq!(ended.sum::<usize>(), 1, "one watcher ends the session");
    let name = world.hosts[gone].name.clone();
    world.restart(gone, &Rules::default());
    let back = world.now;
    world.run(ms(30_000));
    assert!(world.worst(100, back, |n| n != 1).is_zero(), "nothing moves back");
    assert!(world.sessions[&name].is_live());
}

#[test]
fn an_agent_that_adopted_its_session_watches_like_any_other() {
    let world = &mut World::settled(2, 20, &Rules::default());
    world.restart(0, &Rules::default());
    world.run(ms(10_000));
    let since = world.now;
    world.crash(1);
    world.run(ms(5_000));
    assert!(world.worst(20, since, |n| n == 0) < ms(450), "{:?}", world.worst(20, since, |n| n == 0));
}

#[test]
fn two_that_crash_together_are_made_up_for() {
    let world = &mut World::settled(6, 100, &Rules::default());
    let since = world.now;
    world.crash(0);
    world.crash(1);
    world.run(ms(8_000));
    assert!(world.worst(100, since, |n| n == 0) < ms(800), "{:?}", world.worst(100, since, |n| n == 0));
    assert!(world.worst(100, since, |n| n > 1).is_zero());
}

#[test]
fn a_stopped_agent_is_fenced_before_another_takes_over() {
    for wait in (0..2_000).step_by(330) {
        let world = &mut World::settled(4, 30, &Rules::default());
        world.run(ms(wait));
        let (since, stopped) = (world.now, busiest(world));
        world.freeze(stopped);
        world.run(ms(40_000));
        world.thaw(stopped);
        world.run(ms(20_000));
        assert!(world.worst(30, since, |n| n > 1).is_zero(), "two owners: {:?}", world.worst(30, since, |n| n > 1));
        assert!(world.worst(30, since, |n| n == 0) < ms(2_500), "{:?}", world.worst(30, since, |n| n == 0));
    }
}

#[test]
fn a_killed_agent_adopts_what_it_had() {
    let world = &mut World::settled(4, 30, &Rules::default());
    let (since, killed) = (world.now, busiest(world));
    let had = world.hosts[killed].carries.len();
    world.hosts[killed].running = false;
    world.run(ms(3_000));
    world.restart(killed, &Rules::default());
    world.run(ms(30_000));
    assert!(world.worst(30, since, |n| n != 1).is_zero());
    assert_eq!(world.hosts[killed].carries.len(), had);
    assert_eq!(world.reported(killed, |r| matches!(r, Report::Began { adopted: true, .. })), 1);
}

#[test]
fn a_deaf_watcher_ends_nobody() {
    let world = &mut World::settled(4, 30, &Rules::default());
    let since = world.now;
    world.hosts[2].deaf = true;
    world.run(ms(3_000));
    assert_eq!(world.reported(2, |r| matches!(r, Report::EndedOther { .. })), 0);
    // The deaf node's own VIPs move: no other node hears it.
    world.run(ms(20_000));
    for v in 0..30 {
        let who = world.carriers(vip(v));
        assert!(who.len() == 1 && who[0] != 2, "{v}: {who:?}");
    }
    assert!(world.worst(30, since, |n| n > 1) < ms(50));
}

#[test]
fn a_node_without_an_api_loses_its_vips_to_those_who_have_one() {
    for how in [Api::Refused, Api::Hanging] {
        let world = &mut World::settled(4, 30, &Rules::default());
        let (since, alone) = (world.now, busiest(world));
        world.set_api(alone, how);
        world.run(ms(25_000));
        assert!(world.hosts[alone].carries.is_empty(), "{how:?}");
        assert!(world.worst(30, since, |n| n == 0).is_zero(), "it served until the others did");
        assert!(world.worst(30, since, |n| n > 1) < ms(250), "{:?}", world.worst(30, since, |n| n > 1));
        world.set_api(alone, Api::Up);
        let back = world.now;
        world.run(ms(20_000));
        assert!(world.worst(30, back, |n| n != 1).is_zero(), "{how:?}");
    }
}

#[test]
fn twenty_nodes_cost_one_renewal_each() {
    let world = &mut World::settled(20, 150, &Rules::default());
    let (calls, gone) = (world.calls(), busiest(world));
    world.run(ms(20_000));
    let calls = world.calls() - calls;
    assert!(calls <= 20 * 11, "{calls} calls of twenty nodes in 20 s");
    let since = world.now;
    world.crash(gone);
    world.run(ms(3_000));
    assert!(world.worst(150, since, |n| n == 0) < ms(600), "{:?}", world.worst(150, since, |n| n == 0));
    assert!(world.worst(150, since, |n| n > 1).is_zero());
}
