//! A restore of Services that share an address, object by object in every order: the Services, then their status if the backup tool
//! brings it back, their claim, its `IPAddress`, and the pool. All have the address again, and nothing is left over.

use std::sync::Arc;

use mooring_allocator_core::names::Key;

use super::random::Dice;
use super::world::World;
use crate::machine::Event;
use crate::machine::testing::{StoredClaim, ports, service};
use crate::objects::{Address, Service};
use crate::ports::Protocol::Tcp;

/// What comes back.
#[derive(Clone, Debug)]
enum Piece {
    Service(Box<Service>),
    /// After its Service.
    Status(Box<Service>),
    Claim(Box<StoredClaim>),
    Address(Box<Address>),
    Pool,
}

/// What the pool has.
const POOL: &str = "10.0.0.1-10.0.0.9";

/// Services that share one address, which is not the lowest.
fn sharers(across: bool) -> World {
    let mut world = World::without_config().with_pool(POOL);
    world.start();
    world.run();
    let gone = world.apply(service("aaa", "gone"));
    world.run();
    let other = if across { "shop" } else { "infra" };
    for (namespace, name, port) in [("infra", "dns", 53), (other, "web", 443)] {
        let mut one = Service { ports: ports(&[(port, Tcp)]), ..service(namespace, name) };
        one.notes.sharing_key = Some(if across { "infra/k" } else { "k" }.into());
        one.notes.sharing_namespaces = (across && name == "dns").then(|| "shop".into());
        world.apply(one);
        world.run();
    }
    world.delete(&gone);
    world.run();
    world
}

fn pieces(world: &World, status: bool) -> Vec<Piece> {
    let mut all = vec![Piece::Pool];
    for key in world.services.keys() {
        all.push(Piece::Service(Box::new(world.exported(key))));
        if status {
            all.push(Piece::Status(Box::new(world.exported_with_status(key))));
        }
    }
    for claim in world.claims.values() {
        let address = world.addresses[&claim.key].clone();
        let blank = StoredClaim { had: address.address, ..claim.restored() };
        all.push(Piece::Claim(Box::new(blank)));
        all.push(Piece::Address(Box::new(Address { uid: "address-again".into(), holder: None, ..address })));
    }
    all
}

fn restore(world: &mut World, piece: Piece) {
    match piece {
        Piece::Pool => world.add_pool(POOL),
        Piece::Service(one) => drop(world.apply(*one)),
        Piece::Status(one) => {
            // Velero writes the status of before over that of now.
            world.edit(&one.key, |now| (now.ingress, now.condition) = (one.ingress.clone(), one.condition.clone()));
        }
        // What is there already is left as it is.
        Piece::Claim(claim) if !world.claims.contains_key(&claim.key) => world.put_claim(*claim),
        Piece::Address(address) if !world.addresses.contains_key(&address.key) => {
            world.addresses.insert(address.key.clone(), (*address).clone());
            world.push(Event::Address(Arc::from(address)));
        }
        Piece::Claim(_) | Piece::Address(_) => {}
    }
}

/// In each order: a status comes after its Service, and whatever is due happens between two objects, or nothing does.
fn in_every_order(across: bool, status: bool) {
    let had = sharers(across);
    let names: Vec<Key> = had.services.keys().cloned().collect();
    for seed in 0..600 {
        let mut dice = Dice(seed);
        let mut left = pieces(&had, status);
        let mut world = World::without_config();
        world.start();
        let mut order = Vec::new();
        while !left.is_empty() {
            let at = usize::try_from(dice.below(left.len() as u64)).unwrap();
            let early = matches!(&left[at], Piece::Status(one) if !world.services.contains_key(&one.key));
            if early {
                continue;
            }
            let piece = left.swap_remove(at);
            order.push(format!("{piece:?}").chars().take(60).collect::<String>());
            restore(&mut world, piece);
            match dice.below(4) {
                0 => {}
                1 => (0..8).for_each(|_| world.later(1)),
                _ => world.run(),
            }
        }
        (0..20).for_each(|_| world.later(2));
        let what = format!("across {across}, status {status}, seed {seed}: {order:#?}");
        for key in &names {
            assert_eq!(world.shows(key), "10.0.0.2", "{what}: {:?}", world.standing(key));
        }
        // Across namespaces nobody may make a claim of another's name; what is left over then goes after a while.
        let left = world.addresses.keys().filter(|key| !world.claims.contains_key(key)).count();
        assert!(world.claims.len() == 1 && (across || left == 0), "{what}: {:?}", world.addresses);
    }
}

#[test]
fn in_one_namespace() {
    in_every_order(false, false);
}

#[test]
fn in_one_namespace_with_status() {
    in_every_order(false, true);
}

#[test]
fn across_namespaces() {
    in_every_order(true, false);
}

#[test]
fn across_namespaces_with_status() {
    in_every_order(true, true);
}
