//! A gateway with local proxy ARP (private VLANs): it answers whoever names itself, for every address, and no probe from 0.0.0.0.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::world::{Api, World, ms};
use crate::action::{Cause, Report};
use crate::lease::Participant;
use crate::mac::Mac;
use crate::rules::Rules;
use crate::test_world::{ROUTER, STRANGER};

/// How much later than others the gateway answers broadcasts: before them, just after them, and as Linux has it by default.
const LATER: [Duration; 3] = [Duration::ZERO, Duration::from_millis(5), Duration::from_millis(400)];

fn behind(count: u8, later: Duration) -> (World, usize) {
    behind_with(count, later, &Rules::default())
}

fn behind_with(count: u8, later: Duration, rules: &Rules) -> (World, usize) {
    let mut world = World::new(count, rules);
    world.local_proxy = Some(later);
    for n in 0..world.hosts.len() {
        world.start(n, &[super::world::VIP]);
    }
    world.run(ms(20_000));
    let owners = world.owners();
    assert_eq!(owners.len(), 1, "the first election needs no more than elsewhere");
    (world, owners[0])
}

#[test]
pub(super) fn a_crash_is_noticed_before_the_lease_ends() {
    for later in LATER {
        let (mut world, holder) = behind(3, later);
        world.crash(holder);
        world.run(ms(3_000));
        let who = world.owners();
        assert!(who.len() == 1 && who != [holder], "{later:?}: {who:?}");
        let foreign = |n: usize| world.reported(n, |r| matches!(r, Report::ForeignOwner { .. }));
        assert_eq!((0..3).map(foreign).sum::<usize>(), 0);
        world.run(ms(60_000));
        assert_eq!(world.owners(), who, "{later:?}: it stays");
    }
}

/// Of two nodes, no other host than the gateway shows that probes from 0.0.0.0 pass.
#[test]
pub(super) fn of_two_nodes_the_other_takes_the_lease_when_it_has_ended() {
    for later in LATER {
        let (mut world, holder) = behind(2, later);
        world.crash(holder);
        world.run(ms(19_000));
        assert_eq!(world.owners(), [1 - holder], "{later:?}");
    }
}

#[test]
pub(super) fn an_outage_of_the_api_moves_nothing() {
    for later in LATER {
        for how in [Api::Refused, Api::Hanging] {
            for count in [2, 3] {
                let (mut world, holder) = behind(count, later);
                let since = world.now;
                world.set_api_everywhere(how);
                world.run(ms(150_000));
                let without = world.time_with(since, |count| count != 1);
                assert_eq!((world.owners(), without), (vec![holder], ms(0)), "{count} nodes, {later:?}, {how:?}");
                world.set_api_everywhere(Api::Up);
                world.run(ms(20_000));
                assert_eq!(world.owners(), [holder]);
            }
        }
    }
}

/// A lapsed holder still yields to another node, and a node that died is replaced without the API.
#[test]
fn a_holder_that_dies_while_the_api_is_away_is_replaced() {
    for later in LATER {
        let (mut world, holder) = behind(3, later);
        world.set_api_everywhere(Api::Refused);
        world.run(ms(30_000));
        world.crash(holder);
        world.run(ms(10_000));
        let who = world.owners();
        assert!(who.len() == 1 && who != [holder], "{later:?}: {who:?}");
        // The holder was cut off, and not dead: it comes back.
        let (mut world, holder) = behind(3, later);
        world.set_api_everywhere(Api::Refused);
        world.run(ms(30_000));
        world.hosts[holder].group = 1;
        world.run(ms(5_000));
        world.hosts[holder].group = 0;
        world.run(ms(2_000));
        assert!(world.owners().len() == 1, "{later:?}: {:?}", world.owners());
    }
}

#[test]
fn foreign_owners_are_found() {
    for later in LATER {
        for mac in [STRANGER, ROUTER] {
            let (mut world, holder) = behind(3, later);
            world.crash(holder);
            if mac == STRANGER {
                world.stranger = true;
            } else {
                world.gateway_has_vip = true;
            }
            world.run(ms(40_000));
            assert_eq!(world.owners(), [0; 0], "{later:?}, {mac}");
            let found =
                |n: usize| world.reported(n, |r| matches!(r, Report::ForeignOwner { mac: by, .. } if *by == mac));
            assert!((0..3).filter(|n| *n != holder).any(|n| found(n) > 0), "{later:?}, {mac}");
        }
    }
}

/// Ports are isolated, and the gateway alone answers: then nothing shows that another node would be heard.
#[test]
fn where_nodes_do_not_hear_each_other_the_lease_has_to_end() {
    for later in LATER {
        let (mut world, holder) = isolated(later);
        world.crash(holder);
        world.run(ms(14_000));
        let early = |n: usize| world.reported(n, |r| matches!(r, Report::Abandoned { .. }));
        assert_eq!((world.owners(), (0..3).map(early).sum::<usize>()), (vec![], 0), "{later:?}: nobody takes it early");
        world.run(ms(6_000));
        let who = world.owners();
        assert!(who.len() == 1 && who != [holder], "{later:?}: {who:?}");
        let (mut world, _) = isolated(later);
        let since = world.now;
        world.set_api_everywhere(Api::Refused);
        world.run(ms(60_000));
        assert_eq!(world.time_with(since, |count| count > 1), ms(0), "{later:?}");
    }
}

fn isolated(later: Duration) -> (World, usize) {
    isolated_with(later, |_| {})
}

fn isolated_with(later: Duration, change: impl Fn(&mut World)) -> (World, usize) {
    let mut world = World::new(3, &Rules::default());
    world.local_proxy = Some(later);
    change(&mut world);
    for n in 0..3 {
        world.hosts[n].unheard_by = (0..3).filter(|m| *m != n).collect();
        world.start(n, &[super::world::VIP]);
    }
    world.run(ms(20_000));
    let owners = world.owners();
    assert_eq!(owners.len(), 1);
    (world, owners[0])
}

#[test]
fn who_carries_without_the_api_yields_to_a_router_that_has_the_vip() {
    for later in LATER {
        let (mut world, holder) = behind(3, later);
        world.set_api_everywhere(Api::Refused);
        world.run(ms(30_000));
        assert_eq!((world.owners(), world.role(holder)), (vec![holder], "lapsed"), "{later:?}");
        world.gateway_has_vip = true;
        world.run(ms(2_000));
        assert_eq!(world.owners(), [0; 0], "{later:?}");
    }
}

/// A network that answers broadcasts for nodes which it lets nobody reach; and a host, no node, that answers for their addresses.
#[test]
pub(super) fn what_is_answered_for_a_node_does_not_show_that_nodes_hear_each_other() {
    for later in LATER {
        for by_host in [false, true] {
            let (mut world, _) = isolated_with(later, |world| {
                let addresses = world.hosts.iter().map(|host| (host.address, host.mac));
                if by_host {
                    world.foreign = addresses.map(|(address, _)| address).collect();
                } else {
                    world.suppressed = addresses.collect();
                }
            });
            let since = world.now;
            world.set_api_everywhere(Api::Refused);
            world.run(ms(120_000));
            let two = world.time_with(since, |count| count > 1);
            assert_eq!(two, ms(0), "{later:?}, a host answers for nodes: {by_host}");
        }
    }
}

/// The router answers for the others, and goes on answering for them: that is no reason to carry the VIP beside them.
#[test]
pub(super) fn a_node_that_only_the_router_answers_takes_nothing_without_the_api() {
    for later in LATER {
        for (count, both_ways) in [(3, true), (3, false), (5, true), (5, false)] {
            let (mut world, holder) = behind(count, later);
            let others: Vec<usize> = (0..usize::from(count)).filter(|n| *n != holder).collect();
            for n in others.iter().filter(|_| both_ways) {
                world.hosts[*n].unheard_by = vec![holder];
            }
            world.hosts[holder].unheard_by = others;
            world.set_api(holder, Api::Refused);
            world.run(ms(240_000));
            let taken = world.reported(holder, |r| matches!(r, Report::Took(Cause::Provisional)));
            let who = world.owners();
            assert!(
                who.len() == 1 && who != [holder] && taken == 0,
                "{later:?}, {count} nodes, {both_ways}: {who:?}, {taken}"
            );
        }
    }
}

/// The Lease names nodes that are gone. The router answers for these too, and they do not answer probes from 0.0.0.0.
#[test]
fn names_of_nodes_that_are_gone_hide_no_crash_where_frames_are_limited() {
    for (count, gone, waits) in [(3, 6, 20), (3, 12, 70), (4, 6, 20), (5, 0, 23), (3, 0, 26), (3, 12, 31)] {
        let rules = Rules { frames_per_second: Some(20), ..Rules::default() };
        let (mut world, holder) = behind_with(count, LATER[0], &rules);
        let mut lease = world.lease.clone().unwrap();
        for n in 0..gone {
            let participant = Participant {
                macs: vec![Mac([2, 0, 0, 0, 1, n])],
                addresses: vec![IpAddr::V4(Ipv4Addr::new(192, 0, 2, 50 + n))],
                api_servers: vec![],
            };
            lease.notes.participants.insert(format!("gone{n}"), participant);
        }
        world.store(lease.record, lease.notes);
        world.run(ms(waits * 1_000));
        world.crash(holder);
        world.run(ms(6_000));
        let who = world.owners();
        assert!(who.len() == 1 && who != [holder], "{count} nodes, {gone} gone, {waits} s: {who:?}");
    }
}
