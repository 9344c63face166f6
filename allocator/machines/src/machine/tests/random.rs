//! Random operations in random order, against what must be true whatever happens.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use mooring_allocator_core::names::Key;
use serde_json::json;

use super::LONG;
use super::objects::{device, key, labels, machine, template};
use super::world::{Stored, World};
use crate::device::Device;
use crate::objects::{Cluster, Labels, VSphereMachine};

/// splitmix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn one<T: Clone>(&mut self, list: &[T]) -> Option<T> {
        let at = self.below(list.len().max(1) as u64);
        list.get(usize::try_from(at).ok()?).cloned()
    }
}

/// The names of machines.
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Labels as people write them.
fn some_labels(dice: &mut Dice) -> Labels {
    match dice.below(4) {
        0 => Labels::default(),
        1 => labels(Some("p4"), None),
        2 => labels(Some("p6"), None),
        _ => labels(None, Some("g")),
    }
}

/// A machine of any sort.
fn create(dice: &mut Dice, world: &mut World, name: &str) {
    let uid = world.uid();
    let devices: Vec<_> = (0..=dice.below(3))
        .map(|_| match dice.below(6) {
            0 => json!({"networkName": "x", "dhcp4": true}),
            1 => json!({"networkName": "x", "ipAddrs": [format!("192.0.2.{}/24", dice.below(200))], "gateway4": "192.0.2.254"}),
            _ => device("net"),
        })
        .collect();
    let held = dice.chance(10);
    let labels = if dice.chance(70) { Labels::default() } else { some_labels(dice) };
    world.put_machine(VSphereMachine { held, labels, ..machine(name, uid, &devices) });
}

/// One thing that people do to a machine.
fn edit(dice: &mut Dice, world: &mut World, mut one: VSphereMachine) {
    let key = one.key.clone();
    match dice.below(9) {
        0 => {
            one.held = dice.chance(40);
            world.put_machine(one);
        }
        1 | 2 => {
            one.deleting = true;
            world.put_machine(one);
        }
        3 if one.deleting => world.remove_machine(&key),
        4 => {
            // Somebody writes an address, or takes one away.
            let at = usize::try_from(dice.below(one.devices.len() as u64)).unwrap();
            let mut whole = one.devices[at].whole.clone();
            whole["ipAddrs"] = if dice.chance(50) { json!(["192.0.2.9/24"]) } else { json!([]) };
            one.devices[at] = Device::read(&whole);
            world.touched.insert(key);
            world.put_machine(one);
        }
        5 if dice.chance(30) => {
            // The list has another order from now on.
            one.devices.reverse();
            world.touched.insert(key);
            world.put_machine(one);
        }
        6 => {
            let prefix = format!("{}-", key.name);
            let its = |claim: &&Stored| claim.key.name.starts_with(&prefix);
            let claims: Vec<Stored> = world.claims.values().filter(its).cloned().collect();
            if let Some(claim) = dice.one(&claims) {
                world.put_claim(match dice.below(3) {
                    0 => Stored { deleting: true, ..claim },
                    1 if claim.in_use => Stored { owner: None, ..claim },
                    _ => claim,
                });
            }
        }
        // The metadata changes, as it does all the time.
        _ => world.put_machine(one),
    }
}

fn operation(dice: &mut Dice, world: &mut World) {
    let keys: Vec<Key> = world.machines.keys().cloned().collect();
    match dice.below(24) {
        0..=5 => {
            let name = NAMES[usize::try_from(dice.below(5)).unwrap()];
            if !world.machines.contains_key(&key(name)) {
                create(dice, world, name);
            }
        }
        6 | 7 => world.start(),
        8 if !world.ghosts.is_empty() => {
            let write = world.ghosts.remove(0);
            let result = world.apply(&write);
            world.trace(&format!("ghost {write:?}: {result:?}"));
        }
        9 => {
            world.now += Duration::from_secs(dice.below(20));
            world.tick();
        }
        10 => {
            let labels = some_labels(dice);
            world.put_template(template("t", labels));
        }
        11 => {
            let paused = dice.chance(30);
            world.put_cluster(Cluster { paused, ..super::objects::cluster("prod") });
        }
        12 => {
            // Another provider's claim comes and goes, and nobody tells of it.
            let key = key(&format!("{}-0", NAMES[usize::try_from(dice.below(5)).unwrap()]));
            if !world.foreign.remove(&key) && !world.claims.contains_key(&key) {
                world.foreign.insert(key);
            }
        }
        13 => world.no_collector = dice.chance(50),
        _ => {
            if let Some(key) = dice.one(&keys) {
                let one = world.machines[&key].clone();
                edit(dice, world, one);
            }
        }
    }
}

/// What is true when nothing goes on any more, and nobody holds anything back.
fn at_rest(world: &World) {
    let mut had = BTreeMap::new();
    for claim in world.claims.values() {
        let owner = world.machines.values().find(|one| claim.is_owned_by(&one.uid));
        // Somebody took the owner off one that is being deleted: it goes by its name.
        let by_name =
            || crate::naming::machine(&claim.key.name).is_some_and(|name| world.machines.contains_key(&key(name)));
        let stays = claim.owner.is_none() && claim.deleting && by_name();
        assert!(owner.is_some() || stays, "leaked: {claim:?}");
        if let Some(ip) = claim.address {
            assert_eq!(had.insert(ip, claim), None, "twice");
        }
    }
    let mut carried = BTreeMap::new();
    for (key, one) in &world.machines {
        for ip in one.devices.iter().flat_map(|device| &device.addresses).filter(|ip| had.contains_key(ip)) {
            let before = carried.insert(*ip, key);
            assert!(
                before.is_none_or(|other| world.touched.contains(other)) || world.touched.contains(key),
                "{ip} twice"
            );
        }
        let wants = one.devices.iter().any(|device| device.wants);
        let standing = world.machine.standing(key);
        if !wants {
            let fine = standing.is_none_or(|said| matches!(said.reason.name(), "Written" | "NotInUse"));
            assert!(fine, "{key}: {standing:?}");
            continue;
        }
        let said = standing.unwrap_or_else(|| panic!("nothing is said of {one:?}")).reason.name();
        let excused = world.touched.contains(key) && said == "OtherPool";
        assert!(matches!(said, "PoolExhausted" | "OtherPool") || excused, "{key} is not done: {standing:?}\n{one:?}");
    }
}

fn life(seed: u64) {
    let mut dice = Dice(seed);
    let mut world = World::new(u8::try_from(2 + dice.below(8)).unwrap());
    for _ in 0..60 {
        operation(&mut dice, &mut world);
        for _ in 0..dice.below(25) {
            let at = usize::try_from(dice.below(10_000)).unwrap();
            world.go_on(at);
        }
    }
    // In the end nobody holds anything back, there are labels, and what is being deleted goes.
    world.foreign.clear();
    world.put_cluster(super::objects::cluster("prod"));
    world.put_template(template("t", labels(None, Some("g"))));
    for one in world.machines.values().cloned().collect::<Vec<_>>() {
        if one.deleting {
            world.remove_machine(&one.key);
        } else {
            world.put_machine(VSphereMachine { held: false, ..one });
        }
    }
    world.settle(LONG * 10);
    at_rest(&world);
    let writes = world.writes;
    world.settle(LONG * 20);
    assert_eq!(world.writes, writes, "something is still written");
}

/// Runs these seeds. The first that fails says which it is.
pub(super) fn lives(seeds: Range<u64>) {
    for seed in seeds {
        if let Err(error) = std::panic::catch_unwind(|| life(seed)) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(error);
        }
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// `SIM_FIRST` and `SIM_SEEDS` choose the seeds; `MACHINES_TRACE` prints what happens.
#[test]
fn some_lives() {
    let first = number("SIM_FIRST", 0);
    lives(first..first + number("SIM_SEEDS", 100));
}
