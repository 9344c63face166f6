//! A link was down for a moment, and is up again: what happened meanwhile is not known yet.

use super::crash::busiest;
use super::world::{Api, World, ms, vip};
use crate::action::{Cause, Why};
use crate::core::Interface;
use crate::evidence::Form;
use crate::rules::Rules;
use crate::session::{EndCause, Link, Subnet};
use crate::session_vips::{Event, Report};

const VIPS: u8 = 10;

/// The node's only link: its traffic with the API passes there, too.
fn link_down(world: &mut World, n: usize) {
    world.hosts[n].deaf = true;
    world.set_api(n, Api::Hanging);
    world.tell(n, Event::Link { interface: 2, up: false });
}

fn link_up(world: &mut World, n: usize) {
    world.hosts[n].deaf = false;
    world.tell(n, Event::Link { interface: 2, up: true });
}

fn of(world: &World, n: usize) -> Vec<u8> {
    (0..VIPS).filter(|v| world.carriers(vip(*v)) == [n]).collect()
}

fn ended(world: &World) -> bool {
    let others = |r: &Report| matches!(r, Report::EndedOther { cause: EndCause::Abandoned, .. });
    (0..world.hosts.len()).any(|n| world.reported(n, others) > 0)
}

#[test]
fn a_node_whose_session_was_ended_while_its_link_was_down_takes_nothing_up() {
    // Its calls reach the API again at once, or a little later; its watch tells only after 700 ms.
    for later in [0, 100, 300, 1_500] {
        let world = &mut World::settled(3, VIPS, &Rules::default());
        let n = busiest(world);
        link_down(world, n);
        world.run(ms(600));
        assert!(ended(world) && of(world, n).is_empty());
        let (up, moves) = (world.now, world.moves);
        link_up(world, n);
        world.run(ms(later));
        world.set_api(n, Api::Up);
        world.run(ms(5_000));
        assert!(world.worst(VIPS, up, |n| n != 1).is_zero(), "{later} ms");
        assert_eq!(world.moves, moves, "{later} ms");
        assert!(world.reported(n, |r| *r == Report::Ended) > 0, "{later} ms");
    }
}

#[test]
fn a_node_whose_session_goes_on_has_its_vips_again_after_a_renewal_and_a_read() {
    let world = &mut World::settled(3, VIPS, &Rules::default());
    let n = busiest(world);
    let (mine, calls) = (of(world, n), world.hosts[n].calls);
    // Both changes arrive in one batch.
    world.tell(n, Event::Link { interface: 2, up: false });
    world.tell(n, Event::Link { interface: 2, up: true });
    assert!(of(world, n).is_empty(), "nothing is proven yet");
    world.run(ms(10));
    assert_eq!(of(world, n), mine);
    world.run(ms(400));
    let calls = world.hosts[n].calls - calls;
    assert!(calls <= 6, "{calls} calls for {} VIPs", mine.len());
}

#[test]
fn without_the_api_vips_come_back_when_nobody_answers_for_them() {
    // The sessions go on; or they have lapsed by then, and the VIPs are carried provisionally.
    for outage in [300, 12_000] {
        let world = &mut World::settled(3, VIPS, &Rules::default());
        let before: Vec<_> = (0..3).map(|n| of(world, n)).collect();
        world.set_api_everywhere(Api::Hanging);
        world.run(ms(outage));
        // The switch boots.
        (0..3).for_each(|n| link_down(world, n));
        world.run(ms(1_000));
        assert!((0..VIPS).all(|v| world.carriers(vip(v)).is_empty()));
        let up = world.now;
        (0..3).for_each(|n| link_up(world, n));
        world.run(ms(4_000));
        assert!((0..VIPS).all(|v| world.carriers(vip(v)).len() == 1), "{outage} ms");
        assert!(world.worst(VIPS, up, |n| n > 1).is_zero(), "{outage} ms");
        if outage == 300 {
            assert_eq!((0..3).map(|n| of(world, n)).collect::<Vec<_>>(), before);
            assert!(world.worst(VIPS, up, |n| n == 0) < ms(900), "{:?}", world.worst(VIPS, up, |n| n == 0));
        }
    }
}

/// A conversion webhook that is away, for example.
#[test]
fn a_read_that_is_refused_at_once_does_not_keep_the_vips_down() {
    let world = &mut World::settled(3, VIPS, &Rules::default());
    let n = busiest(world);
    let mine = of(world, n);
    world.reads_refused = true;
    world.tell(n, Event::Link { interface: 2, up: false });
    world.tell(n, Event::Link { interface: 2, up: true });
    // Many nodes renew their sessions: the watch shows that the API answers.
    for _ in 0..15 {
        world.run(ms(100));
        let other = world.sessions.values().find(|view| view.node != world.hosts[n].name).unwrap().clone();
        world.store(other.node, Some(other.uid), other.record, other.declared, None);
    }
    assert_eq!(of(world, n), mine);
}

#[test]
fn vips_on_a_link_that_stayed_up_go_on() {
    let world = &mut World::settled(3, VIPS, &Rules::default());
    let (n, since) = (busiest(world), world.now);
    let link = |name: &str, mac: u8, address: [u8; 4], net| Link {
        name: name.into(),
        altnames: vec![],
        macs: vec![crate::mac::Mac([2, 0, 0, 0, net, mac])],
        addresses: vec![address.into()],
        subnets: vec![Subnet::of(address.into(), 24)],
        up: true,
        unheard: false,
    };
    let mac = world.hosts[n].mac.0[5];
    let first = Interface { index: 2, link: link("eth0", mac, [192, 0, 2, mac], 0), gateways: vec![] };
    let second = Interface { index: 3, link: link("eth1", mac, [198, 51, 100, mac], 1), gateways: vec![] };
    world.tell(n, Event::Node { interfaces: vec![first, second], macs: vec![world.hosts[n].mac] });
    world.run(ms(3_000));
    for how in [Api::Up, Api::Hanging] {
        world.set_api(n, how);
        world.tell(n, Event::Link { interface: 3, up: false });
        world.run(ms(500));
        world.tell(n, Event::Link { interface: 3, up: true });
        world.run(ms(3_000));
    }
    assert!(world.worst(VIPS, since, |n| n != 1).is_zero());
}

/// The settings leave VIPs on their interface for a while after its link has gone down.
#[test]
fn a_vip_that_stayed_on_its_interface_is_not_announced_before_it_is_proven() {
    let rules = Rules { link_down_delay: ms(3_000), ..Rules::default() };
    for taken in [true, false] {
        let world = &mut World::settled(3, VIPS, &rules);
        let n = busiest(world);
        let mine = of(world, n);
        world.run(ms(20_000));
        let announced = world.hosts[n].announced.len();
        link_down(world, n);
        world.run(ms(if taken { 800 } else { 100 }));
        assert_eq!(ended(world), taken);
        let up = world.now;
        link_up(world, n);
        let proven = if taken { up + ms(2_000) } else { up + ms(5) };
        if !taken {
            world.set_api(n, Api::Up);
        }
        world.run(ms(2_000));
        let before = world.hosts[n].announced[announced..].iter().filter(|(at, _)| *at < proven).count();
        assert_eq!(before, 0, "taken: {taken}");
        let now = of(world, n);
        if taken {
            assert!(now.is_empty());
            assert!(world.worst(VIPS, up, |n| n > 1) < ms(600), "{:?}", world.worst(VIPS, up, |n| n > 1));
        } else {
            assert_eq!(now, mine);
            assert!(world.hosts[n].announced.len() > announced, "the neighbours are told anew");
        }
    }
}

/// The first claim is the last holder's, whose session is over; its record is still being replaced.
#[test]
fn a_node_that_took_a_vip_does_not_yield_to_the_node_whose_session_has_ended() {
    let world = &mut World::settled(2, VIPS, &Rules::default());
    let (n, last) = (1 - busiest(world), busiest(world));
    let moved = of(world, last)[0];
    let record = world.addresses[&vip(moved)].holder.clone();
    link_down(world, last);
    // Somebody else writes the object all the time.
    let nudge = |world: &mut World, for_ms: u64| {
        for _ in 0..for_ms {
            world.store_holder(vip(moved), record.clone());
            world.run(ms(1));
        }
    };
    for _ in 0..1_000 {
        nudge(world, 1);
        if world.carriers(vip(moved)) == [n] {
            break;
        }
    }
    let mac = world.hosts[last].mac;
    world.tell(n, Event::Heard { interface: 2, address: vip(moved), mac, form: Form::Claim });
    nudge(world, 400);
    assert_eq!(world.reported(n, |r| matches!(r, Report::LetGo { why: Why::Yielded, .. })), 0);
    assert_eq!(world.reported(n, |r| *r == Report::Defended { address: vip(moved) }), 1);
    assert_eq!(world.addresses[&vip(moved)].holder, record, "not written yet");
    world.run(ms(3_000));
    assert_eq!(world.carriers(vip(moved)), [n]);
    assert!(world.reported(n, |r| matches!(r, Report::Took { cause: Cause::Expiry, .. })) > 0);
    assert_ne!(world.addresses[&vip(moved)].holder, record);
}
