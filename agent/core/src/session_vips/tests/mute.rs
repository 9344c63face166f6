//! A node that hears all others and whose own frames are lost: it has an API, and serves nobody.

use super::crash::busiest;
use super::world::{Api, World, ms, vip};
use crate::echo::State;
use crate::rules::Rules;
use crate::session_vips::{Event, Report};
use crate::test_world::GATEWAY;

const VIPS: u8 = 12;

fn carried_by(world: &World, node: usize) -> usize {
    (0..VIPS).filter(|v| world.carriers(vip(*v)).contains(&node)).count()
}

fn served(world: &World) -> usize {
    (0..VIPS).filter(|v| !world.carriers(vip(*v)).is_empty()).count()
}

/// Others have ended its session, and it has begun a new one: it is a candidate again.
#[test]
pub(super) fn a_mute_node_leaves_the_vips_of_a_crashed_one_to_others() {
    let world = &mut World::settled(4, VIPS, &Rules::default());
    let mute = busiest(world);
    world.hosts[mute].unheard = true;
    world.run(ms(8_000));
    assert!(world.sessions[&world.hosts[mute].name].is_live(), "it is a candidate");
    assert_eq!((carried_by(world, mute), served(world)), (0, usize::from(VIPS)));
    world.crash(busiest(world));
    let since = world.now;
    world.run(ms(6_000));
    assert_eq!((carried_by(world, mute), served(world)), (0, usize::from(VIPS)));
    let dark = world.worst(VIPS, since, |n| n == 0);
    assert!(dark < ms(3_500), "the next one in order takes: {dark:?}");
    // It is heard again, and takes part like any other.
    world.hosts[mute].unheard = false;
    world.run(ms(12_000));
    let other = busiest(world);
    world.crash(other);
    world.run(ms(6_000));
    assert!(carried_by(world, mute) > 0);
    world.each_is_carried(VIPS);
}

/// It has only just begun, and does not know yet.
#[test]
pub(super) fn a_mute_node_gives_back_what_it_took_before_it_knew() {
    let world = &mut World::new(3, &Rules::default());
    world.start(0);
    world.start(1);
    world.run(ms(1_000));
    (0..VIPS).for_each(|v| world.create(vip(v)));
    world.run(ms(12_000));
    world.hosts[2].unheard = true;
    world.start(2);
    world.run(ms(3_000));
    world.crash(0);
    world.run(ms(2_000));
    assert!(carried_by(world, 2) > 0, "nothing to see");
    world.run(ms(6_000));
    assert_eq!((carried_by(world, 2), carried_by(world, 1)), (0, usize::from(VIPS)));
    assert_eq!(world.reported(2, |report| *report == Report::Mute { interface: 2 }), 1);
    world.run(ms(60_000));
    assert_eq!((carried_by(world, 2), carried_by(world, 1)), (0, usize::from(VIPS)), "and takes nothing again");
}

/// Its own requests, which name its address, leave all the time, and an announcement now and then. Clients ask for the VIPs in vain.
#[test]
pub(super) fn a_node_that_answers_nothing_does_not_keep_its_vips_by_asking() {
    for (second_network, announces) in [(false, false), (true, false), (false, true)] {
        let world = &mut World::new(4, &Rules::default());
        world.second_network = second_network;
        world.begin(ms(1_000), VIPS, ms(12_000));
        let holder = busiest(world);
        world.hosts[holder].unanswering = true;
        let others: Vec<usize> = (0..4).filter(|n| *n != holder).collect();
        let held = (0..VIPS).map(vip).find(|address| world.carriers(*address).contains(&holder)).unwrap();
        let own = world.own_addresses(holder);
        for nth in 0..200 {
            let says = own.iter().chain(Some(&held).filter(|_| announces && nth % 20 == 0));
            let frames: Vec<_> = says.flat_map(|address| others.iter().map(move |n| (*n, *address))).collect();
            for (n, address) in frames {
                world.frame(holder, n, address);
            }
            world.run(ms(50));
        }
        let now = (carried_by(world, holder), served(world));
        assert_eq!(now, (0, usize::from(VIPS)), "two networks: {second_network}, announces: {announces}");
    }
}

/// Its answers are lost for a moment, and its requests are not.
#[test]
fn what_a_node_says_unasked_clears_misses() {
    let world = &mut World::settled(4, VIPS, &Rules::default());
    let holder = busiest(world);
    let (own, held) = (world.hosts[holder].address, carried_by(world, holder));
    world.hosts[holder].unanswering = true;
    for _ in 0..40 {
        (0..4).filter(|n| *n != holder).for_each(|n| world.frame(holder, n, own));
        world.run(ms(50));
    }
    world.hosts[holder].unanswering = false;
    world.run(ms(8_000));
    assert_eq!(carried_by(world, holder), held);
}

#[test]
fn a_mute_node_serves_if_no_other_is_left() {
    let world = &mut World::settled(3, VIPS, &Rules::default());
    world.hosts[0].unheard = true;
    world.run(ms(8_000));
    assert_eq!(carried_by(world, 0), 0);
    world.crash(1);
    world.crash(2);
    world.run(ms(60_000));
    assert_eq!(carried_by(world, 0), usize::from(VIPS));
}

/// No node tells itself from the others.
#[test]
fn where_nobody_hears_anybody_vips_move_once() {
    let world = &mut World::settled(4, VIPS, &Rules::default());
    world.hosts.iter_mut().for_each(|host| host.unheard = true);
    world.run(ms(60_000));
    world.each_is_carried(VIPS);
    let (crashed, moves) = (busiest(world), world.moves);
    let held = carried_by(world, crashed);
    world.crash(crashed);
    world.run(ms(120_000));
    world.each_is_carried(VIPS);
    assert_eq!((carried_by(world, crashed), world.moves - moves), (0, held));
}

/// A world in which a node has all VIPs that nobody hears: it was alone while the agent of the other one was gone for a while.
fn alone_and_mute(second_network: bool) -> World {
    let mut world = World::new(2, &Rules::default());
    world.second_network = second_network;
    world.start(0);
    world.run(ms(1_000));
    (0..VIPS).for_each(|v| world.create(vip(v)));
    world.run(ms(12_000));
    world.hosts[1].unheard = true;
    world.start(1);
    world.run(ms(30_000));
    assert_eq!((carried_by(&world, 0), carried_by(&world, 1)), (usize::from(VIPS), 0));
    world.tell(0, Event::Shutdown);
    world.run(ms(20_000));
    assert!(world.hosts[0].exited);
    assert_eq!((carried_by(&world, 1), served(&world)), (usize::from(VIPS), usize::from(VIPS)), "nobody else is there");
    world
}

#[test]
pub(super) fn a_mute_node_that_was_alone_gives_the_vips_to_the_node_that_comes_back() {
    for second_network in [false, true] {
        let world = &mut alone_and_mute(second_network);
        let since = world.now;
        world.restart(0, &Rules::default());
        world.run(ms(40_000));
        assert_eq!((carried_by(world, 0), carried_by(world, 1)), (usize::from(VIPS), 0), "{second_network}");
        assert_eq!(world.worst(VIPS, since, |n| n == 0), ms(0), "it serves until it is relieved");
        let moves = world.moves;
        world.run(ms(120_000));
        assert_eq!((carried_by(world, 0), world.moves), (usize::from(VIPS), moves), "and takes nothing again");
        // It is heard again, and takes part like any other.
        world.hosts[1].unheard = false;
        world.run(ms(12_000));
        world.crash(0);
        world.run(ms(25_000));
        assert_eq!(carried_by(world, 1), usize::from(VIPS));
    }
}

/// Where frames are limited, ten questions take longer.
#[test]
fn a_mute_node_that_was_alone_is_relieved_under_a_limit_of_frames() {
    for (limit, early) in [(3, 80), (5, 45), (15, 15)] {
        let rules = Rules { frames_per_second: Some(limit), ..Rules::default() };
        let world = &mut World::new(2, &rules);
        world.hosts[1].unheard = true;
        world.start(1);
        world.run(ms(1_000));
        (0..VIPS).for_each(|v| world.create(vip(v)));
        let offers = |world: &World| world.sessions[&world.hosts[1].name].links().iter().any(|link| link.unheard);
        world.run(ms(early * 1_000));
        assert!(!offers(world), "limit {limit}");
        world.run(ms((120 - early) * 1_000));
        assert_eq!(carried_by(world, 1), usize::from(VIPS), "limit {limit}: nobody else is there");
        assert!(offers(world), "limit {limit}");
        world.start(0);
        world.run(ms(40_000 + 200_000 / u64::from(limit)));
        assert_eq!((carried_by(world, 0), carried_by(world, 1)), (usize::from(VIPS), 0), "limit {limit}");
    }
}

/// Other nodes may be on isolated ports.
#[test]
fn where_there_is_a_gateway_it_is_asked_whether_anybody_answers() {
    for limit in [None, Some(15)] {
        let world = &mut World::settled(4, VIPS, &Rules { frames_per_second: limit, ..Rules::default() });
        for _ in 0..30 {
            world.run(ms(1_000));
            let asked = world.hosts[0].session_vips.party_in_turn(2).map(|party| party.address);
            assert_eq!(asked, Some(GATEWAY), "limit {limit:?}");
        }
    }
}

/// While the limit leaves no room, and while the API is away, nobody is asked. What was not asked is not unanswered.
#[test]
fn who_could_not_ask_does_not_know_that_nobody_answers() {
    for limit in [2, 15] {
        let rules = Rules { frames_per_second: Some(limit), ..Rules::default() };
        let world = &mut World::new(3, &rules);
        (0..3).for_each(|n| world.start(n));
        world.run(ms(30_000));
        world.hosts[0].unheard = true;
        if limit > 2 {
            world.set_api_everywhere(Api::Refused);
        }
        world.run(ms(200_000));
        let told = |report: &Report| matches!(report, Report::Echo { interface: 2, state: State::Nobody });
        assert_eq!(world.reported(0, told), 0, "limit {limit}");
    }
}

/// All offer their VIPs, and nobody is better.
#[test]
pub(super) fn where_nobody_hears_anybody_offers_move_nothing() {
    let world = &mut World::settled(4, VIPS, &Rules::default());
    world.hosts.iter_mut().for_each(|host| host.unheard = true);
    world.run(ms(60_000));
    world.each_is_carried(VIPS);
    let holds = |world: &World| (0..VIPS).map(|v| world.carriers(vip(v))).collect::<Vec<_>>();
    let before = (world.moves, holds(world));
    let idle = busiest(world);
    world.restart(idle, &Rules::default());
    world.run(ms(300_000));
    assert_eq!((world.moves, holds(world)), before);
    assert!(world.sessions.values().all(|session| session.links().iter().any(|link| link.unheard)), "all offer");
}

/// Its requests are lost, and what its kernel answers is not: it serves.
#[test]
pub(super) fn what_a_node_that_answers_offers_is_left_alone() {
    let world = &mut World::settled(4, VIPS, &Rules::default());
    let holder = busiest(world);
    let (held, moves) = (carried_by(world, holder), world.moves);
    world.hosts[holder].asks_in_vain = true;
    world.run(ms(120_000));
    assert!(world.sessions[&world.hosts[holder].name].links().iter().any(|link| link.unheard), "it offers them");
    assert_eq!((carried_by(world, holder), world.moves), (held, moves));
}
