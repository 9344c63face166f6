//! A restore under a running allocator: claims, without status and with new uids, and `IPAddress` objects come back one by one, in
//! every order. Nothing changes hands. One thing does not hold: an `IPAddress` that comes long before its claim is released, and where the
//! pool lets addresses rest, this one rests; so there claims come first.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::*;
use crate::block::Block;
use crate::protocol::sim::Dice;
use crate::retained_meta::ForMachine;

/// The claims and the `IPAddress` objects of a backup, and what each claim had.
struct Backup {
    claims: Vec<Claim>,
    addresses: Vec<Address>,
    had: BTreeMap<Key, IpAddr>,
}

fn pools() -> [(&'static str, Result<Plan, Vec<SpecError>>); 2] {
    let mut rests = spec("10.1.0.1-10.1.0.20");
    rests.policy.quarantine_seconds = 600;
    [("p", Ok(plan("10.0.0.1-10.0.0.20"))), ("rests", rests.plan())]
}

fn backup(of_pools: &[&str]) -> Backup {
    let mut bench = Bench::new(&pools());
    bench.start();
    for of in of_pools {
        for name in ["z", "gone-1", "m", "gone-2", "a", "gone-3", "k", "b"] {
            bench.make(claim(&format!("{of}-{name}"), of));
        }
        for name in ["gone-1", "gone-2", "gone-3"] {
            bench.change(&format!("{of}-{name}"), |claim| claim.deleting = true);
        }
    }
    bench.rest(700);
    let store = bench.store;
    let had = store.addresses.iter().map(|(key, address)| (key.clone(), address.address.unwrap())).collect();
    let claims = store.claims.into_values().collect();
    Backup { claims, addresses: store.addresses.into_values().collect(), had }
}

#[derive(Clone)]
enum Piece {
    Claim(Box<Claim>),
    Address(Box<Address>),
    /// The pool has these addresses from now on.
    Pool(&'static str),
}

fn restore(pieces: Vec<Piece>, dice: &mut Dice) -> Bench {
    let mut bench = Bench::new(&pools());
    bench.start();
    for piece in pieces {
        match piece {
            Piece::Claim(claim) => {
                let uid = format!("{}-again", claim.uid).as_str().into();
                bench.store.put_claim(Claim { uid, bound: None, condition: None, ..*claim });
            }
            // One that is there already is left as it is.
            Piece::Address(address) if bench.store.addresses.contains_key(&address.key) => {}
            Piece::Address(address) => {
                let uid = bench.store.uid();
                bench.store.put_address(Address { uid, ..*address });
            }
            Piece::Pool(range) => bench.pool("p", Ok(plan(range))),
        }
        match dice.pick(6) {
            0 => {}
            1 => bench.rest(40),
            2 => bench.start(),
            _ => bench.rest(1),
        }
    }
    bench.rest(60);
    bench
}

fn has_all(bench: &Bench, had: &BTreeMap<Key, IpAddr>, order: &str) {
    for (key, ip) in had {
        let claim = &bench.store.claims[key];
        assert_eq!(bench.has(&key.name), Some(*ip), "{order}: {key}: {claim:?}");
    }
    assert_eq!(bench.store.addresses.len(), had.len(), "{order}");
}

#[test]
fn nothing_changes_hands_where_claims_come_first() {
    let Backup { claims, addresses, had } = backup(&["p", "rests"]);
    let claims = || claims.iter().cloned().map(|claim| Piece::Claim(Box::new(claim)));
    let addresses = || addresses.iter().cloned().map(|address| Piece::Address(Box::new(address)));
    let mut dice = Dice::new(29);
    has_all(&restore(claims().collect(), &mut dice), &had, "claims alone");
    has_all(&restore(claims().chain(addresses()).collect(), &mut dice), &had, "claims first");
}

#[test]
fn nothing_changes_hands_in_any_order() {
    let Backup { claims, addresses, had } = backup(&["p"]);
    let claims = || claims.iter().cloned().map(|claim| Piece::Claim(Box::new(claim)));
    let addresses = || addresses.iter().cloned().map(|address| Piece::Address(Box::new(address)));
    let mut dice = Dice::new(29);
    has_all(&restore(addresses().chain(claims()).collect(), &mut dice), &had, "addresses first");
    for seed in 0..100 {
        let mut dice = Dice::new(seed);
        let mut left: Vec<Piece> = claims().chain(addresses()).collect();
        let mut pieces = Vec::new();
        while !left.is_empty() {
            pieces.push(left.swap_remove(dice.pick(left.len())));
        }
        has_all(&restore(pieces, &mut dice), &had, &format!("seed {seed}"));
    }
}

/// A claim as a restore brings it: with what it had in its metadata, and without status.
fn restored(name: &str, of: &str, had: &str) -> Claim {
    Claim { finalizer: true, had: Block::read(had).map(Box::new), ..claim(name, of) }
}

/// What was told about claims that get another address than they had.
fn told(bench: &Bench) -> Vec<String> {
    let another = |report: &Report| match report {
        Report::AnotherAddress { claim, had, given } => Some(format!("{} {had} {given}", claim.name)),
        _ => None,
    };
    bench.reports.iter().filter_map(another).collect()
}

#[test]
fn nothing_changes_hands_where_a_pool_gets_its_addresses_later() {
    let Backup { claims, addresses, had } = backup(&["p"]);
    for seed in 0..100 {
        let mut dice = Dice::new(seed);
        let mut left: Vec<Piece> = claims.iter().cloned().map(|claim| Piece::Claim(Box::new(claim))).collect();
        left.extend(
            addresses.iter().cloned().map(|address| Piece::Address(Box::new(address))).filter(|_| seed % 2 == 0),
        );
        left.extend(["10.0.0.1-10.0.0.4", "10.0.0.1-10.0.0.20"].map(Piece::Pool));
        let mut pieces = vec![Piece::Pool("10.0.0.12-10.0.0.20")];
        while !left.is_empty() {
            pieces.push(left.swap_remove(dice.pick(left.len())));
        }
        pieces.push(Piece::Pool("10.0.0.1-10.0.0.20"));
        has_all(&restore(pieces, &mut dice), &had, &format!("seed {seed}"));
    }
}

#[test]
fn a_claim_whose_pool_does_not_have_its_address_yet_waits_for_it_and_says_so() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.10-10.0.0.11")))]);
    bench.start();
    bench.make(restored("c", "p", "10.0.0.5"));
    for name in ["a", "b", "waits"] {
        bench.make(claim(name, "p"));
    }
    for _ in 0..2 {
        bench.rest(60);
        let (reason, message) = bench.condition("c");
        assert_eq!((bench.has("c"), reason), (None, Reason::PoolNotReady));
        for words in
            ["had 10.0.0.5", "is not in the pool", "change InClusterIPPool p", "annotation mooring.dev/address off"]
        {
            assert!(message.contains(words), "{message}");
        }
        assert_eq!(bench.claim("c").had.as_deref(), Block::read("10.0.0.5").as_ref(), "its record stays");
        bench.start();
    }
    assert_eq!([bench.has("a"), bench.has("b")], [some("10.0.0.10"), some("10.0.0.11")], "others go on");
    assert_eq!(bench.condition("waits").0, Reason::PoolExhausted);
    // It comes before a claim that waits for any address.
    bench.pool("p", Ok(spec_of(&["10.0.0.5", "10.0.0.10-10.0.0.11"])));
    bench.rest(3);
    assert_eq!((bench.has("c"), bench.has("waits")), (some("10.0.0.5"), None));
    assert_eq!(told(&bench), [""; 0]);
}

fn spec_of(addresses: &[&str]) -> Plan {
    let addresses = addresses.iter().map(|&one| one.to_owned()).collect();
    PoolSpec { addresses, prefix: 24, ..PoolSpec::default() }.plan().unwrap()
}

#[test]
fn a_claim_waits_for_what_its_pool_does_not_have_until_its_annotation_is_taken_off() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.10-10.0.0.11")))]);
    bench.start();
    bench.make(restored("c", "p", "10.0.0.5"));
    bench.rest(60);
    assert_eq!(bench.has("c"), None);
    bench.change("c", |claim| claim.had = None);
    assert_eq!(bench.has("c"), some("10.0.0.10"));
    // Who asks for another one, or is kept one, gets that one.
    bench.make(Claim { requested: Some("10.0.0.11".into()), ..restored("asks", "p", "10.0.0.5") });
    assert_eq!((bench.has("asks"), told(&bench)), (some("10.0.0.11"), Vec::new()));
}

#[test]
fn a_claim_that_gets_another_address_than_it_had_says_so_once() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9"))), ("q", Ok(plan("10.0.0.1-10.0.0.4")))]);
    bench.start();
    bench.asks("other", "p", "10.0.0.5");
    bench.refuse = |w| matches!(w, Write::AddFinalizer(..)).then_some(Failure::Unknown);
    bench.make(restored("c", "p", "10.0.0.5"));
    bench.rest(20);
    bench.refuse = |_| None;
    bench.rest(30);
    assert_eq!(bench.has("c"), some("10.0.0.1"));
    // Somebody else has it in another pool of the network, and its own pool has it no more.
    bench.make(restored("d", "q", "10.0.0.5"));
    assert_eq!(bench.has("d"), some("10.0.0.2"));
    // An IPAddress that a person made for it.
    bench.store.put_address(address("e", "p", "10.0.0.7", None));
    bench.make(restored("e", "p", "10.0.0.9"));
    assert_eq!(bench.has("e"), some("10.0.0.7"));
    bench.start();
    bench.rest(60);
    assert_eq!(told(&bench), ["c 10.0.0.5 10.0.0.1", "d 10.0.0.5 10.0.0.2", "e 10.0.0.9 10.0.0.7"]);
}

#[test]
fn a_claim_that_has_its_address_keeps_it_when_its_pool_shrinks() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.9")))]);
    bench.start();
    bench.make(claim("c", "p"));
    bench.rest(60);
    bench.writes.clear();
    bench.pool("p", Ok(plan("10.0.0.5-10.0.0.9")));
    bench.start();
    bench.rest(60);
    assert_eq!((bench.has("c"), bench.condition("c").0), (some("10.0.0.1"), Reason::AddressAllocated));
    assert_eq!(bench.number(|w| !matches!(w, Write::PoolStatus(..))), 0, "{:?}", bench.writes);
    // Its object is taken away by force: its machine may have the address.
    bench.store.forced.insert(bench.claim("c").uid.clone());
    let gone = Address { deleting: true, finalizer: false, ..bench.address("c").clone() };
    bench.store.put_address(gone);
    bench.rest(10);
    assert_eq!((bench.claim("c").bound.clone(), bench.condition("c").0), (None, Reason::PoolNotReady));
    bench.pool("p", Ok(plan("10.0.0.1-10.0.0.9")));
    bench.rest(10);
    assert_eq!(bench.has("c"), some("10.0.0.1"));
}

#[test]
fn a_claim_does_not_wait_for_an_address_that_another_host_has() {
    for quarantine in [None, Some(1)] {
        let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.3")))]);
        bench.start();
        bench.make(claim("c", "p"));
        let mut shrunk = spec("10.0.0.2-10.0.0.3");
        shrunk.policy.conflict_quarantine_seconds = quarantine;
        bench.pool("p", shrunk.plan());
        bench.rest(1);
        bench.change_address("c", |a| a.conflict = Some("node-3 heard 02:00:00:00:00:09".into()));
        bench.rest(20);
        assert_eq!((bench.has("c"), told(&bench)), (some("10.0.0.2"), Vec::new()), "{quarantine:?}");
    }
}

/// A restored claim for a machine.
pub(super) fn of_machine(name: &str, had: &str) -> Claim {
    let machine = ForMachine { owner: None, owners: vec![] };
    let retained = RetainedMeta { machine: Some(Box::new(machine)), ..RetainedMeta::default() };
    Claim { retained, ..restored(name, "p", had) }
}

/// The garbage collector deletes a restored claim at once whose owner has another uid by now, perhaps before its `IPAddress` is restored, and
/// whoever uses the address holds the claim by a finalizer. Or its Cluster was paused when the backup was made.
#[test]
fn what_a_restored_claim_had_that_gets_nothing_yet_is_nobody_elses() {
    let held = |claim: &mut Claim| (claim.deleting, claim.others) = (true, true);
    let paused = |claim: &mut Claim| claim.hold = Hold::Paused;
    let early = |claim: &mut Claim| claim.hold = Hold::NoCluster("k".into());
    let shown = |claim: &mut Claim| {
        let message = "10.0.0.1".into();
        claim.bound = Some("c".into());
        claim.condition = Some(Condition { ready: true, reason: Reason::AddressAllocated, message });
    };
    let without = |_: &mut Claim| {};
    let all = [held as fn(&mut Claim), paused, early]
        .map(|waits| [shown as fn(&mut Claim), without].map(|status| (waits, status)));
    for (waits, status) in all.into_iter().flatten() {
        for (starts, pool_last) in [(false, false), (true, false), (false, true)] {
            let mut bench =
                Bench::new(&[("p", Ok(plan(if pool_last { "10.0.0.9-10.0.0.9" } else { "10.0.0.1-10.0.0.3" })))]);
            bench.start();
            let mut kept = of_machine("c", "10.0.0.1");
            waits(&mut kept);
            status(&mut kept);
            bench.store.forced.insert(kept.uid.clone());
            bench.make(kept);
            if starts {
                bench.start();
            }
            bench.pool("p", Ok(plan("10.0.0.1-10.0.0.3")));
            for name in ["d", "e", "f"] {
                bench.make(claim(name, "p"));
            }
            bench.rest(700);
            let given: Vec<_> = ["d", "e", "f"].into_iter().filter_map(|name| bench.has(name)).collect();
            assert!(given.len() == 2 && !given.contains(&some("10.0.0.1").unwrap()), "{starts} {pool_last}: {given:?}");
            bench.change("c", |claim| (claim.others, claim.hold) = (false, Hold::None));
            // Where it is gone: no other claim of its name comes.
            bench.rest(310);
            let its = if bench.store.claims.contains_key(&claim("c", "p").key) { "c" } else { "f" };
            assert!(bench.has(its).is_some(), "{its} waits");
        }
    }
}

/// Whoever may write claims may write any address on them.
#[test]
fn nobody_keeps_an_address_of_a_pool_that_is_closed_to_him() {
    let mut closed = spec("10.0.0.1-10.0.0.1");
    closed.policy.allowed_namespaces = Some(["other".to_owned()].into());
    let mut bench = Bench::new(&[("p", closed.plan())]);
    bench.start();
    bench.make(Claim { deleting: true, others: true, ..of_machine("c", "10.0.0.1") });
    bench.rest(10);
    let rightful = Key::new("other", "d");
    bench.make(Claim { key: rightful.clone(), ..claim("d", "p") });
    bench.rest(60);
    assert!(bench.store.addresses.contains_key(&rightful));
}

/// Claims that another provider left: bound, with our finalizer, and with nothing in their metadata that says what they have.
fn taken_over(bench: &mut Bench, number: u8) -> BTreeMap<Key, IpAddr> {
    let uid = bench.store.pools[&*pool("p")].uid.clone();
    let mut had = BTreeMap::new();
    for i in 0..number {
        let (name, at) = (format!("m{i:03}"), format!("10.0.0.{}", 100 + i));
        let condition = Condition { ready: true, reason: Reason::AddressAllocated, message: String::new() };
        let bound = Some((&*name).into());
        let old = Claim { finalizer: true, bound, condition: Some(condition), ..claim(&name, "p") };
        let links = Links { pool: Some(uid.clone()), outdated: false };
        bench.store.put_address(Address { links, ..address(&name, "p", &at, Some(&old)) });
        had.insert(old.key.clone(), at.parse().unwrap());
        bench.store.put_claim(old);
    }
    had
}

#[test]
fn claims_that_another_provider_gave_their_addresses_have_them_again_after_a_restore() {
    let pools = || [("p", Ok(plan("10.0.0.1-10.0.0.220")))];
    let mut bench = Bench::new(&pools());
    let had = taken_over(&mut bench, 9);
    // One that was not bound yet, and one whose metadata names what it had elsewhere.
    let other = Claim { finalizer: true, ..claim("unbound", "p") };
    bench.store.put_address(address("unbound", "p", "10.0.0.90", Some(&other)));
    bench.store.put_claim(other);
    bench.change("m003", |claim| claim.had = Block::read("10.0.0.77").map(Box::new));
    bench.start();
    bench.rest(120);
    let mut restored = Bench::new(&pools());
    restored.start();
    for claim in bench.store.claims.into_values() {
        let uid = format!("{}-again", claim.uid).as_str().into();
        restored.make(Claim { uid, bound: None, condition: None, ..claim });
    }
    has_all(&restored, &had.into_iter().chain([(Key::new("ns", "unbound"), some("10.0.0.90").unwrap())]).collect(), "");
}

#[test]
fn what_claims_have_is_written_into_their_metadata_once_and_a_few_at_a_time() {
    let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.220")))]);
    let had = taken_over(&mut bench, 100);
    let mut machine = Machine::new(InCluster::default(), 2);
    let mut moment = Moment { now: Duration::ZERO, wall: bench.store.wall };
    let mut under_way: Vec<(u64, Write)> = Vec::new();
    let mut events: Vec<Event> = ALL.map(|kind| bench.store.list(kind, None)).into();
    events.push(Event::Leading(Some(Duration::MAX)));
    let (mut most, mut written) = (0, Vec::new());
    for _ in 0..20_000 {
        moment.now += Duration::from_millis(20);
        let event = if events.is_empty() { Event::Tick } else { events.remove(0) };
        for action in machine.step(moment, event) {
            if let Action::Write { id, write } = action {
                under_way.push((id, write));
            }
        }
        most = most.max(under_way.iter().filter(|(_, write)| matches!(write, Write::AddFinalizer(..))).count());
        if let Some((id, write)) = under_way.pop() {
            let before = bench.store.logs.each_ref().map(Vec::len);
            let result = bench.store.apply(&write);
            if let Write::AddFinalizer(target, given) = write {
                written.push((target.key, given.unwrap().address()));
            }
            events.push(Event::Answer { id, result });
            for (log, from) in bench.store.logs.iter().zip(before) {
                events.extend(log[from..].iter().cloned());
            }
        }
    }
    written.sort_unstable();
    assert_eq!(written, had.into_iter().collect::<Vec<_>>());
    assert!((1..=8).contains(&most), "{most} at a time");
}

#[test]
fn what_a_claim_has_is_not_written_without_end_where_somebody_takes_it_off_or_refuses_it() {
    for refuses in [false, true] {
        let mut bench = Bench::new(&[("p", Ok(plan("10.0.0.1-10.0.0.220")))]);
        taken_over(&mut bench, 1);
        if refuses {
            bench.refuse = |w| matches!(w, Write::AddFinalizer(..)).then(|| Failure::Refused("no".into()));
        }
        bench.start();
        for _ in 0..3000 {
            if bench.claim("m000").had.is_some() {
                bench.store.put_claim(Claim { had: None, ..bench.claim("m000").clone() });
            }
            bench.pass(Duration::from_millis(100));
        }
        let writes = bench.number(|write| matches!(write, Write::AddFinalizer(..)));
        assert!((1..=12).contains(&writes), "{writes} writes in five minutes");
        // It is released as any other.
        bench.change("m000", |claim| claim.deleting = true);
        bench.rest(60);
        assert!(bench.store.claims.is_empty() && bench.store.addresses.is_empty());
    }
}

#[test]
fn who_had_an_address_comes_before_who_takes_any_at_the_start_and_when_the_pool_comes() {
    for at_start in [true, false] {
        let mut bench = Bench::new(&[]);
        if !at_start {
            bench.start();
        }
        // It waited already when the backup was made, and was restored first.
        for claim in [claim("a", "p"), restored("b", "p", "10.0.0.1"), restored("c", "p", "10.0.0.2"), claim("d", "p")]
        {
            bench.store.put_claim(claim);
            if !at_start {
                bench.rest(2);
            }
        }
        bench.pool("p", Ok(plan("10.0.0.1-10.0.0.3")));
        if at_start {
            bench.start();
        }
        bench.rest(3);
        let has = ["a", "b", "c", "d"].map(|name| bench.has(name));
        assert_eq!(has, [some("10.0.0.3"), some("10.0.0.1"), some("10.0.0.2"), None], "{at_start}");
    }
}
