//! What is not there yet, and may never come: Services wait for it, others do not wait for them, and nobody waits for ever.

use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::Key;
use mooring_allocator_core::pool::{Policy, PoolSpec};

use super::random::Dice;
use super::world::{World, ip};
use crate::machine::Event;
use crate::machine::testing::{StoredClaim, pool, ports, service};
use crate::objects::{Address, Pool, Service};
use crate::ports::Protocol::Tcp;

fn running() -> World {
    let mut world = World::without_config().with_pool("10.0.0.1-10.0.0.9");
    world.start();
    world.run();
    world
}

/// A Service as it is restored, or as somebody writes it, with the record of an address by a claim of its own.
fn with_record(namespace: &str, name: &str, had: &str) -> Service {
    let mut one = service(namespace, name);
    one.notes.record = Some(format!("{namespace}/{name}-0123456789-ipv4={had}").into());
    one
}

/// Somebody has written the claim that `with_record` names, paused.
fn paused_claim(world: &mut World, service: &Service) {
    let key = Key::new(&service.key.namespace, &format!("{}-0123456789-ipv4", service.key.name));
    let claim = StoredClaim {
        key: key.clone(),
        uid: "uid-paused".into(),
        version: world.fresh(),
        family: Family::V4,
        pool: world.pools.keys().next().unwrap().clone(),
        requested: None,
        had: None,
        members: vec![(service.key.clone(), "uid-of-before".into())],
        classes: Vec::new(),
        bound: None,
        refused: None,
        deleting: false,
        paused: true,
    };
    world.put_claim(claim);
}

/// An address that a Service is to have again holds up nobody of another namespace whose claim can be served.
fn holds_up_nobody(prepare: fn(&mut World, &Service)) {
    // The address is the one that would be given next, or another one.
    for had in ["10.0.0.1", "10.0.0.5"] {
        let mut world = running();
        let evil = with_record("evil", "web", had);
        prepare(&mut world, &evil);
        let evil = world.apply(evil);
        world.run();
        assert_eq!(world.shows(&evil), "");
        let web = world.apply(service("shop", "web"));
        world.run();
        assert!(!["", had].contains(&&*world.shows(&web)), "{:?}: {:?}", world.services[&web], world.standing(&web));
        world.start();
        let next = world.apply(service("shop", "next"));
        world.later(40);
        assert!(!["", had].contains(&&*world.shows(&next)));
    }
}

#[test]
fn nobody_waits_for_one_whose_claim_is_refused() {
    holds_up_nobody(|world, evil| {
        let had = evil.notes.record.as_deref().and_then(|record| record.split_once('='));
        world.pre_allocated.insert(ip(had.unwrap().1));
    });
}

#[test]
fn nobody_waits_for_one_whose_claim_is_paused() {
    holds_up_nobody(paused_claim);
}

#[test]
fn nobody_waits_for_one_whose_claim_cannot_be_made() {
    holds_up_nobody(|world, _| world.without_quota = Some("evil"));
}

#[test]
fn who_waits_for_another_does_not_wait_for_ever() {
    let mut world = running();
    world.allocates = false;
    let mut bank = world.apply(with_record("bank", "web", "10.0.0.5"));
    world.run();
    let web = world.apply(service("shop", "web"));
    world.later(10);
    // One after another does not begin the wait anew.
    for again in 6..10 {
        world.later(60);
        let next = world.apply(with_record("bank", &format!("web-{again}"), &format!("10.0.0.{again}")));
        world.run();
        world.delete(&std::mem::replace(&mut bank, next));
        world.run();
        assert!(world.claims_of(&web).is_empty());
    }
    world.later(60);
    let claim = world.claims_of(&web)[0].key.clone();
    assert!(world.allocate(&claim));
    world.run();
    assert_eq!(world.shows(&web), "10.0.0.1");
}

#[test]
fn one_that_waits_for_the_pool_of_its_claim_is_waited_for() {
    // As long as the pool gives nothing to anybody, nobody loses anything by that.
    let mut world = running();
    world.allocates = false;
    let bank = world.apply(with_record("bank", "web", "10.0.0.1"));
    world.run();
    let claim = world.claims_of(&bank)[0].key.clone();
    let mut refused = world.claims[&claim].clone();
    refused.refused = Some((mooring_allocator_core::protocol::Reason::PoolNotReady, "all is paused".to_owned()));
    world.put_claim(refused);
    world.run();
    let web = world.apply(service("shop", "web"));
    world.later(60);
    world.refused(&web, "Allocating", "a Service of another namespace has claimed 10.0.0.1");
    world.allocates = true;
    world.run();
    assert_eq!([&bank, &web].map(|key| world.shows(key)), ["10.0.0.1", "10.0.0.2"]);
}

/// All Services, as a backup has them.
fn backup(world: &World) -> Vec<Service> {
    world.services.keys().map(|key| world.exported(key)).collect()
}

fn has_all(world: &World, had: &[(Key, String)], order: &str) {
    for (key, ip) in had {
        assert_eq!(world.shows(key), *ip, "{order}: {key}: {:?}", world.standing(key));
    }
}

/// What people write into the `ConfigMap`, for Services of all namespaces or of one.
const SHARED: [&[(&str, &str)]; 2] = [
    &[("cidr-global", "10.0.0.0/24"), ("allow-share-global", "true")],
    &[("cidr-global", "10.0.0.0/24"), ("cidr-shop", "10.1.0.0/24"), ("allow-share-shop", "true")],
];

/// What a backup has.
struct Backup {
    services: Vec<Service>,
    pools: Vec<(Pool, PoolSpec)>,
    /// Without status; and their addresses.
    claims: Vec<(StoredClaim, Address)>,
    /// What the Services have.
    had: Vec<(Key, String)>,
}

/// Services that share by the `ConfigMap`, and the pools made from it.
fn shared(data: &[(&str, &str)]) -> Backup {
    let mut world = World::new(data);
    let at = |namespace: &str, name: &str, port| Service { ports: ports(&[(port, Tcp)]), ..service(namespace, name) };
    let gone = world.apply(at("shop", "gone", 81));
    world.run();
    for (namespace, name, port) in
        [("shop", "one", 81), ("bank", "two", 82), ("shop", "three", 83), ("mooring", "four", 84)]
    {
        world.apply(at(namespace, name, port));
        world.run();
    }
    world.delete(&gone);
    world.run();
    let had = world.services.keys().map(|key| (key.clone(), world.shows(key))).collect();
    let claims = world.claims.values().map(|claim| {
        let address = world.addresses[&claim.key].clone();
        let blank = StoredClaim { had: address.address, ..claim.restored() };
        (blank, Address { uid: format!("{}-again", address.uid).as_str().into(), holder: None, ..address })
    });
    let claims = claims.collect();
    Backup {
        services: world.services.keys().map(|key| world.exported_with_status(key)).collect(),
        pools: world.pools.values().cloned().collect(),
        claims,
        had,
    }
}

/// What comes back.
enum Piece {
    Service(Box<Service>),
    Claim(Box<(StoredClaim, Address)>),
    Pool(Box<(Pool, PoolSpec)>),
    Config,
}

fn restore_claim(world: &mut World, (claim, address): (StoredClaim, Address)) {
    // What is there already is left as it is.
    if world.claims.contains_key(&claim.key) || world.addresses.contains_key(&address.key) {
        return;
    }
    world.addresses.insert(address.key.clone(), address.clone());
    world.push(Event::Address(Arc::new(address)));
    world.put_claim(claim);
}

#[test]
fn who_shared_by_the_configmap_shares_again_in_any_order() {
    for data in SHARED {
        let Backup { services, pools, claims, had } = shared(data);
        for seed in 0..400 {
            let mut dice = Dice(seed);
            let mut world = World::without_config();
            world.start();
            // A backup tool may be told to bring back status, too.
            let status = seed % 4 < 2;
            let as_restored = |mut one: Service| {
                if !status {
                    (one.ingress, one.condition) = (Vec::new(), None);
                }
                Piece::Service(Box::new(one))
            };
            let mut left: Vec<Piece> = services.iter().cloned().map(as_restored).collect();
            left.push(Piece::Config);
            left.extend(pools.iter().cloned().map(|one| Piece::Pool(Box::new(one))));
            if seed % 2 == 0 {
                left.extend(claims.iter().cloned().map(|one| Piece::Claim(Box::new(one))));
            }
            while !left.is_empty() {
                match left.swap_remove(usize::try_from(dice.below(left.len() as u64)).unwrap()) {
                    Piece::Service(one) => drop(world.apply(*one)),
                    Piece::Claim(one) => restore_claim(&mut world, *one),
                    Piece::Pool(one) => world.pool(one.0, one.1),
                    Piece::Config => world.configure(data),
                }
                match dice.below(4) {
                    0 => world.start(),
                    1 => (0..8).for_each(|_| world.later(5)),
                    _ => world.run(),
                }
            }
            (0..8).for_each(|_| world.later(5));
            has_all(&world, &had, &format!("{data:?}, seed {seed}"));
        }
    }
}

/// Whichever of those that shared comes first has the claim, and the others wait for the `ConfigMap`.
#[test]
fn a_claim_that_is_restored_does_not_give_its_address_up_for_those_that_shared_it() {
    for reversed in [false, true] {
        for pool_last in [false, true] {
            restored_with_its_claim(reversed, pool_last);
        }
    }
}

/// `pool_last`: the pool comes after the Services, and the claim gets its address while one of them waits.
fn restored_with_its_claim(reversed: bool, pool_last: bool) {
    let data = [("cidr-shop", "10.1.0.0/24"), ("allow-share-shop", "true")];
    let mut world = World::new(&data);
    let both = [("one", 81), ("two", 82)].map(|(name, port)| {
        let key = world.apply(Service { ports: ports(&[(port, Tcp)]), ..service("shop", name) });
        world.run();
        key
    });
    let (mut services, (pool, spec)) = (backup(&world), world.pools.values().next().cloned().unwrap());
    if reversed {
        services.reverse();
    }
    let claim = world.claims.values().next().cloned().unwrap();
    // Where Services get addresses that have no pool of their own.
    let mut world = World::without_config().with_pool("10.0.0.1-10.0.0.9");
    world.start();
    world.run();
    world.put_claim(StoredClaim { had: Some(ip("10.1.0.1")), ..claim.restored() });
    if !pool_last {
        world.pool(pool.clone(), spec.clone());
    }
    for one in services {
        world.apply(one);
        if pool_last {
            world.run();
        } else {
            world.later(2);
            // It reads from the claims who has what.
            world.start();
            world.later(2);
        }
    }
    if pool_last {
        world.pool(pool, spec);
        world.run();
    } else {
        world.later(40);
    }
    world.configure(&data);
    world.later(5);
    assert_eq!(both.each_ref().map(|key| world.shows(key)), ["10.1.0.1", "10.1.0.1"], "{reversed} {pool_last}");
    assert_eq!(world.claims.len(), 1);
}

/// The `ConfigMap` does not come back. The address is free again after a while.
#[test]
fn who_shared_by_a_configmap_that_is_gone_has_an_address_in_the_end() {
    let Backup { services, had, .. } = shared(SHARED[0]);
    let mut world = World::without_config().with_pool("10.0.0.1-10.0.0.9");
    world.start();
    for mut one in services {
        (one.ingress, one.condition) = (Vec::new(), None);
        world.apply(one);
    }
    world.later(60);
    let one = Key::new("shop", "one");
    world.refused(&one, "Allocating", "it waits for the ConfigMap kubevip");
    world.refused(&one, "Allocating", "mooring.dev/reallocate");
    // Nobody else gets it meanwhile, and nobody waits.
    let new = world.apply(service("new", "web"));
    world.run();
    assert!(!["", &*had[0].1].contains(&&*world.shows(&new)), "{:?}", world.standing(&new));
    world.edit(&one, |one| one.notes.reallocate = true);
    world.run();
    assert!(!world.shows(&one).is_empty());
    world.later(300);
    let mut all: Vec<String> = had.iter().map(|(key, _)| world.shows(key)).chain([world.shows(&new)]).collect();
    all.sort();
    all.dedup();
    assert!(all.len() == had.len() + 1 && all.iter().all(|one| !one.is_empty()), "{all:?}");
}

/// Who gives the key, and a guest: by kube-vip's name of a Lease, with the address that both ask for, or by a sharing key.
fn host_and_guest(by_lease: bool) -> [Service; 2] {
    [("infra", "dns", 53), ("shop", "web", 443)].map(|(namespace, name, port)| {
        let mut one = Service { ports: ports(&[(port, Tcp)]), ..service(namespace, name) };
        if namespace == "infra" {
            one.notes.sharing_namespaces = Some("shop".into());
        }
        if by_lease {
            one.notes.lease_name = Some("infra/dns".into());
            one.notes.addresses = Some("10.0.0.5".into());
        } else {
            one.notes.sharing_key = Some("infra/dns".into());
        }
        one
    })
}

/// What they are in a backup, and what they had.
fn invited(by_lease: bool) -> ([Service; 2], Vec<(Key, String)>) {
    let mut world = running();
    let gone = world.apply(service("shop", "gone"));
    world.run();
    for one in host_and_guest(by_lease) {
        world.apply(one);
        world.run();
    }
    world.delete(&gone);
    world.run();
    let had: Vec<_> = world.services.keys().map(|key| (key.clone(), world.shows(key))).collect();
    let ip = if by_lease { "10.0.0.5" } else { "10.0.0.2" };
    assert!(had.iter().all(|(_, has)| has == ip), "{had:?}");
    (backup(&world).try_into().unwrap(), had)
}

#[test]
fn a_guest_that_comes_before_its_host_shares_with_it_again() {
    for by_lease in [true, false] {
        let ([host, guest], had) = invited(by_lease);
        for restarts in [false, true] {
            let mut world = running();
            let guest = world.apply(guest.clone());
            world.later(60);
            let (reason, _) = world.condition(&guest);
            assert_eq!(reason, if by_lease { "Allocating" } else { "SharingNotAllowed" });
            // A new Service neither waits, nor gets the address.
            let new = world.apply(service("new", "web"));
            world.run();
            assert_eq!(world.shows(&new), "10.0.0.1");
            if restarts {
                world.start();
            }
            world.apply(host.clone());
            world.later(40);
            has_all(&world, &had, &format!("{by_lease} {restarts}"));
        }
    }
}

#[test]
fn a_guest_whose_host_does_not_come_or_says_no_has_an_address_of_its_own() {
    let ([mut host, guest], had) = invited(true);
    let mut world = running();
    let web = world.apply(guest.clone());
    world.later(60);
    world.refused(&web, "Allocating", "it waits for a Service of namespace infra with the same kube-vip.io/leaseName");
    world.later(300);
    assert_eq!(world.shows(&web), had[1].1);
    // The host is there, and does not invite it.
    host.notes.sharing_namespaces = None;
    let mut world = running();
    let web = world.apply(guest);
    world.later(60);
    let host = world.apply(host);
    world.run();
    let mut all = [&web, &host].map(|key| world.shows(key));
    all.sort();
    assert_eq!(all, ["", "10.0.0.5"]);
}

#[test]
fn a_forged_record_of_a_shared_address_keeps_nothing_from_others() {
    let mut world = running();
    let spec = PoolSpec { addresses: vec!["10.1.0.1-10.1.0.9".to_owned()], prefix: 16, ..PoolSpec::default() };
    let policy = Policy { allowed_namespaces: Some(["shop".to_owned()].into()), ..Policy::default() };
    world.pool(pool("shop", &["10.1.0.1"]), PoolSpec { policy, ..spec });
    let mut evil = with_record("evil", "web", "10.1.0.1");
    evil.notes.record = Some("mooring/evil-web-0123456789-ipv4=10.1.0.1".into());
    evil.notes.lease_name = Some("nobody/knows".into());
    world.apply(evil);
    world.run();
    let mut asks = service("shop", "asks");
    asks.notes.addresses = Some("10.1.0.1".into());
    let all = [asks, service("shop", "web"), service("new", "web")].map(|one| world.apply(one));
    world.run();
    assert_eq!(all.map(|key| world.shows(&key)), ["10.1.0.1", "10.1.0.2", "10.0.0.1"]);
}

/// Somebody who may write Services makes up records of shared addresses, as many as a pool has.
#[test]
fn forged_records_of_shared_addresses_do_not_empty_a_pool() {
    let mut world = running();
    for at in 1..=9 {
        let mut evil = service("evil", &format!("x{at}"));
        evil.notes.record = Some(format!("shop/y{at}-0123456789-ipv4=10.0.0.{at}").into());
        // Half of them by a sharing key that nobody has.
        evil.notes.sharing_key = (at % 2 == 0).then(|| format!("shop/k{at}").into());
        world.apply(evil);
    }
    world.run();
    let web = world.apply(service("shop", "web"));
    world.later(10);
    assert!(!world.shows(&web).is_empty(), "{:?}", world.standing(&web));
    assert!(world.addresses.len() <= 4, "{:?}", world.addresses);
}

/// An address may be there already, and the claim that gets it is of the pool of before.
#[test]
fn pools_of_a_configmap_that_is_not_there_yet_stay_for_a_while() {
    let data = [("cidr-global", "10.0.0.0/24")];
    let Backup { pools, .. } = shared(&data);
    for comes in [true, false] {
        let mut world = World::without_config();
        world.start();
        for (pool, spec) in &pools {
            world.pool(pool.clone(), spec.clone());
        }
        world.later(200);
        assert_eq!(world.pools.len(), 1);
        if comes {
            world.configure(&data);
            world.later(200);
            assert_eq!(world.pools.len(), 1);
            world.unconfigure();
            world.later(1);
        } else {
            world.later(200);
        }
        assert!(world.pools.is_empty(), "{comes}");
    }
}
