//! Random operations in random order, against what must be true whatever happens.

use std::ops::Range;
use std::time::Duration;

use mooring_allocator_core::names::Key;
use mooring_allocator_core::retained_meta::ClusterOwner;
use serde_json::json;

use super::LONG;
use super::objects::{
    EMPTY, INFRASTRUCTURE, PLANE, POD, carries, cluster, config_map, infrastructure, is_empty_somewhere, key, plane,
    plane_with, reference, secret,
};
use super::world::{Stored, World};
use crate::machine::Failure;
use crate::objects::{Cluster, Place};
use crate::service_addresses;

/// splitmix64.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn one<T: Clone>(&mut self, list: &[T]) -> Option<T> {
        let at = self.below(list.len().max(1) as u64);
        list.get(usize::try_from(at).ok()?).cloned()
    }
}

/// A Cluster of any sort, with some of its parts.
fn create(dice: &mut Dice, world: &mut World, name: &str) {
    let uid = world.uid();
    let mut one = cluster(name, uid);
    one.paused = dice.chance(70);
    one.notes.paused_for_endpoint = dice.chance(75);
    one.held = dice.chance(10);
    if dice.chance(30) {
        one.notes.service_pool = Some("GlobalInClusterIPPool/lb".into());
        one.notes.service_count = Some("2".into());
        one.notes.service_target = Some(format!("ConfigMap/{name}-kubevip/cidr-global").into());
        // From a backup, which has the list of before; or the list is that of an earlier Cluster of this name, or comes later.
        if !dice.chance(40) {
            let before = (0..dice.below(3)).map(|_| format!("10.0.1.{}/32", 40 + dice.below(9)));
            let list: Vec<String> = ["10.9.0.0/24".to_owned()].into_iter().chain(before).collect();
            world.put_text(&config_map(name), &list.join(","));
        }
    } else {
        world.put_text(&config_map(name), "10.9.0.0/24");
    }
    if dice.chance(15) {
        (one.infrastructure, one.control_plane) = (None, None);
        one.variables = Some(vec![json!({"name": "ip", "value": ""}), json!({"name": "pod", "value": POD})]);
        one.notes.variables = Some("ip,pod".into());
    }
    let parts = one.variables.is_none();
    let key = one.key.clone();
    world.put_cluster(one);
    if parts {
        let mut part = infrastructure(name);
        if dice.chance(15) {
            world.touched.insert(key.clone());
            part.host = Some(format!("10.0.0.{}", dice.below(5) + 1).into());
        }
        world.put_infrastructure(part);
        if dice.chance(6) {
            // It gets its static pod from the Secret of another Cluster.
            let other = NAMES[usize::try_from(dice.below(5)).unwrap()];
            world.touched.extend([key, super::objects::key(other)]);
            world.put_plane(plane_with(name, &secret(other)));
        } else {
            world.put_plane(plane(name));
        }
    }
    if dice.chance(50) {
        world.put_text(&secret(name), POD);
    }
}

/// One thing that people do to a Cluster.
fn edit(dice: &mut Dice, world: &mut World, mut one: Cluster) {
    let (key, name) = (one.key.clone(), one.key.name.clone());
    let (part, plane_of) = (reference(INFRASTRUCTURE, &name), reference(PLANE, &name));
    match dice.below(13) {
        0 => {
            (one.paused, one.notes.paused_for_endpoint) = (dice.chance(60), dice.chance(50));
            world.put_cluster(one);
        }
        1 => {
            one.held = dice.chance(40);
            world.put_cluster(one);
        }
        2 if world.host(&key).is_some() && !one.paused => {
            one.initialised = true;
            one.host = world.host(&key).map(|ip| ip.to_string().into());
            world.put_cluster(one);
        }
        3 => {
            one.deleting = true;
            world.put_cluster(one);
        }
        4 if one.deleting => world.remove_cluster(&key),
        5 if world.infrastructures.contains_key(&part) => {
            let mut part = world.infrastructures[&part].clone();
            part.host = dice.chance(30).then(|| format!("10.0.0.{}", dice.below(5) + 1).into());
            world.touched.insert(key);
            world.put_infrastructure(part);
        }
        6 if world.planes.contains_key(&plane_of) => {
            world.touched.insert(key);
            let mut new = plane(&name);
            if let Place::Files(files) = &mut new.place
                && dice.chance(30)
            {
                files[3].content = Some(POD.replace(EMPTY, "value: 10.0.2.9").into());
            }
            world.put_plane(new);
        }
        7 => {
            if world.texts.contains_key(&secret(&name)) {
                world.touched.insert(key);
                world.touched.extend(world.machine.users_of(&secret(&name)));
            }
            world.put_text(&secret(&name), POD);
        }
        10 if world.planes.contains_key(&plane_of) => {
            world.touched.insert(key);
            world.replace_plane(plane(&name));
        }
        11 if world.infrastructures.contains_key(&part) => {
            world.touched.insert(key);
            world.replace_infrastructure(infrastructure(&name));
        }
        8 | 9 => {
            let claims: Vec<Stored> =
                world.claims.values().filter(|claim| claim.key.name.starts_with(&*name)).cloned().collect();
            if let Some(claim) = dice.one(&claims) {
                let label = dice.one(&[None, Some("a".into()), Some("f".into())]).unwrap();
                world.put_claim(match dice.chance(50) {
                    true => Stored { deleting: true, ..claim },
                    false if claim.in_use => Stored { label, ..claim },
                    false => claim,
                });
            }
        }
        _ => {
            // The metadata changes, as it does all the time.
            world.put_cluster(one);
        }
    }
}

/// The names of Clusters.
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A Cluster comes from another management cluster, with its claim; the claim's `IPAddress` and the end of the pause follow.
fn arrive(world: &mut World, name: &str) {
    let uid = world.uid();
    let ip = std::net::IpAddr::from([10, 0, 2, u8::try_from(world.writes % 200).unwrap()]);
    let host: Option<Box<str>> = Some(ip.to_string().into());
    let one = Cluster { paused: true, initialised: true, host: host.clone(), ..cluster(name, uid.clone()) };
    world.touched.insert(one.key.clone());
    world.put_cluster(one);
    world.put_infrastructure(crate::objects::Infrastructure { host, ..infrastructure(name) });
    world.put_plane(plane(name));
    world.chart_claim(name);
    let claim = world.claims[&key(name)].clone();
    let owner = Some(ClusterOwner { name: name.into(), uid });
    world.put_claim(Stored { label: Some(name.into()), in_use: true, owner, ..claim });
    world.arriving.insert(key(name), ip);
}

/// The rest of one that has come.
fn arrived(world: &mut World, at: &Key) {
    let Some(ip) = world.arriving.remove(at) else { return };
    let claim = &world.claims[at];
    assert_eq!(claim.address, None, "it has another address than the one that comes: {claim:?}");
    world.moved.insert(at.clone(), ip);
    let one = world.clusters[at].clone();
    world.put_cluster(Cluster { paused: false, ..one });
}

fn operation(dice: &mut Dice, world: &mut World) {
    let keys: Vec<Key> = world.clusters.keys().filter(|key| !world.arriving.contains_key(key)).cloned().collect();
    match dice.below(23) {
        0..=4 => {
            let name = NAMES[usize::try_from(dice.below(5)).unwrap()];
            let (is_new, free) = (!world.clusters.contains_key(&key(name)), !world.claims.contains_key(&key(name)));
            if is_new && free && !world.foreign.contains(&key(name)) && dice.chance(15) {
                arrive(world, name);
            } else if is_new {
                create(dice, world, name);
            }
        }
        20 => {
            if let Some(at) = dice.one(&world.arriving.keys().cloned().collect::<Vec<_>>()) {
                arrived(world, &at);
            }
        }
        21 => {
            // Another provider's claim comes and goes, and nobody tells of it.
            let key = key(NAMES[usize::try_from(dice.below(5)).unwrap()]);
            if !world.foreign.remove(&key) && !world.claims.contains_key(&key) {
                world.foreign.insert(key);
            }
        }
        22 => {
            let error = dice.one(&[Failure::Unknown, Failure::Refused("no right".to_owned())]).unwrap();
            world.fail_read(error);
        }
        5 => world.start(),
        6 if !world.ghosts.is_empty() => {
            let write = world.ghosts.remove(0);
            let result = world.apply(&write);
            world.trace(&format!("ghost {write:?}: {result:?}"));
        }
        7 | 8 => {
            world.now += Duration::from_secs(dice.below(20));
            world.tick();
        }
        _ => {
            if let Some(key) = dice.one(&keys) {
                let one = world.clusters[&key].clone();
                edit(dice, world, one);
            }
        }
    }
}

/// Whether the machines of another Cluster get a `Secret` of this one.
fn shares(world: &World, one: &Cluster) -> bool {
    let plane = one.control_plane.as_ref().and_then(|reference| world.planes.get(reference));
    plane.is_some_and(|one| one.secrets().any(|(_, secret)| world.machine.users_of(&secret).len() > 1))
}

/// Of the addresses that its list has, each is a claim's of the Cluster: nobody else can get it.
fn law_of_lists(world: &World, one: &Cluster) {
    let texts = &world.texts[&config_map(&one.key.name)].text;
    let listed = service_addresses::listed(texts.as_deref().unwrap_or_default()).unwrap();
    let had: Vec<_> = world.claims.values().filter(|claim| claim.is_owned_by(&one.uid)).collect();
    for ip in listed {
        assert!(had.iter().any(|claim| claim.address == Some(ip)), "{}: {texts:?} {had:?}", one.key);
    }
}

/// What is true when nothing goes on any more, and nobody holds anything back.
fn at_rest(world: &World) {
    for claim in world.claims.values() {
        let owner = world.clusters.values().find(|one| claim.is_owned_by(&one.uid));
        // Somebody has set the host of a new Cluster to what the old one of its name had: it stays.
        let stays = claim.deleting && world.touched.contains(&claim.key);
        assert!(owner.is_some() || stays, "leaked: {claim:?}");
    }
    for (key, one) in &world.clusters {
        let standing = world.machine.standing(key).unwrap_or_else(|| panic!("nothing is said of {one:?}"));
        let claim = world.claims.get(key);
        let shown = claim.and_then(|claim| claim.condition.clone());
        let said = (Box::from(standing.reason.name()), Box::from(&*standing.message));
        if claim.is_some_and(|claim| claim.is_owned_by(&one.uid)) {
            assert_eq!(shown, Some(said), "{key}: {claim:?}");
        }
        assert!(!standing.reason.passes(), "{key} hangs: {standing:?}\n{one:?}\n{claim:?}");
        if standing.ready() {
            let ip = claim.and_then(|claim| claim.address).unwrap();
            assert!(carries(world, one, ip), "{key}: {standing:?}");
            assert!(one.variables.is_some() || world.host(key) == Some(ip), "{key}: {standing:?}");
            assert!(!one.paused, "{key}: {one:?}");
            if one.notes.service_target.is_some() {
                law_of_lists(world, one);
            }
        } else if standing.reason.name() == "Drifted" && !claim.is_some_and(|claim| claim.given) {
            assert!(!is_empty_somewhere(world, one), "machines are made without an address: {standing:?}\n{one:?}");
        } else if !world.touched.contains(key) && !shares(world, one) {
            let exhausted = standing.reason.name() == "PoolExhausted";
            assert!(exhausted, "{key} is not done: {standing:?}\n{one:?}");
        }
    }
}

fn life(seed: u64) {
    let mut dice = Dice(seed);
    let mut world = World::new(u8::try_from(2 + dice.below(5)).unwrap());
    for _ in 0..60 {
        operation(&mut dice, &mut world);
        for _ in 0..dice.below(25) {
            let at = usize::try_from(dice.below(10_000)).unwrap();
            world.go_on(at);
        }
    }
    // In the end nobody holds anything back, what is on its way comes, and what is being deleted goes.
    world.foreign.clear();
    for at in world.arriving.keys().cloned().collect::<Vec<_>>() {
        arrived(&mut world, &at);
    }
    for secret in NAMES.map(secret) {
        if !world.texts.contains_key(&secret) {
            world.put_text(&secret, POD);
        }
    }
    for name in NAMES {
        if !world.texts.contains_key(&config_map(name)) {
            world.put_text(&config_map(name), "10.9.0.0/24");
        }
    }
    for one in world.clusters.values().cloned().collect::<Vec<_>>() {
        let ours = one.paused && one.notes.paused_for_endpoint;
        world.put_cluster(Cluster { held: false, paused: ours, ..one });
    }
    world.settle(LONG * 10);
    for one in world.clusters.values().filter(|one| one.deleting).cloned().collect::<Vec<_>>() {
        assert!(!one.paused, "it is never deleted: {one:?}");
        world.remove_cluster(&one.key);
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

pub(super) fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// `SIM_FIRST` and `SIM_SEEDS` choose the seeds; `ENDPOINTS_TRACE` prints what happens.
#[test]
fn some_lives() {
    let first = number("SIM_FIRST", 0);
    lives(first..first + number("SIM_SEEDS", 100));
}
