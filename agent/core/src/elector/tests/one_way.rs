//! Frames are lost one way: a node hears another, and is not heard.

use std::net::{IpAddr, Ipv4Addr};

use super::world::{Api, GATEWAY, ROUTER_TOO, VIP, World, ms};
use crate::action::{Cause, Report, Why};
use crate::echo::State;
use crate::elector::Elector;
use crate::event::Event;
use crate::evidence::Sender;
use crate::lease::{LetGo, MOST_PARTICIPANTS, Participant};
use crate::peers::Quorum;
use crate::rules::Rules;
use crate::time::{Time, WallTime};

/// No node, and no gateway.
const STRANGER_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 77));

/// A world in which a candidate that the holder does not hear has carried the VIP provisionally, and has let go; the holder, the
/// candidate, and when it let go.
fn let_go_unheard(change: impl FnOnce(&mut World)) -> (World, usize, usize, Time) {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.run(ms(10_000));
    change(&mut world);
    let candidate = (holder + 1) % 3;
    world.hosts[candidate].unheard_by = vec![holder];
    world.set_api(candidate, Api::Hanging);
    while !world.owners().contains(&candidate) {
        world.run(ms(10));
    }
    world.run(ms(100));
    world.set_api(candidate, Api::Up);
    while world.owners().contains(&candidate) {
        world.run(ms(10));
    }
    world.hosts[candidate].unheard_by.clear();
    let now = world.now;
    (world, holder, candidate, now)
}

fn announced_since(world: &World, n: usize, since: Time) -> usize {
    world.hosts[n].announced.iter().filter(|at| **at > since).count()
}

#[test]
fn the_holder_announces_again_when_a_node_that_it_did_not_hear_lets_go() {
    let (mut world, holder, candidate, since) = let_go_unheard(|_| {});
    assert_eq!(world.reported(candidate, |r| matches!(r, Report::Took(Cause::Provisional))), 1);
    assert_eq!(world.reported(candidate, |r| *r == Report::LetGo(Why::LeaseLost)), 1);
    let (before, others) = (world.hosts[candidate].writes, world.hosts[3 - holder - candidate].writes);
    world.run(ms(1_500));
    assert!(announced_since(&world, holder, since) >= 3, "a burst");
    world.run(ms(20_000));
    assert_eq!(announced_since(&world, holder, since), 6, "one burst");
    world.run(ms(120_000));
    assert!(world.hosts[candidate].writes <= before + 2, "the note is written once");
    assert_eq!(world.hosts[3 - holder - candidate].writes, others);
    assert_eq!((world.owners(), world.role(holder)), (vec![holder], "holding"));
}

#[test]
fn a_node_for_which_the_list_has_no_place_says_that_it_has_let_go() {
    let (mut world, holder, candidate, since) = let_go_unheard(|world| {
        let mut lease = world.lease.clone().unwrap();
        let name = world.hosts.iter().find(|host| host.name != lease.record.holder).unwrap().name.clone();
        for n in lease.notes.participants.len()..=MOST_PARTICIPANTS {
            lease.notes.participants.insert(format!("gone{n}"), Participant::default());
        }
        lease.notes.participants.remove(&name);
        world.store(lease.record, lease.notes);
    });
    world.run(ms(1_500));
    let lease = world.lease.as_ref().unwrap();
    assert_eq!(lease.notes.let_go.as_ref().map(|said| &said.node), Some(&world.hosts[candidate].name));
    assert_eq!(lease.notes.participants.len(), MOST_PARTICIPANTS);
    assert!(announced_since(&world, holder, since) >= 3);
}

#[test]
fn a_note_that_was_there_before_says_nothing_and_a_new_one_is_honoured_once() {
    let (mut world, holder, candidate, _) = let_go_unheard(|_| {});
    world.run(ms(10_000));
    // The holder's agent is new, and finds the note.
    world.kill(holder);
    world.restart(holder, &Rules::default());
    world.run(ms(10_000));
    let lease = world.lease.clone().unwrap();
    let said = lease.notes.let_go.clone();
    assert!(said.is_some(), "all writes keep it");
    // Somebody strips it, and an older note comes back.
    let since = world.now;
    for let_go in [None, said] {
        let lease = world.lease.clone().unwrap();
        world.store(lease.record, crate::lease::Notes { let_go, ..lease.notes });
        world.run(ms(4_000));
    }
    assert_eq!(announced_since(&world, holder, since), 0);
    let lease = world.lease.clone().unwrap();
    let let_go = Some(LetGo { node: world.hosts[candidate].name.clone(), at: WallTime(7) });
    world.store(lease.record, crate::lease::Notes { let_go, ..lease.notes });
    world.run(ms(10_000));
    assert_eq!(announced_since(&world, holder, since), 6);
}

/// The takes that the candidate has reported.
fn takes(world: &World, candidate: usize) -> usize {
    world.reported(candidate, |r| matches!(r, Report::Took(Cause::Provisional | Cause::Witness)))
}

#[test]
fn a_holder_that_was_misjudged_is_not_judged_again_at_once() {
    let (mut world, holder, candidate, _) = let_go_unheard(|_| {});
    // It is still not heard by the holder, and the API falls silent for it again and again.
    world.hosts[candidate].unheard_by = vec![holder];
    let before = takes(&world, candidate);
    for _ in 0..4 {
        world.set_api(candidate, Api::Hanging);
        world.run(ms(700));
        world.set_api(candidate, Api::Up);
        world.run(ms(400));
    }
    assert_eq!((takes(&world, candidate), world.owners()), (before, vec![holder]));
    // After that while its silence counts again.
    world.run(ms(6_000));
    assert_eq!((takes(&world, candidate), world.owners()), (before + 1, vec![candidate]));
}

#[test]
fn the_last_node_takes_the_vip_of_a_dead_holder_that_it_had_misjudged() {
    for api in [Api::Up, Api::Hanging] {
        let (mut world, holder) = World::settled(2, &Rules { quorum: Quorum::Nobody, ..Rules::default() });
        world.run(ms(10_000));
        let candidate = 1 - holder;
        world.hosts[candidate].unheard_by = vec![holder];
        world.set_api(candidate, Api::Hanging);
        while !world.owners().contains(&candidate) {
            world.run(ms(10));
        }
        world.set_api(candidate, Api::Up);
        while world.owners().contains(&candidate) {
            world.run(ms(10));
        }
        world.hosts[candidate].unheard_by.clear();
        world.crash(holder);
        world.set_api(candidate, api);
        world.run(ms(7_000));
        assert_eq!(world.owners(), [candidate], "{api:?}");
    }
}

#[test]
fn another_holder_is_judged_by_its_own_silence() {
    let (mut world, holder, candidate, _) = let_go_unheard(|_| {});
    let third = 3 - holder - candidate;
    world.crash(holder);
    world.run(ms(1_500));
    assert!(world.owners().contains(&third), "who was not misled judges at once: {:?}", world.owners());
    world.run(ms(1_000));
    world.crash(third);
    world.run(ms(1_500));
    assert!(world.owners().contains(&candidate), "{:?}", world.owners());
}

/// Its frames get lost from the moment on at which it takes the VIPs of a node that has crashed.
#[test]
pub(super) fn a_node_that_falls_mute_as_it_takes_gives_the_lease_back() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.crash(holder);
    while world.owners().is_empty() {
        world.run(ms(10));
    }
    let taker = world.owners()[0];
    world.gateway = false;
    world.hosts[taker].unheard_by = (0..3).collect();
    world.run(ms(20_000));
    assert_eq!(world.reported(taker, |report| *report == Report::Mute), 1);
    assert!(!world.owners().contains(&taker) && !world.owners().is_empty());
}

/// Neither the other hosts nor the gateway hear it.
fn nobody_hears(world: &mut World, n: usize) {
    world.hosts[n].unheard_by = (0..world.hosts.len()).chain([ROUTER_TOO]).collect();
}

/// A mute node that has the Lease has the others take it as soon as they are there, and nothing moves after that.
fn is_relieved(world: &mut World, mute: usize) {
    assert_eq!(world.owners(), [mute], "nobody else is there");
    let since = world.now;
    (0..world.hosts.len()).filter(|n| *n != mute).for_each(|n| world.restart(n, &Rules::default()));
    world.run(ms(40_000));
    let (owners, lease) = (world.owners(), world.lease.clone().unwrap());
    assert!(owners.len() == 1 && owners[0] != mute, "{owners:?}");
    assert_eq!(world.time_with(since, |n| n == 0), ms(0), "it serves until it is relieved");
    world.run(ms(300_000));
    let later = world.lease.as_ref().unwrap();
    assert_eq!((world.owners(), later.record.transitions), (owners, lease.record.transitions));
}

#[test]
pub(super) fn a_mute_node_that_was_handed_the_lease_is_relieved_by_who_comes_back() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let (mute, third) = ((holder + 1) % 3, (holder + 2) % 3);
    nobody_hears(&mut world, mute);
    world.kill(third);
    world.run(ms(30_000));
    world.tell(holder, Event::Shutdown);
    world.run(ms(10_000));
    is_relieved(&mut world, mute);
}

#[test]
fn a_mute_node_that_took_the_lease_when_it_had_ended_is_relieved_by_who_comes_back() {
    let (mut world, holder) = World::settled(2, &Rules::default());
    let mute = 1 - holder;
    nobody_hears(&mut world, mute);
    world.run(ms(30_000));
    world.kill(holder);
    world.run(ms(40_000));
    is_relieved(&mut world, mute);
}

#[test]
fn a_mute_node_that_came_first_is_relieved_by_who_comes_next() {
    let mut world = World::new(3, &Rules::default());
    nobody_hears(&mut world, 0);
    world.start(0, &[VIP]);
    world.run(ms(40_000));
    is_relieved(&mut world, 0);
}

/// Where frames are limited, ten questions take longer.
#[test]
fn a_mute_node_that_came_first_is_relieved_under_a_limit_of_frames() {
    for (limit, early, late) in [(15, 15, 40), (6, 40, 60), (3, 80, 110)] {
        let rules = Rules { frames_per_second: Some(limit), ..Rules::default() };
        let mut world = World::new(2, &rules);
        nobody_hears(&mut world, 0);
        world.start(0, &[VIP]);
        world.run(ms(early * 1_000));
        assert!(!world.lease.as_ref().unwrap().is_offered(), "limit {limit}");
        world.run(ms((late - early) * 1_000));
        assert!(world.lease.as_ref().unwrap().is_offered(), "limit {limit}");
        world.restart(1, &rules);
        world.run(ms(60_000));
        assert_eq!(world.owners(), [1], "limit {limit}");
        let tenure = world.lease.as_ref().unwrap().record.transitions;
        world.run(ms(200_000));
        assert_eq!((world.owners(), world.lease.as_ref().unwrap().record.transitions), (vec![1], tenure));
    }
}

/// While the API is away, limited frames are for nodes to hear one another. What was not asked is not unanswered.
#[test]
fn who_may_not_ask_under_a_limit_of_frames_does_not_know_that_nobody_answers() {
    let rules = Rules { frames_per_second: Some(15), ..Rules::default() };
    let (mut world, _) = World::settled(3, &rules);
    for n in 0..3 {
        nobody_hears(&mut world, n);
        world.set_api(n, Api::Refused);
    }
    world.run(ms(200_000));
    let told = |world: &World| (0..3).map(|n| world.reported(n, |r| *r == Report::Echo(State::Nobody))).sum::<usize>();
    assert_eq!(told(&world), 0);
    (0..3).for_each(|n| world.set_api(n, Api::Up));
    world.run(ms(60_000));
    assert!(told(&world) > 0);
}

/// Of many electors under a limit of frames, none asks by itself. What was asked for another one counts, if its answer would.
#[test]
fn an_elector_of_many_counts_what_was_asked_of_hosts_that_it_knows() {
    let rules = Rules { frames_per_second: Some(15), ..Rules::default() };
    for (asked, known) in [(None, false), (Some(STRANGER_ADDRESS), false), (Some(GATEWAY), true)] {
        let mut world = World::new(1, &rules);
        world.hosts[0].elector = Elector::new(Rules { node: world.hosts[0].name.clone(), ..rules.clone() }).in_turn();
        world.gateway = false;
        world.start(0, &[VIP]);
        for _ in 0..30 {
            world.run(ms(2_000));
            let question = world.hosts[0].elector.question(world.now);
            assert!(question.iter().all(|probe| probe.address == GATEWAY) && (known || !question.is_empty()));
            if let Some(address) = asked {
                world.tell(0, Event::Asked { address, sender: Sender::Own });
            }
        }
        let told = world.reported(0, |report| *report == Report::Echo(State::Nobody));
        assert_eq!(told, usize::from(known), "{asked:?} was asked");
    }
}

/// Ports are isolated: nodes hear the gateway only, and it was away for a while.
#[test]
fn isolated_nodes_under_a_limit_of_frames_take_nothing_when_the_gateway_comes_back() {
    for limit in [15, 6, 3] {
        let mut world = World::new(3, &Rules { frames_per_second: Some(limit), ..Rules::default() });
        for n in 0..3 {
            world.hosts[n].unheard_by = (0..3).filter(|other| *other != n).collect();
            world.start(n, &[VIP]);
        }
        world.run(ms(60_000));
        let holder = world.owners()[0];
        let tenure = world.lease.as_ref().unwrap().record.transitions;
        for away in [45, 71, 123] {
            world.run(ms(60_000));
            world.gateway = false;
            world.run(ms(away * 1_000));
            world.gateway = true;
        }
        world.run(ms(60_000));
        let lease = world.lease.as_ref().unwrap();
        assert_eq!((world.owners(), lease.record.transitions), (vec![holder], tenure), "limit {limit}");
        assert!(!lease.is_offered(), "limit {limit}");
    }
}

/// It offers its Lease, and nobody is better.
#[test]
pub(super) fn where_nobody_is_answered_an_offer_moves_nothing() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let tenure = world.lease.as_ref().unwrap().record.transitions;
    (0..3).for_each(|n| nobody_hears(&mut world, n));
    for n in (0..3).filter(|n| *n != holder) {
        world.run(ms(90_000));
        world.kill(n);
        world.run(ms(5_000));
        world.restart(n, &Rules::default());
    }
    world.run(ms(180_000));
    let lease = world.lease.as_ref().unwrap();
    assert!(lease.is_offered());
    assert_eq!((world.owners(), lease.record.transitions), (vec![holder], tenure));
}

/// The holder is heard again before anybody has taken the Lease: it offers it no more.
#[test]
fn who_is_heard_again_withdraws_its_offer() {
    let (mut world, holder) = World::settled(2, &Rules::default());
    world.kill(1 - holder);
    nobody_hears(&mut world, holder);
    world.run(ms(40_000));
    assert!(world.lease.as_ref().unwrap().is_offered());
    world.hosts[holder].unheard_by.clear();
    world.run(ms(15_000));
    assert!(!world.lease.as_ref().unwrap().is_offered());
    world.restart(1 - holder, &Rules::default());
    world.run(ms(60_000));
    assert_eq!(world.owners(), [holder]);
}

/// Its renewal that withdraws the offer comes too late: the Lease was taken meanwhile. It serves until it hears the taker.
#[test]
fn who_withdraws_its_offer_too_late_hands_over() {
    let (mut world, holder) = World::settled(2, &Rules::default());
    world.kill(1 - holder);
    nobody_hears(&mut world, holder);
    world.run(ms(40_000));
    world.hosts[holder].delay = ms(200);
    world.hosts[holder].unheard_by.clear();
    let flight = |world: &World| world.hosts[holder].elector.api.flight.as_ref().map(|flight| flight.offers);
    while flight(&world) != Some(false) {
        world.run(ms(1));
    }
    let mut lease = world.lease.clone().unwrap();
    assert!(lease.is_offered());
    lease.record.holder.clone_from(&world.hosts[1 - holder].name);
    lease.record.transitions += 1;
    lease.notes.tenure = None;
    world.store(lease.record, lease.notes);
    world.run(ms(300));
    assert_eq!(world.reported(holder, |report| *report == Report::LetGo(Why::LeaseLost)), 0);
    assert_eq!(world.owners(), [holder]);
}

/// It is heard again, and has said so: whoever takes the Lease after that robs it.
#[test]
fn who_has_withdrawn_its_offer_keeps_nothing_without_the_lease() {
    let (mut world, holder) = World::settled(2, &Rules::default());
    world.kill(1 - holder);
    nobody_hears(&mut world, holder);
    world.run(ms(40_000));
    world.hosts[holder].unheard_by.clear();
    world.run(ms(20_000));
    let mut lease = world.lease.clone().unwrap();
    assert!(!lease.is_offered());
    lease.record.holder.clone_from(&world.hosts[1 - holder].name);
    lease.record.transitions += 1;
    lease.notes.tenure = None;
    world.store(lease.record, lease.notes);
    world.run(ms(300));
    assert_eq!(world.reported(holder, |report| *report == Report::LetGo(Why::LeaseLost)), 1);
    assert!(world.owners().is_empty());
}

/// The last of two nodes hears nobody while the other is cut off: it offers its Lease. When both hear each other again, it serves.
#[test]
pub(super) fn a_partition_that_ends_moves_nothing() {
    let (mut world, holder) = World::settled(2, &Rules::default());
    let tenure = world.lease.as_ref().unwrap().record.transitions;
    world.gateway = false;
    for seconds in [45, 52, 63] {
        world.hosts[1 - holder].group = 1;
        world.run(ms(seconds * 1_000));
        assert!(world.lease.as_ref().unwrap().is_offered());
        world.hosts[1 - holder].group = 0;
        world.run(ms(40_000));
    }
    assert!(!world.lease.as_ref().unwrap().is_offered());
    assert_eq!((world.owners(), world.lease.as_ref().unwrap().record.transitions), (vec![holder], tenure));
}

/// Its probes are lost, and what its kernel answers is not.
#[test]
pub(super) fn an_offer_of_a_holder_that_answers_is_left_alone() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.hosts[holder].asks_in_vain = true;
    world.run(ms(120_000));
    assert!(world.lease.as_ref().unwrap().is_offered());
    assert_eq!(world.owners(), [holder]);
}
