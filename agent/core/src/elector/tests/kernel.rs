//! The kernel does not give a VIP its new lifetime: the VIP stands, and the fence decides.

use std::net::{IpAddr, Ipv4Addr};

use super::world::{Api, VIP, World, ms};
use crate::action::Report;
use crate::rules::Rules;

#[test]
fn a_refresh_that_the_kernel_does_not_answer_moves_nothing() {
    for (hangs_for, api) in [(1_000, Api::Up), (6_000, Api::Up), (3_000, Api::Refused), (3_000, Api::Hanging)] {
        for refresh in [0, 4_000] {
            let rules = Rules { refresh: ms(refresh), ..Rules::default() };
            let (mut world, holder) = World::settled(3, &rules);
            let since = world.now;
            world.hosts[holder].kernel_hangs = true;
            world.set_api_everywhere(api);
            world.run(ms(hangs_for));
            world.hosts[holder].kernel_hangs = false;
            world.run(ms(20_000));
            world.set_api_everywhere(Api::Up);
            world.run(ms(10_000));
            let case = format!("{hangs_for} ms, {api:?}, refresh {refresh} ms");
            assert!(world.time_with(since, |n| n != 1).is_zero(), "{case}");
            assert_eq!((world.owners(), world.role(holder)), (vec![holder], "holding"), "{case}");
            assert_eq!(world.reported(holder, |r| matches!(r, Report::LetGo(_))), 0, "{case}");
        }
    }
}

/// Few renewals refresh the fence: one that failed is repeated before the kernel ends the VIP.
#[test]
fn a_refresh_that_failed_is_repeated_after_a_second() {
    let rules = Rules { refresh: ms(8_000), ..Rules::default() };
    let (mut world, holder) = World::settled(2, &rules);
    let before = world.hosts[holder].carries.clone();
    while world.hosts[holder].carries == before {
        world.run(ms(100));
    }
    // The next one is due eight seconds later.
    let before = world.hosts[holder].carries.clone();
    world.hosts[holder].kernel_hangs = true;
    world.run(ms(8_000));
    assert_eq!(world.hosts[holder].carries, before, "it has failed");
    world.hosts[holder].kernel_hangs = false;
    world.run(ms(1_100));
    assert!(world.hosts[holder].carries > before, "the lifetime is longer");
}

#[test]
fn a_kernel_that_never_answers_leaves_the_end_to_the_fence() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    let since = world.now;
    world.hosts[holder].kernel_hangs = true;
    world.run(ms(10_000));
    assert_eq!(world.owners(), [holder]);
    world.run(ms(20_000));
    assert_eq!(world.owners().len(), 1);
    assert_ne!(world.owners(), [holder], "another node's kernel can");
    assert!(world.time_with(since, |n| n == 0) < ms(1_500), "{:?}", world.time_with(since, |n| n == 0));
    assert!(world.time_with(since, |n| n > 1).is_zero());
}

/// Each change of what is on the interface is declared on the Lease.
#[test]
fn a_kernel_that_refuses_every_second_request_is_no_storm_of_writes() {
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 101));
    let mut world = World::new(2, &Rules { refresh: ms(0), ..Rules::default() });
    for n in 0..2 {
        world.start(n, &[VIP, OTHER]);
    }
    world.run(ms(12_000));
    let holder = (0..2).find(|n| !world.hosts[*n].carries.is_empty()).unwrap();
    let (first, mut last) = (world.hosts[holder].writes, 0);
    for _ in 0..10_000 {
        world.run(ms(1));
        if world.hosts[holder].writes != last {
            last = world.hosts[holder].writes;
            world.hosts[holder].refuses = if last % 2 == 0 { vec![OTHER] } else { vec![] };
        }
    }
    let writes = last - first;
    assert!((5..45).contains(&writes), "{writes} writes in 10 s");
}
