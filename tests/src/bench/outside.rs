//! What benches of pools of outside systems share: claims of such a pool, beside what the system does alone for a bare client with as many
//! requests at once as serve it best.

use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use crate::ipam::scope::{CLAIM, Scope};
use crate::observe::now;
use crate::progress;

/// How many claims, when nobody says.
pub(super) const CLAIMS: usize = 200;
/// Requests at once that are tried for the floor.
const WORKERS: [usize; 5] = [1, 2, 4, 8, 16];
/// Requests at once, of who creates the claims.
const CREATING: usize = 16;
/// Longest time of all claims.
const LIMIT: Duration = Duration::from_mins(5);

/// Makes so many, `at_once` at a time; returns how many a second.
#[expect(clippy::cast_precision_loss, reason = "counts of requests")]
pub(super) async fn rate_of<F: Future<Output = Result<()>>>(
    count: usize,
    at_once: usize,
    one: impl Fn(usize) -> F,
) -> Result<f64> {
    let begin = now();
    stream::iter(0..count).map(one).buffer_unordered(at_once).try_collect::<Vec<()>>().await?;
    Ok(count as f64 / now().since(begin).as_secs_f64())
}

/// The best rate of a bare client. `many`: so many addresses, with so many requests at once.
pub(super) async fn floor(count: usize, many: impl AsyncFn(usize, usize) -> Result<f64>) -> Result<f64> {
    let mut best = (0.0, 1);
    for workers in WORKERS {
        let rate = many(count.div_ceil(4), workers).await?;
        if rate > best.0 {
            best = (rate, workers);
        }
    }
    let floor = many(count, best.1).await?.max(best.0);
    progress::line(format_args!("{} requests at once are the best: {floor:.0} addresses/s", best.1));
    Ok(floor)
}

/// Creates claims, many at once. `one`: creates one of that name.
pub(super) async fn create(names: Vec<String>, one: impl AsyncFn(String) -> Result<Value>) -> Result<()> {
    stream::iter(names).map(|name| async { one(name).await.map(drop) }).buffer_unordered(CREATING).try_collect().await
}

/// Waits until so many claims of a namespace have an address.
pub(super) async fn bound(scope: &Scope<'_>, many: usize) -> Result<()> {
    let all = scope.rig.world.until_within(LIMIT, "all claims to be bound", |state| {
        let has = |one: &&Value| one["status"]["addressRef"]["name"].is_string();
        (state.all(CLAIM, &scope.ns).filter(has).count() == many).then_some(())
    });
    all.await
}

/// How many claims a second are bound that are made at once. One more is made before: the pool is known by then.
#[expect(clippy::cast_precision_loss, reason = "counts of claims")]
pub(super) async fn rate(scope: &Scope<'_>, count: usize, one: impl AsyncFn(String) -> Result<Value>) -> Result<f64> {
    create(vec!["first".into()], &one).await?;
    bound(scope, 1).await?;
    let begin = now();
    create((0..count).map(|number| format!("c{number}")).collect(), &one).await?;
    bound(scope, count + 1).await?;
    Ok(count as f64 / now().since(begin).as_secs_f64())
}
