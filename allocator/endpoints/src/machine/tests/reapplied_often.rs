//! Appliers that put the same texts back again and again, and controllers that fight: what they empty is filled soon, and costs little.

use std::time::Duration;

use super::objects::{POD, infrastructure, key, paused, plane, secret};
use super::random::Dice;
use super::reapplied::{Part, apply, forget, initialise, orders, running, texts};
use super::world::World;
use super::{LONG, create, reason};
use crate::machine::Report;
use crate::objects::{Cluster, Infrastructure};

const HOUR: u64 = 3600;

/// A place whose change is shown waits no longer than this.
const SOON: Duration = Duration::from_secs(1);

/// A `Secret` is read again that long after the last sign of an applier, and is written then.
const READ: Duration = Duration::from_secs(2);

/// So often an applier applies where the hour would show nothing more.
const ROUNDS: u64 = 40;

/// One that applies these parts each `period` seconds, `gap` seconds apart. Returns the writes.
fn applier(world: &mut World, parts: &[Part], (period, gap): (u64, u64), rounds: u64) -> usize {
    forget(world);
    for _ in 0..rounds {
        let mut left = period;
        for part in parts {
            apply(world, "c", *part);
            world.settle(Duration::from_secs(gap));
            left -= gap;
        }
        world.settle(Duration::from_secs(left));
    }
    world.writes
}

#[test]
fn whatever_an_applier_s_period_is_each_place_is_filled_at_once() {
    for initialised in [true, false] {
        for period in [1, 5, 20, 45, 90] {
            for parts in [
                &[Part::Plane][..],
                &[Part::Infrastructure, Part::Plane],
                &[Part::Marked, Part::Plane],
                &[Part::Plane, Part::Unpaused, Part::Secret],
                &[Part::Secret, Part::Plane],
            ] {
                let mut world = running(&["c"]);
                if !initialised {
                    let one = world.clusters[&key("c")].clone();
                    world.put_cluster(Cluster { initialised: false, ..one });
                }
                let before = texts(&world, "c");
                let what = format!("{parts:?} each {period} s, initialised: {initialised}");
                let rounds = if initialised && parts.len() == 1 { HOUR / period } else { ROUNDS };
                let writes = applier(&mut world, parts, (period, 0), rounds);
                let most = if parts.contains(&Part::Secret) { READ } else { SOON };
                assert!(world.longest <= most, "empty for {:?}: {what}", world.longest);
                let rounds = usize::try_from(rounds).unwrap();
                assert!(writes <= rounds * parts.len() + 10, "{writes} writes: {what}");
                world.settle(LONG);
                assert!(world.lacking.is_empty() && texts(&world, "c") == before, "{what}");
                assert_eq!(reason(&world, "c"), "Written", "{what}");
            }
        }
    }
}

/// Seconds lie between two objects: a `Secret` is found no later after it than the apply has lasted.
pub(super) fn seconds_hide_no_secret() {
    for order in orders(&[Part::Plane, Part::Infrastructure, Part::Secret]) {
        for (period, gap) in [(20, 1), (45, 4), (90, 10)] {
            let mut world = running(&["c"]);
            applier(&mut world, &order, (period, gap), ROUNDS / 2);
            let most = READ + Duration::from_secs(gap * 2);
            let most = if order[2] == Part::Secret { READ + Duration::from_secs(gap) } else { most };
            assert!(world.longest <= most, "empty for {:?}: {order:?}, {gap} s", world.longest);
        }
    }
}

#[test]
fn seconds_between_two_objects_do_not_hide_an_emptied_secret() {
    seconds_hide_no_secret();
}

#[test]
fn at_random_too() {
    for seed in 0..15 {
        let mut dice = Dice(seed);
        let mut world = running(&["c"]);
        let before = texts(&world, "c");
        for _ in 0..200 {
            let parts = [Part::Unpaused, Part::Marked, Part::Infrastructure, Part::Plane];
            let part = parts[usize::try_from(dice.below(4)).unwrap()];
            apply(&mut world, "c", part);
            let within = dice.below(40);
            world.settle(Duration::from_secs(if dice.chance(50) { within / 8 } else { within }));
        }
        assert!(world.longest <= SOON, "seed {seed}: empty for {:?}", world.longest);
        world.settle(LONG * 2);
        assert!(texts(&world, "c") == before && world.lacking.is_empty(), "seed {seed}");
    }
}

/// A Cluster that waits for its first machine, and is applied again: it went on once, whoever gave its host, and whether Cluster API
/// has copied that.
pub(super) fn one_that_went_on_once_waits() {
    for (given, copied, restarted) in (0..8).map(|bits| (bits & 1 > 0, bits & 2 > 0, bits & 4 > 0)) {
        for order in orders(&[Part::Cluster, Part::Plane, Part::Secret]) {
            for gap in [0, 1, 3, 10] {
                let mut world = World::new(9);
                let uid = world.uid();
                if given {
                    world.touched.insert(key("c"));
                    world.put_cluster(paused("c", uid));
                    world.put_infrastructure(Infrastructure { host: Some("10.0.0.3".into()), ..infrastructure("c") });
                    world.put_plane(plane("c"));
                    world.put_text(&secret("c"), POD);
                } else {
                    create(&mut world, paused("c", uid));
                }
                world.settle(Duration::from_secs(6));
                if copied {
                    initialise(&mut world, "c");
                    let one = world.clusters[&key("c")].clone();
                    world.put_cluster(Cluster { initialised: false, ..one });
                    world.settle(Duration::from_secs(1));
                }
                if restarted {
                    world.start();
                    world.settle(Duration::from_secs(1));
                }
                forget(&mut world);
                let before = texts(&world, "c");
                for part in &order {
                    apply(&mut world, "c", *part);
                    world.settle(Duration::from_secs(gap));
                }
                world.settle(LONG);
                let what = format!("{order:?}, {gap} s, given: {given}, copied: {copied}, restarted: {restarted}");
                assert!(texts(&world, "c") == before && !world.clusters[&key("c")].paused, "{what}");
                assert_eq!(reason(&world, "c"), "Written", "{what}");
                let most = READ + Duration::from_secs(gap);
                assert!(world.longest <= most, "empty for {:?}: {what}", world.longest);
                if order[0] == Part::Cluster && gap < 5 {
                    assert_eq!(world.exposed, 0, "it went on while a place was empty: {what}");
                }
            }
        }
    }
}

#[test]
fn a_cluster_that_went_on_once_waits_before_it_goes_on_again() {
    one_that_went_on_once_waits();
}

/// How often people were told of this reason by a condition.
fn said(world: &World, reason: &str) -> usize {
    let is = |report: &&Report| matches!(report, Report::ConditionChanged { condition, .. } if condition.reason.name() == reason);
    world.reports.iter().filter(is).count()
}

/// What people were told of somebody who puts back.
fn told(world: &World) -> Vec<&str> {
    let all = world.reports.iter();
    let of = all.map(|report| if let Report::PutBack { message, .. } = report { Some(message.as_str()) } else { None });
    of.flatten().collect()
}

/// Whoever puts a text back within milliseconds: it is written about once a second, and said once.
#[test]
fn a_controller_that_fights_costs_about_one_write_a_second() {
    let mut world = running(&["c"]);
    forget(&mut world);
    world.fought = Some(plane("c"));
    apply(&mut world, "c", Part::Plane);
    world.settle(Duration::from_mins(10));
    assert!((500..620).contains(&world.writes), "{} writes in ten minutes", world.writes);
    let claim = &world.claims[&key("c")];
    let shown = claim.condition.clone().unwrap();
    assert!(&*shown.0 == "PutBack" && shown.1.contains("leave that field"), "{shown:?}");
    assert_eq!((said(&world, "PutBack"), said(&world, "Written"), told(&world).len()), (1, 0, 1));
    world.fought = None;
    world.settle(LONG);
    assert_eq!((world.lacking.len(), reason(&world, "c")), (0, "Written"));
    assert_eq!(world.claims[&key("c")].condition.clone().unwrap().0, "Written".into());
}

/// An ordinary applier is told of what it does, and nothing is called refused, since nothing is.
#[test]
fn what_is_put_back_again_and_again_is_no_refusal() {
    for (parts, what) in [(&[Part::Plane][..], "leave that field"), (&[Part::Cluster], "leave spec.paused")] {
        let mut world = running(&["c"]);
        applier(&mut world, parts, (45, 0), HOUR / 45);
        assert_eq!((said(&world, "WriteRefused"), said(&world, "PutBack")), (0, 0));
        let told = told(&world);
        assert!(told.len() == 2 && told.iter().all(|text| text.contains(what)), "twice in an hour: {told:?}");
    }
}
