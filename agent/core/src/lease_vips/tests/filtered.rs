//! Three nodes with a few Services, on a network that begins to drop ARP from 0.0.0.0 just before the API server goes away.

use super::*;

fn name(n: u8) -> String {
    format!("shop/kubevip-{n}")
}

/// The holders renew the Leases of their Services: so many, of the nodes in turn.
fn renew(world: &mut World, services: u8) {
    let participant = |n: u8| {
        let mac = if n == 1 { ME } else { host(n) };
        Participant { macs: vec![mac], addresses: vec![vip(n)], ..Participant::default() }
    };
    let participants: BTreeMap<_, _> = (1..=3).map(|n| (format!("w{n}"), participant(n))).collect();
    for n in 0..services {
        let holder = n % 3 + 1;
        if holder == 1 && world.holder(&name(n)) == "w1" {
            continue;
        }
        let view = world.renewed(&format!("w{holder}"), &participants, vip(100 + n));
        world.leases.insert(name(n), view.clone());
        let event = ForElector::Seen(Some(view));
        world.tell(Event::Input(Input::Lease { name: name(n), event }));
    }
}

#[test]
fn the_vips_of_a_node_that_dies_without_the_api_are_carried_where_zero_senders_are_dropped() {
    for filters in [false, true] {
        for settles in [6, 30, 100] {
            let mut world = World::new();
            world.lease_vips = LeaseVips::new(rules()).watching_nodes(ms(100));
            let services = 6;
            for node in [2, 3] {
                world.others.insert(vip(node), host(node));
            }
            for n in (0..services).filter(|n| n % 3 != 0) {
                world.others.insert(vip(100 + n), host(n % 3 + 1));
            }
            world.tell(Event::Node { interfaces: vec![interface(2, vip(1))], macs: vec![ME] });
            let all: Vec<_> = (0..services).map(|n| (name(n), assignment(&[100 + n]))).collect();
            world.assignments(&all.iter().map(|(name, one)| (name.as_str(), one.clone())).collect::<Vec<_>>());
            for _ in 0..settles / 2 {
                renew(&mut world, services);
                world.run(ms(2_000));
            }
            world.filters = filters;
            for _ in 0..3 {
                renew(&mut world, services);
                world.run(ms(2_000));
            }
            world.away = true;
            world.run(ms(4_000));
            world.others.retain(|_, mac| *mac != host(2));
            world.run(ms(15_000));
            let carried = world.carried();
            for n in (0..services).filter(|n| n % 3 == 1) {
                assert!(carried.contains(&vip(100 + n)), "filter {filters}, after {settles} s: {carried:?}");
            }
        }
    }
}

/// Each sender is asked with and answered, or not, apart from the other: for all electors, on whichever node the VIPs are.
#[test]
fn electors_know_which_senders_are_answered() {
    for limit in [None, Some(15)] {
        for filters in [false, true] {
            let mut world = World::new();
            let rules = Rules { frames_per_second: limit, ..rules() };
            world.lease_vips = LeaseVips::new(rules).watching_nodes(ms(100));
            world.filters = filters;
            let services = 6;
            world.others.extend([2, 3].map(|node| (vip(node), host(node))));
            world.others.extend((0..services).filter(|n| n % 3 != 0).map(|n| (vip(100 + n), host(n % 3 + 1))));
            world.tell(Event::Node { interfaces: vec![interface(2, vip(1))], macs: vec![ME] });
            let all: Vec<_> = (0..services).map(|n| (name(n), assignment(&[100 + n]))).collect();
            world.assignments(&all.iter().map(|(name, one)| (name.as_str(), one.clone())).collect::<Vec<_>>());
            let expected = if filters { State::Filtered } else { State::Answered };
            for second in (0..240).step_by(2) {
                renew(&mut world, services);
                world.run(ms(2_000));
                let known = world.known(|_| true);
                assert!(second < 60 || known == [expected].into(), "limit {limit:?}, after {second} s: {known:?}");
            }
        }
    }
}

/// The rule has a test that fails without it.
#[cfg(feature = "planted")]
#[test]
fn a_look_that_goes_on_with_a_dropped_sender_is_found() {
    let test = the_vips_of_a_node_that_dies_without_the_api_are_carried_where_zero_senders_are_dropped;
    assert!(crate::planted::is_found_by(crate::planted::Bug::GoesOnAsDropped, test));
}
