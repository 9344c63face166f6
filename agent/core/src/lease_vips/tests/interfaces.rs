//! The VIPs of one Lease are on several interfaces, of which some are down or do not exist.

use super::*;
use crate::core::NO_INTERFACE;
use crate::lease::{Declaration, Tenure};

const ETH1: u32 = 3;
const ETH1_GATEWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
/// The address of a third party.
const THIRD: u8 = 67;

/// The VIPs on the first interface.
const FIRST: [u8; 2] = [100, 101];
/// The VIP on the other one.
const OTHERS: u8 = 102;

fn both() -> Assignment {
    let mut both = assignment(&FIRST);
    both.vips.insert(vip(OTHERS), ETH1);
    both
}

/// The first interface does not exist any more.
fn first_gone() -> Assignment {
    let mut gone = Assignment { up: false, ..first_down() };
    gone.vips.extend(FIRST.map(|n| (vip(n), NO_INTERFACE)));
    gone
}

/// The link of the first interface is down, and that of the other is up.
fn first_down() -> Assignment {
    Assignment { unheard: FIRST.map(vip).into(), ..both() }
}

/// `w2` renews the Lease.
fn renew(world: &mut World) {
    world.version += 1;
    let renewed = Some(WallTime(i64::try_from(world.version).unwrap()));
    let record = Record { holder: "w2".into(), duration: ms(15_000), transitions: 1, renewed, ..Record::default() };
    let mut notes = Notes::default();
    let taking_part = |mac, n| Participant { macs: vec![mac], addresses: vec![vip(n)], ..Participant::default() };
    notes.participants.insert("w2".into(), taking_part(OTHER, 66));
    notes.participants.insert("w3".into(), taking_part(Mac([2, 0, 0, 0, 0, THIRD]), THIRD));
    let vips = vec![vip(100), vip(101), vip(OTHERS)];
    let declared = Declaration { holder: "w2".into(), transitions: 1, acquired: None, macs: vec![OTHER], vips };
    notes.tenure = Some(Tenure { declared, renewed, unheard: false });
    let view = LeaseView { version: world.version.to_string(), record, notes };
    world.leases.insert(ALL.into(), view.clone());
    world.tell(Event::Input(Input::Lease { name: ALL.into(), event: ForElector::Seen(Some(view)) }));
}

/// A node that watches the holder `w2` for so long, or until it takes the Lease.
fn watches(world: &mut World, seconds: u64) {
    for _ in 0..seconds {
        if world.leases.contains_key(ALL) && world.holder(ALL) != "w2" {
            return;
        }
        renew(world);
        world.run(ms(1_000));
    }
}

/// The other interface, in a subnet of its own, with a gateway there.
fn eth1() -> Interface {
    let address = Ipv4Addr::new(198, 51, 100, 9).into();
    let link = Link { subnets: vec![Subnet::of(address, 24)], ..interface(ETH1, address).link };
    Interface { gateways: vec![ETH1_GATEWAY], link, ..interface(ETH1, address) }
}

fn standby() -> World {
    let mut world = World::new();
    world.others.insert(ETH1_GATEWAY, Mac([2, 0, 0, 0, 0, 0xfe]));
    world.others.extend([100, 101, OTHERS, 66].map(|n| (vip(n), OTHER)));
    world.others.insert(vip(THIRD), Mac([2, 0, 0, 0, 0, THIRD]));
    renew(&mut world);
    world.tell(Event::Node { interfaces: vec![interface(2, vip(1)), eth1()], macs: vec![ME] });
    world.assignments(&[(ALL, both())]);
    watches(&mut world, 10);
    world
}

/// Nobody is heard on the first interface, where the holder's own address is.
fn first_is_deaf(world: &mut World, assignment: Assignment) {
    world.assignments(&[(ALL, assignment)]);
    world.others.retain(|address, _| [vip(OTHERS), ETH1_GATEWAY].contains(address));
}

/// The switch port of the second interface has lost the VLAN: the link is up, and nobody is heard there.
#[test]
fn who_is_heard_on_another_interface_shows_nothing_about_the_one_of_the_vips() {
    let second = || Assignment { vips: [(vip(OTHERS), ETH1)].into(), ..assignment(&[]) };
    let mut world = World::new();
    world.others = [(vip(OTHERS), OTHER), (vip(THIRD), Mac([2, 0, 0, 0, 0, THIRD]))].into();
    renew(&mut world);
    let bare = Interface { gateways: vec![], ..eth1() };
    world.tell(Event::Node { interfaces: vec![interface(2, vip(1)), bare], macs: vec![ME] });
    world.assignments(&[(ALL, second())]);
    watches(&mut world, 10);
    world.others.remove(&vip(OTHERS));
    watches(&mut world, 30);
    assert_eq!(world.holder(ALL), "w2");
}

#[test]
fn a_holder_whose_first_interface_goes_away_gives_the_lease_back() {
    let mut world = World::with(&[(ALL, both())]);
    world.run(ms(5_000));
    assert_eq!(world.at, [(vip(100), 2), (vip(101), 2), (vip(OTHERS), ETH1)].into());
    world.assignments(&[(ALL, first_gone())]);
    world.run(ms(30_000));
    assert_eq!((world.holder(ALL), world.carried()), ("", vec![]), "and takes nothing");
    assert!(world.at.values().all(|index| *index != NO_INTERFACE), "{:?}", world.at);
    world.assignments(&[(ALL, both())]);
    world.run(ms(5_000));
    assert_eq!((world.holder(ALL), world.carried().len()), ("w1", 3));
}

/// The first interface was never there: its VIPs are left out.
fn first_never_there() -> Assignment {
    Assignment { vips: [(vip(OTHERS), ETH1)].into(), ..assignment(&[]) }
}

#[test]
fn a_first_interface_that_no_node_has_keeps_no_other_vip_from_being_carried() {
    let mut world = World::with(&[(ALL, first_never_there())]);
    world.run(ms(5_000));
    assert_eq!((world.holder(ALL), world.carried()), ("w1", vec![vip(OTHERS)]));
    world.assignments(&[(ALL, both())]);
    world.run(ms(5_000));
    assert_eq!((world.holder(ALL), world.carried().len()), ("w1", 3), "it has come");
}

#[test]
fn a_standby_that_never_had_the_first_interface_takes_nothing_from_a_holder_that_lives() {
    for is_there in [true, false] {
        let mut world = World::new();
        // The holder is heard on the other interface only, or not at all.
        world.others = [(vip(THIRD), Mac([2, 0, 0, 0, 0, THIRD]))].into();
        if is_there {
            world.others.insert(vip(OTHERS), OTHER);
        }
        renew(&mut world);
        world.begin(&[(ALL, first_never_there())]);
        watches(&mut world, 20);
        assert_eq!((world.holder(ALL), world.carried()), ("w2", vec![]), "heard: {is_there}");
    }
}

#[test]
fn a_first_interface_that_comes_back_at_once_has_its_vips_on_it() {
    let mut world = World::new();
    world.lease_vips = LeaseVips::new(Rules { link_down_delay: ms(1_000), ..rules() });
    world.begin(&[(ALL, both())]);
    world.run(ms(5_000));
    world.assignments(&[(ALL, first_gone())]);
    world.run(ms(20));
    assert!(world.lease_vips.is_carrying(ALL));
    let wall = WallTime(i64::try_from(world.now.as_nanos() / 1_000).unwrap());
    let told = Event::Input(Input::Assignments([(ALL.to_owned(), both())].into()));
    let out = world.lease_vips.step(Moment { now: world.now, wall }, told);
    assert!(!out.iter().any(|output| matches!(output, Output::Remove(_))), "{out:?}");
    let put = out.iter().find_map(|output| if let Output::Ensure { vips, .. } = output { Some(vips) } else { None });
    assert!(put.is_some_and(|vips| FIRST.iter().all(|n| vips.contains(&Vip { address: vip(*n), interface: 2 }))));
}

#[test]
fn nothing_is_put_on_an_interface_that_does_not_exist() {
    let mut world = World::with(&[(ALL, Assignment { up: true, ..first_gone() })]);
    world.run(ms(5_000));
    assert_eq!(world.at, [(vip(OTHERS), ETH1)].into());
}

#[test]
fn a_standby_whose_first_interface_goes_away_takes_nothing_from_a_holder_that_lives() {
    let mut world = standby();
    first_is_deaf(&mut world, first_gone());
    watches(&mut world, 10);
    assert_eq!((world.holder(ALL), world.carried()), ("w2", vec![]));
}

#[test]
fn a_vip_whose_own_link_is_down_is_no_witness() {
    let mut world = standby();
    first_is_deaf(&mut world, first_down());
    watches(&mut world, 10);
    assert_eq!((world.holder(ALL), world.carried()), ("w2", vec![]), "the other VIP is heard");
    world.others.remove(&vip(OTHERS));
    world.run(ms(2_000));
    assert_eq!(world.holder(ALL), "w1", "and when it is silent the holder is gone");
}

#[test]
fn what_answered_on_a_link_that_is_down_says_nothing_about_the_others() {
    // The holder could not put the other VIP there.
    let mut world = World::new();
    world.others = [(vip(100), OTHER), (vip(66), OTHER), (vip(THIRD), Mac([2, 0, 0, 0, 0, THIRD]))].into();
    renew(&mut world);
    let of = |assignment: Assignment| Assignment {
        vips: assignment.vips.into_iter().filter(|(address, _)| *address != vip(101)).collect(),
        unheard: assignment.unheard.into_iter().filter(|address| *address != vip(101)).collect(),
        ..assignment
    };
    world.begin(&[(ALL, of(both()))]);
    watches(&mut world, 10);
    first_is_deaf(&mut world, of(first_down()));
    watches(&mut world, 10);
    assert_eq!((world.holder(ALL), world.carried()), ("w2", vec![]));
}

#[test]
fn a_link_that_goes_down_with_the_holder_hides_nothing_where_no_vip_is_asked_for_on_it() {
    let mut world = standby();
    world.assignments(&[(ALL, Assignment { unheard: [vip(OTHERS)].into(), ..both() })]);
    world.others.retain(|address, _| *address == vip(THIRD));
    world.run(ms(2_000));
    assert_eq!(world.holder(ALL), "w1");
}

#[test]
fn vips_whose_link_comes_back_are_announced_anew() {
    let mut world = World::with(&[(ALL, first_down())]);
    world.run(ms(60_000));
    let wall = WallTime(i64::try_from(world.now.as_nanos() / 1_000).unwrap());
    let told = Event::Input(Input::Assignments([(ALL.to_owned(), both())].into()));
    let out = world.lease_vips.step(Moment { now: world.now, wall }, told);
    let announced: Vec<IpAddr> = out
        .iter()
        .filter_map(|output| if let Output::Announce(vips) = output { Some(vips) } else { None })
        .flatten()
        .map(|vip| vip.address)
        .collect();
    assert_eq!(announced, FIRST.map(vip));
}
