//! A new leader, whose watches are late.

use super::world::{Queue, World};
use crate::machine::Kind;
use crate::machine::testing::service;

/// Delivers what the allocator was told, except about one kind.
fn deliver_except(world: &mut World, late: Kind) {
    while let Some(queue) = world.busy_queues().into_iter().find(|queue| *queue != Queue::Of(late)) {
        let event = world.pop_of(queue).unwrap();
        world.deliver(event);
    }
}

#[test]
fn whichever_watch_is_late_what_lives_stays() {
    for late in Kind::ALL {
        let mut world = World::new(&[("range-global", "10.0.0.1-10.0.0.9")]);
        let web = world.apply(service("a", "web"));
        world.run();
        // The allocator that waited for the lead knows nothing of this Service yet.
        world.fail_over();
        deliver_except(&mut world, late);
        // All lists that it asks for come, but for this one.
        while world.make_list(0) {}
        deliver_except(&mut world, late);
        assert!(world.todo.is_empty(), "{late:?} is late, and it writes {:?}", world.todo);
        world.run();
        assert_eq!((&*world.shows(&web), &*world.condition(&web).0), ("10.0.0.1", "Advertised"), "{late:?}");
        assert!(world.reports.iter().all(|report| !matches!(report, crate::machine::Report::Released { .. })));
        // It goes on working.
        let other = world.apply(service("a", "other"));
        world.run();
        assert_eq!(world.shows(&other), "10.0.0.2");
    }
}

#[test]
fn a_list_that_was_asked_for_before_does_not_count() {
    let mut world = World::new(&[("range-global", "10.0.0.1-10.0.0.9")]);
    world.deliver(crate::machine::Event::Leading(None));
    world.deliver(crate::machine::Event::Leading(Some(world.now * 2)));
    for kind in Kind::ALL {
        world.deliver(crate::machine::Event::Listed(kind, 1));
    }
    world.apply(service("a", "web"));
    while let Some(queue) = world.busy_queues().first().copied() {
        let event = world.pop_of(queue).unwrap();
        world.deliver(event);
    }
    assert!(world.todo.is_empty(), "{:?}", world.todo);
    world.run();
    assert_eq!(world.services.len(), 1);
    assert!(world.services.values().all(|service| !service.ingress.is_empty()));
}
