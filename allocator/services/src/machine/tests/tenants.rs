//! What a tenant can write about its own objects, against what is others'.

use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::{Key, PoolKind, PoolRef};
use mooring_allocator_core::pool::{Network, PoolSpec};

use super::world::{World, ip};
use crate::machine::testing::{StoredClaim, address, pool, service};
use crate::notes::Notes;
use crate::objects::{Ingress, Member, Service};
use crate::{naming, record};

/// A Service of a controller that Mooring is not, which shows an address of Mooring's pool.
fn anothers(address: &str) -> Service {
    let class = Some("example.com/lb".into());
    Service { class, ingress: vec![Ingress { ip: ip(address), vip: true }], ..service("victim", "theirs") }
}

#[test]
fn a_forged_record_gives_nothing_that_another_service_shows() {
    // It asks for the address, or gets it by chance, from a pool that people made.
    for asks in [true, false] {
        let mut world = World::without_config().with_pool("10.0.0.1-10.0.0.2");
        world.apply(anothers("10.0.0.1"));
        world.start();
        world.run();
        // The name of its claim, and of the object, can be told beforehand.
        let mut web = service("evil", "web");
        let pool = PoolRef::new(PoolKind::GlobalInClusterIPPool, "", "all");
        let requested = asks.then(|| ip("10.0.0.1"));
        let object = naming::claim(&web.key, &web.uid, Family::V4, &pool, requested, None, 0);
        web.notes.record = Some(record::write(&[(object, ip("10.0.0.1"))]).into());
        web.notes.addresses = asks.then(|| "10.0.0.1".into());
        web.notes.requested = web.notes.addresses.clone();
        let web = world.apply(web);
        world.later(60);
        if asks {
            world.refused(&web, "AddressTaken", "a Service of another namespace has 10.0.0.1");
            assert_eq!(world.shows(&web), "");
        } else {
            assert_eq!(world.shows(&web), "10.0.0.2");
        }
        assert!(!world.services[&web].notes.record.as_deref().unwrap_or_default().contains("10.0.0.1"));
        assert!(!world.condition(&web).1.contains("victim"));
    }
}

/// The record of a claim that the Service will make, whatever the allocator writes.
fn forge(web: &mut Service) {
    if &*web.key.namespace == "evil" && web.ingress.is_empty() {
        let pool = PoolRef::new(PoolKind::GlobalInClusterIPPool, "", "all");
        let object = naming::claim(&web.key, &web.uid, Family::V4, &pool, None, None, 0);
        web.notes.record = Some(record::write(&[(object, ip("10.0.0.1"))]).into());
    }
}

#[test]
fn a_record_that_is_forged_again_and_again_keeps_nothing_that_another_service_shows() {
    let mut world = World::without_config().with_pool("10.0.0.1-10.0.0.2");
    world.start();
    world.run();
    // Its claim has the address by chance before the other Service is seen to show it.
    world.agents = false;
    let web = world.apply(service("evil", "web"));
    world.run();
    world.reverts = Some(forge);
    world.edit(&web, forge);
    world.apply(anothers("10.0.0.1"));
    world.run();
    world.agents = true;
    world.later(60);
    // Whether the status says so is up to those who forge the record.
    let object = &world.addresses[&world.claims_of(&web)[0].key];
    assert_eq!(object.address, Some(ip("10.0.0.2")));
}

#[test]
fn a_claim_that_names_the_service_of_another_namespace_does_not_share_its_address() {
    let mut world = World::without_config().with_pool("10.0.0.1-10.0.0.2");
    world.start();
    world.run();
    world.agents = false;
    let web = world.apply(service("evil", "web"));
    world.run();
    // Whoever may edit the claim adds a Service that another controller serves, and the next allocator sees both at once.
    let theirs = anothers("10.0.0.1");
    let mut claim = world.claims_of(&web)[0].clone();
    claim.members.push((theirs.key.clone(), theirs.uid.clone()));
    claim.version = world.fresh();
    world.claims.insert(claim.key.clone(), claim);
    world.apply(theirs);
    world.start();
    world.run();
    world.agents = true;
    world.later(60);
    assert_eq!(world.shows(&web), "10.0.0.2");
}

#[test]
fn what_a_service_shows_stays_its_own_whatever_another_shows_later() {
    let mut world = World::new(&[("range-global", "10.0.0.1-10.0.0.9")]);
    let web = world.apply(service("shop", "web"));
    world.run();
    world.apply(anothers("10.0.0.1"));
    world.later(60);
    world.start();
    world.later(60);
    assert_eq!(world.shows(&web), "10.0.0.1");
}

/// A claim of Services that somebody has made by hand, with an address.
fn forged(world: &mut World, namespace: &str, members: Vec<Member>) -> Key {
    let key = Key::new(namespace, "trap");
    let claim = StoredClaim {
        key: key.clone(),
        uid: "uid-trap".into(),
        version: world.fresh(),
        family: Family::V4,
        pool: world.pools.keys().next().unwrap().clone(),
        requested: None,
        had: None,
        members,
        classes: Vec::new(),
        bound: None,
        refused: None,
        deleting: false,
        paused: false,
    };
    world.claims.insert(key.clone(), claim);
    world.run();
    key
}

#[test]
fn a_claim_of_another_namespace_is_nobodys() {
    // The allocator's own namespace has the claims that Services of several namespaces share.
    for (namespace, has) in [("evil", false), ("mooring", true), ("victim", true)] {
        let mut world = World::before(&[("range-global", "10.0.0.1-10.0.0.9")]);
        world.start();
        world.run();
        let mut web = service("victim", "web");
        // It waits for an address when the next allocator begins to lead.
        web.notes.addresses = None;
        let member = (web.key.clone(), web.uid.clone());
        let trap = forged(&mut world, namespace, vec![member]);
        let web = world.apply(web);
        world.start();
        world.later(60);
        let of_trap =
            record::read(world.services[&web].notes.record.as_deref()).iter().any(|(object, _)| *object == trap);
        assert_eq!(of_trap, has, "{namespace}");
        assert!(!world.shows(&web).is_empty());
        assert_eq!(world.claims.contains_key(&trap), has, "{namespace}");
    }
}

/// As a backup has it: the record of an address by a claim of its own, which is gone.
fn restored(namespace: &str, name: &str, had: &str) -> Service {
    let mut one = service(namespace, name);
    one.notes.record = Some(format!("{namespace}/{name}-0123456789-ipv4={had}").into());
    one
}

/// Whoever may make Services writes a record of what others had, after these were restored.
#[test]
fn of_services_with_one_record_the_older_one_has_the_address() {
    for (name, made) in [("web", [100, 200]), ("web", [200, 100]), ("a", [100, 200]), ("z", [200, 100])] {
        let mut world = World::without_config().with_pool("10.0.0.1-10.0.0.9");
        let one = world.apply(Service { created: made[0], ..restored("shop", "web", "10.0.0.5") });
        let other = world.apply(Service { created: made[1], ..restored("evil", name, "10.0.0.5") });
        world.start();
        world.later(60);
        let (older, younger) = if made[0] < made[1] { (one, other) } else { (other, one) };
        assert_eq!(world.shows(&older), "10.0.0.5");
        assert!(!["", "10.0.0.5"].contains(&world.shows(&younger).as_str()), "{}", world.shows(&younger));
    }
}

/// A pool that its namespace's people have made, of a network of their own, with an address that another namespace's Service has.
#[test]
fn a_pool_of_a_namespace_with_a_network_serves_no_services() {
    for default in [true, false] {
        let mut world = World::without_config().with_pool("10.0.0.1-10.0.0.9");
        world.start();
        let web = world.apply(service("victim", "web"));
        world.run();
        assert_eq!(world.shows(&web), "10.0.0.1");
        let mut own = PoolSpec { addresses: vec!["10.0.0.1".to_owned()], prefix: 16, ..PoolSpec::default() };
        own.policy.network = Network::Named("theirs".to_owned());
        let mut theirs = pool("theirs", &["10.0.0.1"]);
        theirs.reference = Arc::new(PoolRef::new(PoolKind::InClusterIPPool, "evil", "theirs"));
        theirs.default = default;
        let reference = theirs.reference.clone();
        world.pool(theirs, own);
        world.run();
        let mut trap = service("evil", "web");
        trap.notes.pool = (!default).then(|| "theirs".into());
        let trap = world.apply(trap);
        world.later(60);
        if default {
            assert_eq!(world.shows(&trap), "10.0.0.2", "of the pool for all");
        } else {
            world.refused(&trap, "PoolNotUsable", "InClusterIPPool theirs names a network");
            assert_eq!(world.shows(&trap), "");
        }
        // Nor does a claim that somebody has made by hand.
        let by_hand = world.apply(Service { notes: Notes::default(), ..service("evil", "by-hand") });
        let member = (by_hand.clone(), world.services[&by_hand].uid.clone());
        assert_eq!(world.pools.keys().next(), Some(&reference));
        forged(&mut world, "evil", vec![member]);
        world.start();
        world.later(60);
        assert_ne!(world.shows(&by_hand), "10.0.0.1");
    }
}

#[test]
fn who_waits_for_the_service_of_another_namespace_is_not_told_which() {
    let mut world = World::new(&[("range-global", "10.0.0.1-10.0.0.9")]);
    world.allocates = false;
    world.apply(restored("bank", "secret", "10.0.0.5"));
    world.run();
    let near = world.apply(service("bank", "near"));
    let far = world.apply(service("shop", "far"));
    world.later(10);
    world.refused(&far, "Allocating", "until a Service of another namespace has claimed 10.0.0.5");
    world.refused(&near, "Allocating", "until Service bank/secret has claimed 10.0.0.5");
}

#[test]
fn what_is_said_of_a_shared_claim_names_nothing_of_its_namespace() {
    let mut world = World::without_config().with_pool("10.0.0.1-10.0.0.9");
    world.start();
    world.run();
    world.allocates = false;
    let mut dns = service("infra", "dns");
    dns.notes.sharing_key = Some("infra/dns".into());
    dns.notes.addresses = Some("10.0.0.5".into());
    let dns = world.apply(dns);
    world.run();
    // Before its claim, one of the allocator's own namespace gets the address.
    let other = Key::new("mooring", "secret");
    let mut taken = address(other.clone(), "uid-secret".into(), world.fresh(), ip("10.0.0.5"));
    taken.claim = "secret".into();
    world.addresses.insert(other, taken);
    let claim = world.claims_of(&dns)[0].key.clone();
    assert!(world.allocate(&claim) && world.claims[&claim].refused.as_ref().unwrap().1.contains("mooring/secret"));
    world.run();
    world.refused(&dns, "AllocationFailed", "the owners of its namespace can read why");
}
