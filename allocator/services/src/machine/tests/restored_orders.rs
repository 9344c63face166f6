//! A restore under a running allocator: Services and pools come back one by one, in every order, and namespaces are not admitted
//! by their pools before they are shown. Nothing changes hands.

use std::collections::BTreeMap;

use mooring_allocator_core::names::Key;
use mooring_allocator_core::pool::{Policy, PoolSpec};

use super::random::Dice;
use super::world::World;
use crate::machine::testing::{StoredClaim, pool, service};
use crate::objects::{Pool, Service};

/// The pools: their names, addresses, the namespaces that they are for (none: all), and whether Services get addresses there that name
/// no pool.
const POOLS: [(&str, &str, &[&str], bool); 4] = [
    ("all", "10.0.0.1-10.0.0.9", &[], true),
    ("shop", "10.1.0.1-10.1.0.9", &["shop"], true),
    ("bank", "10.2.0.1-10.2.0.9", &["bank"], true),
    ("named", "10.3.0.1-10.3.0.9", &[], false),
];

fn with(world: &mut World, at: usize, admitted: bool) {
    let (name, addresses, namespaces, default) = POOLS[at];
    // As long as no namespace is known that the selector of a pool admits, it admits none.
    let allowed = namespaces.iter().filter(|_| admitted).map(|&one| one.to_owned()).collect();
    let allowed_namespaces = (!namespaces.is_empty()).then_some(allowed);
    let policy = Policy { allowed_namespaces, ..Policy::default() };
    let spec = PoolSpec { addresses: vec![addresses.to_owned()], prefix: 16, policy, ..PoolSpec::default() };
    world.pool(Pool { default, ..pool(name, &[addresses]) }, spec);
}

/// A cluster in which Services of three namespaces have addresses that are not the lowest of their pools.
fn backup(status: bool) -> (Vec<Service>, BTreeMap<Key, String>) {
    let mut world = World::without_config();
    for at in 0..POOLS.len() {
        with(&mut world, at, true);
    }
    world.start();
    let mut all = Vec::new();
    for (namespace, name) in [
        ("shop", "gone-1"),
        ("bank", "gone-2"),
        ("web", "gone-3"),
        ("shop", "a"),
        ("shop", "b"),
        ("bank", "c"),
        ("bank", "d"),
        ("web", "e"),
        ("web", "f"),
    ] {
        all.push(world.apply(service(namespace, name)));
        world.run();
    }
    for name in ["gone-4", "g"] {
        let mut one = service("web", name);
        one.notes.pool = Some("named".into());
        all.push(world.apply(one));
        world.run();
    }
    let (gone, stay): (Vec<Key>, Vec<Key>) = all.into_iter().partition(|key| key.name.starts_with("gone"));
    for key in gone {
        world.delete(&key);
    }
    world.run();
    let had = stay.iter().map(|key| (key.clone(), world.shows(key))).collect();
    let exported = stay.iter().map(|key| if status { world.exported_with_status(key) } else { world.exported(key) });
    (exported.collect(), had)
}

/// What comes back.
#[derive(Clone)]
enum Piece {
    Service(Box<Service>),
    Pool(usize),
    /// The namespaces for which the pool is are shown.
    Admitted(usize),
}

fn restore(pieces: Vec<Piece>, dice: &mut Dice) -> World {
    let mut world = World::without_config();
    let mut admitted = [false; POOLS.len()];
    let mut pools = [false; POOLS.len()];
    world.start();
    for piece in pieces {
        match piece {
            Piece::Service(one) => drop(world.apply(*one)),
            Piece::Pool(at) => {
                pools[at] = true;
                with(&mut world, at, admitted[at]);
            }
            Piece::Admitted(at) => {
                admitted[at] = true;
                if pools[at] {
                    with(&mut world, at, true);
                }
            }
        }
        match dice.below(6) {
            0 => {}
            1 => world.later(40),
            2 => {
                world.run();
                world.start();
            }
            _ => world.run(),
        }
    }
    world.later(40);
    world
}

fn has_all(world: &World, had: &BTreeMap<Key, String>, order: &str) {
    for (key, ip) in had {
        assert_eq!(
            (&world.shows(key), world.says(key)),
            (ip, Some(&**ip)),
            "{order}: {key}: {:?}",
            world.condition(key)
        );
    }
    // Each by its own pool: none was made for an address.
    assert_eq!(world.pools.len(), POOLS.len(), "{order}: {:?}", world.pools.keys());
}

#[test]
fn nothing_changes_hands_in_any_order() {
    in_any_order(false);
}

/// A backup tool may be told to bring back status, too.
#[test]
fn nothing_changes_hands_in_any_order_with_status() {
    in_any_order(true);
}

fn in_any_order(status: bool) {
    let (services, had) = backup(status);
    let all = || services.iter().cloned().map(|one| Piece::Service(Box::new(one)));
    let pools = || (0..POOLS.len()).flat_map(|at| [Piece::Pool(at), Piece::Admitted(at)]);
    let mut dice = Dice(29);
    has_all(&restore(all().chain(pools()).collect(), &mut dice), &had, "Services first");
    has_all(&restore(pools().chain(all()).collect(), &mut dice), &had, "pools first");
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let mut left: Vec<Piece> = all().chain(pools()).collect();
        let mut pieces = Vec::new();
        while !left.is_empty() {
            pieces.push(left.swap_remove(usize::try_from(dice.below(left.len() as u64)).unwrap()));
        }
        has_all(&restore(pieces, &mut dice), &had, &format!("seed {seed}"));
    }
}

#[test]
fn one_that_waits_for_its_pool_says_so_and_nobody_gets_its_address() {
    let (services, had) = backup(false);
    let mut world = World::without_config();
    world.start();
    let waiting = world.apply(services.iter().find(|one| &*one.key.name == "e").unwrap().clone());
    world.later(120);
    world.refused(&waiting, "AddressNotInPool", "and waits for it");
    assert_eq!(
        world.services[&waiting].notes.record,
        services.iter().find(|one| one.key == waiting).unwrap().notes.record
    );
    // New ones come before the pool does.
    let new: Vec<Key> = ["aa", "bb", "cc", "zz"].map(|name| world.apply(service("web", name))).into();
    world.later(40);
    with(&mut world, 0, true);
    world.run();
    assert_eq!(world.shows(&waiting), had[&waiting]);
    let mut all: Vec<String> = new.iter().map(|key| world.shows(key)).collect();
    all.sort();
    assert!(all.iter().all(|one| !one.is_empty() && *one != had[&waiting]), "{all:?}");
}

#[test]
fn people_may_have_it_get_another() {
    let (services, _) = backup(false);
    let mut world = World::without_config();
    world.start();
    let key = world.apply(services.iter().find(|one| &*one.key.name == "e").unwrap().clone());
    with(&mut world, 3, true);
    with(&mut world, 1, true);
    world.later(40);
    world.refused(&key, "AddressNotInPool", "mooring.dev/reallocate");
    world.edit(&key, |one| {
        one.notes.reallocate = true;
        one.notes.pool = Some("named".into());
    });
    world.run();
    assert_eq!(world.shows(&key), "10.3.0.1");
}

#[test]
fn a_service_and_its_claim_wait_for_the_pool_of_both() {
    let mut before = World::without_config();
    with(&mut before, 0, true);
    before.start();
    let first = before.apply(service("web", "first"));
    before.run();
    let web = before.apply(service("web", "web"));
    before.run();
    before.delete(&first);
    before.run();
    let had = before.shows(&web);
    let claim = StoredClaim { requested: Some(had.parse().unwrap()), ..before.claims_of(&web)[0].restored() };
    let one = before.exported(&web);
    for restarts in [false, true] {
        let mut world = World::without_config();
        world.claims.insert(claim.key.clone(), claim.clone());
        world.apply(one.clone());
        world.start();
        world.run();
        if restarts {
            world.start();
        }
        world.later(60);
        assert_eq!((&*world.shows(&web), world.claims.len()), ("", 1));
        with(&mut world, 0, true);
        world.later(60);
        assert_eq!(world.shows(&web), had);
    }
}
