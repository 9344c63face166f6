//! Pausing: the allocator does nothing during the pause, and all of the work afterwards.

use anyhow::{Context as _, Result, ensure};
use mooring_api::annotations::PAUSED;
use serde_json::json;

use super::both;
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{ADDRESS, CLAIM, POOL, Scope};
use crate::runner::Test;

pub fn all() -> Vec<Test<()>> {
    [
        both!(claim, "paused-claim-is-left-alone"),
        both!(pool, "paused-pool-gives-nothing"),
        both!(claim_deletion, "paused-claim-is-not-released"),
        both!(pool_deletion, "paused-pool-takes-nothing-back"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

async fn claim(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    // The annotation counts if it is present, whatever its value.
    let made = scope.claim_with("c", POOL, "p", json!({"annotations": {PAUSED: "false"}})).await?;
    scope.canary().await?;
    let seen = scope.seen(CLAIM, "c").context("it is gone")?;
    ensure!(seen["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"], "touched: {seen}");
    ensure!(scope.seen(ADDRESS, "c").is_none(), "it got an address");
    scope.merge(CLAIM, "c", json!({"metadata": {"annotations": {PAUSED: null}}})).await?;
    scope.bound("c").await?;
    Ok(())
}

async fn pool(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.create(POOL, "p", scope.range(10, 20), json!({"annotations": {PAUSED: ""}})).await?;
    scope.claim("c", "p").await?;
    scope.canary().await?;
    ensure!(scope.seen(ADDRESS, "c").is_none(), "it got an address of a paused pool");
    scope.merge(POOL, "p", json!({"metadata": {"annotations": {PAUSED: null}}})).await?;
    scope.bound("c").await?;
    scope.counts(POOL, "p", [11, 10, 1, 0]).await
}

async fn claim_deletion(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.claim("c", "p").await?;
    scope.bound("c").await?;
    scope.merge(CLAIM, "c", json!({"metadata": {"annotations": {PAUSED: ""}}})).await?;
    scope.delete(CLAIM, "c").await?;
    scope.canary().await?;
    let address = scope.seen(ADDRESS, "c").context("it was released")?;
    ensure!(address["metadata"]["deletionTimestamp"].is_null(), "it is being released: {address}");
    scope.merge(CLAIM, "c", json!({"metadata": {"annotations": {PAUSED: null}}})).await?;
    scope.gone(CLAIM, "c").await?;
    scope.gone(ADDRESS, "c").await
}

async fn pool_deletion(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 20)).await?;
    scope.claim("c", "p").await?;
    scope.bound("c").await?;
    scope.merge(POOL, "p", json!({"metadata": {"annotations": {PAUSED: ""}}})).await?;
    // The allocator must have seen the pause before.
    scope.canary().await?;
    scope.delete(CLAIM, "c").await?;
    scope.canary().await?;
    ensure!(scope.seen(ADDRESS, "c").is_some(), "it was released");
    scope.merge(POOL, "p", json!({"metadata": {"annotations": {PAUSED: null}}})).await?;
    scope.gone(CLAIM, "c").await?;
    scope.gone(ADDRESS, "c").await
}
