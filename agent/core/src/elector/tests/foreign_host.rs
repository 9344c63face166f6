//! A foreign host has one of several VIPs of a Lease; or a living holder answers for some of them only, or from another MAC address. What
//! is taken is a dead holder's alone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::world::{Api, VIP, World, ms};
use crate::action::{Cause, Report};
use crate::event::Event;
use crate::mac::Mac;
use crate::rules::Rules;

const NEW: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 50));
const SIX: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
const OTHER_MAC: Mac = Mac([2, 0, 0, 0, 7, 7]);

fn settled(nodes: u8, vips: &[IpAddr]) -> (World, usize) {
    let (mut world, holder) = World::settled(nodes, &Rules::default());
    (0..world.hosts.len()).for_each(|n| world.tell(n, Event::Vips(vips.to_vec())));
    world.run(ms(5_000));
    (world, holder)
}

fn forget_reports(world: &mut World) {
    world.hosts.iter_mut().for_each(|host| host.reports.clear());
}

fn reported(world: &World, what: impl Fn(&Report) -> bool) -> usize {
    (0..world.hosts.len()).map(|n| world.reported(n, &what)).sum()
}

fn takes(world: &World) -> usize {
    reported(world, |r| matches!(r, Report::Took(cause) if *cause != Cause::Handover))
}

fn foreign_owners(world: &World) -> usize {
    reported(world, |r| matches!(r, Report::ForeignOwner { .. }))
}

/// 5 % of all frames are lost, and the foreign host answers broadcasts before the holder does.
#[test]
fn lost_frames_beside_a_foreign_host_move_nothing() {
    for seed in 1..=20 {
        let (mut world, holder) = settled(3, &[NEW, VIP]);
        forget_reports(&mut world);
        world.random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed);
        world.foreign = vec![NEW];
        (world.foreign_first, world.loss) = (true, 50);
        world.run(ms(120_000));
        assert_eq!((takes(&world), foreign_owners(&world), world.owners()), (0, 0, vec![holder]), "seed {seed}");
    }
}

/// Nothing reaches the holder, and nothing leaves it, for a moment: a vMotion.
#[test]
fn a_pause_of_the_holder_beside_a_foreign_host_moves_nothing() {
    for pause in (50..=150).step_by(10) {
        let (mut world, holder) = settled(3, &[NEW, VIP]);
        forget_reports(&mut world);
        world.foreign = vec![NEW];
        world.foreign_first = true;
        world.run(ms(1_000));
        world.hosts[holder].deaf = true;
        world.run(ms(pause));
        world.hosts[holder].deaf = false;
        world.run(ms(3_000));
        assert_eq!((takes(&world), world.owners()), (0, vec![holder]), "{pause} ms");
    }
}

/// Without the API the next node carries both VIPs, and the others hear it for one of them: neighbour discovery is filtered.
#[test]
fn who_carries_is_known_though_one_family_is_filtered() {
    for heard_before in [true, false] {
        let (mut world, holder) = World::settled(5, &Rules::default());
        world.without_v6 = !heard_before;
        (0..5).for_each(|n| world.tell(n, Event::Vips(vec![VIP, SIX])));
        world.run(ms(5_000));
        world.without_v6 = true;
        world.run(ms(5_000));
        forget_reports(&mut world);
        world.set_api_everywhere(Api::Hanging);
        world.run(ms(3_000));
        world.crash(holder);
        world.run(ms(8_000));
        assert_eq!((takes(&world), foreign_owners(&world)), (1, 0), "heard before: {heard_before}");
        assert_eq!(world.owners().len(), 1);
    }
}

/// One candidate has no API and so does not see that the Lease was handed over. It hears the next holder for one of two VIPs.
#[test]
fn who_has_taken_over_unseen_is_no_foreign_host() {
    for filtered in [true, false] {
        let (mut world, holder) = settled(3, if filtered { &[VIP, SIX] } else { &[NEW, VIP] });
        world.without_v6 = filtered;
        let (next, blind) = ((holder + 1) % 3, (holder + 2) % 3);
        if !filtered {
            world.hosts[next].refuses = vec![NEW];
        }
        world.run(ms(5_000));
        world.set_api(blind, Api::Hanging);
        world.run(ms(3_000));
        forget_reports(&mut world);
        world.set_health(holder, false);
        world.run(ms(60_000));
        assert_eq!(world.owners(), [next], "filtered: {filtered}");
        assert_eq!((takes(&world), foreign_owners(&world)), (0, 0), "filtered: {filtered}");
    }
}

/// The holder has another MAC address by now, which it has not declared; and either one family is filtered, or a foreign host has one VIP.
#[test]
fn a_holder_with_another_mac_is_known_by_the_vips_that_it_was_heard_to_have() {
    for api in [Api::Up, Api::Hanging] {
        for (filtered, foreign) in [(true, false), (false, true)] {
            let (mut world, holder) = World::settled(3, &Rules::default());
            world.without_v6 = filtered;
            let vips = if filtered { [VIP, SIX] } else { [NEW, VIP] };
            (0..3).for_each(|n| world.tell(n, Event::Vips(vips.to_vec())));
            world.run(ms(7_000));
            (0..3).for_each(|n| world.set_api(n, api));
            world.run(ms(1_000));
            forget_reports(&mut world);
            world.foreign.extend(foreign.then_some(NEW));
            world.foreign_first = foreign;
            world.hosts[holder].mac = OTHER_MAC;
            world.run(ms(5_000));
            assert_eq!((takes(&world), world.owners()), (0, vec![holder]), "{api:?}, filtered: {filtered}");
        }
    }
}
