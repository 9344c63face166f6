//! What a tenant can write about its own objects, against what is others'; and what conditions tell of others.

use super::*;
use crate::block::Block;
use crate::providers::Providers;
use crate::remote::{Answer, Drift, Entry, Orphans, RemoteSpec, What};

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

/// An outside system, and an allocator of its pool.
struct Outside {
    store: Store,
    machine: Machine<Providers>,
    moment: Moment,
    entries: Vec<Entry>,
}

impl Outside {
    /// It has an entry of a person's: with the name of a claim of a namespace, and without a mark.
    fn with(claim: Claim, object: Option<Address>) -> Self {
        let mut store = Store::default();
        let remote = RemoteSpec { calls: 4, orphans: Orphans::Release, drift: Drift::PutBack, warning: String::new() };
        store.put_pool(Pool {
            reference: claim.pool.clone(),
            uid: "pool".into(),
            version: Version("".into()),
            generation: 1,
            plan: Ok(Plan::of_outside(Network::Common, None)),
            remote: Some(remote),
            paused: None,
            deleting: false,
            finalizer: true,
            status: None,
        });
        let host = format!("{}.{}", claim.key.name, claim.key.namespace).into();
        let address = some("192.0.2.50").unwrap();
        let persons = Entry { id: "1".into(), address, prefix: 24, gateway: None, claim: None, ours: false, host };
        store.forced.insert(claim.uid.clone());
        if let Some(object) = object {
            store.put_address(object);
        }
        store.put_claim(claim);
        let machine = Machine::new(Providers::new(1), 1);
        let moment = Moment { now: Duration::from_secs(1), wall: 1_795_168_800 };
        let mut new = Self { store, machine, moment, entries: vec![persons] };
        for kind in ALL {
            let list = new.store.list(kind, None);
            new.tell(list);
        }
        new.store.logs = Default::default();
        new.tell(Event::Metal3Listed);
        new.tell(Event::Leading(Some(Duration::MAX)));
        new
    }

    fn tell(&mut self, event: Event) {
        for action in self.machine.step(self.moment, event) {
            match action {
                Action::Write { id, write } => {
                    let result = self.store.apply(&write);
                    self.tell(Event::Answer { id, result });
                }
                Action::ListAddresses { of, id } => {
                    let list = self.store.list(addresses_of(of), Some(id));
                    self.tell(list);
                }
                Action::ReadClaim { id, key, .. } => {
                    let result = Ok(self.store.claims.get(&key).cloned());
                    self.tell(Event::ClaimRead { id, result });
                }
                Action::Remote(call) => {
                    let result = Ok(self.answer(&call.what));
                    self.tell(Event::Remote { id: call.id, result });
                }
                Action::Report(_) => {}
            }
        }
    }

    fn answer(&mut self, what: &What) -> Answer {
        match what {
            What::Find(mark) => {
                let its = |one: &&Entry| one.claim.as_ref() == Some(&mark.claim) || Some(one.address) == mark.address;
                Answer::Entries(self.entries.iter().filter(its).cloned().collect())
            }
            What::Allocate(mark, _) => {
                let (id, address) = ("2".into(), some("192.0.2.51").unwrap());
                let (claim, host) = (Some(mark.claim.clone()), mark.host().into());
                let new = Entry { id, address, prefix: 24, gateway: None, claim, ours: true, host };
                self.entries.push(new.clone());
                Answer::Entry(new)
            }
            What::Rewrite(entry, mark) => {
                let its = self.entries.iter_mut().find(|one| one.id == entry.id).unwrap();
                (its.claim, its.ours) = (Some(mark.claim.clone()), true);
                Answer::Done
            }
            What::Release(entry) => {
                self.entries.retain(|one| one.id != entry.id);
                Answer::Done
            }
            What::List => Answer::Listing(self.entries.clone(), None),
            What::PutBack(_) => panic!("{what:?}"),
        }
    }

    /// Lets half an hour pass.
    fn rest(&mut self) {
        for _ in 0..1800 {
            for event in std::mem::take(&mut self.store.logs).into_iter().flatten() {
                self.tell(event);
            }
            self.moment.now += Duration::from_secs(1);
            self.tell(Event::Tick);
        }
    }

    fn hosts(&self) -> Vec<(&str, Option<&str>)> {
        self.entries.iter().map(|one| (&*one.id, one.claim.as_ref().map(|uid| &*uid.0))).collect()
    }
}

#[test]
fn an_entry_without_a_mark_is_a_claims_by_its_ip_address_alone_and_not_by_what_the_claim_says() {
    let reference = Arc::new(PoolRef::new(PoolKind::PHPIPAMIPPool, "", "p"));
    let tenants = Claim { key: Key::new("internal", "db01.corp"), pool: reference, finalizer: true, ..claim("t", "") };
    let ready = Condition { ready: true, reason: Reason::AddressAllocated, message: "192.0.2.50".into() };
    let annotated = Claim { had: Block::read("192.0.2.50").map(Box::new), ..tenants.clone() };
    let bound = Claim { bound: Some("db01.corp".into()), condition: Some(ready), ..tenants.clone() };
    let both = Claim { had: annotated.had.clone(), ..bound.clone() };
    let object = address("db01.corp", "", "192.0.2.50", Some(&tenants));
    let object = Address { key: tenants.key.clone(), pool: tenants.pool.clone(), ..object };
    // What it says in its annotation, in its status, in both; and one that has an IPAddress.
    let cases =
        [(annotated, None, false), (bound.clone(), None, false), (both, None, false), (bound, Some(object), true)];
    for (said, object, its) in cases {
        let key = said.key.clone();
        let case = format!("{said:?}");
        let mut outside = Outside::with(said, object);
        outside.rest();
        let uid = &*tenants.uid.0;
        let has = outside.store.addresses.get(&key).and_then(|one| one.address);
        if its {
            assert_eq!((has, outside.hosts()), (some("192.0.2.50"), vec![("1", Some(uid))]), "{case}");
        } else {
            assert_eq!((has, outside.hosts()), (some("192.0.2.51"), vec![("1", None), ("2", Some(uid))]), "{case}");
        }
        let goes = Claim { deleting: true, ..outside.store.claims[&key].clone() };
        outside.store.put_claim(goes);
        outside.rest();
        assert!(outside.store.claims.is_empty() && outside.store.addresses.is_empty(), "{case}");
        assert_eq!(outside.hosts().len(), usize::from(!its), "what is a person's stays: {case}");
    }
}
