//! Both families.

use super::world::{BOTH, World};
use crate::machine::testing::service;
use crate::objects::{FamilyPolicy, Service};

fn dual(policy: FamilyPolicy) -> Service {
    Service { families: BOTH.to_vec(), policy, ..service("a", "web") }
}

#[test]
fn in_the_services_order() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24,fd00::10/124")]);
    let mut web = dual(FamilyPolicy::RequireDualStack);
    web.families.reverse();
    let web = world.apply(web);
    world.run();
    assert_eq!((world.says(&web), &*world.shows(&web)), (Some("fd00::10,10.0.0.1"), "fd00::10,10.0.0.1"));
    assert_eq!(world.claims.len(), 2);
    // Back to one family: the other is given up.
    world.edit(&web, |service| {
        service.families.truncate(1);
        service.policy = FamilyPolicy::SingleStack;
    });
    world.run();
    assert_eq!((world.says(&web), world.claims.len()), (Some("fd00::10"), 1));
}

#[test]
fn one_family_of_a_mixed_pool() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24,fd00::10/124")]);
    let mut web = dual(FamilyPolicy::SingleStack);
    web.families.reverse();
    let web = world.apply(web);
    world.run();
    assert_eq!(world.says(&web), Some("fd00::10"));
}

#[test]
fn who_requires_both_gets_both_or_nothing() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let web = world.apply(dual(FamilyPolicy::RequireDualStack));
    world.run();
    world.refused(&web, "NoPool", "no IPv6 address");
    assert_eq!((world.says(&web), &*world.shows(&web)), (None, ""));
    world.configure(&[("cidr-global", "10.0.0.0/24,fd00::10/124")]);
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.1,fd00::10");
}

#[test]
fn who_prefers_both_takes_what_there_is() {
    let mut world = World::new(&[("cidr-global", "fd00::10/128")]);
    let web = world.apply(dual(FamilyPolicy::PreferDualStack));
    world.run();
    assert_eq!(world.shows(&web), "fd00::10");
    let (reason, message) = world.condition(&web);
    assert!(reason == "Advertised" && message.contains("no IPv4 address"), "{reason}: {message}");
    // A second one finds IPv6 exhausted, and then IPv4 comes.
    let mut second = dual(FamilyPolicy::PreferDualStack);
    second.key = mooring_allocator_core::names::Key::new("a", "second");
    second.uid = "uid-second".into();
    let second = world.apply(second);
    world.run();
    assert_eq!(
        (&*world.shows(&second), world.services[&second].condition.as_ref().map(|c| c.ready)),
        ("", Some(false))
    );
    world.configure(&[("cidr-global", "fd00::10/128,10.0.0.0/24")]);
    world.run();
    assert_eq!((&*world.shows(&web), &*world.shows(&second)), ("10.0.0.2,fd00::10", "10.0.0.1"));
}

/// After a restore, the pool of one family is missing, for a while or for ever. Its record, and its status if that was restored, stay.
#[test]
fn the_family_that_is_there_does_not_wait_for_the_other_to_come_back() {
    let both = [("cidr-global", "10.0.0.0/24,fd00::10/124")];
    for (policy, backwards) in [FamilyPolicy::PreferDualStack, FamilyPolicy::RequireDualStack]
        .into_iter()
        .flat_map(|one| [(one, false), (one, true)])
    {
        for with_status in [false, true] {
            let mut world = World::new(&both);
            let mut web = dual(policy);
            if backwards {
                web.families.reverse();
            }
            let web = world.apply(web);
            world.run();
            let shown = world.shows(&web);
            let again = if with_status { world.exported_with_status(&web) } else { world.exported(&web) };
            world.delete(&web);
            world.run();
            world.configure(&[("cidr-global", "10.0.0.0/24")]);
            world.run();
            let web = world.apply(again);
            world.later(10);
            let what = format!("{policy:?}, {backwards}, {with_status}: {:?}", world.standing(&web));
            assert_eq!(world.shows(&web), if with_status { &*shown } else { "10.0.0.1" }, "{what}");
            assert!(world.condition(&web).1.contains("fd00::10"), "{what}");
            let record = world.services[&web].notes.record.clone().unwrap();
            assert!(record.contains("=10.0.0.1") && record.contains("=fd00::10"), "{what}: {record}");
            world.configure(&both);
            world.run();
            assert_eq!((&*world.shows(&web), world.says(&web)), (&*shown, Some(&*shown)), "{what}");
            assert_eq!(world.condition(&web).0, "Advertised", "{what}");
        }
    }
}
