//! Where each Service has a Lease of its own, and frames are limited.

use super::*;
use crate::lease::{Declaration, Tenure};

const HOLDERS: u8 = 30;
const SERVICE: &str = "shop/kubevip-own";

fn host(n: u8) -> Mac {
    Mac([2, 0, 0, 0, 2, n])
}

/// The Lease of the node `w{n}`, which has just renewed it. All nodes take part in it.
fn lease(world: &mut World, n: u8) -> (String, LeaseView) {
    world.version += 1;
    let holder = format!("w{n}");
    let participant = |n: u8| Participant { macs: vec![host(n)], addresses: vec![vip(n)], ..Participant::default() };
    let participants = (2..2 + HOLDERS).map(|n| (format!("w{n}"), participant(n))).collect();
    let (macs, vips) = (vec![host(n)], vec![vip(100 + n)]);
    let declared = Declaration { holder: holder.clone(), transitions: 1, acquired: None, macs, vips };
    let renewed = Some(WallTime(i64::try_from(world.version).unwrap()));
    let notes = Notes { participants, tenure: Some(Tenure { declared, renewed }), ..Notes::default() };
    let record = Record { holder, duration: ms(15_000), transitions: 1, renewed, ..Record::default() };
    let view = LeaseView { version: world.version.to_string(), record, notes };
    let name = format!("shop/kubevip-{n}");
    world.leases.insert(name.clone(), view.clone());
    (name, view)
}

/// Under this limit, a node that has a VIP, among nodes that have one each.
fn among_holders(limit: u32) -> World {
    let mut world = World::new();
    let rules = Rules { frames_per_second: Some(limit), ..rules() };
    world.lease_vips = LeaseVips::new(rules).watching_nodes(ms(100));
    for n in 2..2 + HOLDERS {
        world.others.extend([(vip(n), host(n)), (vip(100 + n), host(n))]);
    }
    for n in 2..2 + HOLDERS {
        lease(&mut world, n);
    }
    let names: Vec<String> = (2..2 + HOLDERS).map(|n| format!("shop/kubevip-{n}")).collect();
    let all = (2..2 + HOLDERS).zip(&names).map(|(n, name)| (name.as_str(), assignment(&[100 + n])));
    let all: Vec<_> = all.chain([(SERVICE, assignment(&[99]))]).collect();
    world.begin(&all);
    renewed(&mut world, 60, |_| true);
    world
}

fn renewed(world: &mut World, seconds: u64, alive: impl Fn(u8) -> bool) {
    for _ in 0..seconds / 2 {
        for n in (2..2 + HOLDERS).filter(|n| alive(*n)) {
            let (name, view) = lease(world, n);
            world.tell(Event::Input(Input::Lease { name, event: ForElector::Seen(Some(view)) }));
        }
        world.run(ms(2_000));
    }
}

/// The most probes within a second since then.
fn worst(world: &World, since: Time) -> usize {
    let sent: Vec<Time> = world.sent.iter().map(|(at, _)| *at).filter(|at| *at >= since).collect();
    let within = |from: Time| sent.iter().filter(|at| **at >= from && **at < from + ms(1_000)).count();
    sent.iter().map(|from| within(*from)).max().unwrap_or(0)
}

#[test]
fn many_holders_are_watched_within_the_limit_and_leave_room_for_announcements() {
    for limit in [7, 15] {
        let mut world = among_holders(limit);
        let (begin, before) = (world.now, world.announced.len());
        renewed(&mut world, 60, |_| true);
        let most = usize::try_from(crate::rules::probes_of(limit)).unwrap();
        assert!(worst(&world, begin) <= most, "{} probes in a second, of {limit} frames", worst(&world, begin));
        assert_eq!(world.holder(SERVICE), "w1");
        assert!(world.announced[before..].contains(&vip(99)));
        let asked = |n: u8| world.sent.iter().any(|(at, address)| *at >= begin && *address == vip(n));
        assert!((2..2 + HOLDERS).all(asked), "all are watched, each in its turn");
    }
}

#[test]
fn a_silent_node_among_many_is_judged_within_the_limit() {
    for limit in [7, 15] {
        let mut world = among_holders(limit);
        let begin = world.now;
        world.others.retain(|_, mac| *mac != host(2));
        renewed(&mut world, 60, |n| n != 2);
        assert_eq!(world.holder("shop/kubevip-2"), "w1", "under a limit of {limit}");
        let most = usize::try_from(limit).unwrap();
        assert!(worst(&world, begin) <= most, "{} frames in a second, of {limit}", worst(&world, begin));
    }
}
