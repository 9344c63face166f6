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
