//! Which node holds a VIP: records, challenges, foreign owners, and what people do.

use super::crash::busiest;
use super::world::{Api, STRANGER, World, ms, vip};
use crate::evidence::Form;
use crate::rules::Rules;
use crate::session_vips::{Event, Report};

fn claim(world: &mut World, n: usize, v: u8, mac: crate::mac::Mac) {
    world.tell(n, Event::Heard { interface: 2, address: vip(v), mac, form: Form::Claim });
}

#[test]
fn a_claim_is_answered_by_a_renewal_and_a_read_sent_after_it() {
    let world = &mut World::settled(3, 10, &Rules::default());
    let holder = world.carriers(vip(0))[0];
    claim(world, holder, 0, STRANGER);
    world.run(ms(100));
    assert_eq!(world.reported(holder, |r| *r == Report::Defended { address: vip(0) }), 1);
    assert_eq!(world.carriers(vip(0)), [holder]);
}

/// Two segments may use the same addresses.
#[test]
fn a_claim_on_another_segment_is_none() {
    for how in [Api::Up, Api::Hanging, Api::Refused] {
        let world = &mut World::settled(3, 10, &Rules::default());
        let holder = world.carriers(vip(0))[0];
        world.set_api(holder, how);
        // Without the API, the session has lapsed by then.
        world.run(ms(12_000));
        assert_eq!(world.carriers(vip(0)), [holder], "{how:?}");
        for _ in 0..10 {
            world.tell(holder, Event::Heard { interface: 3, address: vip(0), mac: STRANGER, form: Form::Claim });
            world.run(ms(100));
            assert_eq!(world.carriers(vip(0)), [holder], "{how:?}");
        }
        assert_eq!(world.reported(holder, |r| matches!(r, Report::Contested { .. })), 0, "{how:?}");
        // The same frames on the VIP's own segment count.
        claim(world, holder, 0, STRANGER);
        world.run(ms(10));
        let contested = world.reported(holder, |r| matches!(r, Report::Contested { .. })) == 1;
        assert_ne!(contested, world.carriers(vip(0)).is_empty(), "{how:?}");
    }
}

#[test]
fn a_vip_that_a_host_has_on_another_segment_is_taken() {
    let world = &mut World::new(1, &Rules::default());
    world.start(0);
    world.run(ms(1_000));
    world.create(vip(0));
    for _ in 0..40 {
        world.tell(0, Event::Heard { interface: 3, address: vip(0), mac: STRANGER, form: Form::Claim });
        world.run(ms(50));
    }
    assert_eq!(world.carriers(vip(0)), [0]);
    assert_eq!(world.reported(0, |r| matches!(r, Report::ForeignOwner { .. })), 0);
}

#[test]
fn without_an_answer_it_yields_to_a_node_and_not_to_a_stranger() {
    for how in [Api::Hanging, Api::Refused] {
        let world = &mut World::settled(3, 10, &Rules::default());
        let holder = busiest(world);
        let mine: Vec<u8> = (0..10).filter(|v| world.carriers(vip(*v)) == [holder]).collect();
        world.set_api(holder, how);
        let mac = world.hosts[(holder + 1) % 3].mac;
        claim(world, holder, mine[0], STRANGER);
        claim(world, holder, mine[1], mac);
        world.run(ms(220));
        assert_eq!(world.carriers(vip(mine[0])), [holder]);
        assert!(world.carriers(vip(mine[1])).is_empty());
        world.set_api(holder, Api::Up);
        world.run(ms(8_000));
        assert_eq!(world.carriers(vip(mine[1])), [holder], "the record names it");
    }
}

#[test]
fn all_claimed_at_once_cost_one_renewal_and_one_list() {
    let world = &mut World::settled(2, 100, &Rules::default());
    let holder = busiest(world);
    let mac = world.hosts[1 - holder].mac;
    let (calls, had) = (world.hosts[holder].calls, world.hosts[holder].carries.len());
    for v in (0..100).filter(|v| world.carriers(vip(*v)) == [holder]).collect::<Vec<_>>() {
        claim(world, holder, v, mac);
    }
    world.run(ms(500));
    let calls = world.hosts[holder].calls - calls;
    assert!(calls <= 5, "{calls} calls");
    assert_eq!(world.hosts[holder].carries.len(), had);
}

#[test]
fn a_claim_that_comes_while_the_session_is_renewed_waits_for_the_next_renewal() {
    let world = &mut World::settled(2, 20, &Rules::default());
    let holder = busiest(world);
    let mac = world.hosts[1 - holder].mac;
    let mine: Vec<u8> = (0..20).filter(|v| world.carriers(vip(*v)) == [holder]).collect();
    claim(world, holder, mine[0], mac);
    world.run(ms(1));
    claim(world, holder, mine[1], mac);
    world.run(ms(400));
    assert_eq!(world.hosts[holder].carries.len(), mine.len(), "both are confirmed");
}

/// After an agent has died, its kernel answers for the VIPs until their fence ends.
#[test]
fn claimed_one_after_another_they_cost_a_few_rounds_a_second() {
    let world = &mut World::settled(2, 100, &Rules::default());
    let holder = busiest(world);
    let mac = world.hosts[1 - holder].mac;
    let mine: Vec<u8> = (0..100).filter(|v| world.carriers(vip(*v)) == [holder]).collect();
    let calls = world.hosts[holder].calls;
    for n in 0..500 {
        claim(world, holder, mine[n % mine.len()], mac);
        world.run(ms(20));
    }
    let calls = world.hosts[holder].calls - calls;
    assert!(calls <= 110, "{calls} calls in 10 s");
    assert!(calls >= 40, "each round is confirmed: {calls} calls in 10 s");
    assert_eq!(world.hosts[holder].carries.len(), mine.len());
}

#[test]
fn the_record_decides_and_not_what_is_remembered() {
    let world = &mut World::settled(3, 10, &Rules::default());
    let holder = world.carriers(vip(3))[0];
    let other = (holder + 1) % 3;
    let session = world.sessions[&world.hosts[other].name].incarnation();
    let named = crate::session::Holder { node: world.hosts[other].name.clone(), session, to: None };
    world.store_holder(vip(3), Some(named));
    world.run(ms(50));
    assert_eq!(world.carriers(vip(3)), [other]);
}

#[test]
fn a_record_that_was_stripped_is_written_again() {
    let world = &mut World::settled(3, 20, &Rules::default());
    let since = world.now;
    for v in 0..20 {
        world.store_holder(vip(v), None);
    }
    world.run(ms(10_000));
    assert!(world.worst(20, since, |n| n != 1).is_zero());
    assert!(world.addresses.values().all(|a| a.holder.is_some()));
}

#[test]
fn a_foreign_owner_keeps_a_vip_from_being_taken() {
    let world = &mut World::new(2, &Rules::default());
    world.stranger = Some(STRANGER);
    world.start(0);
    world.start(1);
    world.run(ms(1_000));
    world.create(vip(0));
    world.run(ms(9_000));
    assert!(world.carriers(vip(0)).is_empty());
    let told = |r: &Report| matches!(r, Report::ForeignOwner { mac: STRANGER, .. });
    assert!(world.reported(0, told) + world.reported(1, told) >= 1);
    world.stranger = None;
    world.run(ms(4_000));
    assert_eq!(world.carriers(vip(0)).len(), 1);
}

/// A node that had a session places VIPs by kube-vip's Leases now, and the record says so: the address is none of that session's VIPs.
#[test]
fn a_node_that_has_an_address_by_a_lease_keeps_it() {
    let world = &mut World::new(3, &Rules::default());
    (0..3).for_each(|n| world.start(n));
    world.run(ms(5_000));
    world.crash(2);
    world.run(ms(30_000));
    world.stranger = Some(world.hosts[2].mac);
    world.create(vip(0));
    world.store_by_lease(vip(0));
    world.run(ms(25_000));
    assert!(world.carriers(vip(0)).is_empty(), "{:?}", world.carriers(vip(0)));
    let told = |r: &Report| matches!(r, Report::Owned { node, .. } if node == "node3");
    assert!(world.reported(0, told) + world.reported(1, told) >= 1);
    world.stranger = None;
    world.run(ms(4_000));
    assert_eq!(world.carriers(vip(0)).len(), 1);
}

/// A node that has lost the API carries a VIP as long as nobody claims it. The `IPAddress` is deleted meanwhile, and made again later.
#[test]
fn a_vip_that_is_made_again_is_taken_from_a_node_without_the_api() {
    let world = &mut World::settled(4, 20, &Rules::default());
    let holder = world.carriers(vip(0))[0];
    world.set_api(holder, Api::Refused);
    world.run(ms(60_000));
    assert!(!world.sessions[&world.hosts[holder].name].is_live());
    let mac = world.hosts[holder].mac;
    world.stranger = Some(mac);
    world.delete(vip(0));
    world.run(ms(3_000));
    world.create(vip(0));
    world.run(ms(20_000));
    assert!(world.carriers(vip(0)).iter().any(|n| *n != holder), "{:?}", world.carriers(vip(0)));
    let told = |r: &Report| matches!(r, Report::Owned { .. } | Report::ForeignOwner { .. });
    assert_eq!((0..4).map(|n| world.reported(n, told)).sum::<usize>(), 0);
}

/// The agent that carries a VIP hangs, and the VIP is deleted and made again with a record that names nobody. The kernel answers for it
/// until the fence ends.
#[test]
pub(super) fn a_vip_that_is_made_again_is_not_taken_from_an_agent_that_hangs() {
    for (nodes, hangs, gone) in [(3, 0, 0), (3, 0, 1_500), (3, 5_000, 0), (2, 1_000, 100), (6, 3_000, 3_000)] {
        let world = &mut World::settled(nodes, 12, &Rules::default());
        let holder = world.carriers(vip(0))[0];
        world.freeze(holder);
        world.run(ms(hangs));
        let since = world.now;
        world.delete(vip(0));
        world.run(ms(gone));
        world.create(vip(0));
        world.run(ms(25_000));
        let case = format!("{nodes} nodes, {hangs} ms, {gone} ms");
        assert!(world.carriers(vip(0)).iter().any(|n| *n != holder), "{case}");
        let two = world.time_with(vip(0), since, |n| n > 1);
        assert!(two < ms(50), "two nodes for {two:?}: {case}");
        let none = world.time_with(vip(0), since, |n| n == 0);
        assert!(none < ms(4_000), "nobody for {none:?}: {case}");
    }
}

#[test]
fn a_session_that_a_person_deletes_has_ended() {
    let world = &mut World::settled(4, 40, &Rules::default());
    let (since, n) = (world.now, busiest(world));
    let name = world.hosts[n].name.clone();
    world.delete_session(&name);
    world.run(ms(10_000));
    assert!(world.worst(40, since, |n| n == 0) < ms(50), "{:?}", world.worst(40, since, |n| n == 0));
    assert!(world.worst(40, since, |n| n > 1) < ms(50));
    assert!(world.sessions[&name].is_live(), "it has begun another");
    assert!(world.hosts[n].carries.is_empty(), "which came too late for these");
}

#[test]
fn vips_that_nobody_wants_any_more_go() {
    let world = &mut World::settled(3, 10, &Rules::default());
    let since = world.now;
    world.delete(vip(4));
    world.run(ms(100));
    assert!(world.carriers(vip(4)).is_empty());
    world.create(vip(4));
    world.run(ms(500));
    assert_eq!(world.carriers(vip(4)).len(), 1, "made again: taken within half a second");
    assert!(world.worst(4, since, |n| n != 1).is_zero());
}

#[test]
fn a_partition_gives_each_part_one_and_heals_in_a_round() {
    let world = &mut World::settled(4, 40, &Rules::default());
    let cut = busiest(world);
    world.hosts[cut].group = 1;
    world.set_api(cut, Api::Refused);
    world.run(ms(30_000));
    let since = world.now;
    world.hosts[cut].group = 0;
    world.run(ms(2_000));
    assert!(world.worst(40, since, |n| n > 1) < ms(600), "{:?}", world.worst(40, since, |n| n > 1));
    world.set_api(cut, Api::Up);
    world.run(ms(20_000));
    for v in 0..40 {
        assert_eq!(world.carriers(vip(v)).len(), 1);
    }
}

/// The settings of the node whose agent hangs are newer: its Lease is longer, and so is its fence.
#[test]
fn a_vip_that_is_made_again_is_not_taken_from_an_agent_that_hangs_with_a_longer_lease() {
    let world = &mut World::settled(3, 12, &Rules::default());
    let holder = world.carriers(vip(0))[0];
    world.restart(holder, &Rules { lease_duration: ms(60_000), renew_deadline: ms(40_000), ..Rules::default() });
    world.run(ms(40_000));
    assert_eq!(world.carriers(vip(0)), [holder]);
    world.freeze(holder);
    let since = world.now;
    world.delete(vip(0));
    world.create(vip(0));
    world.run(ms(70_000));
    let two = world.time_with(vip(0), since, |n| n > 1);
    assert!(two < ms(50), "two nodes for {two:?}");
}
