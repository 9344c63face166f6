//! A restored claim is deleted at once, because its owner has another uid by now, and whoever uses the address makes another claim of the name.

use super::restored::of_machine;
use super::*;
use crate::block::Block;

const LET_GO: fn(&mut Claim) = |claim| claim.others = false;

/// A full pool of two, one of them what restored claim `c` had, which is deleted and held; and claims that wait for any.
fn restored() -> Bench {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.2")))]);
    bench.start();
    bench.make(Claim { deleting: true, others: true, ..of_machine("c", "10.0.0.1") });
    for name in ["d", "e"] {
        bench.make(claim(name, "p"));
    }
    bench.rest(60);
    bench
}

fn is_gone(bench: &Bench) -> bool {
    !bench.store.claims.contains_key(&claim("c", "p").key)
}

fn asks_again(bench: &mut Bench) {
    let requested = Some("10.0.0.1".into());
    let had = None;
    bench.make(Claim { requested, had, finalizer: false, uid: "again".into(), ..of_machine("c", "10.0.0.1") });
}

#[test]
fn the_next_claim_of_the_name_has_what_the_vanished_one_had() {
    for (waits, asks) in [(0, true), (30, true), (280, true), (30, false)] {
        let mut bench = restored();
        bench.change("c", LET_GO);
        bench.rest(waits);
        assert!(is_gone(&bench) || waits == 0);
        bench.rest(1);
        if asks {
            asks_again(&mut bench);
        } else {
            bench.make(Claim { had: None, ..of_machine("c", "10.0.0.1") });
        }
        bench.rest(60);
        assert_eq!([bench.has("c"), bench.has("d"), bench.has("e")], [some("10.0.0.1"), some("10.0.0.2"), None]);
    }
}

/// The Cluster of the next one is not shown yet.
#[test]
fn the_next_claim_keeps_it_while_it_is_held() {
    let mut bench = restored();
    bench.change("c", LET_GO);
    bench.rest(1);
    for hold in [Hold::Paused, Hold::NoCluster("k".into())] {
        bench.make(Claim { had: None, hold, uid: "again".into(), ..of_machine("c", "10.0.0.1") });
        bench.rest(600);
        assert_eq!(bench.has("e"), None);
    }
    bench.change("c", |claim| claim.hold = Hold::None);
    bench.rest(60);
    assert_eq!([bench.has("c"), bench.has("d"), bench.has("e")], [some("10.0.0.1"), some("10.0.0.2"), None]);
}

#[test]
fn a_claim_without_any_finalizer_leaves_what_it_had_too() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.9-10.0.0.9")))]);
    bench.start();
    bench.store.put_claim(Claim { finalizer: false, ..of_machine("c", "10.0.0.1") });
    bench.rest(1);
    bench.store.put_claim(Claim { finalizer: false, deleting: true, ..of_machine("c", "10.0.0.1") });
    bench.rest(1);
    assert!(is_gone(&bench));
    // Its pool comes later.
    bench.make(claim("d", "p"));
    bench.pool("p", Ok(plan("10.0.0.1-10.0.0.1")));
    bench.make(claim("e", "p"));
    bench.rest(100);
    assert_eq!(bench.has("e"), None);
    asks_again(&mut bench);
    bench.rest(10);
    assert_eq!(bench.has("c"), some("10.0.0.1"));
}

#[test]
fn what_nobody_asks_for_again_is_free_after_five_minutes_and_is_kept_while_the_cluster_is_paused() {
    let mut bench = restored();
    bench.change("c", LET_GO);
    bench.rest(290);
    assert_eq!(bench.has("e"), None);
    bench.tell(Event::VanishedPaused(claim("c", "p").key, true));
    bench.rest(2_400);
    assert_eq!(bench.has("e"), None);
    bench.tell(Event::VanishedPaused(claim("c", "p").key, false));
    bench.rest(290);
    assert_eq!(bench.has("e"), None);
    bench.rest(20);
    assert_eq!(bench.has("e"), some("10.0.0.1"));
}

#[test]
fn a_paused_cluster_keeps_nothing_for_ever() {
    let mut bench = restored();
    bench.change("c", LET_GO);
    bench.rest(10);
    bench.tell(Event::VanishedPaused(claim("c", "p").key, true));
    bench.rest(3_500);
    assert_eq!(bench.has("e"), None);
    bench.rest(110);
    assert_eq!(bench.has("e"), some("10.0.0.1"));
}

/// Somebody makes a claim and deletes it, again and again, and each names another address. A quota of claims does not hinder that.
#[test]
fn claims_that_are_gone_leave_half_of_a_pool_to_others() {
    for pool_first in [true, false] {
        let mut bench = Bench::new(&[]);
        let all = || Ok(plan("10.0.0.1-10.0.0.10"));
        let pool = PoolRef::new(PoolKind::GlobalInClusterIPPool, "", "all");
        if pool_first {
            bench.put_pool(pool.clone(), all());
        }
        bench.start();
        for n in 1..=if pool_first { 10 } else { 200 } {
            let ip = format!("10.0.0.{n}");
            let one = Claim { pool: Arc::new(pool.clone()), finalizer: false, ..of_machine(&format!("f{n}"), &ip) };
            bench.make(one.clone());
            bench.rest(1);
            bench.store.put_claim(Claim { deleting: true, ..one });
            bench.rest(1);
        }
        bench.put_pool(pool.clone(), all());
        for n in 0..6 {
            let key = Key::new("other", &format!("o{n}"));
            bench.make(Claim {
                key,
                pool: Arc::new(pool.clone()),
                uid: format!("o{n}").as_str().into(),
                ..claim("o", "")
            });
        }
        bench.rest(10);
        let given = bench.store.claims.values().filter(|claim| claim.bound.is_some()).count();
        assert!(given >= 5 || !pool_first, "{given}");
        assert!(bench.machine.vanished().count() <= if pool_first { 5 } else { 64 });
    }
}

#[test]
fn an_object_of_before_that_goes_after_the_claim_leaves_its_address_to_the_next() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.2")))]);
    bench.start();
    let before = Claim { uid: "before".into(), ..claim("c", "p") };
    bench.store.put_address(address("c", "p", "10.0.0.1", Some(&before)));
    bench.make(Claim { deleting: true, ..of_machine("c", "10.0.0.1") });
    for name in ["d", "e"] {
        bench.make(claim(name, "p"));
    }
    bench.rest(60);
    assert!(is_gone(&bench) && bench.store.addresses.len() == 1, "{:?}", bench.store.addresses);
    asks_again(&mut bench);
    bench.rest(10);
    assert_eq!([bench.has("c"), bench.has("d"), bench.has("e")], [some("10.0.0.1"), some("10.0.0.2"), None]);
}

/// Its Cluster is restored after it.
#[test]
fn a_claim_that_waits_for_its_cluster_keeps_what_it_had() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.1")))]);
    bench.start();
    bench.make(Claim { hold: Hold::NoCluster("k".into()), ..of_machine("c", "10.0.0.1") });
    bench.make(claim("d", "p"));
    bench.rest(600);
    assert_eq!(bench.has("d"), None);
    bench.change("c", |claim| claim.hold = Hold::None);
    bench.rest(10);
    assert_eq!(bench.has("c"), some("10.0.0.1"));
}

/// A machine or a Cluster that is really deleted. The object is gone a while before the claim.
#[test]
fn a_released_address_is_free_at_once() {
    for had in [None, Block::read("10.0.0.1").map(Box::new)] {
        let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.1")))]);
        bench.start();
        bench.make(Claim { had, others: true, ..of_machine("c", "10.0.0.1") });
        bench.rest(60);
        assert_eq!(bench.has("c"), some("10.0.0.1"));
        bench.change("c", |claim| claim.deleting = true);
        bench.rest(10);
        bench.refuse = |w| matches!(w, Write::RemoveFinalizer(_)).then_some(Failure::Unknown);
        bench.change("c", LET_GO);
        bench.rest(3);
        assert!(bench.store.addresses.is_empty() && !is_gone(&bench));
        bench.refuse = |_| None;
        bench.rest(10);
        assert!(is_gone(&bench));
        bench.make(claim("d", "p"));
        bench.rest(10);
        assert_eq!(bench.has("d"), some("10.0.0.1"));
    }
}
