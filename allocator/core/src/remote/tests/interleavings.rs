//! Interleavings in which an entry could be leaked, or deleted while it is in use, or a claim could wait for ever.

use super::*;

/// An object of the pool is shown.
fn shown(bench: &mut Bench, slot: u32, claim: &str, last: u8) {
    bench.remote.shown(slot, &pool(), mark(claim, Some(ip(last))), true);
}

/// The pool's look at its entries, with others under way.
fn look(bench: &mut Bench, seconds: u64, entries: &[Entry]) {
    for call in bench.after(seconds) {
        let result = match call.what {
            What::List => Ok(Answer::Listing(entries.to_vec(), Some(9))),
            _ => Err(Failure::NotSent),
        };
        bench.answer(&call, result);
    }
}

#[test]
fn a_claim_that_goes_after_a_lost_request_is_let_go_only_when_the_request_can_come_no_more() {
    let mut bench = Bench::new(Orphans::Report, 4);
    assert!(bench.remote.obtain(1, &pool(), mark("c", None), None, true).is_err());
    let asked = bench.one();
    bench.answer(&asked, Err(Failure::Lost("no answer".into())));
    assert!(bench.remote.clear(Waiter::Claim(1), &pool(), mark("c", None)).is_err());
    assert!(bench.after(15).is_empty(), "it may still wait for phpIPAM's lock");
    // The same holds if the claim rested meanwhile.
    let mut calls = bench.after(10);
    assert!(matches!(calls.remove(0).what, What::Find(_)));

    let mut bench = Bench::new(Orphans::Report, 4);
    assert!(bench.remote.obtain(1, &pool(), mark("c", None), None, true).is_err());
    let asked = bench.one();
    bench.answer(&asked, Err(Failure::Lost("no answer".into())));
    bench.remote.release(1);
    assert!(bench.after(10).is_empty());
    assert!(bench.remote.clear(Waiter::Claim(1), &pool(), mark("c", None)).is_err());
    assert!(bench.after(5).is_empty());
    assert_eq!(bench.after(10).len(), 1);
}

#[test]
fn a_claim_that_waits_for_room_can_be_deleted() {
    let mut bench = Bench::new(Orphans::Report, 4);
    for slot in 1..=2 {
        assert!(bench.remote.obtain(slot, &pool(), mark(&format!("c{slot}"), None), None, true).is_err());
    }
    for call in bench.after(0) {
        bench.answer(&call, Err(Failure::Full("no free addresses found".into())));
    }
    assert!(bench.after(1).is_empty());
    assert!(bench.remote.clear(Waiter::Claim(1), &pool(), mark("c1", None)).is_err());
    assert!(matches!(&bench.one().what, What::Find(of) if of.claim == Uid::from("c1")));
}

#[test]
fn what_came_after_the_search_that_let_a_claim_go_is_deleted_before_the_pool_goes() {
    let mut bench = Bench::new(Orphans::Release, 4);
    assert!(bench.remote.clear(Waiter::Claim(1), &pool(), mark("c", Some(ip(5)))).is_err());
    let found = bench.one();
    bench.answer(&found, Ok(Answer::Entries(Vec::new())));
    assert!(bench.remote.clear(Waiter::Claim(1), &pool(), mark("c", Some(ip(5)))).is_ok());
    // The claim is gone, and an allocator that was killed has put the entry back late.
    assert!(!bench.remote.is_at_rest(&pool()), "a last look follows");
    look(&mut bench, 0, &[entry("c", 5)]);
    assert!(!bench.remote.is_at_rest(&pool()), "its entry is searched for");
    let found = bench.one();
    assert_eq!(found.what, What::Find(mark("c", None)));
    bench.answer(&found, Ok(Answer::Entries(vec![entry("c", 5)])));
    let deletion = bench.one();
    assert_eq!(deletion.what, What::Release(entry("c", 5)));
    bench.answer(&deletion, Ok(Answer::Done));
    assert!(!bench.remote.is_at_rest(&pool()), "one more look follows");
    look(&mut bench, 0, &[]);
    assert!(bench.remote.is_at_rest(&pool()));
}

#[test]
fn an_entry_that_cannot_be_deleted_holds_up_no_other_claim() {
    let mut bench = Bench::new(Orphans::Report, 1);
    assert!(bench.remote.clear(Waiter::Claim(1), &pool(), mark("stuck", None)).is_err());
    let found = bench.one();
    bench.answer(&found, Ok(Answer::Entries(vec![entry("stuck", 5)])));
    assert!(bench.remote.obtain(2, &pool(), mark("waits", None), None, true).is_err());
    let (mut given, mut deletions) = (false, 0);
    for _ in 0..30 {
        for call in bench.after(3) {
            deletions += usize::from(matches!(call.what, What::Release(_)));
            let result = match &call.what {
                What::Release(_) => Err(Failure::Refused("forbidden".into())),
                What::Find(_) => Ok(Answer::Entries(vec![entry("stuck", 5)])),
                What::Allocate(..) => Ok(Answer::Entry(entry("waits", 6))),
                What::List => Ok(Answer::Listing(Vec::new(), None)),
                other => panic!("{other:?}"),
            };
            given |= matches!(call.what, What::Allocate(..));
            bench.answer(&call, result);
        }
    }
    assert!(given && deletions < 9, "{deletions} in 90 s");
}

/// The pool is paused, people change its entries, and it goes on.
fn paused_for_a_while(bench: &mut Bench) {
    let spec = RemoteSpec { calls: 1, orphans: Orphans::Release, drift: Drift::PutBack, warning: String::new() };
    bench.remote.pool(&pool(), None);
    assert!(bench.after(60).is_empty());
    bench.remote.pool(&pool(), Some(spec));
}

#[test]
fn what_was_found_before_a_pause_is_searched_for_again() {
    // A claim that goes, one that is about to use what was found, and one whose entry could not be deleted yet.
    for goes in [true, false] {
        let mut bench = Bench::new(Orphans::Release, 1);
        let ask = |bench: &mut Bench| {
            if goes {
                return bench.remote.clear(Waiter::Claim(1), &pool(), mark("c", None)).err();
            }
            bench.remote.obtain(1, &pool(), mark("c", None), None, false).err()
        };
        assert!(ask(&mut bench).is_some());
        let found = bench.one();
        bench.answer(&found, Ok(Answer::Entries(vec![entry("c", 5)])));
        paused_for_a_while(&mut bench);
        assert!(ask(&mut bench).is_some(), "what was found may be somebody else's");
        let mut calls = Vec::new();
        for _ in 0..4 {
            for call in bench.after(0) {
                let result = match call.what {
                    What::List => Ok(Answer::Listing(Vec::new(), Some(9))),
                    What::Find(_) => Ok(Answer::Entries(Vec::new())),
                    What::Allocate(..) => Ok(Answer::Entry(entry("c", 6))),
                    _ => Err(Failure::Refused("it is somebody else's".into())),
                };
                calls.push(call.what.clone());
                bench.answer(&call, result);
            }
        }
        assert!(calls.iter().any(|what| matches!(what, What::Find(_))), "{calls:?}");
        assert!(!calls.iter().any(|what| matches!(what, What::Release(_))), "{calls:?}");
        assert_eq!(ask(&mut bench), None);
    }
}

#[test]
fn an_entry_that_was_to_be_deleted_before_a_pause_is_judged_again() {
    let mut bench = Bench::new(Orphans::Release, 1);
    bench.list(&[entry("gone", 5)]);
    bench.list(&[entry("gone", 5)]);
    bench.remote.pool(&pool(), None);
    // The API server has said that the claim is gone.
    bench.remote.claim_is_gone(&pool(), entry("gone", 5));
    paused_for_a_while(&mut bench);
    let call = bench.one();
    assert_eq!(call.what, What::List);
    // A person made it another host's.
    let others = Entry { claim: None, ours: false, host: "printer".into(), ..entry("gone", 5) };
    bench.answer(&call, Ok(Answer::Listing(vec![others], Some(9))));
    assert!(bench.after(600).iter().all(|call| call.what == What::List));
}

#[test]
fn after_a_refused_deletion_the_entry_is_read_again() {
    let mut bench = Bench::new(Orphans::Report, 1);
    assert!(bench.remote.clear(Waiter::Claim(1), &pool(), mark("c", None)).is_err());
    let found = bench.one();
    bench.answer(&found, Ok(Answer::Entries(vec![entry("c", 5)])));
    let deletion = bench.one();
    assert_eq!(deletion.what, What::Release(entry("c", 5)));
    bench.answer(&deletion, Err(Failure::Refused("locked".into())));
    // Meanwhile a person made it another host's.
    let call = bench.after(10).remove(0);
    assert!(matches!(call.what, What::Find(_)), "{call:?}");
    let others = Entry { claim: None, ours: false, host: "printer".into(), ..entry("c", 5) };
    bench.answer(&call, Ok(Answer::Entries(vec![others])));
    assert_eq!(bench.remote.clear(Waiter::Claim(1), &pool(), mark("c", None)), Ok(()));
}

#[test]
fn an_address_that_its_own_lost_request_has_got_is_the_claims() {
    let mut bench = Bench::new(Orphans::Report, 1);
    let wanted = Some(ip(9));
    let ask = |bench: &mut Bench| bench.remote.obtain(1, &pool(), mark("c", None), wanted, false);
    assert!(ask(&mut bench).is_err());
    let found = bench.one();
    bench.answer(&found, Ok(Answer::Entries(Vec::new())));
    let asked = bench.one();
    bench.answer(&asked, Err(Failure::Lost("no answer".into())));
    let found = bench.after(10).remove(0);
    bench.answer(&found, Ok(Answer::Entries(Vec::new())));
    // Now it has its effect.
    let asked = bench.one();
    bench.answer(&asked, Err(Failure::Unfit("it exists".into())));
    let found = bench.one();
    assert!(matches!(found.what, What::Find(_)), "{found:?}");
    bench.answer(&found, Ok(Answer::Entries(vec![entry("c", 9)])));
    assert_eq!(ask(&mut bench), Ok(entry("c", 9)));
}

#[test]
fn an_address_that_was_taken_is_asked_for_again_once_it_has_no_entry() {
    let mut bench = Bench::new(Orphans::Report, 1);
    let ask = |bench: &mut Bench| bench.remote.obtain(1, &pool(), mark("c", None), Some(ip(9)), true);
    assert!(ask(&mut bench).is_err());
    let asked = bench.one();
    bench.answer(&asked, Err(Failure::Unfit("it exists".into())));
    let found = bench.one();
    bench.answer(&found, Ok(Answer::Entries(Vec::new())));
    assert!(matches!(ask(&mut bench), Err(Wait::Unfit(_))));
    let others = Entry { claim: None, ours: false, host: "printer".into(), ..entry("c", 9) };
    look(&mut bench, 1200, std::slice::from_ref(&others));
    assert!(bench.after(0).is_empty() && matches!(ask(&mut bench), Err(Wait::Unfit(_))));
    look(&mut bench, 1200, &[]);
    assert!(matches!(bench.one().what, What::Allocate(_, Some(_))));
}

#[test]
fn what_one_pool_has_let_go_says_nothing_of_another() {
    let mut bench = Bench::new(Orphans::Report, 4);
    let other = Arc::new(PoolRef::new(PoolKind::PHPIPAMIPPool, "", "q"));
    let spec = RemoteSpec { calls: 4, orphans: Orphans::Report, drift: Drift::Report, warning: String::new() };
    bench.remote.pool(&other, Some(spec));
    look(&mut bench, 0, &[]);
    // The claim was edited: its object is of the one pool, and it names the other.
    assert!(bench.remote.clear(Waiter::Address(3), &pool(), mark("c", Some(ip(5)))).is_err());
    assert!(bench.remote.clear(Waiter::Claim(1), &other, mark("c", None)).is_err());
    for of in [pool(), other.clone()] {
        let call = bench.one();
        assert_eq!(call.pool, of);
        bench.answer(&call, Ok(Answer::Entries(Vec::new())));
        assert!(bench.remote.clear(Waiter::Claim(1), &other, mark("c", None)).is_ok() == (of == other));
    }
}

#[test]
fn nothing_is_put_back_for_an_object_that_goes() {
    let mut bench = Bench::new(Orphans::Report, 4);
    shown(&mut bench, 3, "c", 5);
    assert!(bench.remote.clear(Waiter::Address(3), &pool(), mark("c", Some(ip(5)))).is_err());
    let found = bench.one();
    bench.answer(&found, Ok(Answer::Entries(Vec::new())));
    // Its finalizer is taken away late.
    bench.claims.insert(Uid::from("c"));
    look(&mut bench, 1200, &[]);
    assert!(bench.after(0).is_empty());
    assert_eq!(bench.remote.findings(&pool()), (0, 0));
}

#[test]
fn a_pool_waits_for_the_entries_that_are_to_be_deleted() {
    let mut bench = Bench::new(Orphans::Release, 4);
    bench.list(&[entry("gone", 5)]);
    assert!(!bench.remote.is_at_rest(&pool()));
    look(&mut bench, 0, &[entry("gone", 5)]);
    assert!(!bench.remote.is_at_rest(&pool()));
    look(&mut bench, 1200, &[]);
    assert!(bench.remote.is_at_rest(&pool()));
    // What a claim has asked for since may have left something.
    assert!(bench.remote.clear(Waiter::Claim(1), &pool(), mark("c", None)).is_err());
    let found = bench.one();
    bench.answer(&found, Ok(Answer::Entries(Vec::new())));
    assert!(!bench.remote.is_at_rest(&pool()));
    // A system that fails is not waited for: a pool that never worked could not be deleted.
    let list = bench.one();
    assert_eq!(list.what, What::List);
    bench.answer(&list, Err(Failure::Lost("no answer".into())));
    assert!(bench.remote.is_at_rest(&pool()));
}

#[test]
fn what_another_claim_here_has_or_asks_for_is_not_let_go_whatever_it_is_named() {
    let mut bench = Bench::new(Orphans::Report, 4);
    shown(&mut bench, 4, "next", 6);
    assert!(bench.remote.obtain(2, &pool(), mark("asks", None), None, false).is_err());
    let _ = bench.one();
    // A late object of an earlier claim of the same name has the address.
    for (last, of) in [(5, "asks"), (6, "next")] {
        let earlier = Mark { name: Key::new("ns", of), ..mark(&format!("earlier-{of}"), Some(ip(last))) };
        assert!(bench.remote.clear(Waiter::Address(9), &pool(), earlier.clone()).is_err());
        let found = bench.one();
        bench.answer(&found, Ok(Answer::Entries(vec![entry(of, last)])));
        assert_eq!(bench.remote.clear(Waiter::Address(9), &pool(), earlier), Ok(()));
    }
}

#[test]
fn an_entry_too_many_is_not_deleted_once_its_claim_asks_again_and_not_given_once_it_is_deleted() {
    let mut bench = Bench::new(Orphans::Report, 1);
    bench.claims.insert(Uid::from("c"));
    shown(&mut bench, 3, "c", 5);
    let all = [entry("c", 5), entry("c", 6)];
    for _ in 0..2 {
        look(&mut bench, 1200, &all);
    }
    // Its deletion is asked for, and lost.
    let deletion = bench.one();
    assert_eq!(deletion.what, What::Release(entry("c", 6)));
    bench.answer(&deletion, Err(Failure::Lost("no answer".into())));
    // People take the object and its entry away by force.
    bench.remote.gone(3);
    assert!(bench.remote.obtain(1, &pool(), mark("c", None), None, false).is_err());
    let found = bench.after(10).remove(0);
    bench.answer(&found, Ok(Answer::Entries(vec![entry("c", 6)])));
    let asked = bench.one();
    assert!(matches!(asked.what, What::Allocate(..)), "{asked:?}");

    let mut bench = Bench::new(Orphans::Report, 1);
    bench.claims.insert(Uid::from("c"));
    shown(&mut bench, 3, "c", 5);
    look(&mut bench, 1200, &all);
    bench.now += Duration::from_mins(20);
    bench.remote.begin(bench.now, true);
    let list = bench.remote.calls().remove(0);
    bench.remote.gone(3);
    bench.remote.shown(3, &pool(), mark("c", Some(ip(5))), true);
    bench.answer(&list, Ok(Answer::Listing(all.to_vec(), Some(9))));
    bench.remote.gone(3);
    assert!(bench.remote.obtain(1, &pool(), mark("c", None), None, false).is_err());
    assert!(matches!(bench.one().what, What::Find(_)));
}
