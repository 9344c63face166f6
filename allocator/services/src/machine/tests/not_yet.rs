//! What is not there yet, and may never come: Services wait for it, others do not wait for them, and nobody waits for ever.

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::Key;
use mooring_allocator_core::pool::PoolSpec;

use super::world::{World, ip};
use crate::machine::testing::{StoredClaim, pool, service};
use crate::objects::Service;

/// A pool that people made, of which Services of all namespaces get addresses.
fn with_pool(mut world: World) -> World {
    let spec = PoolSpec { addresses: vec!["10.0.0.1-10.0.0.9".to_owned()], prefix: 16, ..PoolSpec::default() };
    world.pool(pool("all", &["10.0.0.1"]), spec);
    world
}

fn running() -> World {
    let mut world = with_pool(World::without_config());
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
        members: vec![(service.key.clone(), "uid-of-before".into())],
        classes: Vec::new(),
        bound: None,
        refused: None,
        deleting: false,
        paused: true,
    };
    world.claims.insert(key, claim.clone());
    world.push(crate::machine::Event::Claim(Box::new(claim.shown())));
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
    world.claims.insert(claim, refused.clone());
    world.push(crate::machine::Event::Claim(Box::new(refused.shown())));
    world.run();
    let web = world.apply(service("shop", "web"));
    world.later(60);
    world.refused(&web, "Allocating", "a Service of another namespace has claimed 10.0.0.1");
    world.allocates = true;
    world.run();
    assert_eq!([&bank, &web].map(|key| world.shows(key)), ["10.0.0.1", "10.0.0.2"]);
}
