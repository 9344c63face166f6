//! The VIPs of a Lease change, and the nodes see that at different times: a name in DNS has another address, or the Lease has
//! other VIPs.

use std::net::{IpAddr, Ipv4Addr};

use super::world::{VIP, World, ms};
use crate::action::Report;
use crate::event::Event;
use crate::rules::Rules;

fn vip(n: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 100 + n))
}

/// The node that carries all these VIPs and no other, if there is exactly one.
fn carrier(world: &World, vips: &[IpAddr]) -> Option<usize> {
    let carrying: Vec<usize> =
        (0..world.hosts.len()).filter(|n| world.hosts[*n].up && !world.hosts[*n].carries.is_empty()).collect();
    let [only] = carrying[..] else { return None };
    world.hosts[only].carries.keys().eq(vips).then_some(only)
}

#[test]
fn a_holder_that_sees_new_vips_before_the_others_keeps_the_lease() {
    let (old, new): (&[&[IpAddr]], &[&[IpAddr]]) =
        (&[&[VIP], &[VIP, vip(1), vip(2), vip(3)]], &[&[vip(4)], &[vip(2), vip(3)]]);
    for (old, new) in old.iter().zip(new) {
        for (wait, delay) in [(0, 2), (130, 2), (1_900, 2), (700, 100), (1_960, 150)] {
            let (mut world, holder) = World::settled(3, &Rules::default());
            for n in 0..3 {
                world.tell(n, Event::Vips(old.to_vec()));
            }
            world.run(ms(5_000 + wait));
            assert_eq!(carrier(&world, old), Some(holder));
            world.hosts[holder].delay = ms(delay);
            let writes = world.hosts[holder].writes;
            world.tell(holder, Event::Vips(new.to_vec()));
            world.run(ms(30_000));
            assert_eq!(world.holder(), world.hosts[holder].name, "{old:?} to {new:?}, {wait} ms, {delay} ms");
            assert_eq!(carrier(&world, new), Some(holder));
            let writes = world.hosts[holder].writes - writes;
            assert!(writes <= 18, "{writes} writes in 30 s: two more than renewals");
            let abandons = |n: usize| world.reported(n, |r| matches!(r, Report::Abandoned { .. }));
            assert_eq!((0..3).map(abandons).sum::<usize>(), 0);
            // A crash is noticed as fast as ever.
            for n in (0..3).filter(|n| *n != holder) {
                world.tell(n, Event::Vips(new.to_vec()));
            }
            world.run(ms(500));
            world.crash(holder);
            world.run(ms(450));
            assert!(carrier(&world, new).is_some_and(|n| n != holder), "{old:?} to {new:?}, {wait} ms, {delay} ms");
        }
    }
}

#[test]
fn a_candidate_that_sees_new_vips_before_the_holder_takes_nothing() {
    for wait in [0, 130, 1_900] {
        let (mut world, holder) = World::settled(3, &Rules::default());
        world.run(ms(wait));
        for n in (0..3).filter(|n| *n != holder) {
            world.tell(n, Event::Vips(vec![vip(4)]));
        }
        world.run(ms(30_000));
        assert_eq!((world.holder(), carrier(&world, &[VIP])), (world.hosts[holder].name.as_str(), Some(holder)));
        world.tell(holder, Event::Vips(vec![vip(4)]));
        world.run(ms(1_000));
        assert_eq!(carrier(&world, &[vip(4)]), Some(holder));
    }
}

/// An agent that does not declare its VIPs yet is watched as before.
#[test]
fn a_holder_that_declares_no_vips_is_watched_all_the_same() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.freeze(holder);
    let lease = world.lease.clone().unwrap();
    let mut notes = lease.notes.clone();
    notes.tenure.as_mut().unwrap().declared.vips.clear();
    world.store(lease.record, notes);
    world.run(ms(1_000));
    world.crash(holder);
    world.run(ms(450));
    assert_eq!(world.owners().len(), 1);
}
