//! Somebody applies the same texts again, which have no address: `kubectl apply`, Helm and the like. Object after object, in any order.

use std::net::IpAddr;
use std::time::Duration;

use super::objects::{INFRASTRUCTURE, PLANE, POD, carries, infrastructure, key, paused, plane, reference, secret};
use super::random::{Dice, number};
use super::world::{Stored, World};
use super::{LONG, create, reason};
use crate::machine::Report;
use crate::objects::{Cluster, ControlPlane, Infrastructure, Place};

/// What a chart's text may say of one Cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part {
    Cluster,
    /// Without the pause, which stands in the text of the first installation only.
    Unpaused,
    /// The same, with the annotation that says what the pause was for.
    Marked,
    Infrastructure,
    Plane,
    Secret,
}

const PARTS: [Part; 4] = [Part::Cluster, Part::Infrastructure, Part::Plane, Part::Secret];

/// The text is put back: the status stays, and what a controller gives.
pub(super) fn apply(world: &mut World, name: &str, part: Part) {
    world.trace(&format!("{part:?} of {name} is applied"));
    match part {
        Part::Cluster => {
            let one = world.clusters[&key(name)].clone();
            let mut new = paused(name, one.uid.clone());
            (new.initialised, new.host) = (one.initialised, one.host);
            world.put_cluster(new);
        }
        Part::Unpaused => {
            let one = world.clusters[&key(name)].clone();
            world.put_cluster(one);
        }
        Part::Marked => {
            let mut one = world.clusters[&key(name)].clone();
            one.notes.paused_for_endpoint = true;
            world.put_cluster(one);
        }
        Part::Infrastructure => {
            let one = world.infrastructures[&reference(INFRASTRUCTURE, name)].clone();
            world.put_infrastructure(Infrastructure { port: one.port, ..infrastructure(name) });
        }
        Part::Plane => {
            // The end of a pause may be on its way.
            world.touched.insert(key(name));
            world.put_plane(plane(name));
        }
        Part::Secret => {
            // Nobody tells of it: the Cluster may go on a moment before it is read.
            world.touched.insert(key(name));
            world.put_text(&secret(name), POD);
        }
    }
}

/// Clusters that run.
pub(super) fn running(names: &[&str]) -> World {
    let mut world = World::new(9);
    for name in names {
        let uid = world.uid();
        create(&mut world, paused(name, uid));
        world.settle(LONG);
        initialise(&mut world, name);
    }
    world.settle(LONG);
    forget(&mut world);
    world
}

/// Counts from now on.
pub(super) fn forget(world: &mut World) {
    (world.exposed, world.writes, world.longest) = (0, 0, Duration::ZERO);
    world.reports.clear();
}

pub(super) fn initialise(world: &mut World, name: &str) {
    let one = world.clusters[&key(name)].clone();
    let host = world.host(&key(name)).map(|ip| ip.to_string().into());
    world.put_cluster(Cluster { initialised: true, host, ..one });
}

/// All that machines are made from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Texts {
    place: Place,
    sans: Vec<Box<str>>,
    secret: Option<Box<str>>,
    host: Option<IpAddr>,
}

pub(super) fn texts(world: &World, name: &str) -> Texts {
    let one = world.planes[&reference(PLANE, name)].clone();
    let secret = world.texts[&secret(name)].text.clone();
    Texts { place: one.place, sans: one.sans, secret, host: world.host(&key(name)) }
}

/// All orders of these.
pub(super) fn orders<T: Copy>(all: &[T]) -> Vec<Vec<T>> {
    let Some((first, rest)) = all.split_first() else { return vec![Vec::new()] };
    let with = |order: Vec<T>| (0..=order.len()).map(move |at| [&order[..at], &[*first], &order[at..]].concat());
    orders(rest).into_iter().flat_map(with).collect()
}

pub(super) fn nothing_is_rolled_out() {
    for order in orders(&PARTS) {
        for gap in [0, 4, 10, 40] {
            for pauses in [true, false] {
                let mut world = running(&["c"]);
                let before = texts(&world, "c");
                for part in &order {
                    let part = if *part == Part::Cluster && !pauses { Part::Unpaused } else { *part };
                    apply(&mut world, "c", part);
                    world.settle(Duration::from_secs(gap));
                }
                world.settle(LONG * 2);
                let what = format!("{order:?}, {gap} s, paused: {pauses}");
                assert!(texts(&world, "c") == before, "machines are rolled out: {what}");
                assert!(!world.clusters[&key("c")].paused, "{what}");
                assert_eq!(reason(&world, "c"), "Written", "{what}");
                if pauses && order[0] == Part::Cluster && gap <= 10 {
                    assert_eq!(world.exposed, 0, "it went on while a place was empty: {what}");
                }
            }
        }
    }
}

#[test]
fn the_same_texts_in_any_order_roll_nothing_out() {
    nothing_is_rolled_out();
}

/// `SIM_FIRST` and `SIM_SEEDS` choose the orders.
#[test]
fn whatever_order_all_objects_come_in_they_end_as_they_began() {
    let first = number("SIM_FIRST", 0);
    for seed in first..first + number("SIM_SEEDS", 40) {
        let mut dice = Dice(seed);
        let names = ["a", "b", "c"];
        let mut world = running(&names);
        let before = names.map(|name| texts(&world, name));
        let all = names.iter().flat_map(|name| PARTS.map(|part| (*name, part)));
        let mut all: Vec<(&str, Part)> = all.clone().chain(all).collect();
        while !all.is_empty() {
            let at = usize::try_from(dice.below(all.len() as u64)).unwrap();
            let (name, part) = all.swap_remove(at);
            let part = if part == Part::Cluster && dice.chance(30) { Part::Unpaused } else { part };
            apply(&mut world, name, part);
            for _ in 0..dice.below(8) {
                world.go_on(usize::try_from(dice.below(10_000)).unwrap());
            }
            if dice.chance(10) {
                world.start();
            }
            world.now += Duration::from_secs(dice.below(12));
            world.tick();
        }
        world.settle(LONG * 10);
        assert!(names.map(|name| texts(&world, name)) == before, "seed {seed}");
        assert_eq!(names.map(|name| reason(&world, name)), ["Written"; 3], "seed {seed}");
        assert!(world.clusters.values().all(|one| !one.paused), "seed {seed}");
    }
}

/// An applier that puts everything back each time, for an hour: it is said, and costs little.
#[test]
fn an_applier_that_never_gives_in_costs_little_and_in_the_end_all_is_as_before() {
    let mut world = running(&["c"]);
    let before = texts(&world, "c");
    for _ in 0..60 {
        for part in PARTS {
            apply(&mut world, "c", part);
        }
        world.settle(LONG);
    }
    assert!(world.writes < 60 * 8, "{} writes in an hour", world.writes);
    world.settle(LONG * 10);
    assert_eq!((texts(&world, "c") == before, reason(&world, "c")), (true, "Written"));
}

/// A first installation does not wait; nor does one that is applied twice before anything of it was made.
#[test]
fn a_new_cluster_goes_on_at_once_and_one_that_runs_when_nothing_has_changed_for_a_while() {
    let mut world = World::new(4);
    let uid = world.uid();
    create(&mut world, paused("c", uid));
    world.settle(Duration::ZERO);
    assert!(!world.clusters[&key("c")].paused, "it waits");
    initialise(&mut world, "c");
    apply(&mut world, "c", Part::Cluster);
    for _ in 0..3 {
        world.settle(Duration::from_secs(14));
        assert!(world.clusters[&key("c")].paused, "it does not wait");
        apply(&mut world, "c", Part::Plane);
    }
    world.settle(Duration::from_secs(14));
    let standing = world.machine.standing(&key("c")).unwrap();
    assert!(standing.message.contains("15 s"), "{standing:?}");
    assert!(world.clusters[&key("c")].paused);
    world.settle(Duration::from_secs(2));
    assert!(!world.clusters[&key("c")].paused);
    world.settle(LONG);
    assert_eq!(reason(&world, "c"), "Written");
}

/// Nobody tells of a Secret: it is read again just before the Cluster goes on, and each minute afterwards.
pub(super) fn secrets_are_read_again() {
    let mut world = running(&["c"]);
    apply(&mut world, "c", Part::Cluster);
    world.settle(Duration::from_secs(14));
    apply(&mut world, "c", Part::Secret);
    world.settle(LONG);
    assert_eq!((world.exposed, reason(&world, "c")), (0, "Written"));
    apply(&mut world, "c", Part::Secret);
    world.settle(LONG + Duration::from_secs(1));
    let ip = world.host(&key("c")).unwrap();
    assert!(carries(&world, &world.clusters[&key("c")], ip), "machines get an empty address");
    let wrote = |report: &Report| matches!(report, Report::Wrote { what, .. } if what.starts_with("Secret"));
    assert!(world.reports.iter().any(wrote), "nothing says so: {:?}", world.reports);
}

#[test]
fn a_secret_that_is_emptied_is_filled_again() {
    secrets_are_read_again();
}

/// What holds another address is somebody's decision: it is only said.
#[test]
fn another_address_stays_and_is_said() {
    let other = POD.replace("''", "10.9.9.9");
    for in_secret in [true, false] {
        let mut world = running(&["c"]);
        if in_secret {
            world.put_text(&secret("c"), &other);
        } else {
            let mut one = world.planes[&reference(PLANE, "c")].clone();
            let Place::Files(files) = &mut one.place else { unreachable!() };
            files[3].content = Some(other.as_str().into());
            world.put_plane(one);
        }
        let before = texts(&world, "c");
        world.settle(LONG * 3);
        assert_eq!((texts(&world, "c") == before, reason(&world, "c")), (true, "Drifted"), "in a Secret: {in_secret}");
    }
}

/// The claim has another address by now than the one that machines were made with.
#[test]
fn nothing_is_filled_from_a_claim_that_has_another_address() {
    let mut world = running(&["c"]);
    let claim = world.claims[&key("c")].clone();
    world.put_claim(Stored { address: "10.0.0.7".parse().ok(), ..claim });
    for part in [Part::Plane, Part::Secret] {
        apply(&mut world, "c", part);
    }
    let before = texts(&world, "c");
    world.settle(LONG * 3);
    assert_eq!((texts(&world, "c") == before, reason(&world, "c")), (true, "EndpointDiffers"));
    let told = |report: &Report| matches!(report, Report::ConditionChanged { warning: true, .. });
    assert!(world.reports.iter().any(told), "{:?}", world.reports);
}

/// Names in certificates that never had the address are no loss: to add it would roll machines out.
pub(super) fn names_without_the_address_stay() {
    for stood in [true, false] {
        let mut world = running(&["c"]);
        if !stood {
            // As after a move: nothing says what stood where.
            let claim = world.claims[&key("c")].clone();
            world.claims.insert(key("c"), Stored { condition: None, stood: None, ..claim });
            let one = world.planes[&reference(PLANE, "c")].clone();
            world.planes.insert(one.reference.clone(), ControlPlane { sans: vec!["localhost".into()], ..one });
            world.start();
            world.settle(LONG);
            assert_eq!(reason(&world, "c"), "Drifted");
        }
        let one = world.planes[&reference(PLANE, "c")].clone();
        world.put_plane(ControlPlane { sans: vec!["localhost".into()], ..one });
        // What keeps the write from being made does not make it forgotten.
        world.refuses = true;
        world.settle(LONG);
        world.refuses = false;
        world.start();
        world.settle(LONG * 2);
        let sans = world.planes[&reference(PLANE, "c")].sans.len();
        assert_eq!((sans, reason(&world, "c")), if stood { (2, "Written") } else { (1, "Drifted") });
    }
}

#[test]
fn names_that_never_had_the_address_stay() {
    names_without_the_address_stay();
}

/// A host that somebody gave: what Mooring wrote beside it is filled again, and what it never wrote is not its business.
#[test]
fn beside_a_given_host_only_what_stood_is_filled_again() {
    for waited in [true, false] {
        let mut world = World::new(9);
        let uid = world.uid();
        world.touched.insert(key("c"));
        world.put_cluster(paused("c", uid.clone()));
        if !waited {
            world.put_cluster(super::objects::cluster("c", uid));
        }
        world.put_infrastructure(Infrastructure { host: Some("10.0.0.3".into()), ..infrastructure("c") });
        world.put_plane(plane("c"));
        world.put_text(&secret("c"), POD);
        world.settle(LONG);
        initialise(&mut world, "c");
        for part in [Part::Plane, Part::Secret] {
            apply(&mut world, "c", part);
        }
        world.settle(LONG * 3);
        let ip = "10.0.0.3".parse().unwrap();
        let end = (reason(&world, "c"), carries(&world, &world.clusters[&key("c")], ip));
        assert_eq!(end, if waited { ("Written", true) } else { ("Drifted", false) });
    }
}
