//! Services that get another class, and perhaps come back.
//!
//! The class of a Service can change only while it is of another type. Both edits may come at once: then a watch may show only
//! what came of them.

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::Key;

use super::several::{claims, nothing_changes, of_class};
use super::world::{World, ip, settings};
use crate::class::ClassRules;
use crate::machine::testing::{ports, service};
use crate::machine::{Settings, Write};
use crate::notes::Notes;
use crate::objects::{FamilyPolicy, Ingress, Service};
use crate::ports::Protocol::{Tcp, Udp};

const POOL: &[(&str, &str)] = &[("range-global", "10.0.0.1-10.0.0.9"), ("cidr-global", "fd00::10/124")];
pub(super) const OTHER: &str = "other.io/lb";

/// What people do with a Service's class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Both edits, and the watch shows the last.
    AtOnce,
    /// The watch shows both, and nothing happens in between.
    BothShown,
    /// The allocator is done with the first before the second comes.
    OneByOne,
    /// The Service is deleted, and made with the other class.
    MadeAnew,
}

const WAYS: [Way; 4] = [Way::AtOnce, Way::BothShown, Way::OneByOne, Way::MadeAnew];

/// The API server takes the addresses off the status of a Service that becomes of another type.
pub(super) fn unbalanced(service: &mut Service) {
    (service.load_balancer, service.class) = (false, None);
    service.ingress.clear();
}

/// A Service gets this class.
fn classed(world: &mut World, key: &Key, class: Option<&str>, way: Way) {
    match way {
        Way::AtOnce => {}
        Way::BothShown => world.edit(key, unbalanced),
        Way::OneByOne => {
            world.edit(key, unbalanced);
            world.run();
        }
        Way::MadeAnew => {
            let mut new = world.services[key].clone();
            world.delete(key);
            unbalanced(&mut new);
            let version = world.fresh();
            new.uid = format!("uid-{}-{version:?}", key.name).as_str().into();
            // As people apply it again.
            let asked = new
                .notes
                .requested
                .take()
                .or_else(|| new.notes.addresses.take().filter(|_| new.notes.record.is_none()));
            let key = new.notes.sharing_key.take();
            (new.notes, new.condition, new.implementation) = (Notes::default(), None, false);
            (new.notes.addresses, new.notes.sharing_key) = (asked, key);
            (new.load_balancer, new.class) = (true, class.map(Into::into));
            world.apply(new);
            return;
        }
    }
    world.edit(key, |service| {
        unbalanced(service);
        (service.load_balancer, service.class) = (true, class.map(Into::into));
    });
}

/// Nothing of Mooring's is on the Service, and no claim names it.
fn is_bare(world: &World, key: &Key) {
    let service = &world.services[key];
    let notes = &service.notes;
    assert!(world.claims_of(key).is_empty(), "{:?}", world.claims);
    assert_eq!((&notes.record, &notes.moving, &notes.requested, &service.condition), (&None, &None, &None, &None));
    assert!(service.ingress.is_empty() && !service.implementation && world.standing(key).is_none(), "{service:?}");
}

fn no_claim_is_left(world: &World) {
    assert!(world.claims.is_empty() && world.addresses.is_empty(), "{:?}", world.claims);
}

/// Kinds of Services: their number of addresses, and what people write on them.
type Kind = (usize, fn(&mut Service));
const KINDS: [Kind; 4] = [
    (1, |_| {}),
    (1, |one| one.notes.addresses = Some("10.0.0.7".into())),
    (1, |one| one.load_balancer_ip = Some("10.0.0.7".into())),
    (2, |one| (one.families, one.policy) = (vec![Family::V4, Family::V6], FamilyPolicy::RequireDualStack)),
];

/// A Service of that kind is made, and served.
fn served(world: &mut World, kind: fn(&mut Service)) -> Key {
    let mut web = service("a", "web");
    kind(&mut web);
    let web = world.apply(web);
    world.run();
    web
}

#[test]
pub(super) fn a_service_of_another_class_gives_its_address_back_and_gets_it_again() {
    for (there, back) in WAYS.into_iter().flat_map(|there| WAYS.map(|back| (there, back))) {
        for (count, kind) in KINDS {
            for agents in [true, false] {
                let mut world = World::new(POOL);
                world.agents = agents;
                let web = served(&mut world, kind);
                let has = world.services[&web].notes.record.clone();
                assert_eq!(world.claims.len(), count, "{there:?}");
                classed(&mut world, &web, Some(OTHER), there);
                world.run();
                is_bare(&world, &web);
                no_claim_is_left(&world);
                world.later(60);
                classed(&mut world, &web, None, back);
                world.run();
                world.later(60);
                let service = &world.services[&web];
                assert_eq!(
                    (service.ingress.len(), world.claims.len()),
                    (if agents { count } else { 0 }, count),
                    "{there:?}, {back:?}"
                );
                let ips = |record: &Option<Box<str>>| crate::record::addresses(&crate::record::read(record.as_deref()));
                assert_eq!(ips(&service.notes.record), ips(&has), "{there:?}, {back:?}");
            }
        }
    }
}

#[test]
fn a_service_that_comes_back_before_its_claim_is_gone_gets_its_address() {
    for steps in 0..40 {
        for (_, kind) in KINDS {
            let mut world = World::new(POOL);
            let web = served(&mut world, kind);
            let count = world.claims.len();
            classed(&mut world, &web, Some(OTHER), Way::AtOnce);
            for _ in 0..steps {
                world.go_on();
            }
            classed(&mut world, &web, None, Way::AtOnce);
            for _ in 0..3 {
                world.later(40);
            }
            assert_eq!((world.claims.len(), &*world.condition(&web).0), (count, "Advertised"), "{steps}");
        }
    }
}

#[test]
fn one_that_has_no_address_yet_loses_its_condition() {
    type Start = fn() -> World;
    let starts: [(Start, usize); 3] = [
        (|| World::new(&[]), 0),
        (|| World::new(&[("range-global", "10.0.0.1-10.0.0.9,nonsense")]), 0),
        (
            || {
                let mut world = World::new(POOL);
                world.allocates = false;
                world
            },
            1,
        ),
    ];
    for (start, count) in starts {
        let mut world = start();
        let web =
            world.apply(Service { load_balancer_ip: (count == 0).then(|| "10.9.9.9".into()), ..service("a", "web") });
        world.run();
        world.later(60);
        assert!(world.services[&web].condition.is_some() && world.claims.len() == count);
        classed(&mut world, &web, Some(OTHER), Way::AtOnce);
        world.run();
        world.allocates = true;
        world.run();
        is_bare(&world, &web);
    }
}

#[test]
pub(super) fn an_allocator_that_was_away_takes_back_what_it_gave() {
    for way in WAYS {
        for (_, kind) in KINDS {
            // The Service changes while no allocator runs; or the allocator dies after so many steps.
            for steps in 0..25 {
                let mut world = World::new(POOL);
                let web = served(&mut world, kind);
                if way == Way::OneByOne {
                    world.edit(&web, unbalanced);
                } else {
                    classed(&mut world, &web, Some(OTHER), way);
                }
                for _ in 0..steps {
                    world.go_on();
                }
                if way == Way::OneByOne {
                    world.edit(&web, |service| (service.load_balancer, service.class) = (true, Some(OTHER.into())));
                }
                world.start();
                world.run();
                world.later(60);
                no_claim_is_left(&world);
                let service = &world.services[&web];
                assert!(service.notes.record.is_none() && service.ingress.is_empty(), "{way:?}, {steps}: {service:?}");
                classed(&mut world, &web, None, way);
                world.later(40);
                assert_eq!(&*world.condition(&web).0, "Advertised", "{way:?}, {steps}");
            }
        }
    }
}

#[test]
pub(super) fn of_several_that_share_a_claim_one_goes_to_another_class() {
    for way in WAYS {
        for restarts in [false, true] {
            let mut world = World::new(POOL);
            let shared = |name: &str, port| {
                let mut one = service("a", name);
                (one.notes.sharing_key, one.ports) = (Some("k".into()), ports(&[port]));
                one
            };
            let all = [("web", (80, Tcp)), ("dns", (53, Udp)), ("tls", (443, Tcp))]
                .map(|(name, port)| world.apply(shared(name, port)));
            world.run();
            assert_eq!(world.claims.len(), 1);
            classed(&mut world, &all[0], Some(OTHER), way);
            if restarts {
                world.start();
            }
            world.run();
            is_bare(&world, &all[0]);
            let claim = world.claims.values().next().unwrap();
            assert_eq!(claim.members.iter().map(|(key, _)| &*key.name).collect::<Vec<_>>(), ["dns", "tls"], "{way:?}");
            // A further one of its port may join.
            let next = world.apply(shared("next", (80, Tcp)));
            world.run();
            assert_eq!((&*world.shows(&next), &*world.shows(&all[1])), ("10.0.0.1", "10.0.0.1"));
            for key in &all[1..] {
                classed(&mut world, key, Some(OTHER), way);
            }
            classed(&mut world, &next, Some(OTHER), way);
            world.run();
            no_claim_is_left(&world);
        }
    }
}

#[test]
fn one_that_is_of_another_class_and_ignored_gives_its_address_back() {
    let mut world = World::new(POOL);
    let web = world.apply(service("a", "web"));
    world.run();
    world.edit(&web, |service| {
        (service.class, service.notes.ignore) = (Some(OTHER.into()), true);
        service.ingress.clear();
    });
    world.run();
    is_bare(&world, &web);
    no_claim_is_left(&world);
}

/// Allocators of these settings, the first of which serves Services without a class.
fn two(first: Settings, second: Settings) -> World {
    let mut world = World::before(POOL);
    world.set(first);
    world.start();
    world.start_another(second);
    world.run();
    world
}

#[test]
pub(super) fn the_allocator_of_the_new_class_may_take_a_claim_over() {
    for way in WAYS {
        for asked in [None, Some("10.0.0.7")] {
            for swapped in [false, true] {
                let mut world = two(settings(), of_class(OTHER));
                let mut one = service("n", "web");
                one.notes.addresses = asked.map(Into::into);
                let web = world.apply(one);
                world.run();
                let has = world.shows(&web);
                for class in [Some(OTHER), None, Some(OTHER)] {
                    let before = claims(&world);
                    // The allocator of the new class is the faster one.
                    world.change_places(swapped);
                    classed(&mut world, &web, class, way);
                    world.later(40);
                    assert_eq!((world.claims.len(), &*world.condition(&web).0), (1, "Advertised"), "{way:?} {class:?}");
                    assert!(asked.is_none() || world.shows(&web) == has, "{way:?} {class:?}");
                    if swapped && way == Way::AtOnce {
                        assert_eq!((claims(&world), world.shows(&web)), (before, has.clone()), "{way:?} {class:?}");
                    }
                    nothing_changes(&mut world);
                }
                // Neither takes it from the other, also after a start.
                for _ in 0..2 {
                    world.swap();
                    world.start();
                    world.run();
                    nothing_changes(&mut world);
                }
            }
        }
    }
}

#[test]
pub(super) fn one_that_leaves_a_shared_address_shares_no_address_with_another_allocators() {
    for (way, faster) in WAYS.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        for restarts in [false, true] {
            let mut world = two(settings(), of_class(OTHER));
            let all = [("web", (80, Tcp)), ("dns", (53, Udp))].map(|(name, port)| {
                let mut one = service("n", name);
                (one.notes.sharing_key, one.ports) = (Some("k".into()), ports(&[port]));
                world.apply(one)
            });
            world.run();
            assert_eq!(world.claims.len(), 1);
            for (class, count) in [(Some(OTHER), 2), (None, 1), (Some(OTHER), 2)] {
                world.change_places(faster);
                classed(&mut world, &all[0], class, way);
                if restarts {
                    world.start();
                }
                world.later(40);
                world.later(40);
                let has = all.each_ref().map(|key| (world.claims_of(key).len(), world.condition(key).0));
                assert_eq!(
                    has,
                    [(1, "Advertised".to_owned()), (1, "Advertised".to_owned())],
                    "{way:?} {faster} {class:?}"
                );
                // The two move to one address, whichever it is.
                assert_eq!(world.claims.len(), count, "{way:?} {faster} {class:?}");
                nothing_changes(&mut world);
            }
        }
    }
}

#[test]
fn one_that_goes_away_for_a_moment_keeps_its_address_beside_another_allocator() {
    for (way, first) in WAYS.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let mut world = two(settings(), of_class(OTHER));
        let mut one = service("n", "web");
        one.notes.addresses = Some("10.0.0.7".into());
        let web = world.apply(one);
        world.run();
        for _ in 0..3 {
            world.change_places(first);
            classed(&mut world, &web, Some(OTHER), Way::AtOnce);
            classed(&mut world, &web, None, way);
            world.later(40);
            assert_eq!((world.claims.len(), &*world.shows(&web)), (1, "10.0.0.7"), "{way:?}");
            nothing_changes(&mut world);
        }
    }
}

#[test]
fn what_another_allocator_has_taken_over_is_not_written_on() {
    let mut world = two(settings(), of_class(OTHER));
    let web = world.apply(service("n", "web"));
    world.run();
    classed(&mut world, &web, Some(OTHER), Way::AtOnce);
    // The allocator of the new class is done before that of the old one has seen anything.
    world.swap();
    while world.go_on() {}
    world.swap();
    let has = world.services[&web].clone();
    assert_eq!(&*world.condition(&web).0, "Advertised");
    while world.go_on() {}
    // Its view was late: the API server refuses what it wrote by that.
    assert_eq!(world.services[&web], has);
}

#[test]
fn a_claim_of_an_allocator_that_is_gone_comes_with_its_service() {
    for asked in [None, Some("10.0.0.1")] {
        let mut world = World::before(POOL);
        world.set(of_class(OTHER));
        world.start();
        let web = world.apply(Service { class: Some(OTHER.into()), ..service("n", "web") });
        world.run();
        let before = claims(&world);
        world.set(settings());
        world.start();
        world.run();
        // Somebody has cleaned up by hand what that one wrote on the Service.
        world.edit(&web, |service| {
            (service.notes.record, service.notes.requested, service.notes.host) = (None, None, None);
            service.notes.addresses = asked.map(Into::into);
        });
        classed(&mut world, &web, None, Way::AtOnce);
        world.later(60);
        assert_eq!((claims(&world), &*world.shows(&web)), (before, "10.0.0.1"));
    }
}

#[test]
fn settings_that_were_narrowed_take_nothing_from_anybody() {
    let both = ClassRules { names: vec!["x/one".into(), "x/two".into()], ..ClassRules::default() };
    let mut world = World::before(POOL);
    world.set(Settings { classes: both.clone(), ..settings() });
    world.start();
    let all = [None, Some("x/one"), Some("x/two")].map(|class| {
        world
            .apply(Service { class: class.map(Into::into), ..service("n", class.map_or("plain", |class| &class[2..])) })
    });
    world.run();
    world.set(of_class("x/one"));
    world.start();
    world.run();
    nothing_changes(&mut world);
    let before = claims(&world);
    // One that nobody serves any more becomes of another type: its claim goes after a while.
    let plain = &all[0];
    world.edit(plain, unbalanced);
    world.run();
    world.later(61);
    assert!(world.claims_of(plain).is_empty(), "{:?}", world.claims);
    world.edit(plain, |service| service.load_balancer = true);
    let before: Vec<String> = before.into_iter().filter(|claim| claims(&world).contains(claim)).collect();
    assert_eq!(before.len(), 2);
    // Another allocator gets the others.
    world.start_another(Settings {
        classes: ClassRules { names: vec!["x/two".into()], ..ClassRules::default() },
        ..settings()
    });
    world.run();
    nothing_changes(&mut world);
    assert!(before.iter().all(|claim| claims(&world).contains(claim)), "{:?}", world.claims);
    assert_eq!(world.claims.len(), 3);
    for key in &all {
        world.delete(key);
    }
    world.run();
    no_claim_is_left(&world);
}

#[test]
pub(super) fn a_claim_that_says_no_class_is_anothers() {
    // As an earlier version made it.
    let mut world = World::new(POOL);
    let web = world.apply(service("a", "web"));
    world.run();
    let (key, mut claim) = world.claims.iter().next().map(|(key, claim)| (key.clone(), claim.clone())).unwrap();
    claim.classes = Vec::new();
    claim.version = world.fresh();
    world.claims.insert(key.clone(), claim);
    let mut other = world.services[&web].clone();
    (other.class, other.ingress) = (Some(OTHER.into()), vec![Ingress { ip: ip("10.0.0.1"), vip: true }]);
    world.services.insert(web.clone(), other);
    world.start();
    world.run();
    nothing_changes(&mut world);
    assert_eq!(world.claims.len(), 1);
    // Once it is ours, the claim says so.
    classed(&mut world, &web, None, Way::AtOnce);
    world.run();
    assert_eq!((&*world.shows(&web), &world.claims[&key].classes), ("10.0.0.1", &vec![Some("".into())]));
    classed(&mut world, &web, Some(OTHER), Way::AtOnce);
    world.run();
    no_claim_is_left(&world);
}

#[test]
fn the_class_is_written_with_the_claim_and_once() {
    let mut world = World::new(POOL);
    world.apply(Service { class: Some("kube-vip.io/kube-vip-class".into()), ..service("a", "web") });
    world.apply(service("a", "plain"));
    let mut updates = 0;
    while world.go_on() {
        updates += world.todo.iter().filter(|(_, write)| matches!(write, Write::UpdateClaim(..))).count();
    }
    assert_eq!(updates, 0);
    let classes: Vec<_> = world.claims.values().map(|claim| claim.classes.clone()).collect();
    assert_eq!(classes, [[Some("".into())], [Some("kube-vip.io/kube-vip-class".into())]]);
}
