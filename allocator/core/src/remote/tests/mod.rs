mod interleavings;

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::names::PoolKind;

fn pool() -> Arc<PoolRef> {
    Arc::new(PoolRef::new(PoolKind::PHPIPAMIPPool, "", "p"))
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn mark(claim: &str, address: Option<IpAddr>) -> Mark {
    Mark { claim: Uid::from(claim), name: Key::new("ns", claim), address }
}

fn entry(claim: &str, last: u8) -> Entry {
    Entry {
        id: last.to_string().into(),
        address: ip(last),
        prefix: 24,
        gateway: None,
        claim: Some(Uid::from(claim)),
        ours: true,
        host: format!("{claim}.ns").into(),
    }
}

struct Bench {
    remote: Remote,
    now: Duration,
    claims: HashSet<Uid>,
}

impl Bench {
    fn new(orphans: Orphans, calls: usize) -> Self {
        let mut remote = Remote::new(1);
        remote.begin(Duration::ZERO, true);
        remote.pool(&pool(), Some(RemoteSpec { calls, orphans, drift: Drift::PutBack, warning: String::new() }));
        let mut bench = Self { remote, now: Duration::ZERO, claims: HashSet::new() };
        bench.list(&[]);
        bench
    }

    /// The calls that are made after this time.
    fn after(&mut self, seconds: u64) -> Vec<Call> {
        self.now += Duration::from_secs(seconds);
        self.remote.begin(self.now, true);
        self.remote.calls()
    }

    fn answer(&mut self, call: &Call, result: Result<Answer, Failure>) {
        let claims = self.claims.clone();
        self.remote.answered(call.id, result, || claims);
    }

    /// A look finds these entries.
    fn list(&mut self, entries: &[Entry]) {
        let call = self.after(1200).into_iter().find(|call| call.what == What::List).unwrap();
        self.answer(&call, Ok(Answer::Listing(entries.to_vec(), Some(9))));
    }

    fn one(&mut self) -> Call {
        let mut all = self.after(0);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }
}

#[test]
fn an_orphan_is_deleted_only_once_its_claim_was_read_as_gone() {
    let mut bench = Bench::new(Orphans::Release, 1);
    let doubts =
        |bench: &mut Bench| bench.remote.news().into_iter().filter(|one| matches!(one, News::Doubt(_))).count();
    bench.list(&[entry("gone", 5)]);
    assert_eq!(doubts(&mut bench), 0, "the grace");
    bench.list(&[entry("gone", 5)]);
    let news = bench.remote.news();
    let Some(News::Doubt(doubt)) = news.iter().find(|one| matches!(one, News::Doubt(_))) else { panic!("{news:?}") };
    assert_eq!((&doubt.key, &doubt.claim), (&Key::new("ns", "gone"), &Uid::from("gone")));
    assert!(bench.after(1).is_empty());
    bench.remote.claim_is_gone(&pool(), doubt.entry.clone());
    assert_eq!(bench.one().what, What::Release(entry("gone", 5)));
}

#[test]
fn without_the_policy_an_orphan_is_told_once_and_stays() {
    let mut bench = Bench::new(Orphans::Report, 1);
    for round in 0..3 {
        bench.list(&[entry("gone", 5)]);
        let news = bench.remote.news();
        let told = news.iter().filter(|one| matches!(one, News::Note(_, Note::Orphan(_)))).count();
        assert_eq!(told, usize::from(round == 0));
        assert!(!news.iter().any(|one| matches!(one, News::Doubt(_))));
    }
    assert_eq!(bench.remote.findings(&pool()), (1, 0));
}

#[test]
fn entries_of_other_pools_and_of_claims_that_live_are_no_orphans() {
    let mut bench = Bench::new(Orphans::Release, 1);
    bench.claims.insert(Uid::from("lives"));
    let other = Entry { ours: false, ..entry("elsewhere", 6) };
    for _ in 0..3 {
        bench.list(&[entry("lives", 5), other.clone()]);
    }
    assert_eq!(bench.remote.findings(&pool()), (0, 0));
}

#[test]
fn a_fresh_claim_is_asked_for_at_once_and_any_other_is_searched_for() {
    let mut bench = Bench::new(Orphans::Report, 4);
    assert!(bench.remote.obtain(1, &pool(), mark("fresh", None), None, true).is_err());
    let call = bench.one();
    assert!(matches!(call.what, What::Allocate(..)), "{call:?}");
    bench.answer(&call, Err(Failure::Lost("gone".into())));
    assert!(bench.after(0).is_empty(), "what was lost may still come");
    let call = bench.after(10).remove(0);
    assert!(matches!(call.what, What::Find(_)), "{call:?}");
    bench.answer(&call, Ok(Answer::Entries(vec![entry("fresh", 7), entry("another", 8)])));
    let got = bench.remote.obtain(1, &pool(), mark("fresh", None), None, false);
    assert_eq!(got, Ok(entry("fresh", 7)));
}

#[test]
fn a_claim_that_goes_while_it_is_asked_for_is_searched_anew_and_nothing_of_another_is_deleted() {
    let mut bench = Bench::new(Orphans::Report, 4);
    assert!(bench.remote.obtain(1, &pool(), mark("c", None), None, true).is_err());
    let asked = bench.one();
    assert!(bench.remote.clear(Waiter::Claim(1), &pool(), mark("c", None)).is_err());
    assert!(bench.after(1).is_empty(), "the answer is awaited");
    // It lies: the entry is another claim's.
    bench.answer(&asked, Ok(Answer::Entry(entry("other", 4))));
    let call = bench.one();
    assert!(matches!(&call.what, What::Find(of) if of.claim == Uid::from("c")), "{call:?}");
    bench.answer(&call, Ok(Answer::Entries(vec![entry("other", 4)])));
    assert_eq!(bench.remote.clear(Waiter::Claim(1), &pool(), mark("c", None)), Ok(()));
}

#[test]
fn a_system_that_hangs_gets_few_calls() {
    let mut bench = Bench::new(Orphans::Report, 4);
    for slot in 0..100u32 {
        assert!(bench.remote.obtain(slot, &pool(), mark(&format!("c{slot}"), None), None, true).is_err());
    }
    let mut calls = bench.after(0);
    assert_eq!(calls.len(), 4);
    let mut all = 4;
    for _ in 0..60 {
        for call in std::mem::take(&mut calls) {
            bench.answer(&call, Err(Failure::Lost("no answer".into())));
        }
        calls = bench.after(10);
        assert!(calls.len() <= 1);
        all += calls.len();
    }
    assert!(all < 25, "{all} calls in ten minutes");
}
