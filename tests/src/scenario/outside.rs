//! What scenarios of pools of outside systems share.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::ipam::scope::{ADDRESS, CLAIM, Scope};
use crate::ipam::world::State;
use crate::observe::now;
use crate::rig::allocator::AllocatorRig;

/// The longest wait: outside systems are slow, and are asked again later after a failure.
const LONGEST: Duration = Duration::from_mins(2);

/// Deletes all claims of a namespace, and waits until they and their addresses are gone.
pub(super) async fn delete_all(scope: &Scope<'_>) -> Result<()> {
    let names: Vec<String> = scope.rig.world.look(|state| {
        state.all(CLAIM, &scope.ns).filter_map(|one| Some(one["metadata"]["name"].as_str()?.to_owned())).collect()
    });
    for name in names {
        // Whoever was deleted just before may be gone while the watch still shows it.
        let done = scope.delete(CLAIM, &name).await;
        ensure!(done.as_ref().map_or_else(|refused| refused.code == 404, |_| true), "{name}: {done:?}");
    }
    none_left(scope).await
}

/// Waits until the claims of a namespace and their addresses are gone.
pub(super) async fn none_left(scope: &Scope<'_>) -> Result<()> {
    let left = |kind| move |state: &State| state.all(kind, &scope.ns).next().is_none().then_some(());
    scope.rig.world.until_within(LONGEST, "all claims to be gone", left(CLAIM)).await?;
    scope.rig.world.until_within(LONGEST, "all addresses to be gone", left(ADDRESS)).await
}

/// Waits until a pool is so; None: it is gone.
pub(super) async fn pool_is(
    rig: &AllocatorRig,
    path: &str,
    within: Duration,
    is: impl Fn(Option<&Value>) -> bool,
) -> Result<()> {
    let deadline = now() + within;
    loop {
        let pool = match rig.server.get(path).await {
            Ok(pool) => Some(pool),
            Err(refused) if refused.code == 404 => None,
            Err(refused) => return Err(refused.into()),
        };
        if is(pool.as_ref()) {
            return Ok(());
        }
        ensure!(now() < deadline, "the pool is not as it should be: {pool:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
