//! A holder whose Lease lapsed answers and does not call, and goes on only while it hears enough of the others.

use super::world::{Api, World, ms};
use crate::action::{Report, Why};
use crate::peers::Quorum;
use crate::rules::Rules;

/// The holder is cut from the API and from all other nodes, and goes on hearing the gateway: its clients are there.
fn cut_off(world: &mut World, holder: usize, how: Api) {
    for n in (0..world.hosts.len()).filter(|n| *n != holder) {
        world.hosts[n].group = 1;
    }
    world.set_api(holder, how);
}

#[test]
fn a_holder_that_is_cut_off_lets_go_when_its_lease_ends_and_calls_nobody() {
    for (count, how) in [(2, Api::Refused), (3, Api::Refused), (3, Api::Hanging), (5, Api::Hanging)] {
        let rules = Rules { announce_refresh: ms(2_000), ..Rules::default() };
        let (mut world, holder) = World::settled(count, &rules);
        let since = world.now;
        cut_off(&mut world, holder, how);
        world.run(ms(14_600));
        let one = world.owners();
        assert!(one.len() == 1 && one != [holder], "{count} nodes, {how:?}: {one:?}");
        world.run(ms(60_000));
        assert_eq!(world.owners(), one, "{count} nodes, {how:?}: it does not come back");
        // Its next renewal tells it that something is wrong.
        let called = world.hosts[holder].announced.iter().filter(|at| **at > since + ms(2_300)).count();
        assert_eq!(called, 0, "{count} nodes, {how:?}");
        let why = Report::LetGo(Why::CutOff);
        assert_eq!(world.reported(holder, |r| *r == why), 1, "{count} nodes, {how:?}");
        assert_eq!(world.reported(holder, |r| matches!(r, Report::TooFewHeard { heard: 0, .. })), 1);
        world.hosts.iter_mut().for_each(|host| host.group = 0);
        world.set_api(holder, Api::Up);
        world.run(ms(20_000));
        assert_eq!(world.owners(), one);
    }
}

/// A candidate that is cut off finds the VIP silent while the gateway answers.
#[test]
fn a_candidate_that_is_cut_off_takes_nothing() {
    for how in [Api::Refused, Api::Hanging] {
        let (mut world, holder) = World::settled(3, &Rules::default());
        cut_off(&mut world, (holder + 1) % 3, how);
        world.run(ms(60_000));
        assert_eq!(world.owners(), [holder], "{how:?}");
    }
}

#[test]
fn a_lapsed_holder_answers_and_does_not_call() {
    // The link goes down and up, and a step comes late: each is a reason to announce for a holder with a Lease.
    let rules = Rules { link_down_delay: ms(3_000), announce_refresh: ms(2_000), ..Rules::default() };
    let (mut world, holder) = World::settled(3, &rules);
    world.set_api_everywhere(Api::Hanging);
    world.run(ms(12_000));
    assert_eq!(world.role(holder), "lapsed");
    let announced = world.hosts[holder].announced.len();
    world.run(ms(20_000));
    world.tell(holder, crate::event::Event::Link { up: false });
    world.run(ms(100));
    world.tell(holder, crate::event::Event::Link { up: true });
    world.run(ms(2_000));
    world.tell(holder, crate::event::Event::ClockJump(ms(1_500)));
    world.run(ms(2_000));
    assert_eq!((world.owners(), world.hosts[holder].announced.len()), (vec![holder], announced));
    world.set_api_everywhere(Api::Up);
    world.run(ms(5_000));
    assert!(world.hosts[holder].announced.len() > announced, "it has its Lease again");
}

/// The settings leave the VIPs on the interface while the link is down for a moment. Another node takes the Lease meanwhile.
#[test]
fn a_holder_whose_link_was_down_does_not_call_before_it_knows_that_it_holds() {
    for taken in [true, false] {
        let rules = Rules { link_down_delay: ms(3_000), ..Rules::default() };
        let (mut world, holder) = World::settled(3, &rules);
        world.run(ms(20_000));
        let announced = world.hosts[holder].announced.len();
        world.hosts[holder].deaf = true;
        world.set_api(holder, Api::Hanging);
        world.tell(holder, crate::event::Event::Link { up: false });
        world.run(ms(if taken { 1_000 } else { 100 }));
        assert_eq!(world.owners().len(), if taken { 2 } else { 1 });
        let up = world.now;
        world.hosts[holder].deaf = false;
        if !taken {
            world.set_api(holder, Api::Up);
        }
        world.tell(holder, crate::event::Event::Link { up: true });
        assert_eq!(world.hosts[holder].announced.len(), announced, "nothing is known yet");
        world.run(ms(2_500));
        if taken {
            assert_eq!(world.hosts[holder].announced.len(), announced);
            assert!(world.owners().len() == 1 && world.owners() != [holder]);
            assert!(world.time_with(up, |n| n > 1) < ms(300), "{:?}", world.time_with(up, |n| n > 1));
        } else {
            assert_eq!(world.owners(), [holder]);
            assert!(world.hosts[holder].announced.len() > announced, "the neighbours are told anew");
        }
    }
}

#[test]
fn a_provisional_holder_announces_when_it_takes_and_then_no_more() {
    let rules = Rules { announce_refresh: ms(2_000), ..Rules::default() };
    let (mut world, holder) = World::settled(3, &rules);
    world.set_api_everywhere(Api::Refused);
    world.crash(holder);
    world.run(ms(2_000));
    let [next] = world.owners()[..] else { panic!("{:?}", world.owners()) };
    assert_eq!(world.role(next), "provisional");
    assert!(world.hosts[next].announced.len() >= 3, "{:?}", world.hosts[next].announced);
    world.run(ms(6_000));
    let announced = world.hosts[next].announced.len();
    world.run(ms(30_000));
    assert_eq!((world.owners(), world.hosts[next].announced.len()), (vec![next], announced));
}

#[test]
fn a_lapsed_holder_goes_on_as_long_as_most_nodes_are_there() {
    let (mut world, holder) = World::settled(5, &Rules::default());
    let since = world.now;
    world.set_api_everywhere(Api::Refused);
    world.run(ms(20_000));
    let others: Vec<usize> = (0..5).filter(|n| *n != holder).collect();
    world.crash(others[0]);
    world.crash(others[1]);
    world.run(ms(60_000));
    assert!(world.time_with(since, |n| n != 1).is_zero(), "three of five");
    world.crash(others[2]);
    world.run(ms(10_000));
    assert_eq!(world.owners(), [0_usize; 0], "two of five: etcd has no majority here");
}

#[test]
fn names_of_nodes_that_never_answer_are_no_reason_to_let_go() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    super::defects::with_gone(&mut world, 9);
    world.run(ms(35_000));
    let since = world.now;
    world.set_api_everywhere(Api::Hanging);
    world.run(ms(60_000));
    assert!(world.time_with(since, |n| n != 1).is_zero());
    assert_eq!(world.owners(), [holder]);
}

/// An address is given to the next machine while the Lease still names the first one that had it.
#[test]
fn a_host_that_has_the_address_of_a_node_that_is_gone_counts_once() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let other = (holder + 1) % 3;
    super::defects::with_former_name(&mut world, other);
    world.run(ms(25_000));
    let since = world.now;
    world.set_api_everywhere(Api::Hanging);
    world.crash(other);
    world.run(ms(60_000));
    assert!(world.time_with(since, |n| n != 1).is_zero(), "two of three are there");
    assert_eq!(world.owners(), [holder]);
}

#[test]
fn peers_whose_agents_are_stopped_are_heard() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let since = world.now;
    (0..3).filter(|n| *n != holder).for_each(|n| world.freeze(n));
    world.set_api_everywhere(Api::Hanging);
    world.run(ms(60_000));
    assert!(world.time_with(since, |n| n != 1).is_zero());
}

#[test]
fn the_only_node_goes_on_alone() {
    let (mut world, holder) = World::settled(1, &Rules::default());
    let since = world.now;
    world.set_api_everywhere(Api::Refused);
    world.run(ms(60_000));
    assert!(world.time_with(since, |n| n != 1).is_zero());
    assert_eq!(world.owners(), [holder]);
}

#[test]
fn who_is_told_to_goes_on_alone() {
    let (mut world, holder) = World::settled(3, &Rules { quorum: Quorum::Nobody, ..Rules::default() });
    cut_off(&mut world, holder, Api::Hanging);
    let since = world.now;
    world.run(ms(60_000));
    assert_eq!((world.owners().len(), world.role(holder)), (2, "lapsed"));
    assert_eq!(world.hosts[holder].announced.iter().filter(|at| **at > since + ms(10_500)).count(), 0);
}
