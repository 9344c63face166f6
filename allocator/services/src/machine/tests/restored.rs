//! Services that are restored from a backup, or applied again from exported YAML: they have a new uid, the annotations of
//! before, and no status.

use mooring_allocator_core::names::Key;

use super::world::World;
use crate::machine::Event;
use crate::machine::testing::{StoredClaim, ports, service};
use crate::objects::Service;
use crate::ports::Protocol::Tcp;

/// A world in which `api` has 10.0.0.3, `web` has 10.0.0.2, and 10.0.0.1 is free.
fn world() -> (World, Key, Key) {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let [first, web, api] = ["first", "web", "api"].map(|name| {
        let key = world.apply(service("shop", name));
        world.run();
        key
    });
    world.delete(&first);
    world.run();
    assert_eq!((&*world.shows(&web), &*world.shows(&api)), ("10.0.0.2", "10.0.0.3"));
    (world, web, api)
}

fn has_all_again(world: &World, web: &Key, api: &Key) {
    for (key, ip) in [(web, "10.0.0.2"), (api, "10.0.0.3")] {
        assert_eq!((&*world.shows(key), world.says(key)), (ip, Some(ip)), "{:?}", world.condition(key));
        assert_eq!((&*world.condition(key).0, world.claims_of(key).len()), ("Advertised", 1));
        assert!(world.services[key].notes.requested.is_none(), "nobody asked for it");
        assert!(world.claims_of(key)[0].requested.is_none(), "if another host has it, it is exchanged");
    }
}

#[test]
fn they_have_the_addresses_of_before() {
    let (mut world, web, api) = world();
    let all = [&web, &api].map(|key| world.exported(key));
    for one in all {
        // `kubectl replace --force`: one after another, or at once.
        world.delete(&one.key);
        world.apply(one);
    }
    world.run();
    has_all_again(&world, &web, &api);
}

#[test]
fn they_have_the_addresses_of_before_in_another_cluster() {
    let (mut world, web, api) = world();
    let all = [&web, &api].map(|key| world.exported(key));
    for one in &all {
        world.delete(&one.key);
    }
    world.run();
    assert!(world.claims.is_empty());
    // New ones wait until they have theirs.
    let new = ["aaa", "new-1", "new-2"].map(|name| world.apply(service("shop", name)));
    for one in all {
        world.apply(one);
    }
    for claim in world.claims.keys().cloned().collect::<Vec<_>>() {
        world.claims.remove(&claim);
    }
    world.start();
    world.run();
    has_all_again(&world, &web, &api);
    assert_eq!(new.map(|key| world.shows(&key)), ["10.0.0.1", "10.0.0.4", "10.0.0.5"]);
}

#[test]
fn one_that_is_restored_with_its_claim_keeps_the_claim() {
    let (mut world, web, api) = world();
    let objects: Vec<_> = world.addresses.values().map(|one| (one.key.clone(), one.uid.clone())).collect();
    for key in [&web, &api] {
        let again = world.exported(key);
        world.services.insert(key.clone(), again);
    }
    world.start();
    world.run();
    has_all_again(&world, &web, &api);
    let now: Vec<_> = world.addresses.values().map(|one| (one.key.clone(), one.uid.clone())).collect();
    assert_eq!(now, objects, "the address was never given back");
}

#[test]
fn one_whose_claim_was_deleted_by_hand_has_the_same_address_again() {
    let (mut world, web, api) = world();
    let claim = world.claims_of(&web)[0].key.clone();
    let mut gone = world.claims[&claim].clone();
    gone.deleting = true;
    world.put_claim(gone);
    world.run();
    has_all_again(&world, &web, &api);
}

/// The backup may bring back the claim, which is then the Service's, and the `IPAddress`, which keeps its address for a claim of its
/// name.
#[test]
fn one_that_shared_the_claim_of_a_service_that_is_gone_has_a_claim_of_that_name_again() {
    let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
    let [first, second] = [("first", 80), ("second", 81)].map(|(name, port)| {
        let mut one = Service { ports: ports(&[(port, Tcp)]), ..service("shop", name) };
        one.notes.sharing_key = Some("k".into());
        let key = world.apply(one);
        world.run();
        key
    });
    world.delete(&first);
    world.run();
    let claim = world.claims_of(&second)[0].clone();
    assert!(claim.key.name.starts_with("first-"), "{claim:?}");
    let again = world.exported(&second);
    world.delete(&second);
    world.run();
    assert!(world.claims.is_empty() && world.addresses.is_empty());
    // Its claim comes first, or never.
    for restored in [false, true] {
        if restored {
            world.put_claim(claim.restored());
            world.run();
        }
        world.apply(Service { uid: format!("second-{restored}").as_str().into(), ..again.clone() });
        world.run();
        let now: Vec<Key> = world.claims.keys().cloned().collect();
        assert_eq!((&*world.shows(&second), now), ("10.0.0.1", vec![claim.key.clone()]), "{restored}");
        world.delete(&second);
        world.later(5);
        assert!(world.claims.is_empty() && world.addresses.is_empty(), "{restored}");
    }
}

/// A world in which `web` is restored while its claim, which a backup brought back before it, is being deleted and does not go.
fn restored_while_its_claim_goes() -> (World, Key, StoredClaim) {
    let (mut world, web, _) = world();
    let claim = world.claims_of(&web)[0].clone();
    let again = world.exported(&web);
    world.delete(&web);
    world.run();
    assert!(!world.claims.contains_key(&claim.key));
    let going = StoredClaim { deleting: true, ..claim.restored() };
    world.put_claim(going.clone());
    world.apply(again);
    world.allocates = false;
    (world, web, going)
}

/// Its `IPAddress` may still come, and stays where no claim bears its name.
#[test]
fn one_whose_claim_of_before_is_going_makes_a_claim_of_that_name_when_that_is_gone() {
    let (mut world, web, going) = restored_while_its_claim_goes();
    world.later(5);
    world.refused(&web, "Allocating", "is being deleted");
    let of_web = |world: &World| -> Vec<Key> {
        world.claims.keys().filter(|key| key.name.starts_with("web-")).cloned().collect()
    };
    assert_eq!(of_web(&world), std::slice::from_ref(&going.key));
    world.allocates = true;
    world.claims.remove(&going.key);
    world.push(Event::ClaimGone(going.key.clone(), going.uid));
    world.run();
    assert_eq!((&*world.shows(&web), of_web(&world)), ("10.0.0.2", vec![going.key]));
}

/// Somebody's finalizer may hold a claim for ever.
#[test]
fn one_whose_claim_of_before_does_not_go_makes_another_after_a_while() {
    let (mut world, web, _) = restored_while_its_claim_goes();
    world.later(310);
    let claim = world.claims_of(&web).into_iter().find(|claim| !claim.deleting).unwrap().key.clone();
    assert!(world.allocate(&claim));
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.2");
}

/// Their claim came first, without status: it neither has nor asks for an address, and gets the one that it had.
#[test]
fn those_that_shared_have_their_claim_of_before_before_it_is_bound() {
    for order in [[0, 1], [1, 0]] {
        let mut world = World::new(&[("cidr-global", "10.0.0.0/24")]);
        let both = [("first", 80), ("second", 81)].map(|(name, port)| {
            let mut one = Service { ports: ports(&[(port, Tcp)]), ..service("shop", name) };
            one.notes.sharing_key = Some("k".into());
            let key = world.apply(one);
            world.run();
            key
        });
        let claim = world.claims_of(&both[0])[0].clone();
        let again = both.each_ref().map(|key| world.exported(key));
        for key in &both {
            world.delete(key);
        }
        world.run();
        assert!(world.claims.is_empty());
        world.allocates = false;
        world.put_claim(claim.restored());
        for at in order {
            world.apply(again[at].clone());
            world.run();
        }
        assert_eq!(world.claims.keys().collect::<Vec<_>>(), [&claim.key], "{order:?}");
        world.allocates = true;
        assert!(world.allocate(&claim.key));
        world.run();
        assert_eq!(both.each_ref().map(|key| world.shows(key)), ["10.0.0.1", "10.0.0.1"], "{order:?}");
    }
}

/// The watch of claims is ahead of that of addresses.
#[test]
fn one_has_its_claim_of_before_although_its_address_is_not_shown_yet() {
    let (mut world, web, api) = world();
    let claim = world.claims_of(&web)[0].clone();
    let again = world.exported(&web);
    world.delete(&web);
    world.run();
    world.put_claim(StoredClaim { bound: Some(claim.key.name.clone()), ..claim.restored() });
    world.apply(again);
    world.run();
    let names: Vec<Key> = world.claims.keys().cloned().collect();
    assert_eq!(names, [world.claims_of(&api)[0].key.clone(), claim.key]);
}

#[test]
fn what_somebody_else_has_is_not_waited_for() {
    let (mut world, web, _) = world();
    // A copy has the record of another Service.
    let mut copy = Service { key: Key::new("shop", "copy"), ..world.exported(&web) };
    copy.uid = "uid-copy".into();
    let copy = world.apply(copy);
    world.run();
    assert_eq!((&*world.shows(&copy), &*world.shows(&web)), ("10.0.0.1", "10.0.0.2"));
    // One whose address a machine has got meanwhile.
    let again = world.exported(&copy);
    world.delete(&copy);
    world.run();
    world.taken("10.0.0.1");
    world.apply(again);
    world.run();
    assert_eq!(world.shows(&copy), "10.0.0.4");
    // One whose address is in no pool any more waits for a pool that has it, or until people say otherwise.
    let mut again = world.exported(&copy);
    again.notes.record = Some("shop/old=192.168.9.9".into());
    again.notes.addresses = Some("192.168.9.9".into());
    world.delete(&copy);
    world.apply(again);
    world.later(60);
    world.refused(&copy, "AddressNotInPool", "mooring.dev/reallocate");
    assert_eq!((&*world.shows(&copy), world.says(&copy)), ("", Some("192.168.9.9")));
    world.edit(&copy, |one| one.notes.reallocate = true);
    world.run();
    assert_eq!(world.shows(&copy), "10.0.0.4");
}

#[test]
fn one_whose_address_does_not_come_free_waits_for_a_while_only() {
    let (mut world, web, _) = world();
    let again = world.exported(&web);
    world.delete(&web);
    world.apply(again);
    // The claim of before has been deleted, and somebody's finalizer holds it.
    world.allocates = false;
    world.run();
    world.later(10);
    world.refused(&web, "Allocating", "10.0.0.2 is still being released");
    world.later(25);
    let claim = world.claims_of(&web).into_iter().find(|claim| !claim.deleting).unwrap().key.clone();
    assert!(world.allocate(&claim));
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.1");
}
