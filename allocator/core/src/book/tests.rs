use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::{Just, Strategy as _, any, prop_oneof, proptest};

use crate::block::Block;
use crate::names::{PoolKind, PoolRef};
use crate::pool::{Network, Plan, PoolSpec, PrefixSpec, Strategy};

use super::{Book, Counts, Freed, Holder, PoolId};

fn plan(addresses: &[&str], prefix: i64, strategy: Strategy) -> Plan {
    let mut spec = PoolSpec { addresses: addresses.iter().map(|&a| a.into()).collect(), prefix, ..PoolSpec::default() };
    spec.policy.strategy = strategy;
    spec.plan().unwrap()
}

fn pool(book: &mut Book, name: &str, plan: Plan) -> PoolId {
    let kind = if plan.unit == 128 { PoolKind::InClusterIPPool } else { PoolKind::InClusterPrefixPool };
    let id = book.pool(&Arc::new(PoolRef::new(kind, "default", name)));
    book.set_plan(id, Some(plan));
    id
}

fn host(text: &str) -> Block {
    Block::host(text.parse().unwrap())
}

fn next(book: &Book, pool: PoolId) -> Option<String> {
    book.next_free(pool, 0).map(|b| b.to_string())
}

#[test]
fn entries_are_used_up_in_their_order() {
    use crate::pool::{Metal3Entry, Metal3Spec};
    let entry = |start: &str, end: &str| Metal3Entry {
        start: Some(start.into()),
        end: Some(end.into()),
        prefix: 24,
        ..Metal3Entry::default()
    };
    for strategy in [Strategy::Lowest, Strategy::Random] {
        let mut spec = Metal3Spec {
            pools: vec![entry("10.0.0.20", "10.0.0.22"), entry("10.0.0.1", "10.0.0.2")],
            ..Metal3Spec::default()
        };
        spec.policy.strategy = strategy;
        for seed in 0..7 {
            let mut book = Book::default();
            let id = pool(&mut book, "p", spec.plan().unwrap());
            let mut given = Vec::new();
            while let Some(block) = book.next_free(id, seed) {
                book.occupy(Holder::Object(u32::try_from(given.len()).unwrap()), id, Some(block));
                given.push(block);
            }
            let (first, second) = given.split_at(3);
            let all = |from: u8, to: u8| (from..=to).map(|n| host(&format!("10.0.0.{n}"))).collect::<BTreeSet<_>>();
            assert_eq!(first.iter().copied().collect::<BTreeSet<_>>(), all(20, 22), "{strategy:?} {seed}");
            assert_eq!(second.iter().copied().collect::<BTreeSet<_>>(), all(1, 2), "{strategy:?} {seed}");
            assert!(
                strategy == Strategy::Random || given.is_sorted_by_key(|b| (b.first() < host("10.0.0.9").first(), *b))
            );
        }
    }
}

#[test]
fn the_tutorial() {
    let mut book = Book::default();
    let cp = pool(&mut book, "wc-cp-ips", plan(&["10.10.222.232-10.10.222.238"], 24, Strategy::Lowest));
    assert_eq!(book.counts(cp), Counts { total: 7, free: 7, available: 7, ..Counts::default() });
    book.occupy(Holder::Object(0), cp, Some(host("10.10.222.232")));
    assert_eq!(book.counts(cp), Counts { total: 7, used: 1, free: 6, available: 6, ..Counts::default() });
    assert_eq!(next(&book, cp).as_deref(), Some("10.10.222.233"));
    book.occupy(Holder::Object(1), cp, Some(host("10.10.222.233")));
    assert_eq!(book.counts(cp).free, 5);
}

#[test]
fn out_of_range_counts_as_in_caip() {
    let mut book = Book::default();
    let id = pool(&mut book, "p", plan(&["10.0.0.1"], 24, Strategy::Lowest));
    book.occupy(Holder::Object(0), id, Some(host("10.0.0.1")));
    book.occupy(Holder::Object(1), id, Some(host("10.9.0.1")));
    book.occupy(Holder::Object(2), id, None);
    assert_eq!(book.counts(id), Counts { total: 1, used: 3, free: -2, out_of_range: 2, ..Counts::default() });
    let spec = PrefixSpec { prefixes: vec!["fd00::/64".into()], ..PrefixSpec::default() };
    let id = pool(&mut book, "q", spec.plan().unwrap());
    book.occupy(Holder::Object(3), id, Block::prefix("fd01::".parse().unwrap(), 64));
    assert_eq!(book.counts(id), Counts { total: 1, used: 1, free: 1, out_of_range: 1, available: 1, resting: 0 });
}

#[test]
fn overlapping_pools_share_what_is_used_but_not_across_networks() {
    let mut book = Book::default();
    let a = pool(&mut book, "a", plan(&["10.0.0.1-10.0.0.3"], 24, Strategy::Lowest));
    let b = pool(&mut book, "b", plan(&["10.0.0.2-10.0.0.4"], 24, Strategy::Lowest));
    let mut apart = plan(&["10.0.0.2"], 24, Strategy::Lowest);
    apart.network = Network::Named("vlan7".into());
    let c = pool(&mut book, "c", apart);
    book.occupy(Holder::Object(0), a, Some(host("10.0.0.2")));
    assert_eq!(next(&book, b).as_deref(), Some("10.0.0.3"));
    assert_eq!(next(&book, c).as_deref(), Some("10.0.0.2"));
    assert_eq!((book.counts(b).free, book.counts(b).available), (2, 2));
    let mut keeps = PoolSpec { addresses: vec!["10.0.0.8-10.0.0.9".into()], prefix: 24, ..PoolSpec::default() };
    keeps.policy.pre_allocations = [("c".to_owned(), "10.0.0.8".to_owned())].into();
    let d = pool(&mut book, "d", keeps.plan().unwrap());
    book.occupy(Holder::Reserved(7), d, Some(host("10.0.0.9")));
    assert_eq!(book.counts(d), Counts { total: 2, ..Counts::default() }, "one is kept, and one is promised");
    assert_eq!(book.overlapping_pools(a), (vec![b], vec![]));
    assert_eq!(book.overlapping_pools(c), (vec![], vec![]));
    book.occupy(Holder::Object(1), b, Some(host("10.0.0.2")));
    assert_eq!(book.rivals(0), [1]);
    assert_eq!(book.vacate(Holder::Object(0)), []);
    let mut freed = book.vacate(Holder::Object(1));
    freed.sort_by_key(|f| f.pool);
    assert_eq!(freed, [Freed { pool: a, block: host("10.0.0.2") }, Freed { pool: b, block: host("10.0.0.2") }]);
}

#[test]
fn what_an_unknown_pool_has_counts_everywhere() {
    let mut book = Book::default();
    let a = pool(&mut book, "a", plan(&["10.0.0.1-10.0.0.3"], 24, Strategy::Lowest));
    let later = book.pool(&Arc::new(PoolRef::new(PoolKind::InClusterIPPool, "default", "later")));
    book.occupy(Holder::Object(0), later, Some(host("10.0.0.1")));
    book.occupy(Holder::Object(1), a, Some(host("10.0.0.1")));
    assert_eq!((book.rivals(0), book.rivals(1)), (vec![1], vec![0]));
    book.vacate(Holder::Object(1));
    assert_eq!(next(&book, a).as_deref(), Some("10.0.0.2"));
    // Now the pool is of another network.
    let mut apart = plan(&["10.0.0.1"], 24, Strategy::Lowest);
    apart.network = Network::Named("vlan7".into());
    book.set_plan(later, Some(apart));
    assert_eq!(next(&book, a).as_deref(), Some("10.0.0.1"));
    assert_eq!(book.counts(later).out_of_range, 0);
}

#[test]
fn however_much_an_unknown_pool_has_is_passed_over_at_once() {
    for strategy in [Strategy::Lowest, Strategy::Random, Strategy::LeastRecentlyUsed] {
        let mut book = Book::default();
        let a = pool(&mut book, "a", plan(&["fd00::/64"], 64, strategy));
        let unknown = book.pool(&Arc::new(PoolRef::new(PoolKind::InClusterPrefixPool, "default", "none")));
        // An object made by hand, or left over from a pool that is gone: it covers 2^63 addresses of the pool, then all of them.
        book.occupy(Holder::Object(0), unknown, Block::prefix("fd00::".parse().unwrap(), 65));
        assert!(book.next_free(a, 7).is_some_and(|b| b.first() >= host("fd00::8000:0:0:0").first()));
        book.occupy(Holder::Object(1), unknown, Block::prefix("fd00::".parse().unwrap(), 16));
        assert_eq!(next(&book, a), None);
        book.vacate(Holder::Object(1));
        book.vacate(Holder::Object(0));
        assert!(next(&book, a).is_some());
        // The pools of other namespaces, and the cluster-wide ones, do not count it.
        book.occupy_unowned(0, unknown, Block::prefix("fd00::".parse().unwrap(), 16));
        assert_eq!(next(&book, a), None);
        book.vacate(Holder::Object(0));
        let elsewhere = book.pool(&Arc::new(PoolRef::new(PoolKind::InClusterPrefixPool, "elsewhere", "none")));
        book.occupy(Holder::Object(0), elsewhere, Block::prefix("fd00::".parse().unwrap(), 16));
        assert!(next(&book, a).is_some());
    }
}

#[test]
fn an_address_kept_for_a_claim_is_nobody_elses_in_any_pool_of_the_network() {
    let mut book = Book::default();
    let mut keeps = plan(&["10.0.0.1-10.0.0.3"], 24, Strategy::Lowest);
    keeps.kept = BTreeMap::from([("vip".to_owned(), host("10.0.0.1"))]);
    let a = pool(&mut book, "a", keeps.clone());
    let b = pool(&mut book, "b", plan(&["10.0.0.1-10.0.0.3"], 24, Strategy::Lowest));
    assert_eq!((next(&book, a).as_deref(), next(&book, b).as_deref()), (Some("10.0.0.2"), Some("10.0.0.2")));
    keeps.kept.clear();
    book.set_plan(a, Some(keeps));
    assert_eq!((next(&book, a).as_deref(), next(&book, b).as_deref()), (Some("10.0.0.1"), Some("10.0.0.1")));
}

#[test]
fn the_one_released_longest_ago_comes_last_of_all_fresh_ones() {
    let mut book = Book::default();
    let id = pool(&mut book, "p", plan(&["10.0.0.1-10.0.0.3"], 24, Strategy::LeastRecentlyUsed));
    let take = |book: &mut Book, slot| {
        let block = book.next_free(id, 0).unwrap();
        book.occupy(Holder::Object(slot), id, Some(block));
        block.to_string()
    };
    assert_eq!(take(&mut book, 0), "10.0.0.1");
    assert_eq!(take(&mut book, 1), "10.0.0.2");
    book.vacate(Holder::Object(1));
    book.vacate(Holder::Object(0));
    assert_eq!(take(&mut book, 2), "10.0.0.3");
    // An edit of the pool keeps the order of release.
    book.set_plan(id, Some(plan(&["10.0.0.1-10.0.0.4"], 24, Strategy::LeastRecentlyUsed)));
    assert_eq!(take(&mut book, 3), "10.0.0.4");
    assert_eq!(take(&mut book, 4), "10.0.0.2");
    assert_eq!(take(&mut book, 5), "10.0.0.1");
    assert_eq!(book.next_free(id, 0), None);
}

#[test]
fn from_the_end() {
    let mut book = Book::default();
    let id = pool(&mut book, "p", plan(&["10.0.0.1-10.0.0.2", "10.0.0.9"], 24, Strategy::Highest));
    let take = |book: &mut Book, slot| {
        let block = book.next_free(id, 0).unwrap();
        book.occupy(Holder::Object(slot), id, Some(block));
        block.to_string()
    };
    assert_eq!([0, 1, 2].map(|slot| take(&mut book, slot)), ["10.0.0.9", "10.0.0.2", "10.0.0.1"]);
    assert_eq!(book.next_free(id, 0), None);
}

#[test]
fn random_reaches_all_and_skips_the_used() {
    let mut book = Book::default();
    let id = pool(&mut book, "p", plan(&["10.0.0.1-10.0.0.9", "10.0.0.20-10.0.0.29"], 24, Strategy::Random));
    book.occupy(Holder::Object(0), id, Some(host("10.0.0.29")));
    let seen: BTreeSet<_> = (0..1000).filter_map(|seed| book.next_free(id, seed)).collect();
    assert_eq!(seen.len(), 18);
    assert!(!seen.contains(&host("10.0.0.29")));
    let huge = pool(&mut book, "huge", plan(&["fd00::/32"], 32, Strategy::Random));
    let seen: BTreeSet<_> = (0..100).filter_map(|seed| book.next_free(huge, seed)).collect();
    assert_eq!(seen.len(), 100);
}

/// The naive model of a pool: every unit is listed.
struct Naive {
    /// Empty: a cluster-wide pool.
    namespace: &'static str,
    usable: BTreeSet<Block>,
    /// None: the pool is not known.
    network: Option<Network>,
    /// The length of the last known units.
    unit: u8,
}

impl Naive {
    fn is_of(&self, namespace: &str) -> bool {
        self.namespace == namespace && !namespace.is_empty()
    }

    /// Whether a block of a claim counts beyond the pool's namespace.
    fn counts(&self, block: Block) -> bool {
        let parts = || self.usable.iter().filter(|unit| unit.overlaps(block));
        let size = || parts().map(|unit| unit.last() - unit.first() + 1).sum::<u128>();
        block.length() >= self.unit || size() > block.last() - block.first()
    }

    /// Whether this pool counts a block of another pool, or passes over it.
    fn sees(&self, other: &Self, block: Block) -> bool {
        use Network::{Common, Named, Namespace};
        if !other.counts(block) {
            return self.is_of(other.namespace);
        }
        match (&self.network, &other.network) {
            (None, None) => self.namespace.is_empty() || other.namespace.is_empty() || self.is_of(other.namespace),
            (Some(Namespace(mine)), None) => other.namespace.is_empty() || other.namespace == mine,
            (Some(_), None) | (None, Some(Named(_) | Common)) => true,
            (None, Some(Namespace(theirs))) => self.namespace.is_empty() || self.namespace == theirs,
            (Some(mine), Some(theirs)) => match (mine, theirs) {
                (Common, Namespace(_)) | (Namespace(_), Common) => true,
                _ => mine == theirs,
            },
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Occupy { slot: u32, pool: usize, at: u8, wide: u8 },
    Vacate { slot: u32 },
    Plan { pool: usize, plan: usize },
    Allocate { slot: u32, pool: usize },
}

fn step() -> impl proptest::strategy::Strategy<Value = Step> {
    prop_oneof![
        3 => (0..24u32, 0..4usize, any::<u8>(), prop_oneof![3 => Just(0u8), 1 => 0..6u8])
            .prop_map(|(slot, pool, at, wide)| Step::Occupy { slot, pool, at, wide }),
        3 => (0..24u32, 0..4usize).prop_map(|(slot, pool)| Step::Allocate { slot, pool }),
        3 => (0..24u32).prop_map(|slot| Step::Vacate { slot }),
        1 => (0..4usize, 0..8usize).prop_map(|(pool, plan)| Step::Plan { pool, plan }),
    ]
}

/// Overlapping pools of two networks, of addresses and of prefixes, in one small range.
fn plans() -> Vec<Option<Plan>> {
    let addresses = |text: &str| plan(&[text], 120, Strategy::Lowest);
    let prefixes = |length, excluded: &str| {
        let (prefixes, excluded_prefixes) = (vec!["fd00::/120".into()], vec![excluded.into()]);
        let spec =
            PrefixSpec { prefixes, allocation_prefix_length: length, excluded_prefixes, ..PrefixSpec::default() };
        spec.plan().unwrap()
    };
    let mut apart = addresses("fd00::10-fd00::30");
    apart.network = Network::Named("apart".into());
    let mut recent = addresses("fd00::20-fd00::28");
    recent.strategy = Strategy::LeastRecentlyUsed;
    vec![
        None,
        Some(addresses("fd00::1-fd00::20")),
        Some(addresses("fd00::/120")),
        Some(apart),
        Some(prefixes(124, "fd00::18")),
        Some(prefixes(126, "fd00::80/121")),
        Some(prefixes(128, "fd00::1")),
        Some(recent),
    ]
}

proptest! {
    #[test]
    fn as_a_naive_book(steps in proptest::collection::vec(step(), 1..80)) {
        let plans = plans();
        let mut book = Book::default();
        let namespaces = ["x", "x", "y", ""];
        let kind = |namespace: &str| {
            if namespace.is_empty() { PoolKind::GlobalInClusterIPPool } else { PoolKind::InClusterIPPool }
        };
        let pools: Vec<PoolId> = namespaces.iter().zip(["a", "b", "c", "d"])
            .map(|(of, name)| book.pool(&Arc::new(PoolRef::new(kind(of), of, name)))).collect();
        let new = |namespace| Naive { namespace, usable: BTreeSet::new(), network: None, unit: 48 };
        let mut naive: Vec<Naive> = namespaces.map(new).into();
        let mut held: BTreeMap<u32, (usize, Block)> = BTreeMap::new();
        for step in steps {
            let before: Vec<_> = (0..4).map(|p| free(&naive, &held, p)).collect();
            let freed = match step {
                Step::Occupy { slot, pool, at, wide } => {
                    if held.contains_key(&slot) { continue; }
                    let block = Block::around(0xfd00 << 112 | u128::from(at), 128 - wide);
                    book.occupy(Holder::Object(slot), pools[pool], Some(block));
                    held.insert(slot, (pool, block));
                    None
                }
                Step::Allocate { slot, pool } => {
                    if held.contains_key(&slot) { continue; }
                    let Some(block) = book.next_free(pools[pool], 0) else {
                        assert!(free(&naive, &held, pool).is_empty());
                        continue;
                    };
                    assert!(free(&naive, &held, pool).contains(&block));
                    book.occupy(Holder::Object(slot), pools[pool], Some(block));
                    held.insert(slot, (pool, block));
                    None
                }
                Step::Vacate { slot } => {
                    held.remove(&slot);
                    Some(book.vacate(Holder::Object(slot)))
                }
                Step::Plan { pool, plan } => {
                    let mut chosen = plans[plan].clone();
                    let namespace = naive[pool].namespace;
                    if let Some(plan) = chosen.as_mut().filter(|_| !namespace.is_empty() && plan.is_multiple_of(2)) {
                        plan.network = Network::Namespace(namespace.to_owned());
                    }
                    naive[pool] = Naive {
                        namespace,
                        usable: chosen.iter().flat_map(units).collect(),
                        network: chosen.as_ref().map(|plan| plan.network.clone()),
                        unit: chosen.as_ref().map_or(naive[pool].unit, |plan| plan.unit),
                    };
                    Some(book.set_plan(pools[pool], chosen))
                }
            };
            for (p, &id) in pools.iter().enumerate() {
                let now = free(&naive, &held, p);
                let mine = held.values().filter(|(owner, _)| *owner == p);
                let out = mine.clone().filter(|(_, b)| !naive[p].usable.contains(b)).count();
                let counts = book.counts(id);
                assert_eq!(counts.total, number(naive[p].usable.len()));
                assert_eq!(counts.used, number(mine.count()));
                assert_eq!(counts.out_of_range, number(out));
                // Strays are passed over when a unit is chosen; the counts do not include them.
                let counted = |(o, b): &&(usize, Block)| naive[*o].network.is_some() && naive[*o].counts(*b);
                let known: Vec<_> = held.values().filter(counted).copied().collect();
                let available = naive[p].usable.iter().filter(|u| !known.iter().any(|(o, b)| {
                    b.overlaps(**u) && naive[p].sees(&naive[*o], *b)
                })).count();
                assert_eq!(counts.available, number(available));
                assert!(counts.free <= counts.available, "no more than may be given: {counts:?}");
                let lowest = book.plan(id).is_none_or(|plan| plan.strategy == Strategy::Lowest);
                assert!(!lowest || book.next_free(id, 0) == now.first().copied());
                if let Some(freed) = &freed && now.difference(&before[p]).next().is_some() {
                    assert!(freed.iter().any(|f| f.pool == id), "{p} not woken");
                }
            }
            for &slot in held.keys() {
                let mut found = book.rivals(slot);
                found.sort_unstable();
                let (pool, block) = held[&slot];
                let rivals: Vec<u32> = held.iter().filter(|&(&s, &(p, b))| {
                    s != slot && b.overlaps(block) && naive[pool].sees(&naive[p], b)
                }).map(|(&s, _)| s).collect();
                assert_eq!(found, rivals);
            }
        }
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap()
}

fn units(plan: &Plan) -> Vec<Block> {
    plan.usable.iter().flat_map(|(f, l)| f..=l).map(|u| plan.block(u)).collect()
}

fn free(naive: &[Naive], held: &BTreeMap<u32, (usize, Block)>, pool: usize) -> BTreeSet<Block> {
    let taken = |unit: &Block| held.values().any(|&(p, b)| b.overlaps(*unit) && naive[pool].sees(&naive[p], b));
    naive[pool].usable.iter().filter(|u| !taken(u)).copied().collect()
}
