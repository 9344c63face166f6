//! What goes wrong between the allocator and phpIPAM.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{ARGS, all_bound, claim, delete_all, none_left, nothing_is_told, pool, up};
use crate::ipam::allocators::Allocator;
use crate::ipam::phpipam::{Faults, PhpIpam};
use crate::ipam::scope::CLAIM;
use crate::runner::Ctx;

/// Everything but a hang, now and then.
const SOME: Faults =
    Faults { hangs: false, refuses: 2, loses: 3, halves: 2, crashes: 2, locked: 2, collides: 30, read_only: false };

pub async fn at_random(_: &mut Ctx<()>) -> Result<()> {
    let (rig, phpipam) = up().await?;
    let subnet = phpipam.subnet([192, 0, 2, 0], 25, None);
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    let pool = pool(&scope, &phpipam, &[subnet]).await?;
    phpipam.faults(SOME);
    for number in 0..12 {
        claim(&scope, &format!("c{number}"), &pool).await?;
    }
    all_bound(&scope, &phpipam, 12).await?;
    // An app that may only read is told on the claim; no log-in cures it.
    phpipam.faults(Faults { read_only: true, ..Faults::default() });
    claim(&scope, "read-only", &pool).await?;
    scope.refused_with("read-only", "PoolNotReady", "invalid permissions").await?;
    phpipam.faults(SOME);
    all_bound(&scope, &phpipam, 13).await?;
    delete_all(&scope).await?;
    // What a lost answer left is found by the regular look; a claim that was let go has left nothing that a search shows.
    phpipam.faults(Faults::default());
    ensure!(phpipam.rows().is_empty(), "left: {:?}", phpipam.rows());
    nothing_is_told(&scope, &allocator).await?;
    allocator.stop().await
}

/// Kills an allocator when it has asked for so many changes: before, in the middle of, and after the effect of the last one.
async fn killed_at_calls(allocator: &Allocator, phpipam: &PhpIpam) -> Result<()> {
    for calls in [1, 1, 2, 3, 1, 5, 2, 8, 1, 4] {
        if !phpipam.asked(calls).await {
            break;
        }
        allocator.kill().await?;
        allocator.start_again()?;
    }
    Ok(())
}

pub async fn killed(_: &mut Ctx<()>) -> Result<()> {
    const CLAIMS: usize = 200;
    let (rig, phpipam) = up().await?;
    let subnet = phpipam.subnet([192, 0, 2, 0], 24, None);
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    let pool = pool(&scope, &phpipam, &[subnet]).await?;
    let made = async {
        for number in 0..CLAIMS {
            claim(&scope, &format!("c{number}"), &pool).await?;
        }
        Ok(())
    };
    tokio::try_join!(killed_at_calls(&allocator, &phpipam), made)?;
    all_bound(&scope, &phpipam, CLAIMS).await?;
    let gone = async {
        for number in 0..CLAIMS {
            scope.delete(CLAIM, &format!("c{number}")).await?;
        }
        Ok(())
    };
    tokio::try_join!(killed_at_calls(&allocator, &phpipam), gone)?;
    none_left(&scope).await?;
    ensure!(phpipam.rows().is_empty(), "left: {:?}", phpipam.rows());
    nothing_is_told(&scope, &allocator).await
}

pub async fn hangs(_: &mut Ctx<()>) -> Result<()> {
    let (rig, phpipam) = up().await?;
    let subnet = phpipam.subnet([192, 0, 2, 0], 25, None);
    let args = [&ARGS[..], &["--call-deadline=2s"]].concat();
    let allocator = rig.start_with("allocator", &args).await?;
    let scope = rig.scope().await?;
    let remote = pool(&scope, &phpipam, &[subnet]).await?;
    let here = scope.pool("here", scope.range(10, 60)).await?;
    phpipam.faults(Faults { hangs: true, ..Faults::default() });
    for number in 0..30 {
        claim(&scope, &format!("remote{number}"), &remote).await?;
    }
    for number in 0..30 {
        scope.claim(&format!("here{number}"), here["metadata"]["name"].as_str().unwrap_or_default()).await?;
    }
    for number in 0..30 {
        scope.bound(&format!("here{number}")).await?;
    }
    scope.refused_with("remote7", "PoolNotReady", "no answer").await?;
    // As many as may be under way at a time, and then one after another.
    ensure!(phpipam.requests() <= 10, "{} requests", phpipam.requests());
    phpipam.faults(Faults::default());
    scope
        .rig
        .world
        .until_within(Duration::from_mins(2), "all to be bound", |state| {
            let bound = state.all(CLAIM, &scope.ns).filter(|one| one["status"]["addressRef"]["name"].is_string());
            (bound.count() == 60).then_some(())
        })
        .await?;
    delete_all(&scope).await?;
    ensure!(phpipam.rows().is_empty(), "left: {:?}", phpipam.rows());
    allocator.stop().await
}
