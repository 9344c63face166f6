//! What Kubernetes says of nodes, which each node tells by its session.

use std::sync::Arc;

use super::crash::busiest;
use super::world::{World, ms, vip};
use crate::placement::{Demand, Labels, Selector};
use crate::rules::Rules;
use crate::session::Standing;
use crate::session_vips::{Event, Input};

fn node_says(world: &mut World, n: usize, standing: Standing, label: &str) {
    let labels: Labels = [(label.to_owned(), String::new()), ("kubernetes.io/os".into(), "linux".into())].into();
    world.tell(n, Event::Input(Input::Node { standing, labels }));
}

#[test]
fn a_cordoned_node_takes_no_vip_that_another_one_can_take() {
    let world = &mut World::settled(3, 30, &Rules::default());
    let crashed = busiest(world);
    let (cordoned, other) = ((crashed + 1) % 3, (crashed + 2) % 3);
    let had: Vec<u8> = (0..30).filter(|v| world.carriers(vip(*v)) == [crashed]).collect();
    node_says(world, cordoned, Standing { schedulable: false, ..Standing::default() }, "x");
    world.run(ms(1_000));
    let told = world.members[&world.hosts[cordoned].name].copy.declared().and_then(|declared| declared.standing);
    assert!(told.is_some_and(|standing| !standing.schedulable));
    world.crash(crashed);
    // Sooner than the second in rank would take: the other node knows that it is the first.
    world.run(ms(1_500));
    for v in had {
        assert_eq!(world.carriers(vip(v)), [other], "{}", vip(v));
    }
}

/// Labels are told if a VIP asks for them, and no others; a holder without them gives the VIP to a node that has them.
#[test]
fn a_vip_goes_to_a_node_with_the_labels_that_it_asks_for() {
    let world = &mut World::settled(3, 10, &Rules::default());
    let holder = world.carriers(vip(0))[0];
    let labelled = (holder + 1) % 3;
    for n in 0..3 {
        node_says(world, n, Standing::default(), if n == labelled { "edge" } else { "inner" });
    }
    world.run(ms(1_000));
    let labels = |world: &World| world.members[&world.hosts[labelled].name].copy.labels().clone();
    assert_eq!(labels(world), Labels::new());
    let since = world.now;
    world.demand(&Demand { selector: Some(Arc::new(Selector::of("edge"))), ..Demand::of(vip(0)) });
    world.run(ms(3_000));
    assert_eq!(world.carriers(vip(0)), [labelled]);
    assert!(world.time_with(vip(0), since, |n| n == 0).is_zero());
    assert_eq!(labels(world), [("edge".to_owned(), String::new())].into());
    // No VIP asks for it any more: the session goes on telling it, so that nobody has to tell anything when one does again.
    world.demand(&Demand::of(vip(0)));
    world.run(ms(10_000));
    assert_eq!(labels(world), [("edge".to_owned(), String::new())].into());
    world.demand(&Demand { selector: Some(Arc::new(Selector::of("edge"))), ..Demand::of(vip(0)) });
    // No node has the label any more: the VIP stays.
    node_says(world, labelled, Standing::default(), "inner");
    world.run(ms(10_000));
    assert_eq!(world.carriers(vip(0)), [labelled]);
}
