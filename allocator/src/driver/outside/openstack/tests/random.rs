//! Claims that come and go while requests fail at random and the process is killed at random: nothing is leaked, nothing is
//! given twice, what is in the list stays. Each claim does as the core does: search, then ask; search again after a failure.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use futures::StreamExt as _;
use mooring_allocator_core::remote::{Failure, What};
use mooring_api::pool::ReclaimPolicy;

use super::{Served, allocate, find_some, mark, served};
use crate::driver::outside::openstack::FloatingPool;

/// How many claims there are.
const CLAIMS: usize = 12;
/// How many processes are killed, at most, before all is well.
const STORMY: usize = 12;
/// How many requests are under way at a time.
const CALLS: usize = 4;

/// What a pool is like.
#[derive(Clone, Copy, Debug)]
struct Case {
    given: usize,
    most: Option<usize>,
    reclaim: ReclaimPolicy,
}

#[tokio::test]
async fn nothing_is_leaked_or_given_twice() {
    let (some, none) = (Some(CLAIMS), None);
    for (seed, case) in [
        Case { given: 0, most: none, reclaim: ReclaimPolicy::Delete },
        Case { given: 4, most: some, reclaim: ReclaimPolicy::Delete },
        Case { given: 4, most: some, reclaim: ReclaimPolicy::Retain },
        Case { given: CLAIMS, most: some, reclaim: ReclaimPolicy::Delete },
        Case { given: 0, most: none, reclaim: ReclaimPolicy::Retain },
    ]
    .into_iter()
    .cycle()
    .take(5)
    .enumerate()
    {
        story(case, u64::try_from(seed).unwrap() + 1).await;
    }
}

async fn story(case: Case, seed: u64) {
    let served = served(60).await;
    let given: Vec<IpAddr> = (0..case.given)
        .map(|number| served.cloud.allocate(&format!("of a person {number}")).unwrap().address.into())
        .collect();
    served.cloud.fail_at_random(seed, 200);
    let mut random = seed;
    for wanted in [true, false] {
        for round in 0..200 {
            if round == STORMY {
                served.cloud.heal();
            }
            let pool = served.pool(&given, case.most, case.reclaim);
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let life = Duration::from_millis(if round < STORMY { (random >> 33) % 60 } else { 60_000 });
            let names: Vec<String> = (0..CLAIMS).map(|number| format!("claim-{number}")).collect();
            let each = futures::stream::iter(&names).map(|name| settle(&pool, name, wanted));
            let all = each.buffer_unordered(CALLS).collect::<Vec<bool>>();
            if tokio::time::timeout(life, all).await.is_ok_and(|all| all.iter().all(|done| *done)) {
                break;
            }
            drop(pool);
            // What was under way ends before the next process begins: the core waits for that too.
            served.quiet().await;
        }
        check(&served, case, &given, wanted, seed);
    }
}

/// Whether the claim has what it wants.
async fn settle(pool: &FloatingPool, name: &str, wanted: bool) -> bool {
    let Ok(found) = find_some(pool, mark(name)).await else { return false };
    assert!(found.len() < 2, "{name} has {found:?}");
    match (wanted, found.into_iter().next()) {
        (true, None) => match allocate(pool, name).await {
            Ok(_) => true,
            Err(Failure::Full(text)) => panic!("{name}: {text}"),
            Err(_) => false,
        },
        (false, Some(entry)) => pool.call(&What::Release(entry)).await.is_ok(),
        _ => true,
    }
}

fn check(served: &Served, case: Case, given: &[IpAddr], wanted: bool, seed: u64) {
    let there = served.cloud.floating_ips();
    let claimed: BTreeSet<&str> = there.iter().filter_map(|one| one.description.split(" for=").nth(1)).collect();
    let marks = there.iter().filter(|one| one.description.contains("claim=")).count();
    let context = format!("{case:?}, seed {seed}: {there:#?}");
    assert_eq!((claimed.len(), marks), if wanted { (CLAIMS, CLAIMS) } else { (0, 0) }, "{context}");
    let addresses: BTreeSet<IpAddr> = there.iter().map(|one| one.address.into()).collect();
    assert!(given.iter().all(|one| addresses.contains(one)), "{context}");
    let most = case.most.unwrap_or(CLAIMS);
    assert!(there.len() <= most, "{context}");
    if !wanted {
        let persons =
            there.iter().filter(|one| one.description.starts_with("of a person") && !one.description.contains('|'));
        assert_eq!(persons.count(), case.given, "{context}");
        let kept = there.len() - case.given;
        assert!(case.reclaim == ReclaimPolicy::Retain || kept == 0, "{context}");
    }
}
