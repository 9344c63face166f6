//! One allocator and one store, without lost or late messages: what claims get, and what their conditions say.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::in_cluster::InCluster;
use crate::names::{Key, PoolKind, PoolRef, Version};
use crate::pool::{Network, Plan, PoolSpec, PrefixSpec, SpecError};
use crate::retained_meta::RetainedMeta;

use super::flaws::{Flaw, plant};
use super::sim::store::{ADDRESSES, CLAIMS, KINDS, METAL3_ADDRESSES, METAL3_CLAIMS, POOLS, Store, addresses_of};
use super::{
    Action, Address, Attempt, Claim, Condition, Event, Failure, Hold, Links, Machine, Moment, Paused, Pool, Reason,
    Report, Write,
};

mod restored;
mod tenants;
mod vanished;

const ALL: [usize; KINDS] = [POOLS, CLAIMS, ADDRESSES, METAL3_CLAIMS, METAL3_ADDRESSES];

/// One allocator, and a store that applies each write at once.
struct Bench {
    store: Store,
    machine: Machine<InCluster>,
    now: Duration,
    seen: [usize; KINDS],
    reports: Vec<Report>,
    writes: Vec<Write>,
    lists: usize,
    reads: usize,
    refuse: fn(&Write) -> Option<Failure>,
}

fn pool(name: &str) -> Arc<PoolRef> {
    Arc::new(PoolRef::new(PoolKind::InClusterIPPool, "ns", name))
}

fn plan(addresses: &str) -> Plan {
    spec(addresses).plan().unwrap()
}

fn spec(addresses: &str) -> PoolSpec {
    PoolSpec { addresses: vec![addresses.into()], prefix: 24, ..PoolSpec::default() }
}

fn claim(name: &str, of: &str) -> Claim {
    Claim {
        key: Key::new("ns", name),
        uid: format!("uid-of-{name}").as_str().into(),
        version: Version("".into()),
        created: 0,
        pool: pool(of),
        deleting: false,
        finalizer: false,
        others: false,
        bound: None,
        voided: 0,
        had: None,
        requested: None,
        hold: Hold::None,
        condition: None,
        retained: RetainedMeta::default(),
    }
}

/// An address as another provider makes it; without a claim, as a human makes it.
fn address(name: &str, of: &str, at: &str, claim: Option<&Claim>) -> Address {
    Address {
        key: Key::new("ns", name),
        object: None,
        uid: format!("address-{name}").as_str().into(),
        version: Version("".into()),
        pool: pool(of),
        address: at.parse().ok(),
        prefix: 24,
        claim: name.into(),
        owner: claim.map(|c| c.uid.clone()),
        deleting: false,
        finalizer: claim.is_some(),
        attempt: None,
        rest: None,
        conflict: None,
        holder: None,
        hints: None,
        links: Links::default(),
    }
}

impl Bench {
    fn new(pools: &[(&str, Result<Plan, Vec<SpecError>>)]) -> Self {
        let mut bench = Self {
            store: Store { wall: 1_795_168_800, ..Store::default() },
            machine: Machine::new(InCluster::default(), 1),
            now: Duration::ZERO,
            seen: [0; KINDS],
            reports: Vec::new(),
            writes: Vec::new(),
            lists: 0,
            reads: 0,
            refuse: |_| None,
        };
        for (name, plan) in pools {
            bench.pool(name, plan.clone());
        }
        bench
    }

    fn pool(&mut self, name: &str, plan: Result<Plan, Vec<SpecError>>) {
        self.put_pool((*pool(name)).clone(), plan);
    }

    /// Creates or edits a pool.
    fn put_pool(&mut self, reference: PoolRef, plan: Result<Plan, Vec<SpecError>>) {
        let known = self.store.pools.get(&reference).cloned();
        let name = format!("{reference} {}", reference.namespace);
        let uid = known.as_ref().map_or_else(|| (&*name).into(), |p| p.uid.clone());
        let generation = known.as_ref().map_or(1, |p| p.generation + 1);
        let version = Version("".into());
        self.store.put_pool(Pool {
            reference: Arc::new(reference),
            uid,
            version,
            generation,
            plan,
            remote: None,
            paused: None,
            deleting: false,
            finalizer: known.is_some_and(|p| p.finalizer),
            status: None,
        });
    }

    fn pause(&mut self, name: &str, paused: bool) {
        self.pause_by(name, paused.then_some(Paused::Annotation));
    }

    fn pause_by(&mut self, name: &str, paused: Option<Paused>) {
        let known = self.store.pools[&*pool(name)].clone();
        self.store.put_pool(Pool { paused, ..known });
    }

    /// Starts a new process, which lists everything and leads.
    fn start(&mut self) {
        self.machine = Machine::new(InCluster::default(), 2);
        self.seen = std::array::from_fn(|kind| self.store.logs[kind].len());
        for kind in ALL {
            let list = self.store.list(kind, None);
            self.tell(list);
        }
        self.tell(Event::Metal3Listed);
        self.tell(Event::Leading(Some(Duration::MAX)));
        self.rest(1);
    }

    fn tell(&mut self, event: Event) {
        let moment = Moment { now: self.now, wall: self.store.wall };
        for action in self.machine.step(moment, event) {
            match action {
                Action::Write { id, write } => {
                    let result = (self.refuse)(&write).map_or_else(|| self.store.apply(&write), Err);
                    self.writes.push(write);
                    self.store.check().unwrap();
                    self.tell(Event::Answer { id, result });
                }
                Action::ListAddresses { of, id } => {
                    self.lists += 1;
                    let kind = addresses_of(of);
                    self.seen[kind] = self.store.logs[kind].len();
                    let list = self.store.list(kind, Some(id));
                    self.tell(list);
                }
                Action::ReadClaim { id, key, .. } => {
                    self.reads += 1;
                    let result = Ok(self.store.claims.get(&key).cloned());
                    self.tell(Event::ClaimRead { id, result });
                }
                Action::Report(report) => self.reports.push(report),
                Action::Remote(_) => {}
            }
        }
    }

    /// Lets this many seconds pass. The watches show everything.
    fn rest(&mut self, seconds: u64) {
        for _ in 0..seconds * 20 {
            self.pass(Duration::from_millis(50));
        }
    }

    /// The watches show everything, and then some time passes.
    fn pass(&mut self, time: Duration) {
        for kind in ALL {
            self.show(kind);
        }
        let before = self.now.as_secs();
        self.now += time;
        self.store.wall += self.now.as_secs() - before;
        self.tell(Event::Tick);
    }

    /// The watch of a kind shows everything.
    fn show(&mut self, kind: usize) {
        while let Some(event) = self.store.logs[kind].get(self.seen[kind]).cloned() {
            self.seen[kind] += 1;
            self.tell(event);
        }
    }

    fn claim(&self, name: &str) -> &Claim {
        &self.store.claims[&Key::new("ns", name)]
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Claim)) {
        let mut claim = self.claim(name).clone();
        change(&mut claim);
        self.store.put_claim(claim);
        self.rest(1);
    }

    fn address(&self, name: &str) -> &Address {
        &self.store.addresses[&Key::new("ns", name)]
    }

    fn change_address(&mut self, name: &str, change: impl FnOnce(&mut Address)) {
        let mut address = self.address(name).clone();
        change(&mut address);
        self.store.put_address(address);
        self.rest(1);
    }

    /// Creates a claim, and waits.
    fn make(&mut self, claim: Claim) {
        self.store.put_claim(claim);
        self.rest(1);
    }

    fn asks(&mut self, name: &str, of: &str, at: &str) {
        self.make(Claim { requested: Some(at.into()), ..claim(name, of) });
    }

    /// The address to which a claim is bound.
    fn has(&self, name: &str) -> Option<IpAddr> {
        let claim = self.claim(name);
        claim.bound.as_ref().and_then(|_| self.address(name).address)
    }

    fn condition(&self, name: &str) -> (Reason, &str) {
        let Condition { reason, message, .. } = self.claim(name).condition.as_ref().unwrap();
        (*reason, message)
    }

    fn number(&self, of: impl Fn(&Write) -> bool) -> usize {
        self.writes.iter().filter(|w| of(w)).count()
    }
}

/// An object made by hand in another namespace, out of a pool of prefixes.
fn prefix_by_hand(kind: PoolKind, of: &str, prefix: &str, length: u8) -> Address {
    Address {
        key: Key::new("tenant", "x"),
        pool: Arc::new(PoolRef::new(kind, "tenant", of)),
        prefix: length,
        ..address("x", of, prefix, None)
    }
}

fn some(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

#[test]
fn claims_of_a_kind_that_may_not_be_listed_wait_alone_and_nothing_of_them_is_released() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.4")))]);
    let refused = Arc::new(PoolRef::new(PoolKind::PHPIPAMIPPool, "ns", "far"));
    let of_it = |name| Claim { pool: refused.clone(), finalizer: true, ..claim(name, "p") };
    bench.store.put_claim(of_it("waits"));
    let goes = bench.store.put_claim(Claim { bound: Some("goes".into()), deleting: true, ..of_it("goes") });
    bench.store.put_address(Address { pool: refused.clone(), ..address("goes", "p", "10.0.9.1", Some(&goes)) });
    // One whose claim is gone.
    bench.store.put_address(Address {
        pool: refused.clone(),
        finalizer: true,
        owner: Some("gone".into()),
        ..address("left", "p", "10.0.9.2", None)
    });
    bench.make(claim("c", "p"));
    bench.machine = Machine::new(InCluster::default(), 2);
    bench.tell(Event::PoolsRefused(PoolKind::PHPIPAMIPPool, Some("give it the permission".into())));
    for kind in ALL {
        let list = bench.store.list(kind, None);
        bench.tell(list);
    }
    bench.seen = std::array::from_fn(|kind| bench.store.logs[kind].len());
    bench.tell(Event::Leading(Some(Duration::MAX)));
    bench.rest(60);
    assert!(bench.has("c").is_some(), "claims of other kinds go on");
    let waits = "PHPIPAMIPPool far cannot be read: give it the permission";
    assert_eq!(bench.condition("waits"), (Reason::PoolNotReady, waits));
    assert_eq!(bench.number(|write| matches!(write, Write::Condition(one, _) if *one.key.name == *"waits")), 1);
    let lets_go = |write: &Write| {
        matches!(write, Write::RemoveFinalizer(_) | Write::RemoveAddressFinalizer(_) | Write::DeleteAddress(_))
    };
    assert_eq!(bench.number(lets_go), 0, "{:?}", bench.writes);
    // The permission comes, and there is no such pool.
    bench.tell(Event::PoolsRefused(PoolKind::PHPIPAMIPPool, None));
    bench.rest(60);
    assert_eq!(bench.condition("waits").1, "PHPIPAMIPPool far does not exist: create it");
    assert!(bench.number(lets_go) > 0);
}

#[test]
fn three_writes_make_a_claim_bound() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.3")))]);
    bench.start();
    bench.writes.clear();
    bench.store.put_claim(claim("c", "p"));
    bench.rest(0);
    bench.rest(1);
    assert_eq!(bench.has("c"), some("10.0.0.1"));
    assert_eq!(bench.condition("c"), (Reason::AddressAllocated, "10.0.0.1"));
    let kinds: Vec<_> = bench.writes.iter().filter(|w| !matches!(w, Write::PoolStatus(..))).collect();
    assert!(matches!(kinds[..], [Write::AddFinalizer(..), Write::Create(_), Write::Bind(..)]), "{kinds:?}");
}

#[test]
fn who_asks_for_what_is_taken_is_told_by_whom() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.3"))), ("q", Ok(plan("10.0.0.2-10.0.0.9")))]);
    bench.start();
    bench.asks("first", "p", "10.0.0.2");
    bench.asks("second", "p", "10.0.0.2");
    // In another pool of the same network it is still the same address.
    bench.asks("third", "q", "10.0.0.2");
    let message =
        "the requested address 10.0.0.2 is taken by claim ns/first: delete that one, or ask for another".to_owned();
    assert_eq!(bench.condition("second"), (Reason::AllocationFailed, &*message));
    assert_eq!(bench.condition("third"), (Reason::AllocationFailed, &*message));
    bench.change("first", |c| c.deleting = true);
    assert_eq!(bench.has("second"), some("10.0.0.2"));
    assert!(bench.condition("third").1.contains("taken by claim ns/second"), "{:?}", bench.condition("third"));
}

#[test]
fn who_asks_for_what_rests_is_told_until_when() {
    let mut quarantine = spec("10.0.0.1-10.0.0.3");
    quarantine.policy.quarantine_seconds = 30;
    let mut bench = Bench::new(&[("p", quarantine.plan())]);
    bench.start();
    bench.asks("first", "p", "10.0.0.2");
    bench.asks("second", "p", "10.0.0.2");
    bench.change("first", |c| c.deleting = true);
    bench.start();
    let message = bench.condition("second").1;
    assert!(message.starts_with("the requested address 10.0.0.2 rests until 2026-11-20T10:00:3"), "{message}");
    bench.rest(31);
    assert_eq!(bench.has("second"), some("10.0.0.2"));
    assert_eq!(bench.store.addresses.len(), 1, "the tombstone is gone");
}

#[test]
fn whatever_a_claim_waits_for_it_is_told_what_to_do() {
    let mut kept = spec("10.0.0.1-10.0.0.3");
    kept.gateway = Some("10.0.0.1".into());
    kept.excluded_addresses = vec!["10.0.0.3".into()];
    kept.policy.pre_allocations = [("vip".to_owned(), "10.0.0.2".to_owned())].into();
    let mut closed = spec("10.1.0.1-10.1.0.3");
    closed.policy.allowed_namespaces = Some(["other".to_owned()].into());
    let broken = Err(vec![SpecError::Empty { field: "addresses" }]);
    let mut bench = Bench::new(&[("p", kept.plan()), ("closed", closed.plan()), ("broken", broken)]);
    bench.start();
    let cases = [
        ("c1", "p", "10.0.0.1", Reason::AllocationFailed, "the pool's gateway: ask for another"),
        (
            "c2",
            "p",
            "10.0.0.0",
            Reason::AllocationFailed,
            "reserved in its subnet (allocateReservedIPAddresses is off): ask",
        ),
        ("c3", "p", "10.0.0.3", Reason::AllocationFailed, "excluded from the pool: ask for another"),
        ("c4", "p", "10.0.9.3", Reason::AllocationFailed, "not in the pool: ask for another"),
        ("c5", "p", "10.0.0", Reason::AllocationFailed, "cannot be read"),
        ("c6", "p", "10.0.0.2", Reason::AllocationFailed, "kept for another claim (preAllocations): ask for another"),
        (
            "vip",
            "p",
            "10.0.0.3",
            Reason::AllocationFailed,
            "keeps 10.0.0.2 for this claim (preAllocations): ask for that",
        ),
        (
            "c7",
            "p",
            "",
            Reason::PoolExhausted,
            "(1 in all, 0 used, 0 resting, 1 for other claims): add addresses to it, or delete claims",
        ),
        ("c8", "closed", "", Reason::AllocationFailed, "add it to allowedNamespaces, or claim from another pool"),
        ("c9", "broken", "", Reason::PoolNotReady, "addresses is empty: list what the pool may hand out"),
        ("c10", "missing", "", Reason::PoolNotReady, "InClusterIPPool missing does not exist: create it"),
    ];
    for (name, of, at, reason, words) in cases {
        bench.asks(name, of, at);
        let (told, message) = bench.condition(name);
        assert!(told == reason && message.contains(words), "{name}: {told:?} {message:?}");
    }
    bench.pool("missing", Ok(plan("10.2.0.1-10.2.0.2")));
    bench.rest(1);
    assert_eq!(bench.has("c10"), some("10.2.0.1"));
}

#[test]
fn a_wrong_preallocation_stops_the_claims_that_it_names_and_no_other() {
    let mut wrong = spec("10.0.0.1-10.0.0.5");
    let pairs = [("a", "10.0.0.1"), ("b", "10.0.0.1"), ("c", "10.0.9.9"), ("d", "10.0.0.2")];
    wrong.policy.pre_allocations = pairs.map(|(claim, at)| (claim.to_owned(), at.to_owned())).into();
    let mut bench = Bench::new(&[("p", wrong.plan())]);
    bench.start();
    for (name, words) in [("a", "claims \"a\" and \"b\""), ("b", "claims \"a\" and \"b\""), ("c", "not in the pool")] {
        bench.make(claim(name, "p"));
        let (reason, message) = bench.condition(name);
        assert!(reason == Reason::AllocationFailed && message.contains(words), "{name}: {reason:?} {message:?}");
    }
    for (name, at) in [("d", "10.0.0.2"), ("e", "10.0.0.3")] {
        bench.make(claim(name, "p"));
        assert_eq!(bench.has(name), some(at), "{name}");
    }
    bench.rest(1);
    let status = bench.store.pools[&*pool("p")].status.clone().unwrap();
    assert!(status.ready && status.misplaced.contains("\"b\"") && status.misplaced.contains("10.0.9.9"), "{status:?}");
    // Corrected, all are served.
    wrong.policy.pre_allocations.remove("b");
    wrong.policy.pre_allocations.remove("c");
    bench.pool("p", wrong.plan());
    bench.rest(1);
    assert_eq!(bench.has("a"), some("10.0.0.1"));
    assert!(bench.has("b").is_some() && bench.has("c").is_some());
    assert_eq!(bench.store.pools[&*pool("p")].status.as_ref().map(|status| &*status.misplaced), Some(""));
}

#[test]
fn claims_of_a_paused_pool_are_told_and_go_on_after() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.3")))]);
    bench.start();
    bench.pause("p", true);
    bench.make(claim("c", "p"));
    for (by, words) in [
        (Paused::Annotation, "annotation cluster.x-k8s.io/paused"),
        (Paused::Cluster("prod".into()), "Cluster prod, which is paused"),
        (Paused::ClusterUnknown("prod".into()), "Clusters could not be listed yet"),
        (Paused::NamespacesUnknown, "namespaces could not be listed yet"),
    ] {
        bench.pause_by("p", Some(by));
        bench.rest(60);
        let (reason, message) = bench.condition("c");
        assert!(reason == Reason::PoolNotReady && message.contains(words), "{reason:?} {message:?}");
    }
    bench.pause("p", false);
    bench.rest(1);
    assert_eq!(bench.has("c"), some("10.0.0.1"));
}

#[test]
fn what_a_list_leaves_out_is_asked_for_before_anything_is_released() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.3")))]);
    bench.start();
    bench.make(claim("c", "p"));
    bench.writes.clear();
    bench.tell(Event::Claims(Vec::new()));
    bench.rest(2);
    assert_eq!((bench.reads, bench.has("c")), (1, some("10.0.0.1")));
    assert_eq!(bench.number(|w| !matches!(w, Write::PoolStatus(..))), 0, "{:?}", bench.writes);
}

#[test]
fn a_conflict_on_the_wire_gives_another_address_and_the_first_rests() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.3")))]);
    bench.start();
    bench.make(claim("c", "p"));
    bench.change_address("c", |a| a.conflict = Some("node-3 heard 02:00:00:00:00:09".into()));
    bench.rest(2);
    assert_eq!(bench.has("c"), some("10.0.0.2"));
    let rests: Vec<_> = bench.store.addresses.values().filter(|a| a.rest.is_some()).collect();
    assert_eq!(rests.iter().map(|a| a.address).collect::<Vec<_>>(), [some("10.0.0.1")]);
    let until = rests[0].rest.as_ref().unwrap().until;
    assert!(until > bench.store.wall + 590, "as long as the pool says, or ten minutes");
    let reported = |r: &&Report| matches!(r, Report::Conflict { kept: false, .. });
    assert_eq!(bench.reports.iter().filter(reported).count(), 1);
    bench.start();
    bench.make(claim("d", "p"));
    assert_eq!(bench.has("d"), some("10.0.0.3"), "it rests over a restart");
}

#[test]
fn after_a_conflict_the_address_rests_although_the_pool_says_that_nothing_rests() {
    let mut restless = spec("10.0.0.1-10.0.0.3");
    restless.policy.conflict_quarantine_seconds = Some(0);
    let mut bench = Bench::new(&[("p", Ok(restless.plan().unwrap()))]);
    bench.start();
    bench.make(claim("c", "p"));
    bench.writes.clear();
    // A host has the address, and is heard whenever somebody else gets it.
    for _ in 0..9 {
        if bench.has("c") == some("10.0.0.1") {
            bench.change_address("c", |a| a.conflict = Some("node-3 heard 02:00:00:00:00:09".into()));
        }
        bench.rest(1);
    }
    assert_eq!(bench.has("c"), some("10.0.0.2"));
    assert!(bench.writes.len() < 13, "{:?}", bench.writes);
}

#[test]
fn no_rest_is_longer_than_its_pool_says_whatever_a_clock_said() {
    let mut rests = spec("10.0.0.1-10.0.0.1");
    rests.policy.quarantine_seconds = 60;
    rests.policy.conflict_quarantine_seconds = Some(90);
    let mut bench = Bench::new(&[("p", rests.plan())]);
    bench.start();
    bench.make(claim("c", "p"));
    // The leader's node was started with a wrong clock, ten years ahead.
    bench.store.wall += 315_360_000;
    bench.change("c", |claim| claim.deleting = true);
    bench.store.wall -= 315_360_000;
    bench.make(claim("d", "p"));
    assert_eq!(bench.has("d"), None, "it rests");
    bench.rest(30);
    // The next leader's clock is right.
    bench.start();
    bench.rest(50);
    assert_eq!(bench.has("d"), None, "it rests");
    bench.rest(50);
    assert_eq!(bench.has("d"), some("10.0.0.1"));
}

#[test]
fn who_asked_for_an_address_keeps_it_in_a_conflict_and_is_told() {
    let mut kept = spec("10.0.0.1-10.0.0.9");
    kept.policy.pre_allocations = [("vip".to_owned(), "10.0.0.2".to_owned())].into();
    let mut bench = Bench::new(&[("p", kept.plan())]);
    bench.store.put_address(address("pinned", "p", "10.0.0.7", None));
    bench.start();
    bench.asks("asks", "p", "10.0.0.5");
    bench.make(claim("vip", "p"));
    bench.make(claim("pinned", "p"));
    for (name, has) in [("asks", "10.0.0.5"), ("vip", "10.0.0.2"), ("pinned", "10.0.0.7")] {
        bench.change_address(name, |a| a.conflict = Some("node-3 heard 02:00:00:00:00:09".into()));
        assert_eq!(bench.has(name), some(has));
        let (reason, message) = bench.condition(name);
        assert_eq!(reason, Reason::AllocationFailed);
        assert!(message.contains("02:00:00:00:00:09") && message.contains("take it away from there"), "{message}");
        bench.change_address(name, |a| a.conflict = None);
        assert_eq!(bench.condition(name).0, Reason::AddressAllocated);
    }
    let reported = |r: &&Report| matches!(r, Report::Conflict { kept: true, .. });
    assert_eq!(bench.reports.iter().filter(reported).count(), 3);
}

#[test]
fn an_unbound_object_in_conflict_is_never_bound() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.3")))]);
    bench.start();
    bench.refuse = |w| matches!(w, Write::Bind(..)).then_some(Failure::Unknown);
    bench.make(claim("c", "p"));
    bench.refuse = |_| None;
    bench.writes.clear();
    bench.change_address("c", |a| a.conflict = Some("node-3".into()));
    bench.rest(40);
    assert_eq!(bench.has("c"), some("10.0.0.2"));
    let bound = |w: &Write| matches!(w, Write::Bind(_, _, c) if c.message == "10.0.0.1");
    assert_eq!(bench.number(bound), 0);
}

#[test]
fn an_address_that_is_heard_elsewhere_while_it_goes_rests_too() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.3")))]);
    bench.start();
    bench.refuse = |w| matches!(w, Write::Bind(..) | Write::RemoveAddressFinalizer(_)).then_some(Failure::Unknown);
    bench.make(claim("c", "p"));
    bench.change("c", |c| c.deleting = true);
    bench.change_address("c", |a| a.conflict = Some("node-3".into()));
    bench.refuse = |_| None;
    bench.rest(40);
    assert!(bench.store.claims.is_empty());
    assert!(bench.store.addresses.values().all(|a| a.rest.is_some() && a.address == some("10.0.0.1")));
    assert_eq!(bench.store.addresses.len(), 1);
}

#[test]
fn addresses_that_another_provider_gave_twice_are_reported_and_not_broken() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9"))), ("q", Ok(plan("10.0.0.1-10.0.0.9")))]);
    for (name, of) in [("a", "p"), ("b", "q")] {
        let old = Claim { finalizer: true, bound: Some(name.into()), ..claim(name, of) };
        bench.store.put_address(address(name, of, "10.0.0.4", Some(&old)));
        bench.store.put_claim(old);
    }
    bench.store.old_duplicates = ["address-a".into(), "address-b".into()].into();
    bench.start();
    bench.make(Claim { requested: Some("10.0.0.4".into()), ..claim("new", "q") });
    for name in ["a", "b"] {
        assert_eq!(bench.has(name), some("10.0.0.4"));
        assert_eq!(bench.condition(name).0, Reason::AddressAllocated);
    }
    assert!(bench.condition("new").1.contains("is taken by claim ns/"));
    bench.make(claim("other", "q"));
    assert_eq!(bench.has("other"), some("10.0.0.1"), "new ones share one view");
    bench.make(claim("another", "p"));
    assert_eq!(bench.has("another"), some("10.0.0.2"));
    let reported = |r: &&Report| matches!(r, Report::Duplicate { .. });
    assert_eq!(bench.reports.iter().filter(reported).count(), 1);
    for name in ["p", "q"] {
        let status = bench.store.pools[&*pool(name)].status.clone().unwrap();
        assert!(status.duplicates.contains("has 10.0.0.4, which IPAddress ns/"), "{status:?}");
        assert!(status.duplicates.contains("give each a network of its own"), "{status:?}");
        assert!(status.overlapping.contains("it has addresses in common with InClusterIPPool ns/"), "{status:?}");
    }
    bench.change("b", |c| c.deleting = true);
    bench.rest(2);
    assert_eq!(bench.store.pools[&*pool("p")].status.as_ref().unwrap().duplicates, "");
}

#[test]
fn duplicates_are_told_alike_whosever_the_claims_are_and_in_whatever_order_they_were_seen() {
    let duplicates = |order: [&str; 2], hold: &Hold| {
        let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
        bench.start();
        for name in order {
            let old = Claim { finalizer: true, bound: Some(name.into()), hold: hold.clone(), ..claim(name, "p") };
            bench.store.old_duplicates.insert(format!("address-{name}").as_str().into());
            bench.store.put_address(address(name, "p", "10.0.0.4", Some(&old)));
            bench.store.put_claim(old);
            bench.rest(1);
        }
        bench.rest(5);
        bench.store.pools[&*pool("p")].status.clone().unwrap().duplicates
    };
    let first = duplicates(["a", "b"], &Hold::None);
    assert!(first.contains("IPAddress a has 10.0.0.4, which IPAddress ns/b has too"), "{first}");
    for hold in [Hold::None, Hold::Paused] {
        for order in [["a", "b"], ["b", "a"]] {
            assert_eq!(duplicates(order, &hold), first, "{order:?} {hold:?}");
        }
    }
}

#[test]
fn a_name_that_a_foreign_object_has_is_told_and_not_asked_for_again_and_again() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.3")))]);
    bench.store.foreign.insert(Key::new("ns", "c"));
    bench.start();
    bench.make(claim("c", "p"));
    bench.rest(5);
    let (reason, message) = bench.condition("c");
    assert!(reason == Reason::AllocationFailed && message.contains("of a pool that is not served here"), "{message}");
    bench.rest(300);
    assert_eq!(bench.lists, 1);
    let tries = bench.number(|w| matches!(w, Write::Create(_)));
    assert!(tries < 30, "{tries} tries in five minutes");
    bench.store.foreign.clear();
    bench.rest(60);
    assert_eq!(bench.has("c"), some("10.0.0.1"));
}

#[test]
fn a_tombstone_that_is_refused_for_good_holds_nothing_up() {
    let mut quarantine = spec("10.0.0.1-10.0.0.3");
    quarantine.policy.quarantine_seconds = 30;
    let mut bench = Bench::new(&[("p", quarantine.plan())]);
    bench.start();
    bench.make(claim("c", "p"));
    bench.refuse = |w| matches!(w, Write::Create(_)).then(|| Failure::Refused("the namespace is being deleted".into()));
    bench.change("c", |c| c.deleting = true);
    bench.rest(5);
    assert!(bench.store.claims.is_empty() && bench.store.addresses.is_empty());
    assert!(bench.reports.iter().any(|r| matches!(r, Report::NotRested { why, .. } if why.contains("namespace"))));
}

#[test]
fn a_refused_write_is_told() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.3")))]);
    bench.start();
    bench.refuse = |w| matches!(w, Write::AddFinalizer(..)).then(|| Failure::Refused("no finalizers here".into()));
    bench.make(claim("c", "p"));
    assert!(bench.condition("c").1.contains("no finalizers here"), "{:?}", bench.condition("c"));
    let tries = bench.number(|w| matches!(w, Write::AddFinalizer(..)));
    bench.rest(60);
    assert!(bench.number(|w| matches!(w, Write::AddFinalizer(..))) - tries < 20);
    bench.refuse = |_| None;
    bench.rest(60);
    assert_eq!(bench.has("c"), some("10.0.0.1"));
}

#[test]
fn an_object_by_hand_for_somebody_else_is_not_taken() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.3")))]);
    bench.store.put_address(Address { claim: "x".into(), ..address("c", "p", "10.0.0.2", None) });
    bench.start();
    bench.make(claim("c", "p"));
    assert!(bench.condition("c").1.contains("is not for this claim (claimRef x)"), "{:?}", bench.condition("c"));
    bench.change_address("c", |a| a.deleting = true);
    assert_eq!(bench.has("c"), some("10.0.0.1"));
}

#[test]
fn an_object_by_hand_that_a_bound_claim_owns_is_not_listed_for_without_end() {
    // An object with the claim's name for another claim, and an object for this claim with another name.
    for (name, of) in [("c", "x"), ("y", "c")] {
        let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.3")))]);
        let bound = Claim { finalizer: true, bound: Some("c".into()), ..claim("c", "p") };
        // The claim's own object was removed by force.
        bench.store.forced.insert(bound.uid.clone());
        bench.store.put_address(Address { claim: of.into(), ..address(name, "p", "10.0.0.2", Some(&bound)) });
        bench.store.put_claim(bound);
        bench.start();
        bench.rest(30);
        assert!(bench.lists < 5, "{} lists", bench.lists);
        if name == "c" {
            assert!(
                bench.condition("c").1.contains("is not for this claim (claimRef x)"),
                "{:?}",
                bench.condition("c")
            );
        } else {
            assert_eq!(bench.has("c"), some("10.0.0.1"));
        }
    }
}

#[test]
fn a_pool_is_told_of_others_that_overlap_however_long_it_was_quiet() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.3")))]);
    bench.start();
    for (others, said) in [("10.0.0.3-10.0.0.5", "ns/q"), ("10.0.0.4-10.0.0.5", "")] {
        bench.rest(60);
        bench.pool("q", Ok(plan(others)));
        bench.rest(5);
        let status = bench.store.pools[&*pool("p")].status.as_ref().unwrap();
        assert!(status.overlapping.contains(said) && status.overlapping.is_empty() == said.is_empty(), "{status:?}");
    }
}

#[test]
fn what_was_decided_for_one_owner_is_not_done_to_the_next() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
    let old = Claim { finalizer: true, bound: Some("c".into()), ..claim("c", "p") };
    bench.store.put_address(address("c", "p", "10.0.0.4", Some(&old)));
    bench.store.put_claim(old);
    bench.start();
    bench.refuse = |w| matches!(w, Write::RemoveAddressFinalizer(_)).then_some(Failure::Unknown);
    bench.change("c", |c| c.deleting = true);
    assert!(bench.number(|w| matches!(w, Write::RemoveAddressFinalizer(_))) > 0);
    // Somebody takes the claim away by force, and gives the object to the next claim of this name.
    let object = Address { owner: Some("another".into()), ..bench.address("c").clone() };
    bench.store.put_address(object);
    let gone = Claim { finalizer: false, ..bench.claim("c").clone() };
    bench.store.put_claim(gone);
    bench.refuse = |_| None;
    bench.make(Claim { uid: "another".into(), ..claim("c", "p") });
    bench.rest(60);
    assert_eq!((bench.has("c"), &bench.address("c").uid), (some("10.0.0.4"), &"address-c".into()));
}

#[test]
fn an_object_without_owner_goes_with_the_claim_that_is_bound_to_it() {
    // The garbage collector removes the claim's owner reference when the claim is deleted in the foreground, or when
    // its dependents are orphaned.
    for taken_over in [true, false] {
        let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
        if taken_over {
            let old = Claim { finalizer: true, bound: Some("c".into()), ..claim("c", "p") };
            bench.store.put_address(address("c", "p", "10.0.0.1", Some(&old)));
            bench.store.put_claim(old);
        } else {
            bench.store.put_claim(claim("c", "p"));
        }
        bench.start();
        assert_eq!(bench.has("c"), some("10.0.0.1"));
        bench.change("c", |c| (c.deleting, c.others) = (true, true));
        bench.change_address("c", |a| a.owner = None);
        bench.rest(3);
        assert!(bench.store.addresses.contains_key(&Key::new("ns", "c")), "its machine is not gone");
        bench.change("c", |c| c.others = false);
        bench.rest(3);
        assert!(bench.store.claims.is_empty() && bench.store.addresses.is_empty(), "{:?}", bench.store.addresses);
        let named = |r: &Report| matches!(r, Report::Released { block: Some(_), .. });
        assert!(bench.reports.iter().any(named), "the report names the address");
    }
}

/// A backup brings back the object of before, and who had the address has it by a claim of another name.
#[test]
fn an_object_without_owner_goes_after_a_while_where_another_claim_has_its_address() {
    // By hand: without our finalizer. Alone: nobody has the address.
    for (by_hand, alone) in [(false, false), (true, false), (false, true)] {
        let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
        if !alone {
            bench.store.put_claim(claim("c", "p"));
        }
        bench.start();
        let object = address("before", "p", "10.0.0.1", None);
        bench.store.put_address(Address { finalizer: !by_hand, ..object });
        let there = |bench: &Bench| bench.store.addresses.contains_key(&Key::new("ns", "before"));
        bench.rest(500);
        assert!(there(&bench), "its claim may be restored for some minutes");
        bench.rest(200);
        assert_eq!(there(&bench), by_hand || alone);
        assert!(alone || bench.has("c") == some("10.0.0.1"));
        assert!(bench.store.addresses.keys().all(|key| !key.name.starts_with("rest-")), "nothing rests");
        if alone {
            // Its claim comes after all.
            bench.make(claim("before", "p"));
            bench.rest(5);
            assert_eq!(bench.has("before"), some("10.0.0.1"));
        }
    }
}

#[test]
fn an_object_without_owner_is_not_released_with_an_earlier_claim_of_its_name() {
    // The simulator does not notice it any more: what is released so is made again, and entries that are left are found.
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
    bench.store.put_claim(claim("c", "p"));
    bench.start();
    let next = Address { owner: None, ..bench.address("c").clone() };
    bench.store.put_address(next);
    // The watch has not shown yet that the earlier claim is gone.
    let earlier = Claim {
        uid: "earlier".into(),
        finalizer: true,
        deleting: true,
        others: false,
        bound: Some("c".into()),
        ..claim("c", "p")
    };
    bench.machine = Machine::new(InCluster::default(), 2);
    bench.writes.clear();
    for kind in ALL {
        let list = bench.store.list(kind, None);
        bench.tell(if matches!(list, Event::Claims(_)) { Event::Claims(vec![earlier.clone()]) } else { list });
    }
    bench.tell(Event::Leading(Some(Duration::MAX)));
    let lets_go = |write: &Write| matches!(write, Write::RemoveAddressFinalizer(_) | Write::DeleteAddress(_));
    assert_eq!(bench.number(lets_go), 0, "{:?}", bench.writes);
}

#[test]
#[should_panic(expected = "is bound, and its object is gone")]
fn that_it_is_released_with_an_earlier_claim_is_noticed() {
    plant(Some(Flaw::NextIsReleased));
    an_object_without_owner_is_not_released_with_an_earlier_claim_of_its_name();
}

#[test]
fn an_object_without_owner_goes_when_somebody_deletes_it_and_no_claim_is_bound_to_it() {
    // As another provider leaves one whose claim is gone: the garbage collector has removed the claim's owner reference.
    for named in ["", "p", "q"] {
        let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9"))), ("q", Ok(plan("10.1.0.1-10.1.0.9")))]);
        bench.store.put_address(Address { finalizer: true, ..address("c", "p", "10.0.0.7", None) });
        bench.start();
        bench.rest(5);
        assert!(bench.store.addresses.contains_key(&Key::new("ns", "c")), "it waits for a claim of its name");
        assert_eq!(bench.reads, 0);
        let deleted = Address { deleting: true, ..bench.address("c").clone() };
        bench.store.put_address(deleted);
        if !named.is_empty() {
            bench.make(claim("c", named));
        }
        bench.rest(5);
        match named {
            "" => assert!(bench.store.addresses.is_empty(), "{:?}", bench.store.addresses),
            // It could not stay: the claim has another object with the address.
            "p" => assert_eq!((bench.has("c"), bench.address("c").deleting), (some("10.0.0.7"), false)),
            _ => assert_eq!(bench.has("c"), some("10.1.0.1")),
        }
    }
}

#[test]
fn an_object_without_owner_is_void_before_it_goes_because_a_bind_may_be_under_way() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
    bench.start();
    bench.refuse = |w| matches!(w, Write::Bind(..)).then_some(Failure::Unknown);
    bench.make(claim("c", "p"));
    bench.writes.clear();
    bench.change_address("c", |a| (a.deleting, a.owner) = (true, None));
    bench.refuse = |_| None;
    bench.rest(30);
    let first = |what: fn(&Write) -> bool| bench.writes.iter().position(what).unwrap();
    assert!(first(|w| matches!(w, Write::Void(..))) < first(|w| matches!(w, Write::RemoveAddressFinalizer(_))));
    assert_eq!((bench.has("c"), bench.address("c").deleting), (some("10.0.0.1"), false));
}

#[test]
fn an_object_without_owner_that_a_bound_claim_uses_stays_although_somebody_deletes_it() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
    let bound = Claim { finalizer: true, bound: Some("c".into()), ..claim("c", "p") };
    let own = Address { finalizer: true, deleting: true, ..address("c", "p", "10.0.0.7", None) };
    bench.store.put_address(own);
    bench.store.put_claim(bound);
    bench.start();
    bench.rest(30);
    assert_eq!((bench.has("c"), &bench.address("c").uid), (some("10.0.0.7"), &"address-c".into()));
    bench.change("c", |c| c.deleting = true);
    bench.rest(3);
    assert!(bench.store.claims.is_empty() && bench.store.addresses.is_empty());
}

#[test]
fn an_object_goes_whose_claim_was_removed_by_force_whatever_the_garbage_collector_does_first() {
    for (collected_first, taken_over) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
        if taken_over {
            let uid = bench.store.pools[&*pool("p")].uid.clone();
            let old = Claim { finalizer: true, bound: Some("c".into()), ..claim("c", "p") };
            let links = Links { pool: Some(uid), outdated: false };
            bench.store.put_address(Address { links, ..address("c", "p", "10.0.0.1", Some(&old)) });
            bench.store.put_claim(old);
        }
        bench.start();
        if !taken_over {
            bench.make(claim("c", "p"));
        }
        assert_eq!(bench.has("c"), some("10.0.0.1"));
        // The pool owns the object too: so the garbage collector only removes the owner reference of the claim. Meanwhile the
        // allocator's writes meet other versions.
        bench.refuse =
            |w| matches!(w, Write::Adopt(..) | Write::RemoveAddressFinalizer(_)).then_some(Failure::Conflict);
        let key = Key::new("ns", "c");
        let gone = bench.store.claims.remove(&key).unwrap();
        bench.store.logs[CLAIMS].push(Event::ClaimGone(key, gone.uid));
        let object = Address { owner: None, ..bench.address("c").clone() };
        for kind in if collected_first { [ADDRESSES, CLAIMS] } else { [CLAIMS, ADDRESSES] } {
            if kind == ADDRESSES {
                bench.store.put_address(object.clone());
            }
            bench.show(kind);
        }
        bench.refuse = |_| None;
        bench.rest(30);
        let case = format!("collected first {collected_first}, taken over {taken_over}");
        assert!(bench.store.addresses.is_empty(), "{case}: {:?}", bench.store.addresses);
    }
}

#[test]
fn a_restored_object_stays_with_the_claim_of_its_name() {
    // Restored from a backup, claim and object have new uids, and the owner reference has the claim's old uid.
    for (bound, deleting, marked) in
        [(false, false, false), (true, false, false), (false, true, false), (false, false, true), (true, true, true)]
    {
        let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
        let old = Claim { uid: "before".into(), ..claim("c", "p") };
        let attempt = marked.then(|| Attempt { claim: "before".into(), number: 3, adopted: false });
        bench.store.put_address(Address { deleting, attempt, ..address("c", "p", "10.0.0.7", Some(&old)) });
        let condition = Condition { ready: true, reason: Reason::AddressAllocated, message: "10.0.0.7".into() };
        bench.store.put_claim(Claim {
            finalizer: true,
            bound: bound.then(|| "c".into()),
            condition: bound.then_some(condition),
            ..claim("c", "p")
        });
        bench.store.forced.insert(claim("c", "p").uid);
        bench.start();
        bench.rest(10);
        let case = format!("bound {bound}, deleting {deleting}, marked {marked}");
        assert_eq!(bench.has("c"), some("10.0.0.7"), "{case}");
        assert_eq!(bench.address("c").owner, Some("uid-of-c".into()), "{case}");
        assert!(deleting || bench.address("c").uid == "address-c".into(), "{case}");
        bench.change("c", |c| c.deleting = true);
        bench.rest(3);
        assert!(bench.store.claims.is_empty() && bench.store.addresses.is_empty(), "{case}");
    }
}

#[test]
fn an_object_of_an_earlier_claim_goes_if_the_claim_of_its_name_is_of_another_pool() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9"))), ("q", Ok(plan("10.1.0.1-10.1.0.9")))]);
    let old = Claim { uid: "before".into(), ..claim("c", "p") };
    bench.store.put_address(address("c", "p", "10.0.0.7", Some(&old)));
    bench.store.put_claim(claim("c", "q"));
    bench.start();
    bench.rest(5);
    assert_eq!(bench.has("c"), some("10.1.0.1"));
}

#[test]
fn a_lost_owner_reference_to_the_pool_is_put_back() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
    bench.start();
    bench.make(claim("c", "p"));
    let uid = bench.store.pools[&*pool("p")].uid.clone();
    for links in [
        Links::default(),
        Links { pool: Some("before".into()), outdated: false },
        Links { pool: Some(uid.clone()), outdated: true },
    ] {
        bench.change_address("c", |a| a.links = links);
        bench.rest(2);
        assert_eq!(bench.address("c").links, Links { pool: Some(uid.clone()), outdated: false });
        assert_eq!(bench.has("c"), some("10.0.0.1"));
    }
}

#[test]
fn an_owner_reference_that_somebody_reverts_is_not_written_without_end() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
    bench.start();
    bench.make(claim("c", "p"));
    bench.writes.clear();
    // A webhook, say, reverts each write.
    for _ in 0..600 {
        if bench.address("c").links.pool.is_some() {
            bench.store.put_address(Address { links: Links::default(), ..bench.address("c").clone() });
        }
        bench.pass(Duration::from_millis(100));
    }
    let writes = bench.number(|write| matches!(write, Write::Adopt(..)));
    assert!((2..=20).contains(&writes), "{writes} writes in a minute");
}

#[test]
fn what_was_taken_away_by_force_comes_back_as_it_was() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
    bench.start();
    bench.asks("low", "p", "10.0.0.1");
    bench.make(claim("c", "p"));
    assert_eq!(bench.has("c"), some("10.0.0.2"));
    bench.change("low", |c| c.deleting = true);
    // The next process has never seen the object.
    bench.store.forced.insert(bench.claim("c").uid.clone());
    let gone = Address { deleting: true, finalizer: false, ..bench.address("c").clone() };
    bench.store.put_address(gone);
    bench.start();
    bench.rest(2);
    assert_eq!(bench.has("c"), some("10.0.0.2"));
    assert_eq!(bench.condition("c"), (Reason::AddressAllocated, "10.0.0.2"));
}

#[test]
fn a_claim_that_is_edited_to_another_pool_no_longer_waits_for_the_first() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1"))), ("q", Ok(plan("10.1.0.1")))]);
    bench.start();
    for name in ["has", "edited", "waits"] {
        bench.make(claim(name, "p"));
    }
    bench.change("edited", |c| c.pool = pool("q"));
    assert_eq!((bench.has("edited"), bench.has("waits")), (some("10.1.0.1"), None));
    bench.change("has", |c| c.deleting = true);
    bench.rest(2);
    assert_eq!(bench.has("waits"), some("10.0.0.1"));
}

#[test]
fn an_answer_for_an_earlier_pool_of_the_name_does_not_end_the_next_ones_write() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.3")))]);
    let moment = Moment { now: Duration::ZERO, wall: 0 };
    let mut machine = Machine::new(InCluster::default(), 1);
    for kind in [CLAIMS, ADDRESSES, POOLS] {
        machine.step(moment, bench.store.list(kind, None));
    }
    let writes = |actions: Vec<Action>| -> Vec<(u64, Write)> {
        actions
            .into_iter()
            .filter_map(|a| if let Action::Write { id, write } = a { Some((id, write)) } else { None })
            .collect()
    };
    let [(first, _)] = writes(machine.step(moment, Event::Leading(Some(Duration::MAX))))[..] else { panic!() };
    let again = Pool { uid: "again".into(), ..bench.store.pools[&*pool("p")].clone() };
    bench.store.put_pool(again.clone());
    let [(second, _)] = writes(machine.step(moment, Event::Pool(Box::new(again.clone()))))[..] else { panic!() };
    let late = Event::Answer { id: first, result: Err(Failure::NotFound) };
    machine.step(moment, late);
    // Nothing is written beside the write that is under way.
    let later = Moment { now: Duration::from_mins(1), ..moment };
    assert_eq!(writes(machine.step(later, Event::Pool(Box::new(again)))), []);
    let answered = machine.step(later, Event::Answer { id: second, result: Err(Failure::Unknown) });
    assert_eq!(writes(answered), []);
    let later = Moment { now: Duration::from_mins(2), ..moment };
    assert_eq!(writes(machine.step(later, Event::Tick)).len(), 1);
}

#[test]
fn a_pool_that_changed_before_the_answer_to_its_status_has_its_status_written_again() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.3")))]);
    let reference = pool("p");
    bench.store.put_pool(Pool { finalizer: true, ..bench.store.pools[&*reference].clone() });
    let mut machine = Machine::new(InCluster::default(), 1);
    let at = |seconds| Moment { now: Duration::from_secs(seconds), wall: 0 };
    for kind in [CLAIMS, ADDRESSES, POOLS] {
        machine.step(at(0), bench.store.list(kind, None));
    }
    let statuses = |actions: Vec<Action>| -> Vec<u64> {
        let id = |one| if let Action::Write { id, write: Write::PoolStatus(..) } = one { Some(id) } else { None };
        actions.into_iter().filter_map(id).collect()
    };
    machine.step(at(0), Event::Leading(Some(Duration::MAX)));
    let [first] = statuses(machine.step(at(2), Event::Tick))[..] else { panic!("no status") };
    // Somebody changes the spec after the write, and the watch shows that before the answer comes. The status is of the old spec.
    let known = bench.store.pools[&*reference].clone();
    bench.store.put_pool(Pool { generation: known.generation + 1, status: None, ..known });
    let changed = bench.store.pools[&*reference].clone();
    assert_eq!(statuses(machine.step(at(2), Event::Pool(Box::new(changed)))), []);
    let done = super::Done::There(super::Object::NotShown);
    machine.step(at(2), Event::Answer { id: first, result: Ok(done) });
    let later: Vec<u64> = (3..60).flat_map(|seconds| statuses(machine.step(at(seconds), Event::Tick))).collect();
    assert_eq!(later.len(), 1);
}

#[test]
fn what_was_taken_away_by_force_is_not_given_to_who_waits_longer_nor_while_its_claim_is_paused() {
    for hold in [Hold::None, Hold::Paused] {
        let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1")))]);
        let condition = Condition { ready: true, reason: Reason::AddressAllocated, message: "10.0.0.1".into() };
        let bound = Claim {
            created: 9,
            finalizer: true,
            bound: Some("c".into()),
            condition: Some(condition),
            hold: hold.clone(),
            ..claim("c", "p")
        };
        bench.store.forced.insert(bound.uid.clone());
        bench.store.put_claim(claim("waits", "p"));
        bench.store.put_claim(bound);
        // Nobody has seen the object: it was taken away while no allocator ran.
        bench.start();
        bench.rest(5);
        assert_eq!(bench.has("waits"), None, "{hold:?}");
        bench.change("c", |c| c.hold = Hold::None);
        bench.rest(3);
        assert_eq!((bench.has("c"), bench.has("waits")), (some("10.0.0.1"), None), "{hold:?}");
    }
}

#[test]
fn creations_that_the_api_server_does_not_manage_are_tried_less_and_less_often_and_told() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.99")))]);
    bench.start();
    // An admission webhook that does not answer, say: 500.
    bench.refuse = |w| matches!(w, Write::Create(_)).then_some(Failure::Unknown);
    for name in 0..30 {
        bench.store.put_claim(claim(&format!("c{name}"), "p"));
    }
    bench.rest(300);
    let tries = bench.number(|w| matches!(w, Write::Create(_)));
    assert!(tries < 30 * 30, "{tries} creations in five minutes");
    assert!(bench.lists < 60, "{} lists in five minutes", bench.lists);
    let (reason, message) = bench.condition("c7");
    assert!(reason == Reason::AllocationFailed && message.contains("the API server"), "{message}");
    bench.refuse = |_| None;
    bench.rest(60);
    assert!(bench.store.claims.values().all(|claim| claim.bound.is_some()));
}

#[test]
fn claims_that_the_api_server_does_not_manage_to_write_say_so() {
    // The webhook of claims is away; it does not watch their status.
    let failures: [fn(&Write) -> Option<Failure>; 3] = [
        |w| matches!(w, Write::AddFinalizer(..)).then_some(Failure::Unknown),
        |w| matches!(w, Write::Bind(..)).then_some(Failure::Unknown),
        |w| (!matches!(w, Write::Condition(..))).then_some(Failure::Unknown),
    ];
    for refuse in failures {
        let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.99")))]);
        bench.start();
        bench.refuse = refuse;
        bench.store.put_claim(claim("c", "p"));
        bench.rest(60);
        let (reason, message) = bench.condition("c");
        assert!(reason == Reason::AllocationFailed && message.contains("a webhook may be away"), "{message}");
        bench.refuse = |_| None;
        bench.rest(60);
        assert_eq!(bench.condition("c").0, Reason::AddressAllocated);
    }
}

#[test]
fn owners_are_looked_for_a_few_at_a_time() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.200")))]);
    for number in 0..100 {
        let name = format!("c{number}");
        let gone = claim(&name, "p");
        bench.store.put_address(address(&name, "p", &format!("10.0.0.{}", number + 1), Some(&gone)));
    }
    let mut machine = Machine::new(InCluster::default(), 1);
    let mut reading = std::collections::VecDeque::new();
    let (mut read, mut most) = (0, 0);
    let mut events: Vec<Event> = [CLAIMS, ADDRESSES, POOLS].map(|kind| bench.store.list(kind, None)).into();
    events.push(Event::Leading(Some(Duration::MAX)));
    let mut now = Duration::ZERO;
    let mut events = std::collections::VecDeque::from(events);
    while now < Duration::from_mins(1) {
        let event = events.pop_front().unwrap_or_else(|| {
            now += Duration::from_millis(50);
            let asked: Option<u64> = reading.pop_front();
            read += usize::from(asked.is_some());
            asked.map_or(Event::Tick, |id| Event::ClaimRead { id, result: Ok(None) })
        });
        let actions = machine.step(Moment { now, wall: 0 }, event);
        reading
            .extend(actions.iter().filter_map(|a| if let Action::ReadClaim { id, .. } = a { Some(*id) } else { None }));
        most = most.max(reading.len());
    }
    assert!(read == 100 && most <= 16, "{read} read, {most} at once");
}

#[test]
fn a_late_answer_about_a_claim_does_not_undo_its_release() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1")))]);
    bench.start();
    bench.make(claim("c", "p"));
    let before = bench.claim("c").clone();
    // The watch of claims of the next process is behind.
    let mut machine = Machine::new(InCluster::default(), 1);
    let at = |millis| Moment { now: Duration::from_millis(millis), wall: 0 };
    let (addresses, pools) = (bench.store.list(ADDRESSES, None), bench.store.list(POOLS, None));
    for event in [Event::Claims(Vec::new()), addresses, pools, Event::Leading(Some(Duration::MAX))] {
        machine.step(at(0), event);
    }
    let asked = machine.step(at(1500), Event::Tick);
    let asked = asked.iter().find_map(|a| if let Action::ReadClaim { id, .. } = a { Some(*id) } else { None });
    machine.step(at(1600), Event::Claim(Claim { deleting: true, ..before.clone() }));
    let actions = machine.step(at(1700), Event::ClaimRead { id: asked.unwrap(), result: Ok(Some(before)) });
    let released = |a: &Action| {
        matches!(a, Action::Write { write: Write::RemoveAddressFinalizer(_) | Write::DeleteAddress(_), .. })
    };
    assert!(actions.iter().any(released), "{actions:?}");
}

#[test]
fn who_waited_longer_for_a_paused_pool_comes_first() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1"))), ("q", Ok(plan("10.0.0.9")))]);
    bench.start();
    bench.make(claim("gone", "q"));
    bench.pause("p", true);
    bench.make(claim("first", "p"));
    // The next claim takes the place in memory of one that is gone.
    bench.change("gone", |claim| claim.deleting = true);
    bench.make(claim("second", "p"));
    bench.pause("p", false);
    bench.rest(1);
    assert_eq!((bench.has("first"), bench.has("second")), (some("10.0.0.1"), None));
}

#[test]
fn what_was_taken_away_by_force_is_not_given_to_who_waits() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1")))]);
    bench.start();
    bench.make(claim("c", "p"));
    bench.make(claim("waits", "p"));
    assert_eq!(bench.condition("waits").0, Reason::PoolExhausted);
    let force = |bench: &mut Bench| {
        bench.store.forced.insert(bench.claim("c").uid.clone());
        let gone = Address { deleting: true, finalizer: false, ..bench.address("c").clone() };
        bench.store.put_address(gone);
    };
    force(&mut bench);
    bench.rest(3);
    assert_eq!((bench.has("c"), bench.has("waits")), (some("10.0.0.1"), None));
    // The next process has never seen the object.
    force(&mut bench);
    bench.start();
    bench.rest(3);
    assert_eq!((bench.has("c"), bench.has("waits")), (some("10.0.0.1"), None));
    // The claim keeps the address while its machine exists; then the address is free.
    bench.change("c", |c| (c.deleting, c.others) = (true, true));
    force(&mut bench);
    bench.rest(3);
    assert_eq!(bench.has("waits"), None);
    bench.change("c", |c| c.others = false);
    bench.rest(3);
    assert_eq!(bench.has("waits"), some("10.0.0.1"));
}

#[test]
fn what_was_taken_away_by_force_before_the_claim_was_seen_bound_is_not_given_to_others() {
    for deleting in [false, true] {
        let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1")))]);
        bench.start();
        bench.refuse = |w| matches!(w, Write::Bind(..) | Write::Void(..)).then_some(Failure::Conflict);
        bench.make(claim("c", "p"));
        bench.store.forced.insert(bench.claim("c").uid.clone());
        let gone = Address { deleting: true, finalizer: false, ..bench.address("c").clone() };
        bench.store.put_address(gone);
        bench.show(ADDRESSES);
        // Another allocator had sent this before.
        let condition = Condition { ready: true, reason: Reason::AddressAllocated, message: "10.0.0.1".into() };
        let bound = Claim { bound: Some("c".into()), condition: Some(condition), ..bench.claim("c").clone() };
        bench.store.put_claim(Claim { deleting, others: deleting, ..bound });
        bench.show(CLAIMS);
        bench.make(claim("waits", "p"));
        assert_eq!(bench.condition("waits").0, Reason::PoolExhausted, "deleting {deleting}");
        bench.refuse = |_| None;
        if deleting {
            bench.change("c", |c| c.others = false);
        }
        bench.rest(30);
        let has = |name| bench.store.addresses.contains_key(&Key::new("ns", name));
        assert_eq!((has("c"), has("waits")), (!deleting, deleting));
    }
}

#[test]
fn an_object_that_a_list_has_shown_to_be_missing_is_not_taken_for_the_claims_when_it_comes_late() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
    let condition = Condition { ready: true, reason: Reason::AddressAllocated, message: "10.0.0.1".into() };
    let bound = Claim { finalizer: true, bound: Some("c".into()), condition: Some(condition), ..claim("c", "p") };
    bench.store.forced.insert(bound.uid.clone());
    bench.store.put_claim(bound.clone());
    bench.refuse = |w| matches!(w, Write::Void(..)).then_some(Failure::Unknown);
    bench.start();
    assert!(bench.number(|w| matches!(w, Write::Void(..))) > 0);
    // A creation that was under way when the first object was taken away by force.
    let attempt = Some(Attempt { claim: bound.uid.clone(), number: 0, adopted: false });
    bench.store.put_address(Address { attempt, ..address("c", "p", "10.0.0.5", Some(&bound)) });
    bench.rest(1);
    bench.refuse = |_| None;
    bench.rest(60);
    assert_eq!(bench.has("c"), some("10.0.0.1"));
}

#[test]
fn who_loses_an_object_without_owner_by_force_does_not_take_one_that_comes_late() {
    for doubtful in [false, true] {
        let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
        bench.start();
        bench.make(claim("d", "p"));
        if doubtful {
            bench.refuse = |w| matches!(w, Write::Bind(..) | Write::Void(..)).then_some(Failure::Conflict);
        }
        bench.make(claim("c", "p"));
        let (first, taken) = (bench.address("c").clone(), bench.address("d").address);
        bench.store.forced.insert(bench.claim("c").uid.clone());
        // People take the owner off the object, then the object. A creation that was under way lands before any list.
        let object = bench.store.put_address(Address { owner: None, deleting: doubtful, ..first.clone() });
        if doubtful {
            bench.show(ADDRESSES);
            // Another allocator had sent this before.
            let message = first.address.map(|at| at.to_string()).unwrap_or_default();
            let condition = Some(Condition { ready: true, reason: Reason::AddressAllocated, message });
            let bound = Claim { bound: Some("c".into()), condition, ..bench.claim("c").clone() };
            bench.store.put_claim(bound);
        }
        bench.store.put_address(Address { deleting: true, finalizer: false, ..object });
        bench.store.put_address(Address { uid: "late".into(), address: taken, ..first.clone() });
        bench.refuse = |_| None;
        bench.rest(60);
        assert_eq!((bench.has("c"), bench.has("d")), (first.address, taken), "doubtful {doubtful}");
    }
}

#[test]
fn a_claim_that_lost_its_object_by_force_is_released_with_the_object_that_came_after() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
    bench.start();
    bench.make(claim("c", "p"));
    let claim = bench.claim("c").clone();
    bench.store.forced.insert(claim.uid.clone());
    bench.store.put_address(Address { deleting: true, finalizer: false, ..bench.address("c").clone() });
    bench.refuse = |w| matches!(w, Write::Void(..)).then_some(Failure::Conflict);
    bench.show(ADDRESSES);
    // A creation that was under way lands, and the claim is deleted in the foreground. The watch of the addresses is behind.
    let attempt = Some(Attempt { claim: claim.uid.clone(), number: 0, adopted: false });
    let object = bench.store.put_address(Address { attempt, ..address("c", "p", "10.0.0.5", Some(&claim)) });
    bench.store.put_address(Address { owner: None, ..object });
    bench.store.put_claim(Claim { deleting: true, ..claim });
    bench.show(CLAIMS);
    for _ in 0..20 {
        bench.now += Duration::from_secs(3);
        bench.tell(Event::Tick);
    }
    // The next process knows nothing of it.
    bench.start();
    bench.rest(5);
    assert!(bench.store.claims.is_empty() && bench.store.addresses.is_empty(), "{:?}", bench.store.addresses);
}

#[test]
fn two_allocators_that_know_of_different_losses_do_not_replace_each_others_status_without_end() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
    bench.start();
    bench.make(claim("c", "p"));
    bench.rest(1);
    bench.writes.clear();
    let reference = pool("p");
    // Another allocator knows of an address that is kept for a claim which lost its object by force.
    for _ in 0..3000 {
        let status = bench.store.pools[&*reference].status.clone().unwrap();
        if status.counts.available == 8 {
            let counts = crate::book::Counts { available: 7, ..status.counts };
            let other = Some(super::PoolStatus { counts, ..status });
            bench.store.put_pool(Pool { status: other, ..bench.store.pools[&*reference].clone() });
        }
        bench.pass(Duration::from_millis(100));
    }
    let writes = bench.number(|write| matches!(write, Write::PoolStatus(..)));
    assert!((2..=20).contains(&writes), "{writes} writes in five minutes");
    // A change is shown as soon as before.
    bench.make(claim("d", "p"));
    bench.rest(1);
    assert_eq!(bench.store.pools[&*reference].status.as_ref().map(|status| status.counts.used), Some(2));
}

#[test]
fn of_two_objects_from_one_list_one_goes_although_the_claim_of_the_other_was_edited_to_another_pool() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9"))), ("q", Ok(plan("10.1.0.1")))]);
    for (name, of) in [("a", "p"), ("b", "q")] {
        let claim = Claim { finalizer: true, ..claim(name, of) };
        let attempt = Some(Attempt { claim: claim.uid.clone(), number: 0, adopted: false });
        bench.store.put_address(Address { attempt, ..address(name, "p", "10.0.0.4", Some(&claim)) });
        bench.store.put_claim(claim);
    }
    bench.start();
    bench.rest(5);
    assert!(bench.condition("b").1.contains("but is of InClusterIPPool p"), "{:?}", bench.condition("b"));
    assert_eq!(bench.has("a"), some("10.0.0.1"));
}

#[test]
fn an_object_that_covers_everything_keeps_no_pool_elsewhere_from_giving() {
    use PoolKind::{GlobalInClusterIPPool, GlobalInClusterPrefixPool, InClusterPrefixPool};
    let prefixes =
        PrefixSpec { prefixes: vec!["fd00::/48".into()], allocation_prefix_length: 64, ..PrefixSpec::default() };
    for (kind, of, prefix, length) in [
        (InClusterPrefixPool, "missing", "::", 0),
        (GlobalInClusterPrefixPool, "missing", "::", 0),
        (InClusterPrefixPool, "known", "::", 0),
        (InClusterPrefixPool, "known", "fd00::", 8),
        (GlobalInClusterPrefixPool, "known", "fd00::", 8),
    ] {
        let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.3")))]);
        let all = PoolRef::new(GlobalInClusterIPPool, "", "all");
        let mut six = spec("fd00::1-fd00::3");
        six.prefix = 64;
        bench.put_pool(PoolRef::new(kind, "tenant", "known"), prefixes.plan());
        bench.put_pool(all.clone(), six.plan());
        bench.store.put_address(prefix_by_hand(kind, of, prefix, length));
        bench.start();
        bench.make(claim("c", "p"));
        bench.make(Claim { pool: Arc::new(all), ..claim("d", "") });
        assert_eq!(bench.has("c"), some("10.0.0.1"), "{kind:?} {of} {prefix}/{length}");
        assert_eq!(bench.has("d"), some("fd00::1"), "{kind:?} {of} {prefix}/{length}");
    }
}

/// The pool `p` of a tenant's namespace, and the tenant's claim `c`.
fn tenant(number: usize, network: impl Fn(&str) -> Network) -> (PoolRef, Plan, Claim) {
    let namespace = format!("tenant-{number:02}");
    let mut spec = spec("10.0.0.1-10.0.0.2");
    spec.policy.network = network(&namespace);
    let pool = PoolRef::new(PoolKind::InClusterIPPool, &namespace, "p");
    let (key, uid) = (Key::new(&namespace, "c"), (&*format!("uid-{number}")).into());
    let claim = Claim { key, uid, pool: Arc::new(pool.clone()), ..claim("c", "p") };
    (pool, spec.plan().unwrap(), claim)
}

#[test]
fn tenants_with_the_same_range_are_all_served_and_told_of_each_other_in_bounded_space() {
    let mut bench = Bench::new(&[]);
    for number in 0..40 {
        let (pool, plan, claim) = tenant(number, |namespace| Network::Namespace(namespace.to_owned()));
        bench.put_pool(pool, Ok(plan));
        bench.store.put_claim(claim);
    }
    bench.start();
    bench.rest(3);
    assert!(bench.store.addresses.len() == 40 && bench.store.addresses.values().all(|a| a.address == some("10.0.0.1")));
    assert!(bench.store.claims.values().all(|claim| claim.bound.is_some()));
    for pool in bench.store.pools.values() {
        let status = pool.status.as_ref().unwrap();
        assert!(status.overlapping.contains("39 pools of other namespaces"), "{status:?}");
        assert!(status.overlapping.len() < 500 && !status.overlapping.contains("tenant-"), "{status:?}");
        assert_eq!(status.duplicates, "");
    }
    assert!(!bench.reports.iter().any(|report| matches!(report, Report::Duplicate { .. })));
    // A cluster-wide pool shares one view with all of them.
    let all = PoolRef::new(PoolKind::GlobalInClusterIPPool, "", "all");
    bench.put_pool(all.clone(), spec("10.0.0.1-10.0.0.2").plan());
    bench.make(Claim { pool: Arc::new(all), ..claim("d", "") });
    assert_eq!(bench.has("d"), some("10.0.0.2"));
    let (_, _, claim) = tenant(7, |_| Network::Common);
    bench.make(Claim { key: Key::new("tenant-07", "e"), uid: "e".into(), ..claim });
    let waits = &bench.store.claims[&Key::new("tenant-07", "e")];
    assert_eq!(waits.condition.as_ref().map(|one| one.reason), Some(Reason::PoolExhausted));
}

#[test]
fn duplicates_of_many_tenants_in_one_network_are_reported_once_each() {
    let mut bench = Bench::new(&[]);
    for number in 0..40 {
        let (pool, plan, claim) = tenant(number, |_| Network::Common);
        let uid = format!("address-{number}");
        bench.store.old_duplicates.insert(uid.as_str().into());
        let reference = claim.pool.clone();
        let old = Claim { finalizer: true, bound: Some("c".into()), ..claim };
        let has = Address {
            key: old.key.clone(),
            uid: uid.as_str().into(),
            pool: reference,
            ..address("c", "p", "10.0.0.1", Some(&old))
        };
        bench.put_pool(pool, Ok(plan));
        bench.store.put_address(has);
        bench.store.put_claim(old);
    }
    bench.start();
    bench.rest(3);
    let told = bench.reports.iter().filter(|report| matches!(report, Report::Duplicate { .. })).count();
    assert!((39..=40).contains(&told), "{told} reports");
    for pool in bench.store.pools.values() {
        let status = pool.status.as_ref().unwrap();
        assert!(!status.duplicates.is_empty() && status.duplicates.len() < 5000, "{status:?}");
    }
}

#[test]
fn a_prefix_counts_as_long_as_its_pool_may_have_given_it() {
    let prefixes = |length| {
        let prefixes = vec!["fd00::/48".into()];
        PrefixSpec { prefixes, allocation_prefix_length: length, ..PrefixSpec::default() }.plan()
    };
    let pool = Arc::new(PoolRef::new(PoolKind::GlobalInClusterPrefixPool, "", "known"));
    let other = PoolRef::new(PoolKind::GlobalInClusterPrefixPool, "", "other");
    let mut bench = Bench::new(&[]);
    bench.put_pool((*pool).clone(), prefixes(56));
    bench.put_pool(other.clone(), prefixes(64));
    bench.start();
    bench.make(Claim { pool: pool.clone(), ..claim("c", "") });
    assert_eq!(bench.has("c"), some("fd00::"));
    // The claim keeps its prefix, which is wider than what the pool hands out now.
    bench.put_pool((*pool).clone(), prefixes(64));
    bench.rest(1);
    bench.make(Claim { pool, ..claim("d", "") });
    bench.make(Claim { pool: Arc::new(other), ..claim("e", "") });
    assert_eq!((bench.has("d"), bench.has("e")), (some("fd00:0:0:100::"), some("fd00:0:0:101::")));
}

#[test]
fn where_specs_can_be_edited_the_new_address_counts() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
    bench.start();
    bench.make(claim("c", "p"));
    bench.change_address("c", |a| a.address = some("10.0.0.2"));
    bench.make(claim("d", "p"));
    assert_eq!(bench.has("d"), some("10.0.0.1"));
    bench.make(claim("e", "p"));
    assert_eq!(bench.has("e"), some("10.0.0.3"));
}

/// metal3's pool `m`, and its claim `c`.
fn with_metal3() -> (Bench, Arc<PoolRef>, Claim) {
    let mut bench = Bench::new(&[]);
    let pool = Arc::new(PoolRef::new(PoolKind::Metal3IPPool, "ns", "m"));
    bench.put_pool((*pool).clone(), Ok(plan("10.0.0.1-10.0.0.5")));
    let own = Claim { key: Key::of_metal3("ns", "c"), pool: pool.clone(), uid: "uid-of-own".into(), ..claim("c", "p") };
    (bench, pool, own)
}

#[test]
fn claims_of_two_kinds_and_one_name_have_an_address_each() {
    let (mut bench, pool, own) = with_metal3();
    bench.start();
    bench.store.put_claim(Claim { pool, ..claim("c", "m") });
    bench.store.put_claim(own.clone());
    bench.rest(3);
    let has = |bench: &Bench, key: &Key| {
        let claim = &bench.store.claims[key];
        (claim.bound.clone().unwrap(), bench.store.own(claim).unwrap().address.unwrap().to_string())
    };
    let both = [has(&bench, &Key::new("ns", "c")), has(&bench, &own.key)];
    assert_eq!(&*both[0].0, "c", "Cluster API's is named as its claim");
    assert_eq!(*both[1].0, format!("p1-{}", both[1].1), "metal3's is named after its address");
    assert_ne!(both[0].1, both[1].1);
    assert!(bench.lists >= 2, "each is compared with the other kind");
    let deleting = bench.store.claims[&own.key].clone();
    bench.store.put_claim(Claim { deleting: true, ..deleting });
    bench.rest(1);
    assert!(!bench.store.claims.contains_key(&own.key));
    assert_eq!(bench.store.addresses.keys().cloned().collect::<Vec<_>>(), [Key::new("ns", "c")]);
}

/// Two allocators made one object each, with one address, and nobody knows which came first.
#[test]
pub(super) fn of_two_in_one_list_each_counts_as_earlier() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.4")))]);
    for name in ["c", "d"] {
        let own = bench.store.put_claim(Claim { finalizer: true, ..claim(name, "p") });
        let attempt = Some(Attempt { claim: own.uid.clone(), number: 0, adopted: false });
        bench.store.put_address(Address { attempt, finalizer: true, ..address(name, "p", "10.0.0.1", Some(&own)) });
    }
    bench.start();
    bench.rest(10);
    assert!(bench.number(|write| matches!(write, Write::Void(..))) > 0, "one is withdrawn before either is bound");
    assert_ne!(bench.has("c"), bench.has("d"));
    assert!(bench.has("c").is_some() && bench.has("d").is_some());
}

#[test]
pub(super) fn a_second_object_of_a_claim_of_metal3s_goes_once_it_is_void_else_with_its_claim() {
    let (mut bench, pool, own) = with_metal3();
    let object = |last: u8, number: u32| Address {
        key: own.key.clone(),
        object: Some(format!("p1-10.0.0.{last}").into()),
        uid: format!("object-{last}").as_str().into(),
        pool: pool.clone(),
        claim: own.key.name.clone(),
        attempt: Some(Attempt { claim: own.uid.clone(), number, adopted: false }),
        ..address("c", "p", &format!("10.0.0.{last}"), Some(&own))
    };
    for (last, number) in [(1, 1), (2, 0), (3, 1)] {
        bench.store.put_address(object(last, number));
    }
    bench.store.put_claim(Claim { bound: Some("p1-10.0.0.1".into()), voided: 1, finalizer: true, ..own.clone() });
    bench.start();
    bench.rest(2);
    let left = |bench: &Bench| bench.store.addresses.values().filter_map(|one| one.address).collect::<Vec<_>>();
    assert_eq!(
        left(&bench),
        [some("10.0.0.1").unwrap(), some("10.0.0.3").unwrap()],
        "a bind to the last may be under way"
    );
    let deleting = bench.store.claims[&own.key].clone();
    bench.store.put_claim(Claim { deleting: true, ..deleting });
    bench.rest(2);
    assert!(left(&bench).is_empty() && bench.store.claims.is_empty());
}

#[test]
fn a_pool_goes_with_its_last_claim_whatever_was_written_on_it_just_before() {
    for lag in 0..60 {
        let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
        bench.start();
        bench.make(claim("c", "p"));
        bench.make(claim("d", "p"));
        bench.rest(5);
        let known = bench.store.pools[&*pool("p")].clone();
        bench.store.put_pool(Pool { deleting: true, ..known });
        // The first release changes the status, which is written half a second later.
        let goes = |bench: &mut Bench, name: &str| {
            let gone = Claim { deleting: true, ..bench.claim(name).clone() };
            bench.store.put_claim(gone);
        };
        goes(&mut bench, "d");
        for _ in 0..lag {
            bench.pass(Duration::from_millis(50));
        }
        goes(&mut bench, "c");
        let begin = bench.now;
        while bench.store.pools.contains_key(&*pool("p")) {
            bench.pass(Duration::from_millis(10));
            assert!(bench.now < begin + Duration::from_millis(500), "it was deleted {lag} rounds before its claim");
        }
    }
}
