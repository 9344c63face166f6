//! Allocators that give Clusters their control-plane endpoint, and an API server for them.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::allocators::Allocator;
use super::endpoint_kinds;
use super::server::{Crds, documents_in};
use crate::rig::allocator::AllocatorRig;

/// The arguments of an allocator that serves endpoints, and nothing about Services.
pub const ARGS: [&str; 3] = ["--leader-election=false", "--services=off", "--endpoints=on"];

/// An API server with Cluster API's kinds, those that a Cluster names, and the rights that the manifests give.
///
/// # Errors
/// The lab's, or a kind is refused.
pub async fn up() -> Result<AllocatorRig> {
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    prepare(&rig).await?;
    Ok(rig)
}

/// Adds to a rig with Cluster API's own kinds those that a Cluster names, and the rights.
///
/// # Errors
/// A kind is refused.
pub async fn prepare(rig: &AllocatorRig) -> Result<()> {
    endpoint_kinds::install(&rig.server).await?;
    rights(rig).await
}

/// Gives the allocator the rights that the manifests give for endpoints.
///
/// # Errors
/// They are refused.
pub async fn rights(rig: &AllocatorRig) -> Result<()> {
    for object in documents_in("allocator/endpoints/rbac.yaml")? {
        rig.server.apply(&object).await.context("the rights are refused")?;
    }
    Ok(())
}

/// As [`rights`], for a kind of infrastructure clusters more, in the manner that the manifest tells people.
///
/// # Errors
/// They are refused.
pub async fn rights_for(rig: &AllocatorRig, plural: &str) -> Result<()> {
    for mut object in documents_in("allocator/endpoints/rbac.yaml")? {
        for rule in object.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
            let resources = rule["resources"].as_array_mut().context("a rule without resources")?;
            if resources.iter().any(|one| one == "vsphereclusters") {
                resources.push(plural.into());
            }
        }
        rig.server.apply(&object).await.context("the rights are refused")?;
    }
    Ok(())
}

/// An allocator lives so long before it is killed, in milliseconds. Primes: the moments fall on all parts of its work.
const LIVES: [u64; 8] = [311, 97, 523, 151, 1_013, 211, 401, 61];

/// Kills an allocator, and starts it again, for ever.
///
/// # Errors
/// It does not start.
pub async fn kill_again_and_again(allocator: &Allocator) -> Result<()> {
    for life in LIVES.iter().cycle() {
        tokio::time::sleep(Duration::from_millis(*life)).await;
        allocator.kill().await?;
        allocator.start_again()?;
    }
    Ok(())
}
