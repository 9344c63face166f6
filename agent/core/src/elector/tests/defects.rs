//! Interleavings that broke the elector once.

use std::net::{IpAddr, Ipv4Addr};

use super::world::{Api, STRANGER, VIP, World, ms};
use crate::action::Report;
use crate::event::Event;
use crate::evidence::Form;
use crate::health::Verdict;
use crate::lease::Participant;
use crate::mac::Mac;
use crate::peers::Quorum;
use crate::rules::Rules;

#[test]
fn who_yielded_a_provisional_hold_comes_back_when_the_other_is_gone() {
    // One of three is left.
    let alone = Rules { quorum: Quorum::Nobody, ..Rules::default() };
    let (mut world, holder) = World::settled(3, &alone);
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
        // Frames take longer than the turns of two nodes differ: both begin.
        world.wire = ms(wire) / 3;
        let since = world.now;
        world.run(ms(30_000));
        assert_eq!(world.owners().len(), 1, "{wire}");
        assert!(world.time_with(since, |n| n == 0) < ms(8_000), "{wire}: {:?}", world.time_with(since, |n| n == 0));
    }
}

#[test]
fn a_claim_heard_while_a_renewal_is_on_its_way_is_answered_by_the_next_one() {
    for after in 0..40 {
        let (mut world, holder) = World::settled(2, &Rules::default());
        world.hosts[holder].delay = ms(15);
        let writes = world.hosts[holder].writes;
        while world.hosts[holder].writes == writes {
            world.run(ms(1));
        }
        world.run(ms(after));
        let (since, other) = (world.now, world.hosts[1 - holder].mac);
        world.claim(holder, other);
        world.run(ms(1_500));
        assert!(world.time_with(since, |n| n == 0).is_zero(), "{after} ms: yielded though the Lease is its own");
    }
}

#[test]
fn versions_that_went_back_are_believed() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    // etcd was restored from a backup: the Lease is an earlier one.
    world.version = 5;
    let old = world.lease.clone().unwrap();
    world.lease = None;
    let calls: usize = world.hosts.iter().map(|h| h.calls).sum();
    world.store(old.record, old.notes);
    world.run(ms(30_000));
    assert_eq!(world.owners(), [holder]);
    assert_eq!(world.role(holder), "holding");
    let calls = world.hosts.iter().map(|h| h.calls).sum::<usize>() - calls;
    assert!(calls < 60, "{calls} calls in 30 s");
}

/// With the Lease go the names and addresses of all nodes: the holder's answers would be a foreign host's.
#[test]
fn a_lease_that_somebody_deletes_is_made_again_before_the_holder_looks_foreign() {
    for after in (0..2_000).step_by(100) {
        let (mut world, holder) = World::settled(3, &Rules::default());
        world.run(ms(after));
        let since = world.now;
        world.lease = None;
        for n in 0..3 {
            world.tell(n, Event::Seen(None));
        }
        world.run(ms(5_000));
        assert_eq!(world.owners(), [holder], "{after}");
        assert!(world.time_with(since, |n| n == 0).is_zero(), "{after}");
        for n in 0..3 {
            assert_eq!(world.reported(n, |r| matches!(r, Report::ForeignOwner { .. })), 0, "{after}");
        }
    }
}

#[test]
fn a_lapsed_holder_reads_after_a_conflict_before_it_writes_again() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.set_api(holder, Api::Refused);
    world.run(ms(12_000));
    assert_eq!(world.role(holder), "lapsed");
    world.hosts[holder].delay = ms(50);
    world.hosts[holder].api = Api::Up;
    let writes = world.hosts[holder].writes;
    while world.hosts[holder].writes == writes {
        world.run(ms(1));
    }
    // Somebody changes an annotation while the write is on its way, and this host's watch is not back yet.
    world.hosts[holder].api = Api::Refused;
    let lease = world.lease.clone().unwrap();
    world.store(lease.record, lease.notes);
    world.hosts[holder].api = Api::Up;
    world.run(ms(2_500));
    assert_eq!(world.role(holder), "holding");
    assert_eq!(world.reported(holder, |r| *r == Report::Outrun), 1);
}

#[test]
fn one_vip_that_cannot_be_put_does_not_take_the_others_along() {
    let mut world = World::new(1, &Rules::default());
    let other = "192.0.2.50".parse().unwrap();
    world.hosts[0].refuses = vec![other];
    world.start(0, &[other, VIP]);
    world.run(ms(2_000));
    let since = world.now;
    world.run(ms(20_000));
    assert!(world.time_with(since, |n| n == 0).is_zero());
}

#[test]
fn an_unhealthy_holder_whose_successor_never_comes_goes_on() {
    for how in [Api::Up, Api::Refused, Api::Hanging] {
        let (mut world, holder) = World::settled(2, &Rules::default());
        let other = 1 - holder;
        let since = world.now;
        // The successor says that it is healthy, and does nothing.
        world.freeze(other);
        world.set_health(holder, false);
        world.run(ms(1_000));
        assert_eq!(world.role(holder), "leaving");
        world.set_api(holder, how);
        let calls = world.hosts[holder].calls;
        world.run(ms(20_000));
        assert!(world.time_with(since, |n| n == 0).is_zero(), "{how:?}");
        let calls = world.hosts[holder].calls - calls;
        assert!(calls < 50, "{how:?}: {calls} calls in 20 s");
    }
}

#[test]
fn a_long_silence_is_no_storm_of_probes() {
    // Nobody may carry the VIP: the candidates keep looking, but not ten times a second.
    let rules = Rules { provisional: false, ..Rules::default() };
    let (mut world, holder) = World::settled(3, &rules);
    world.set_api_everywhere(Api::Refused);
    world.crash(holder);
    world.run(ms(5_000));
    let probes: usize = world.hosts.iter().map(|h| h.probes).sum();
    world.run(ms(60_000));
    let probes = world.hosts.iter().map(|h| h.probes).sum::<usize>() - probes;
    assert!(probes < 2 * 60 * 5, "{probes} probes a minute");
}

#[test]
fn a_note_that_somebody_strips_is_no_storm_of_writes() {
    let (mut world, _) = World::settled(2, &Rules::default());
    let writes: usize = world.hosts.iter().map(|h| h.writes).sum();
    for _ in 0..600 {
        let mut lease = world.lease.clone().unwrap();
        lease.notes.participants.clear();
        world.store(lease.record, lease.notes);
        world.run(ms(100));
    }
    let writes = world.hosts.iter().map(|h| h.writes).sum::<usize>() - writes;
    assert!(writes < 100, "{writes} writes a minute");
}

#[test]
fn the_segment_does_not_fill_the_memory() {
    let (mut world, holder) = World::settled(2, &Rules::default());
    for n in 0..5_000_u32 {
        let address = std::net::IpAddr::from(n.to_be_bytes());
        world.tell(holder, Event::Heard { address, mac: STRANGER, form: Form::Claim });
    }
    assert!(world.hosts[holder].elector.segment.third_heard.len() < 8);
}

/// Adds nodes to the Lease that took part once and are gone.
pub(super) fn with_gone(world: &mut World, count: u8) {
    let mut lease = world.lease.clone().unwrap();
    for n in 0..count {
        let addresses = vec![IpAddr::V4(Ipv4Addr::new(192, 0, 2, 110 + n))];
        let gone = Participant { addresses, ..Participant::default() };
        lease.notes.participants.insert(format!("a-gone-{n}"), gone);
    }
    world.store(lease.record, lease.notes);
    world.run(ms(3_000));
}

/// Adds to the Lease a node that is gone and whose address this host has now.
pub(super) fn with_former_name(world: &mut World, host: usize) {
    let mut lease = world.lease.clone().unwrap();
    let addresses = lease.notes.participants[&world.hosts[host].name].addresses.clone();
    let gone = Participant { macs: vec![Mac([2, 0, 0, 0, 9, 9])], addresses, ..Participant::default() };
    lease.notes.participants.insert("a-gone".to_owned(), gone);
    world.store(lease.record, lease.notes);
    world.run(ms(3_000));
}

#[test]
fn names_of_nodes_long_gone_are_forgotten() {
    let (mut world, _) = World::settled(3, &Rules::default());
    with_gone(&mut world, 40);
    // Each time the VIP moves, some names are left out. The nodes that live put themselves back.
    for _ in 0..6 {
        let holder = world.owners()[0];
        world.set_health(holder, false);
        world.run(ms(5_000));
        world.set_health(holder, true);
        world.run(ms(35_000));
    }
    let names: Vec<_> = world.lease.as_ref().unwrap().notes.participants.keys().cloned().collect();
    assert!(names.len() <= 16, "{names:?}");
    assert_eq!(names.iter().filter(|name| name.starts_with("cp")).count(), 3, "{names:?}");
}

#[test]
fn a_hundred_candidates_do_not_rewrite_the_lease_again_and_again() {
    let mut world = World::new(100, &Rules::default());
    for n in 0..100 {
        world.start(n, &[VIP]);
    }
    world.run(ms(120_000));
    let writes = |world: &World| world.hosts.iter().map(|host| host.writes).sum::<usize>();
    let before = writes(&world);
    world.run(ms(60_000));
    let steady = writes(&world) - before;
    assert!(steady <= 32, "{steady} writes in a minute in which nothing happened");
    assert!(world.lease.as_ref().unwrap().notes.participants.len() <= 64);
    let before = writes(&world);
    let holder = world.owners()[0];
    world.crash(holder);
    world.run(ms(60_000));
    let taken = writes(&world) - before;
    // All have found the holder silent and try to take, the new one renews, and some put themselves on the list.
    assert!(taken <= 99 + 30 + 100, "{taken} writes in the minute after the holder crashed");
}

#[test]
fn names_of_nodes_long_gone_make_nobody_deaf() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    with_gone(&mut world, 9);
    world.gateway = false;
    let since = world.now;
    world.crash(holder);
    world.run(ms(20_000));
    assert!(world.time_with(since, |n| n == 0) < ms(2_000), "{:?}", world.time_with(since, |n| n == 0));
}

#[test]
fn a_program_that_removes_the_vip_for_ever_is_no_endless_fight() {
    let (mut world, _) = World::settled(1, &Rules::default());
    for _ in 0..200 {
        world.run(ms(50));
        if world.hosts[0].carries.remove(&VIP).is_some() {
            world.tell(0, Event::Gone { address: VIP });
        }
    }
    let restored = world.reported(0, |r| matches!(r, Report::Restored { .. }));
    assert!((1..=8).contains(&restored), "{restored}");
    world.run(ms(2_500));
    assert_eq!(world.owners(), [0], "and it is back when that program has ended");
}

#[test]
fn a_holder_that_was_cut_off_and_comes_back_learns_of_its_successor_from_the_segment() {
    for returns_after in [700, 1_500, 4_000] {
        let (mut world, holder) = World::settled(3, &Rules::default());
        world.hosts[holder].group = 1;
        world.set_api(holder, Api::Hanging);
        world.run(ms(returns_after));
        assert_eq!(world.owners().len(), 2, "one a segment");
        let since = world.now;
        // Its frames pass again, and its calls do not yet.
        world.hosts[holder].group = 0;
        world.run(ms(5_000));
        let both = world.time_with(since, |n| n > 1);
        assert!(both < ms(600), "{returns_after}: {both:?}");
        assert_ne!(world.owners(), [holder]);
    }
}

#[test]
fn a_short_lease_leaves_no_gap_while_the_api_is_away() {
    // The kernel's lifetime (2 s) is shorter than the renew deadline.
    let rules =
        Rules { lease_duration: ms(4_000), renew_deadline: ms(3_600), retry_period: ms(500), ..Rules::default() };
    for how in [Api::Refused, Api::Hanging] {
        let (mut world, holder) = World::settled(3, &rules);
        world.kernel_late = ms(0);
        let since = world.now;
        world.set_api_everywhere(how);
        world.run(ms(20_000));
        world.set_api_everywhere(Api::Up);
        world.run(ms(10_000));
        assert!(world.time_with(since, |n| n != 1).is_zero(), "{how:?}");
        assert_eq!(world.owners(), [holder]);
    }
}

#[test]
fn one_slow_answer_does_not_take_the_address_off() {
    let rules =
        Rules { lease_duration: ms(3_000), renew_deadline: ms(2_400), retry_period: ms(800), ..Rules::default() };
    let (mut world, holder) = World::settled(2, &rules);
    let since = world.now;
    for _ in 0..10 {
        // So much later there is no whole second left for a lifetime.
        world.hosts[holder].delay = ms(300);
        world.run(ms(900));
        world.hosts[holder].delay = ms(2);
        world.run(ms(3_000));
    }
    assert!(world.time_with(since, |n| n == 0).is_zero(), "{:?}", world.time_with(since, |n| n == 0));
    assert_eq!(world.reported(holder, |r| matches!(r, Report::CannotCarry { .. })), 0);
}

#[test]
fn a_successor_that_takes_no_part_is_found_in_the_lease_while_the_watch_is_away() {
    let (mut world, holder) = World::settled(2, &Rules::default());
    let since = world.now;
    world.hosts[1 - holder].api = Api::Refused;
    world.tell(holder, Event::Shutdown);
    world.run(ms(400));
    assert_eq!(world.role(holder), "leaving");
    // Somebody else takes the Lease, and no watch says so.
    let mut lease = world.lease.clone().unwrap();
    world.hosts[holder].api = Api::Refused;
    lease.record.holder = "kube-vip".into();
    world.store(lease.record, lease.notes);
    world.hosts[holder].api = Api::Up;
    world.stranger = true;
    world.run(ms(400));
    assert!(!world.owners().contains(&holder), "after {:?}", world.now.since(since));
}

#[test]
fn a_take_that_is_answered_after_a_stop_is_proved_again_before_anything_is_announced() {
    let (mut world, holder) = World::settled(2, &Rules::default());
    let other = 1 - holder;
    world.hosts[other].delay = ms(50);
    let writes = world.hosts[other].writes;
    world.crash(holder);
    while world.hosts[other].writes == writes {
        world.run(ms(1));
    }
    world.freeze(other);
    world.run(ms(3_000));
    world.thaw(other);
    assert!(world.owners().is_empty(), "nothing before another write");
    world.run(ms(500));
    assert_eq!(world.owners(), [other]);
    assert_eq!(world.hosts[other].writes, writes + 2);
}

#[test]
fn who_sees_that_another_took_the_lease_does_not_rob_it_for_the_last_holders_silence() {
    let (mut world, holder) = World::settled(2, &Rules::default());
    let other = 1 - holder;
    world.tell(other, Event::Health(Verdict::Unhealthy));
    world.crash(holder);
    world.run(ms(1_000));
    // This node found the last holder silent, and may not take. Then another node takes the Lease ...
    let mut lease = world.lease.clone().unwrap();
    lease.record.holder = "cp3".into();
    lease.record.transitions += 1;
    let declared = &mut lease.notes.tenure.as_mut().unwrap().declared;
    declared.holder = "cp3".into();
    declared.transitions = lease.record.transitions;
    world.hosts[other].api = Api::Refused;
    let taken = world.store(lease.record, lease.notes);
    world.hosts[other].api = Api::Up;
    let writes = world.hosts[other].writes;
    world.hosts[other].elector.service.judged(Verdict::Healthy);
    // ... and that is what this node sees next.
    world.tell(other, Event::Seen(Some(taken)));
    world.run(ms(5_000));
    assert_eq!(world.hosts[other].writes, writes);
}

#[test]
fn a_conflict_is_looked_into_though_an_earlier_read_hangs() {
    let (mut world, holder) = World::settled(2, &Rules::default());
    let other = 1 - holder;
    let writes = world.hosts[holder].writes;
    world.hosts[holder].delay = ms(50);
    while world.hosts[holder].writes == writes {
        world.run(ms(1));
    }
    // A renewal is on its way, another node takes the Lease before it arrives, and a read is sent that hangs.
    world.hosts[holder].api = Api::Hanging;
    world.tell(holder, Event::WatchLost);
    let mut lease = world.lease.clone().unwrap();
    lease.record.holder = world.hosts[other].name.clone();
    lease.record.transitions += 1;
    world.store(lease.record, lease.notes);
    world.hosts[holder].api = Api::Up;
    world.run(ms(250));
    assert!(!world.owners().contains(&holder));
}

#[test]
fn a_vip_is_said_to_be_put_back_when_the_kernel_has_it() {
    let (mut world, _) = World::settled(1, &Rules::default());
    let restored = |world: &World| world.reported(0, |r| matches!(r, Report::Restored { .. }));
    world.hosts[0].carries.clear();
    world.tell(0, Event::Gone { address: VIP });
    world.run(ms(100));
    assert_eq!((restored(&world), world.owners()), (1, vec![0]));
    world.hosts[0].refuses = vec![VIP];
    world.hosts[0].carries.clear();
    world.tell(0, Event::Gone { address: VIP });
    world.run(ms(100));
    assert_eq!(restored(&world), 1, "the kernel refused it");
    world.hosts[0].refuses.clear();
    world.run(ms(20_000));
    assert_eq!((restored(&world), world.owners()), (1, vec![0]), "and then it was taken anew");
}

#[test]
fn who_waits_for_the_lease_because_of_many_moves_says_so_once() {
    let (mut world, mut holder) = World::settled(3, &Rules::default());
    // Each agent sees another holder four times.
    for _ in 0..4 {
        world.set_health(holder, false);
        world.run(ms(4_000));
        world.set_health(holder, true);
        holder = world.owners()[0];
        world.run(ms(21_000));
    }
    let waits = |world: &World, n: usize| world.reported(n, |r| matches!(r, Report::MovedOften { .. }));
    let name = world.hosts[holder].name.clone();
    assert_eq!((0..3).map(|n| waits(&world, n)).sum::<usize>(), 0);
    world.crash(holder);
    world.run(ms(2_000));
    assert_eq!(world.owners(), [0_usize; 0]);
    world.run(ms(20_000));
    for n in (0..3).filter(|n| *n != holder) {
        assert_eq!(waits(&world, n), 1);
        assert_eq!(world.reported(n, |r| *r == Report::MovedOften { holder: name.clone() }), 1);
    }
    assert_eq!(world.owners().len(), 1);
}
