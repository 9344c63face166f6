//! No address left, or no pool yet: the allocator reports the cause, and the claim heals without manual work.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::both;
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{ADDRESS, CLAIM, POOL, Scope};
use crate::runner::Test;

pub fn all() -> Vec<Test<()>> {
    [
        both!(exhausted, "exhausted-pool-is-said"),
        both!(heals, "exhaustion-heals-when-an-address-is-released"),
        both!(grows, "exhaustion-heals-when-the-pool-grows"),
        both!(in_turn, "who-waits-longest-comes-first", quick),
        both!(pool_comes, "claim-of-a-missing-pool-waits-for-it"),
        both!(pool_again, "pool-made-again-serves-its-claims"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

async fn exhausted(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 11)).await?;
    for name in ["a", "b"] {
        scope.claim(name, "p").await?;
        scope.bound(name).await?;
    }
    scope.claim("c", "p").await?;
    let said = scope.refused("c", "PoolExhausted").await?;
    ensure!(said.contains("p has no free address") && said.contains("add addresses"), "{said}");
    scope.counts(POOL, "p", [2, 0, 2, 0]).await?;
    let (reason, _) = scope.pool_says(POOL, "p", "Exhausted", true).await?;
    ensure!(reason == "PoolExhausted", "{reason}");
    scope.sound().await
}

async fn heals(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 10)).await?;
    scope.claim("a", "p").await?;
    let had = scope.bound("a").await?;
    scope.claim("b", "p").await?;
    scope.refused("b", "PoolExhausted").await?;
    scope.delete(CLAIM, "a").await?;
    let got = scope.bound("b").await?;
    ensure!(got.ip() == had.ip(), "{}", got.ip());
    let (is, reason, _) = crate::ipam::audit::ready(&got.claim).context("no condition")?;
    ensure!(is && reason == "AddressAllocated", "{is} {reason}");
    scope.sound().await
}

async fn grows(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 10)).await?;
    for name in ["a", "b"] {
        scope.claim(name, "p").await?;
    }
    scope.bound("a").await?;
    scope.refused("b", "PoolExhausted").await?;
    scope.merge(POOL, "p", json!({"spec": scope.range(10, 11)})).await?;
    let got = scope.bound("b").await?;
    ensure!(got.ip() == scope.ip(11), "{}", got.ip());
    Ok(())
}

async fn in_turn(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 10)).await?;
    scope.claim("holder-0", "p").await?;
    scope.bound("holder-0").await?;
    for n in 1..=4 {
        // The names are in reverse order.
        let name = format!("holder-{}", 9 - n);
        scope.claim(&name, "p").await?;
        scope.refused(&name, "PoolExhausted").await?;
    }
    let mut last = "holder-0".to_owned();
    for n in 1..=4 {
        scope.delete(CLAIM, &last).await?;
        last = format!("holder-{}", 9 - n);
        scope.bound(&last).await.with_context(|| format!("it is the turn of {last}"))?;
    }
    scope.sound().await
}

async fn pool_comes(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.claim("c", "p").await?;
    let said = scope.refused("c", "PoolNotReady").await?;
    ensure!(said.contains("does not exist"), "{said}");
    scope.pool("p", scope.range(10, 20)).await?;
    scope.bound("c").await?;
    Ok(())
}

async fn pool_again(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.claim("a", "p").await?;
    scope.bound("a").await?;
    // The pool is deleted by force with an address in use, and made again: the address objects still show which
    // addresses are used.
    scope.merge(POOL, "p", json!({"metadata": {"finalizers": null}})).await?;
    let deleted = scope.delete(POOL, "p").await;
    ensure!(deleted.is_ok(), "{deleted:?}");
    scope.merge(POOL, "p", json!({"metadata": {"finalizers": null}})).await.ok();
    scope.gone(POOL, "p").await?;
    scope.pool("p", scope.range(10, 20)).await?;
    scope.counts(POOL, "p", [11, 10, 1, 0]).await?;
    scope.claim("b", "p").await?;
    let next = scope.bound("b").await?;
    ensure!(next.ip() == scope.ip(11), "{}", next.ip());
    ensure!(scope.seen(ADDRESS, "a").is_some(), "the address went with its pool");
    scope.sound().await
}
