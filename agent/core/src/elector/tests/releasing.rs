//! The Lease is released only when the VIPs are gone from the interface: the next holder asks nobody.

use super::world::{Api, VIP, World, ms};
use crate::action::Report;
use crate::event::Event;
use crate::rules::Rules;

/// The link of the holder goes down, or its kernel refuses the VIP; and the kernel removes no address.
fn keeps(world: &mut World, holder: usize, refuses: bool) {
    world.hosts[holder].keeps = true;
    if refuses {
        world.tell(holder, Event::PutFailed { address: VIP, reason: "no answer from the kernel".into() });
    } else {
        world.tell(holder, Event::Link { up: false });
    }
}

#[test]
fn the_lease_is_released_when_the_vip_is_gone() {
    for refuses in [false, true] {
        let (mut world, holder) = World::settled(2, &Rules { witness_interval: ms(0), ..Rules::default() });
        let name = world.hosts[holder].name.clone();
        keeps(&mut world, holder, refuses);
        world.run(ms(2_000));
        assert_eq!((world.holder(), world.owners()), (&*name, vec![holder]), "still there: {refuses}");
        assert!(world.reported(holder, |r| matches!(r, Report::CannotRemove { address: VIP, .. })) >= 1);
        world.removes_again(holder);
        world.run(ms(100));
        assert_ne!(world.holder(), name, "{refuses}");
        world.run(ms(2_000));
        assert_eq!(world.owners(), [1 - holder], "{refuses}");
    }
}

#[test]
fn a_lease_whose_vip_cannot_be_removed_ends_after_the_fence() {
    for refuses in [false, true] {
        let (mut world, holder) = World::settled(2, &Rules { witness_interval: ms(0), ..Rules::default() });
        let since = world.now;
        keeps(&mut world, holder, refuses);
        world.run(ms(40_000));
        assert!(world.time_with(since, |n| n > 1).is_zero(), "two owners: {refuses}");
        assert!(!world.owners().is_empty(), "{refuses}");
    }
}

#[test]
fn a_release_waits_for_a_renewal_that_is_under_way() {
    let (mut world, holder) = World::settled(2, &Rules { witness_interval: ms(0), ..Rules::default() });
    world.hosts[holder].delay = ms(20);
    let writes = world.hosts[holder].writes;
    while world.hosts[holder].writes == writes {
        world.run(ms(1));
    }
    world.tell(holder, Event::Link { up: false });
    world.run(ms(200));
    assert_ne!(world.holder(), world.hosts[holder].name, "it is released all the same");
}

#[test]
fn a_process_that_ends_waits_for_its_release() {
    let (mut world, holder) = World::settled(2, &Rules { witness_interval: ms(0), ..Rules::default() });
    keeps(&mut world, holder, false);
    world.tell(holder, Event::Shutdown);
    world.run(ms(1_000));
    assert!(world.hosts[holder].running);
    world.removes_again(holder);
    world.run(ms(1_000));
    assert!(!world.hosts[holder].running);
    assert_ne!(world.holder(), world.hosts[holder].name);
}

#[test]
fn a_link_that_comes_back_before_the_release_keeps_the_lease() {
    let (mut world, holder) = World::settled(1, &Rules::default());
    keeps(&mut world, holder, false);
    world.run(ms(500));
    world.hosts[holder].keeps = false;
    world.tell(holder, Event::Link { up: true });
    world.run(ms(5_000));
    assert_eq!((world.holder(), world.owners()), ("cp1", vec![0]));
}

/// The API of the holder does not answer for a moment, just when its link goes down.
#[test]
fn a_release_that_was_not_answered_is_sent_again() {
    for (how, refuses) in [(Api::Refused, false), (Api::Hanging, false), (Api::Lossy, false), (Api::Hanging, true)] {
        let (mut world, holder) = World::settled(2, &Rules { witness_interval: ms(0), ..Rules::default() });
        let since = world.now;
        world.set_api(holder, how);
        if refuses {
            world.hosts[holder].refuses = vec![VIP];
            world.tell(holder, Event::PutFailed { address: VIP, reason: "refused".into() });
        } else {
            world.tell(holder, Event::Link { up: false });
        }
        let writes = world.hosts[holder].writes;
        world.run(ms(2_500));
        world.set_api(holder, Api::Up);
        world.run(ms(5_000));
        assert_eq!(world.owners(), [1 - holder], "{how:?}, {refuses}");
        let dark = world.time_with(since, |n| n == 0);
        assert!(dark < ms(5_000), "{how:?}, {refuses}: {dark:?}");
        let writes = world.hosts[holder].writes - writes;
        assert!(writes < 12, "{how:?}, {refuses}: {writes} writes");
    }
}

/// The kernel neither puts the VIP there nor removes it. A look at the interface finds what is yet to be removed.
/// An interface goes while the API is away, and with it all VIPs: the node takes part no longer, and its process goes on.
#[test]
fn who_takes_part_no_longer_releases_the_lease_when_the_api_is_back() {
    for away in [Api::Refused, Api::Hanging] {
        let (mut world, holder) = World::settled(2, &Rules { witness_interval: ms(0), ..Rules::default() });
        world.hosts.iter_mut().for_each(|host| host.api = away);
        world.run(ms(3_000));
        world.tell(holder, Event::Link { up: false });
        world.tell(holder, Event::Vips(vec![]));
        world.tell(holder, Event::Withdraw { unwanted: false });
        // Nobody takes the VIP provisionally: the segment has no gateway, and nobody else.
        world.gateway = false;
        world.run(ms(6_000));
        assert!(world.hosts[holder].running, "the release was not answered");
        let since = world.now;
        (0..2).for_each(|n| world.set_api(n, Api::Up));
        world.run(ms(6_000));
        assert_eq!(world.owners(), [1 - holder], "{away:?}");
        let dark = world.time_with(since, |n| n == 0);
        assert!(dark < ms(5_000), "{away:?}: {dark:?}");
        assert!(!world.hosts[holder].running);
    }
}

#[test]
fn a_vip_that_can_neither_be_put_nor_removed_goes_to_another_node() {
    for found in [false, true] {
        let (mut world, holder) = World::settled(2, &Rules { witness_interval: ms(0), ..Rules::default() });
        let since = world.now;
        world.hosts[holder].refuses = vec![VIP];
        keeps(&mut world, holder, true);
        for _ in 0..20 {
            world.run(ms(1_000));
            if found && world.hosts[holder].carries.contains_key(&VIP) {
                world.tell(holder, Event::LeftOver(vec![VIP]));
            }
        }
        assert_eq!(world.owners(), [1 - holder], "{found}");
        assert!(world.time_with(since, |n| n > 1).is_zero(), "two owners: {found}");
    }
}

/// The same, but the next request to put the VIP there would succeed.
#[test]
fn a_vip_that_is_being_removed_is_no_left_over() {
    let (mut world, holder) = World::settled(2, &Rules { witness_interval: ms(0), ..Rules::default() });
    keeps(&mut world, holder, true);
    world.run(ms(500));
    world.tell(holder, Event::LeftOver(vec![VIP]));
    world.run(ms(500));
    world.removes_again(holder);
    world.run(ms(1_000));
    assert_eq!(world.owners(), [1 - holder]);
}

/// A Service is deleted while Leases cannot be written: its elector does not wait for the release, since a new one is to begin when the
/// Service is made again.
#[test]
fn an_elector_whose_vips_nobody_wants_ends_though_the_release_is_refused() {
    let (mut world, holder) = World::settled(1, &Rules::default());
    world.read_only = true;
    world.run(ms(3_000));
    world.tell(holder, Event::Vips(vec![]));
    world.tell(holder, Event::Withdraw { unwanted: true });
    world.run(ms(5_000));
    assert!(!world.hosts[holder].running);
}
