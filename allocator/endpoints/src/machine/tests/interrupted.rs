//! The allocator is killed before, between and after any two writes: the end is the same.

use std::collections::BTreeMap;

use super::objects::{key, paused};
use super::world::World;
use super::{LONG, create};

/// What there is in the end, without uids and versions.
type End = (BTreeMap<String, String>, BTreeMap<String, String>, Vec<String>);

fn end(world: &World) -> End {
    let hosts = ["a", "b"].map(|name| (name.to_owned(), format!("{:?}", world.host(&key(name))))).into();
    let texts = world.texts.iter().map(|(what, reading)| (what.to_string(), format!("{:?}", reading.text))).collect();
    let rest = world.planes.values().map(|one| format!("{:?} {:?}", one.sans, one.place));
    let claims = world.claims.values().map(|claim| format!("{} {:?} {:?}", claim.key, claim.address, claim.condition));
    let clusters = world.clusters.values().map(|one| format!("{} {} {:?}", one.key, one.paused, one.notes));
    (hosts, texts, rest.chain(claims).chain(clusters).collect())
}

fn world() -> World {
    let mut world = World::new(4);
    for name in ["a", "b"] {
        let uid = world.uid();
        let mut one = paused(name, uid);
        one.notes.service_pool = Some("GlobalInClusterIPPool/lb".into());
        one.notes.service_count = Some("2".into());
        one.notes.service_target = Some(format!("ConfigMap/{name}-kubevip/cidr-global").into());
        create(&mut world, one);
    }
    world
}

#[test]
fn killed_before_any_write_or_after_it() {
    let mut undisturbed = world();
    undisturbed.settle(LONG);
    let wanted = end(&undisturbed);
    let all = undisturbed.writes;
    assert!(all > 15, "{all}");
    for kill in 0..=all {
        for reached in [false, true] {
            let mut world = world();
            while world.writes <= kill && (0..8).any(|at| world.go_on(at)) {}
            if reached && let Some((_, write)) = world.todo.front().cloned() {
                // It has taken effect, and nobody hears of it.
                let _ = world.apply(&write);
            }
            world.start();
            world.settle(LONG);
            // One that was frozen thaws.
            for write in std::mem::take(&mut world.ghosts) {
                let _ = world.apply(&write);
            }
            world.settle(LONG);
            assert_eq!(end(&world), wanted, "killed at write {kill}, reached: {reached}");
        }
    }
}
