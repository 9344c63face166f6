//! VIPs that come while others are carried: a name resolves to another address, an object becomes known, settings change.

use std::net::{IpAddr, Ipv4Addr};

use super::world::{Api, STRANGER, VIP, World, ms};
use crate::action::{Cause, Report};
use crate::elector::Elector;
use crate::event::Event;
use crate::rules::Rules;
use crate::time::Time;

const NEW: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 50));

fn tell_all(world: &mut World, vips: &[IpAddr]) {
    for n in 0..world.hosts.len() {
        world.tell(n, Event::Vips(vips.to_vec()));
    }
}

fn is_foreign(report: &Report) -> bool {
    matches!(report, Report::ForeignOwner { address: NEW, mac: STRANGER })
}

/// Time passes. Whether no host carried the new VIP meanwhile.
fn stays_away(world: &mut World, seconds: u64) -> bool {
    (0..seconds * 10).all(|_| {
        world.run(ms(100));
        !world.hosts.iter().any(|host| host.carries.contains_key(&NEW))
    })
}

#[test]
fn a_vip_that_comes_while_the_lease_is_held_is_looked_for_first() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let since = world.now;
    world.foreign = vec![NEW];
    tell_all(&mut world, &[VIP, NEW]);
    assert!(stays_away(&mut world, 30), "it is another host's");
    assert_eq!(world.reported(holder, is_foreign), 1);
    assert_eq!(
        world.reported(holder, |r| matches!(r, Report::Contested { .. })),
        0,
        "nothing is held that is contested"
    );
    world.foreign.clear();
    world.run(ms(12_000));
    assert!(world.hosts[holder].carries.contains_key(&NEW), "the other host is gone");
    assert!(world.time_with(since, |n| n != 1).is_zero(), "the other VIP stays where it is");
    assert_eq!(world.owners(), [holder]);
}

#[test]
pub(super) fn a_new_vip_that_only_the_network_answers_for_is_carried() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.suppressed = vec![(NEW, STRANGER)];
    tell_all(&mut world, &[VIP, NEW]);
    world.run(ms(400));
    assert!(world.hosts[holder].carries.contains_key(&NEW));
    assert_eq!(world.reported(holder, is_foreign), 0);
}

#[test]
fn a_new_vip_that_nobody_has_is_carried_at_once() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    tell_all(&mut world, &[VIP, NEW]);
    world.run(ms(400));
    assert!(world.hosts[holder].carries.contains_key(&NEW));
    // And without the API.
    tell_all(&mut world, &[VIP]);
    world.set_api_everywhere(Api::Refused);
    world.run(ms(15_000));
    assert_eq!(world.role(holder), "lapsed");
    tell_all(&mut world, &[VIP, NEW]);
    world.run(ms(400));
    assert!(world.hosts[holder].carries.contains_key(&NEW));
}

#[test]
fn a_foreign_owner_of_a_new_vip_ends_no_lapsed_hold_of_the_others() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let since = world.now;
    world.set_api_everywhere(Api::Refused);
    world.run(ms(15_000));
    world.foreign = vec![NEW];
    tell_all(&mut world, &[VIP, NEW]);
    assert!(stays_away(&mut world, 30));
    assert_eq!((world.role(holder), world.owners()), ("lapsed", vec![holder]));
    assert!(world.time_with(since, |n| n != 1).is_zero());
}

/// A second VIP is added to the settings, and the agents are restarted one by one.
#[test]
fn a_vip_that_the_last_holder_did_not_have_is_looked_for_after_a_hand_over() {
    let (mut world, holder) = World::settled(2, &Rules::default());
    let other = 1 - holder;
    let since = world.now;
    world.foreign = vec![NEW];
    world.tell(other, Event::Vips(vec![VIP, NEW]));
    world.run(ms(5_000));
    world.tell(holder, Event::Shutdown);
    assert!(stays_away(&mut world, 10));
    assert_eq!(world.reported(other, |r| *r == Report::Took(Cause::Handover)), 1);
    assert_eq!((world.owners(), world.reported(other, is_foreign)), (vec![other], 1));
    assert!(world.time_with(since, |n| n == 0).is_zero());
}

/// The last holder goes on answering until it hears its successor.
#[test]
fn a_node_that_comes_while_the_lease_is_handed_over_carries_the_vips_at_once() {
    let (mut world, holder) = World::settled(2, &Rules::default());
    let other = 1 - holder;
    let since = world.now;
    world.hosts[other].running = false;
    world.tell(holder, Event::Shutdown);
    world.run(ms(20));
    assert_eq!((world.holder(), world.owners()), ("", vec![holder]), "it waits for a successor");
    let rules = Rules { node: world.hosts[other].name.clone(), ..Rules::default() };
    world.hosts[other].elector = Elector::new(rules);
    world.hosts[other].running = true;
    world.start(other, &[VIP]);
    let view = world.lease.clone();
    world.tell(other, Event::Seen(view));
    world.run(ms(2_000));
    assert_eq!(world.owners(), [other]);
    assert_eq!(world.reported(other, |report| matches!(report, Report::ForeignOwner { .. })), 0);
    assert!(world.time_with(since, |n| n == 0).is_zero());
}

#[test]
fn a_vip_that_the_last_holder_did_not_have_is_looked_for_after_its_crash() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.foreign = vec![NEW];
    for n in (0..3).filter(|n| *n != holder) {
        world.tell(n, Event::Vips(vec![VIP, NEW]));
    }
    world.run(ms(5_000));
    let since = world.now;
    world.crash(holder);
    assert!(stays_away(&mut world, 10));
    assert!(world.time_with(since, |n| n == 0) < ms(700), "{:?}", world.time_with(since, |n| n == 0));
}

/// The holder cannot renew, and goes on. The others wait for the end of its Lease, and hear it answer for the VIP that it has.
#[test]
fn a_vip_that_the_last_holder_did_not_have_is_looked_for_beside_its_answers() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.foreign = vec![NEW];
    for n in (0..3).filter(|n| *n != holder) {
        world.tell(n, Event::Vips(vec![VIP, NEW]));
    }
    world.hosts[holder].api = Api::Hanging;
    assert!(stays_away(&mut world, 30));
    let took = |n: &usize| world.reported(*n, |r| *r == Report::Took(Cause::Expiry)) > 0;
    assert_eq!((0..3).filter(took).collect::<Vec<_>>(), world.owners());
    world.foreign.clear();
    world.run(ms(12_000));
    assert!(world.hosts[world.owners()[0]].carries.contains_key(&NEW), "the other host is gone");
}

/// An unhealthy node does not take the Lease early: it waits for the end of the Lease, while nobody answers for the VIP.
#[test]
fn a_vip_that_the_last_holder_did_not_have_is_looked_for_after_the_end_of_its_lease() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.foreign = vec![NEW];
    for n in (0..3).filter(|n| *n != holder) {
        world.tell(n, Event::Vips(vec![VIP, NEW]));
        world.set_health(n, false);
    }
    world.crash(holder);
    assert!(stays_away(&mut world, 30));
    let took = |n: &usize| world.reported(*n, |r| *r == Report::Took(Cause::Expiry)) > 0;
    assert_eq!((0..3).filter(took).collect::<Vec<_>>(), world.owners());
}

#[test]
fn a_vip_that_is_new_after_a_restart_is_looked_for() {
    for away in [500, 20_000] {
        let (mut world, _) = World::settled(1, &Rules::default());
        world.foreign = vec![NEW];
        world.kill(0);
        world.run(ms(away));
        world.restart_with(0, &Rules::default(), &[VIP, NEW]);
        assert!(stays_away(&mut world, 5), "after {away} ms");
        assert_eq!(world.owners(), [0], "after {away} ms");
    }
}

#[test]
fn under_a_limit_of_frames_new_vips_are_asked_for_one_after_the_other() {
    let (mut world, holder) = World::settled(1, &Rules { frames_per_second: Some(15), ..Rules::default() });
    let new: Vec<IpAddr> = (50..60).map(|n| IpAddr::V4(Ipv4Addr::new(192, 0, 2, n))).collect();
    world.tell(holder, Event::Vips(new.iter().copied().chain([VIP]).collect()));
    for second in 1..=8 {
        let before = world.hosts[holder].probes;
        world.run(ms(1_000));
        let probes = world.hosts[holder].probes - before;
        assert!(probes <= 7, "{probes} probes in second {second}");
    }
    assert_eq!(world.hosts[holder].carries.len(), 11);
}

/// The VIPs of a holder are known to be the peers': nothing is asked, and no time is lost.
#[test]
fn a_vip_that_the_last_holder_had_is_carried_at_once_after_its_crash() {
    let rules = Rules::default();
    let mut world = World::new(3, &rules);
    for n in 0..3 {
        world.start(n, &[VIP, NEW]);
    }
    world.run(ms(12_000));
    let holder = world.owners()[0];
    let since = world.now;
    world.crash(holder);
    while !world.hosts.iter().any(|host| host.carries.contains_key(&NEW)) {
        world.run(ms(10));
        assert!(world.now.since(since) < ms(600), "the new holder asks for what it heard the last one answer for");
    }
}

/// Some nodes learn sooner than the holder that a name has got another address. The holder does not answer for that address.
#[test]
fn who_learns_of_a_new_address_before_the_holder_takes_nothing() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let since = world.now;
    for n in (0..3).filter(|n| *n != holder) {
        world.tell(n, Event::Vips(vec![NEW]));
    }
    world.run(ms(20_000));
    assert_eq!(world.holder(), world.hosts[holder].name);
    assert!(world.time_with(since, |n| n != 1).is_zero());
    // The holder learns of it, and dies: from then on its silence counts.
    world.tell(holder, Event::Vips(vec![NEW]));
    world.run(ms(5_000));
    assert!(world.hosts[holder].carries.contains_key(&NEW));
    world.crash(holder);
    world.run(ms(700));
    assert!(world.hosts.iter().any(|host| host.carries.contains_key(&NEW)), "taken early");
}

/// Somebody strips what a holder had declared, and the holder dies. A foreign owner of one VIP keeps nobody from taking the others
/// when the Lease ends.
#[test]
fn a_foreign_owner_of_one_vip_is_left_out_though_the_holder_declares_nothing() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.foreign = vec![NEW];
    tell_all(&mut world, &[VIP, NEW]);
    world.run(ms(5_000));
    world.crash(holder);
    let mut lease = world.lease.clone().unwrap();
    lease.notes.tenure = None;
    world.store(lease.record, lease.notes);
    assert!(stays_away(&mut world, 22), "it is another host's");
    assert_eq!(world.owners().len(), 1, "the Lease ended after 15 s");
    assert_ne!(world.owners(), [holder]);
}

/// Two VIPs, of which another host takes one while a node carries both. Then that node dies, without the API from the second before it.
fn a_foreign_host_and_a_crash(api: Api) {
    let (mut world, holder) = World::settled(3, &Rules::default());
    tell_all(&mut world, &[VIP, NEW]);
    world.run(ms(5_000));
    world.foreign = vec![NEW];
    let since = world.now;
    world.run(ms(20_000));
    assert_eq!(world.owners(), [holder], "it defends both");
    assert!(world.time_with(since, |n| n != 1).is_zero());
    (0..3).for_each(|n| world.set_api(n, api));
    world.run(ms(3_000));
    world.crash(holder);
    world.run(ms(2_000));
    assert_eq!(world.owners().len(), 1, "the other VIP is silent");
    assert_ne!(world.owners(), [holder]);
}

#[test]
pub(super) fn a_foreign_host_that_takes_a_carried_vip_does_not_hide_a_crash() {
    a_foreign_host_and_a_crash(Api::Up);
}

#[test]
pub(super) fn a_foreign_host_that_takes_a_carried_vip_does_not_hide_a_crash_without_the_api() {
    a_foreign_host_and_a_crash(Api::Hanging);
}

/// The holder's bond has another MAC address, which the node has not declared: it answers for all VIPs there.
#[test]
fn a_holder_that_answers_for_all_its_vips_from_another_mac_is_there() {
    for api in [Api::Up, Api::Hanging] {
        let (mut world, holder) = World::settled(3, &Rules::default());
        tell_all(&mut world, &[VIP, NEW]);
        world.run(ms(5_000));
        (0..3).for_each(|n| world.set_api(n, api));
        let since = world.now;
        world.hosts[holder].mac = crate::mac::Mac([2, 0, 0, 0, 7, 7]);
        world.run(ms(8_000));
        assert_eq!(world.owners(), [holder]);
        assert!(world.time_with(since, |n| n != 1).is_zero());
    }
}

/// The addresses of all hosts but one.
fn addresses_of_others(world: &World, holder: usize) -> Vec<IpAddr> {
    let others = world.hosts.iter().enumerate().filter(|(n, _)| *n != holder);
    others.map(|(_, host)| host.address).collect()
}

/// Time passes. Whether no host carried another host's address meanwhile.
fn stays_with_its_node(world: &mut World, seconds: u64) -> bool {
    let own: Vec<IpAddr> = world.hosts.iter().map(|host| host.address).collect();
    (0..seconds * 10).all(|_| {
        world.run(ms(100));
        !world.hosts.iter().any(|host| own.iter().any(|address| host.carries.contains_key(address)))
    })
}

/// Another load balancer shows the addresses of nodes as a Service's.
#[test]
fn an_address_that_another_participant_has_is_not_carried() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let since = world.now;
    let others = addresses_of_others(&world, holder);
    tell_all(&mut world, &[others.as_slice(), &[VIP]].concat());
    assert!(stays_with_its_node(&mut world, 30), "it is the node's own");
    for address in others {
        let told = |r: &Report| matches!(r, Report::ForeignOwner { address: of, .. } if *of == address);
        assert_eq!(world.reported(holder, told), 1, "{address}");
    }
    assert!(world.time_with(since, |n| n != 1).is_zero(), "the VIP stays where it is");
}

/// The same, and the holder is gone: others look whether they may take the Lease.
#[test]
fn an_address_that_another_participant_has_is_not_carried_by_the_next_holder() {
    for crashes in [true, false] {
        let (mut world, holder) = World::settled(3, &Rules::default());
        let all = world.hosts.iter().map(|host| host.address).chain([VIP]).collect::<Vec<_>>();
        for n in 0..3 {
            let own = world.hosts[n].address;
            let others: Vec<IpAddr> = all.iter().copied().filter(|address| *address != own).collect();
            world.tell(n, Event::Vips(others));
        }
        world.run(ms(5_000));
        if crashes {
            world.crash(holder);
        } else {
            world.tell(holder, Event::Shutdown);
        }
        // That of a node that crashed says nothing on the segment.
        let mut living = addresses_of_others(&world, holder);
        living.extend((!crashes).then(|| world.hosts[holder].address));
        for _ in 0..300 {
            world.run(ms(100));
            let carried =
                world.hosts.iter().any(|host| living.iter().any(|address| host.carries.contains_key(address)));
            assert!(!carried, "crashes: {crashes}");
        }
        assert_eq!(world.owners().len(), 1, "crashes: {crashes}");
        assert_ne!(world.owners(), [holder], "crashes: {crashes}");
    }
}

/// The last holder crashed while the API was away, and a node carries its VIPs provisionally. No Lease names that node; and those that began
/// in this tenure never looked for the VIPs that the tenure does not declare.
#[test]
pub(super) fn who_carries_provisionally_is_no_foreign_owner_of_any_vip() {
    let vips = [VIP, NEW, IpAddr::V4(Ipv4Addr::new(192, 0, 2, 51)), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 52))];
    for (wait, back) in [(3_000, 5_000), (3_000, 60_000), (20_000, 5_000), (20_000, 500), (1_000, 2_000)] {
        for first in 0..2 {
            let (mut world, holder) = World::settled(3, &Rules::default());
            tell_all(&mut world, &vips);
            world.run(ms(5_000));
            let others: Vec<usize> = (0..3).filter(|n| *n != holder).collect();
            for n in &others {
                let rules = Rules { node: world.hosts[*n].name.clone(), ..Rules::default() };
                world.hosts[*n].elector = Elector::new(rules);
                world.start(*n, &vips);
                let view = world.lease.clone();
                world.tell(*n, Event::Seen(view));
            }
            world.run(ms(8_000));
            world.set_api_everywhere(Api::Refused);
            world.run(ms(wait));
            world.crash(holder);
            world.run(ms(4_000 + back));
            assert!(!world.owners().is_empty(), "nobody carries without the API");
            // The API comes back for one node before the other.
            world.hosts[others[first]].api = Api::Up;
            let mut missing = [0; 4];
            for tenth in 0..300 {
                if tenth == 20 {
                    world.set_api_everywhere(Api::Up);
                }
                world.run(ms(100));
                for (n, address) in vips.iter().enumerate() {
                    missing[n] +=
                        usize::from(!world.hosts.iter().any(|host| host.up && host.carries.contains_key(address)));
                }
            }
            assert!(missing.iter().all(|tenths| *tenths <= 15), "{wait} {back} {first}: {missing:?}");
            let told =
                others.iter().map(|n| world.reported(*n, |r| matches!(r, Report::ForeignOwner { .. }))).sum::<usize>();
            assert_eq!(told, 0, "{wait} {back} {first}");
        }
    }
}

/// A participant has an address beside its own, and says so nowhere; that address is shown as a VIP.
fn with_a_secondary_address() -> (World, usize) {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let other = (0..3).find(|n| *n != holder).unwrap();
    world.hosts[other].carries.insert(NEW, Time::default() + ms(100_000_000));
    world.run(ms(5_000));
    (world, holder)
}

/// For so many tenths of the next seconds more than one node had the new VIP.
fn tenths_with_two(world: &mut World, seconds: usize) -> usize {
    (0..seconds * 10)
        .filter(|_| {
            world.run(ms(100));
            world.hosts.iter().filter(|host| host.up && host.carries.contains_key(&NEW)).count() > 1
        })
        .count()
}

/// The API server does not answer for a moment, and the address becomes a VIP after that.
#[test]
fn a_secondary_address_of_a_participant_is_not_carried_after_a_blink_of_the_api() {
    for blink in [500, 3_000] {
        let (mut world, holder) = with_a_secondary_address();
        world.set_api_everywhere(Api::Refused);
        world.run(ms(blink));
        world.set_api_everywhere(Api::Up);
        world.run(ms(2_000));
        tell_all(&mut world, &[VIP, NEW]);
        assert_eq!(tenths_with_two(&mut world, 60), 0, "blink of {blink} ms");
        assert!(world.reported(holder, |r| matches!(r, Report::ForeignOwner { .. })) > 0);
    }
}

/// The address is known as a foreign host's, and the API server does not answer the holder for a moment.
#[test]
fn a_foreign_owner_that_is_known_is_one_after_a_blink_of_the_api() {
    let (mut world, holder) = with_a_secondary_address();
    tell_all(&mut world, &[VIP, NEW]);
    assert_eq!(tenths_with_two(&mut world, 30), 0);
    world.set_api(holder, Api::Refused);
    world.run(ms(2_500));
    world.set_api(holder, Api::Up);
    assert_eq!(tenths_with_two(&mut world, 60), 0);
}

/// The same, and the holder crashes.
#[test]
fn a_secondary_address_of_a_participant_is_not_carried_after_a_crash() {
    let (mut world, holder) = with_a_secondary_address();
    tell_all(&mut world, &[VIP, NEW]);
    world.run(ms(30_000));
    world.crash(holder);
    assert_eq!(tenths_with_two(&mut world, 60), 0);
}

/// Another node has the VIP by another Lease: it has not seen yet that the Service is gone which had the address.
#[test]
pub(super) fn what_another_node_still_has_is_carried_as_soon_as_that_node_lets_go() {
    for lets_go in (300..6_000).step_by(450) {
        let (mut world, holder) = World::settled(3, &Rules::default());
        let other = (holder + 1) % 3;
        let until = world.now + ms(60_000);
        world.hosts[other].carries.insert(NEW, until);
        tell_all(&mut world, &[VIP, NEW]);
        world.run(ms(lets_go));
        assert!(!world.hosts[holder].carries.contains_key(&NEW), "{lets_go}: beside a node that has it");
        world.hosts[other].carries.remove(&NEW);
        world.run(ms(1_000));
        assert!(world.hosts[holder].carries.contains_key(&NEW), "{lets_go}");
        assert_eq!(world.reported(holder, |r| matches!(r, Report::ForeignOwner { .. })), 0, "{lets_go}");
    }
}

/// The interface refuses one VIP, and another node has the other one: a node that can carry the first takes the Lease.
#[test]
fn a_holder_that_can_carry_nothing_lets_others_take_the_lease_though_a_node_has_one_of_the_vips() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let other = (holder + 1) % 3;
    let until = world.now + ms(600_000);
    world.hosts[other].carries.insert(NEW, until);
    tell_all(&mut world, &[VIP, NEW]);
    world.run(ms(200));
    let since = world.now;
    world.hosts[holder].refuses = vec![VIP];
    world.hosts[holder].carries.remove(&VIP);
    world.tell(holder, Event::PutFailed { address: VIP, reason: "refused".into() });
    world.run(ms(40_000));
    let none = world.time_with(since, |n| n == 0);
    assert!(none < ms(3_000), "on nobody for {none:?}");
}
