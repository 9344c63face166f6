//! The life of a claim, and what people do meanwhile.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::forms::marked;
use super::{ARGS, all_bound, claim, delete_all, nothing_is_told, pool, pool_is, pool_with, secret, told, up};
use crate::ipam::audit::ready;
use crate::ipam::phpipam::{APP, PASSWORD, PhpIpam};
use crate::ipam::scope::CLAIM;
use crate::ipam::server::IPAM;
use crate::observe::now;
use crate::runner::Ctx;

/// Longest wait.
pub(super) const LONGEST: Duration = Duration::from_mins(1);

pub async fn claim_to_release(_: &mut Ctx<()>) -> Result<()> {
    let (rig, phpipam) = up().await?;
    let first = phpipam.subnet([192, 0, 2, 0], 29, Some([192, 0, 2, 6]));
    let second = phpipam.subnet([198, 51, 100, 0], 30, None);
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    let pool = pool(&scope, &phpipam, &[first, second]).await?;
    for number in 0..8 {
        claim(&scope, &format!("c{number}"), &pool).await?;
    }
    all_bound(&scope, &phpipam, 8).await?;
    let bound = scope.bound("c0").await?;
    ensure!(bound.address["spec"]["prefix"] == 29 || bound.address["spec"]["prefix"] == 30, "{}", bound.address);
    let row = phpipam.rows().into_iter().find(|row| row.ip.to_string() == bound.ip()).context("no entry")?;
    ensure!(row.hostname == format!("c0.{}", scope.ns), "{row:?}");
    // The next one waits, says so, and gets the next address that is released.
    claim(&scope, "late", &pool).await?;
    scope.refused("late", "PoolExhausted").await?;
    scope.delete(CLAIM, "c3").await?;
    scope.bound("late").await?;
    let same = phpipam.rows();
    ensure!(same.len() == 8, "{same:?}");
    // The token ends: one more log-in.
    let logins = phpipam.logins();
    phpipam.end_tokens();
    scope.delete(CLAIM, "c4").await?;
    claim(&scope, "c4-again", &pool).await?;
    scope.bound("c4-again").await?;
    ensure!(phpipam.logins() > logins, "no log-in");
    nothing_is_told(&scope, &allocator).await?;
    delete_all(&scope).await?;
    ensure!(phpipam.rows().is_empty(), "left: {:?}", phpipam.rows());
    // A pool without addresses goes.
    let path = format!("{IPAM}/v1alpha1/phpipamippools/{pool}");
    rig.server.delete(&path).await?;
    pool_is(&rig, &path, LONGEST, |pool| pool.is_none()).await?;
    allocator.stop().await
}

pub async fn changed_by_people(_: &mut Ctx<()>) -> Result<()> {
    let (rig, phpipam) = up().await?;
    secret(&rig, &phpipam, "wrong").await?;
    let subnet = phpipam.subnet([192, 0, 2, 0], 27, None);
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    let pool = pool(&scope, &phpipam, &[subnet]).await?;
    claim(&scope, "c0", &pool).await?;
    // The wrong password is told, and not tried again and again: phpIPAM would block the address.
    scope.refused_with("c0", "PoolNotReady", "Invalid username or password").await?;
    ensure!(phpipam.logins() < 10, "{} log-ins", phpipam.logins());
    secret(&rig, &phpipam, PASSWORD).await?;
    let spec = json!({"endpoint": phpipam.endpoint(), "appId": APP, "credentialsRef": {"name": "phpipam"},
        "subnets": [subnet], "drift": "Report"});
    let only_told = pool_with(&scope, "told", spec).await?;
    for (name, pool) in [("changed", &pool), ("taken", &pool), ("told", &only_told)] {
        claim(&scope, name, pool).await?;
    }
    all_bound(&scope, &phpipam, 4).await?;
    let ip = async |name: &str| anyhow::Ok(scope.bound(name).await?.ip().to_owned());
    let (address, taken, changed, told_of) =
        (ip("c0").await?, ip("taken").await?, ip("changed").await?, ip("told").await?);
    // A person deletes an entry, takes another's address, changes a third. The regular look, here that of a new process, puts
    // back what it can.
    for one in [&address, &taken, &told_of] {
        phpipam.delete(one);
    }
    phpipam.add(subnet, &taken, "printer")?;
    phpipam.describe(&changed, "do not touch");
    allocator.kill().await?;
    allocator.start_again()?;
    entered(&phpipam, &address).await?;
    marked(&scope, &phpipam, "changed", &changed).await?;
    told(&scope, "EntryPutBack", &address).await?;
    told(&scope, "EntryNotPutBack", &taken).await?;
    told(&scope, "EntryMissing", &told_of).await?;
    ensure!(!phpipam.rows().iter().any(|row| row.ip.to_string() == told_of), "{told_of} was put back");
    // The warning stands with the pool.
    let path = format!("{IPAM}/v1alpha1/phpipamippools/{pool}");
    let warns = |answer: Option<&Value>| {
        let (is, _, message) = answer.and_then(ready).unwrap_or_default();
        is && message.contains("unencrypted")
    };
    pool_is(&rig, &path, LONGEST, warns).await?;
    delete_all(&scope).await?;
    let left = phpipam.rows();
    ensure!(left.len() == 1 && left[0].hostname == "printer", "left: {left:?}");
    nothing_is_told(&scope, &allocator).await?;
    allocator.stop().await
}

/// An entry that became somebody else's between the search and the deletion stays, by its mark and by its name alone.
pub async fn reused_by_people(_: &mut Ctx<()>) -> Result<()> {
    let (rig, phpipam) = up().await?;
    let subnet = phpipam.subnet([192, 0, 2, 0], 28, None);
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    let pool = pool(&scope, &phpipam, &[subnet]).await?;
    for name in ["c0", "c1"] {
        claim(&scope, name, &pool).await?;
    }
    all_bound(&scope, &phpipam, 2).await?;
    let ip = scope.bound("c0").await?.ip().to_owned();
    phpipam.reuse_once_found(&ip, "printer")?;
    delete_all(&scope).await?;
    let left = phpipam.rows();
    ensure!(left.len() == 1 && left[0].hostname == "printer" && left[0].ip.to_string() == ip, "left: {left:?}");
    // It is nobody's address here any more, and no claim gets it.
    claim(&scope, "c2", &pool).await?;
    ensure!(scope.bound("c2").await?.ip() != ip, "{ip} is the printer's");
    delete_all(&scope).await?;
    allocator.stop().await
}

/// Waits until an address is in phpIPAM.
async fn entered(phpipam: &PhpIpam, ip: &str) -> Result<()> {
    let deadline = now() + LONGEST;
    while !phpipam.rows().iter().any(|row| row.ip.to_string() == ip) {
        ensure!(now() < deadline, "{ip} is not put back");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
