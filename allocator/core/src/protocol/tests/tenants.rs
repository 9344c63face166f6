//! What a tenant can write about its own objects, against what is others'; and what conditions tell of others.

use super::*;

/// A pool of the whole cluster.
fn of_all(name: &str) -> PoolRef {
    PoolRef::new(PoolKind::GlobalInClusterIPPool, "", name)
}

/// A claim of a namespace, of a pool of the whole cluster.
fn of(namespace: &str, name: &str, of: &str) -> Claim {
    let uid = format!("uid-{namespace}-{name}");
    Claim { key: Key::new(namespace, name), uid: (&*uid).into(), pool: Arc::new(of_all(of)), ..claim(name, "") }
}

#[test]
fn a_claim_whose_count_of_void_objects_was_taken_off_gets_an_address() {
    for (count, started) in [(0, true), (0, false), (1, false), (2, true)] {
        let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
        if started {
            bench.start();
        }
        let own = Claim { finalizer: true, voided: count, ..claim("c", "p") };
        let attempt = Some(Attempt { claim: own.uid.clone(), number: 3, adopted: false });
        bench.store.put_address(Address { attempt, ..address("c", "p", "10.0.0.4", Some(&own)) });
        bench.store.put_claim(own);
        if started {
            bench.rest(0);
        } else {
            bench.start();
        }
        bench.rest(5);
        assert!(
            bench.has("c").is_some() && bench.condition("c").0 == Reason::AddressAllocated,
            "{:?}",
            bench.claim("c")
        );
        // No object of an attempt that was counted before can be the claim's.
        assert!(bench.claim("c").voided > 3);
    }
}

#[test]
fn a_status_reserves_nothing_but_a_unit_of_its_pool() {
    // Whose claim it is: of a pool that has the address, of one that has not, and of one that does not exist.
    for (pool, said, reserved) in [
        ("own", "10.0.0.2", true),
        ("own", "10.0.0.0/8", false),
        ("own", "10.0.0.0/30", false),
        ("own", "10.0.0.9", false),
        ("gone", "10.0.0.9", false),
        ("gone", "10.0.0.2", false),
        ("gone", "0.0.0.0/0", false),
    ] {
        let mut bench = Bench::new(&[("own", Ok(plan("10.0.0.1-10.0.0.3")))]);
        bench.put_pool(of_all("two"), spec("10.0.0.2").plan());
        bench.put_pool(of_all("nine"), spec("10.0.0.9").plan());
        let condition = Condition { ready: true, reason: Reason::AddressAllocated, message: said.to_owned() };
        // It is left alone, so that the reservation stays.
        let hold = Hold::Paused;
        let forged = Claim { bound: Some("forged".into()), finalizer: true, hold, ..claim("forged", pool) };
        bench.store.forced.insert(forged.uid.clone());
        bench.store.put_claim(Claim { condition: Some(condition), ..forged });
        bench.start();
        bench.make(of("victim", "two", "two"));
        bench.make(of("victim", "nine", "nine"));
        let has = |name| bench.store.addresses.values().find(|one| one.key == Key::new("victim", name));
        let had = ["two", "nine"].map(|name| has(name).and_then(|one| one.address));
        let two = some("10.0.0.2").filter(|_| !reserved);
        assert_eq!(had, [two, some("10.0.0.9")], "{pool} {said}");
    }
}

#[test]
fn who_asks_for_what_another_namespace_has_is_not_told_whose_it_is() {
    let mut bench = Bench::new(&[]);
    bench.put_pool(of_all("all"), spec("10.0.0.1-10.0.0.9").plan());
    bench.start();
    let requested = || Some("10.0.0.2".into());
    bench.make(Claim { requested: requested(), ..of("victim", "secret", "all") });
    bench.make(Claim { requested: requested(), ..of("evil", "asks", "all") });
    bench.make(Claim { requested: requested(), ..of("victim", "asks", "all") });
    let told = |namespace: &str| bench.store.claims[&Key::new(namespace, "asks")].condition.clone().unwrap().message;
    assert!(told("evil").contains("10.0.0.2 is taken by a claim of another namespace"), "{}", told("evil"));
    assert!(told("victim").contains("10.0.0.2 is taken by claim victim/secret"), "{}", told("victim"));
}

/// Two pools of two namespaces, and one of the whole cluster, with claims that have the same address by another provider.
fn twice() -> Bench {
    let mut bench = Bench::new(&[]);
    bench.put_pool(of_all("all"), spec("10.0.0.1-10.0.0.9").plan());
    for namespace in ["evil", "victim"] {
        let pool = PoolRef::new(PoolKind::InClusterIPPool, namespace, &format!("pool-of-{namespace}"));
        let mut common = spec("10.0.0.1-10.0.0.9");
        common.policy.network = Network::Common;
        bench.put_pool(pool.clone(), common.plan());
        let name = format!("claim-of-{namespace}");
        let old =
            Claim { pool: Arc::new(pool), finalizer: true, bound: Some((&*name).into()), ..of(namespace, &name, "") };
        let uid = format!("address-of-{namespace}");
        let has = address(&name, "", "10.0.0.4", Some(&old));
        let has = Address { key: old.key.clone(), uid: (&*uid).into(), pool: old.pool.clone(), ..has };
        bench.store.old_duplicates.insert((&*uid).into());
        bench.store.put_address(has);
        bench.store.put_claim(old);
    }
    bench
}

#[test]
fn the_pool_of_a_namespace_names_nothing_of_another() {
    let mut bench = twice();
    bench.start();
    bench.rest(3);
    for pool in bench.store.pools.values() {
        let status = pool.status.as_ref().unwrap();
        let text = format!("{} {}", status.overlapping, status.duplicates);
        assert!(text.contains("has addresses in common") || !status.overlapping.is_empty(), "{text}");
        let others: &[&str] = match &*pool.reference.namespace {
            "evil" => &["victim"],
            "victim" => &["evil"],
            _ => &[],
        };
        assert!(others.iter().all(|other| !text.contains(other)), "{}: {text}", pool.reference);
        if others.is_empty() {
            // Those who may read the pools of the whole cluster are told all.
            assert!(text.contains("evil/pool-of-evil") && text.contains("victim/pool-of-victim"), "{text}");
        } else {
            assert!(text.contains("1 pool of another namespace") && text.contains("an IPAddress of another"), "{text}");
        }
    }
}

#[test]
fn a_claim_that_waits_for_an_object_of_another_namespace_does_not_name_it() {
    for (namespace, named) in [("evil", false), ("victim", true)] {
        let mut bench = Bench::new(&[]);
        bench.put_pool(of_all("all"), spec("10.0.0.1-10.0.0.9").plan());
        bench.start();
        bench.make(Claim { requested: Some("10.0.0.4".into()), ..of("victim", "secret", "all") });
        // Somebody made an object beforehand.
        let waits = Claim { finalizer: true, ..of(namespace, "waits", "all") };
        let made =
            Address { pool: waits.pool.clone(), key: waits.key.clone(), ..address("waits", "", "10.0.0.4", None) };
        bench.store.put_address(made);
        bench.make(waits);
        bench.rest(3);
        let told = bench.store.claims[&Key::new(namespace, "waits")].condition.clone().unwrap().message;
        assert!(told.contains("IPAddress waits has 10.0.0.4, which"), "{told}");
        assert_eq!(told.contains("victim/secret"), named, "{told}");
    }
}

#[test]
fn who_waits_because_other_pools_claims_have_the_addresses_is_told_which_pools_and_what_is_free() {
    let mut bench = Bench::new(&[]);
    bench.put_pool(of_all("all"), spec("10.0.0.1").plan());
    let other = PoolRef::new(PoolKind::InClusterIPPool, "victim", "own");
    bench.put_pool(other.clone(), spec("10.0.0.1-10.0.0.2").plan());
    bench.start();
    bench.make(Claim { pool: Arc::new(other), ..of("victim", "has", "all") });
    for (namespace, named) in [("evil", "1 pool of another namespace"), ("victim", "InClusterIPPool victim/own")] {
        bench.make(of(namespace, "waits", "all"));
        let told = bench.store.claims[&Key::new(namespace, "waits")].condition.clone().unwrap();
        assert_eq!(told.reason, Reason::PoolExhausted);
        let told = told.message;
        assert!(told.contains("1 for other claims") && told.contains(named), "{told}");
        assert!(namespace == "victim" || !told.contains("victim"), "{told}");
    }
    bench.rest(1);
    let counts = bench.store.pools[&of_all("all")].status.as_ref().unwrap().counts;
    assert_eq!((counts.total, counts.used, counts.free, counts.available), (1, 0, 0, 0));
}
