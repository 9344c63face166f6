//! Another host claims VIPs that are held here.

use std::net::{IpAddr, Ipv6Addr};

use super::world::{STRANGER, VIP, World, ms};
use crate::action::Report;
use crate::event::Event;
use crate::evidence::Form;
use crate::mac::Mac;
use crate::rules::Rules;

const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x100));

/// A world of so many hosts whose holder has both VIPs, and that host.
fn dual_stack(count: u8) -> (World, usize) {
    let mut world = World::new(count, &Rules::default());
    for n in 0..world.hosts.len() {
        world.start(n, &[VIP, V6]);
    }
    world.run(ms(12_000));
    let holder = world.owners()[0];
    assert!(world.hosts[holder].carries.contains_key(&V6));
    (world, holder)
}

/// A host claims both VIPs, 1 ms apart, twice a second. Checks that both are announced again and again, by few calls to the API.
fn claims_both(world: &mut World, holder: usize, mac: Mac) {
    let (begun, calls) = (world.now, world.hosts[holder].calls);
    for _ in 0..20 {
        for address in [V6, VIP] {
            world.tell(holder, Event::Heard { address, mac, form: Form::Claim });
            world.run(ms(1));
        }
        world.run(ms(498));
    }
    world.run(ms(1_000));
    for address in [VIP, V6] {
        let defended = |(_, report): &&(_, Report)| *report == Report::Defended { address };
        let times = world.hosts[holder].reports.iter().filter(defended).map(|(at, _)| *at).filter(|at| *at >= begun);
        let times: Vec<_> = [begun].into_iter().chain(times).chain([world.now]).collect();
        let longest = times.windows(2).map(|two| two[1].since(two[0])).max().unwrap();
        assert!(longest <= ms(1_600), "{address} is not announced for {longest:?}");
    }
    let calls = world.hosts[holder].calls - calls;
    assert!(calls <= 12 + 6, "one renewal a second answers both VIPs, beside those that are due: {calls}");
    assert!(world.time_with(begun, |n| n != 1).is_zero());
}

#[test]
fn a_stranger_that_claims_two_vips_is_answered_for_both() {
    let (mut world, holder) = dual_stack(2);
    claims_both(&mut world, holder, STRANGER);
}

#[test]
fn a_participant_that_claims_two_vips_is_answered_for_both() {
    let (mut world, holder) = dual_stack(2);
    let mac = world.hosts[1 - holder].mac;
    claims_both(&mut world, holder, mac);
}

#[test]
fn a_participants_claim_of_one_vip_does_not_end_a_strangers_challenge_of_the_other() {
    let (mut world, holder) = dual_stack(2);
    world.hosts[holder].delay = ms(20);
    let mac = world.hosts[1 - holder].mac;
    world.tell(holder, Event::Heard { address: V6, mac: STRANGER, form: Form::Claim });
    world.run(ms(5));
    world.claim(holder, mac);
    world.run(ms(150));
    for address in [VIP, V6] {
        assert_eq!(world.reported(holder, |r| *r == Report::Defended { address }), 1, "{address}");
    }
}

#[test]
fn of_two_participants_the_one_that_was_not_answered_lately_does_not_wait() {
    let (mut world, holder) = dual_stack(3);
    world.hosts[holder].delay = ms(20);
    let [first, second] = [1, 2].map(|n| world.hosts[(holder + n) % 3].mac);
    let writes = world.hosts[holder].writes;
    for mac in [first, second, first] {
        world.claim(holder, mac);
        world.run(ms(2));
    }
    world.run(ms(150));
    assert_eq!(world.hosts[holder].writes - writes, 2, "a renewal for each of them");
}
