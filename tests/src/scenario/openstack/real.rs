//! The real Keystone and Neutron.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::{
    ARGS, Shown, are_named, bound, claim, delete_all, has_address, none_left, nothing_is_told, pool, secret, up, waits,
};
use crate::ipam::scope::CLAIM;
use crate::openstack::{Real, USER, clouds};
use crate::runner::Ctx;

/// How many claims come and go while the allocator is killed.
const CLAIMS: usize = 16;

async fn shown(cloud: &Real) -> Result<Vec<Shown>> {
    let all = cloud.admin.floating_ips().await?;
    Ok(all
        .into_iter()
        .map(|one| Shown { address: one.address, description: one.description, tags: one.tags })
        .collect())
}

/// Created, tagged, recorded, released, kept; quota, full network, tokens, Neutron away; killed at any time.
pub async fn real(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let cloud = Real::start(&rig.server.lab().host("client")?, "203.0.113.0/26").await?;
    let credential = cloud.admin.application_credential().await?;
    let given = cloud.admin.allocate("Ingress of the shop").await?.to_string();
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    secret(&scope, &clouds(None)).await?;
    let network = json!({"filter": {"name": "public"}});
    let list = json!({"preAllocatedFloatingIPs": [given], "maxIPs": CLAIMS / 2, "reclaimPolicy": "Delete",
        "floatingIPNetwork": network});
    pool(&scope, "list", list).await?;
    pool(&scope, "free", json!({"reclaimPolicy": "Delete", "floatingIPNetwork": network})).await?;
    claim(&scope, "list-0", "list").await?;
    ensure!(has_address(&scope, "list-0").await? == given, "not the list's");
    let lives = async {
        // Primes: the moments fall on all parts of its work.
        for life in [397, 701, 1_103, 211, 907, 1_511] {
            tokio::time::sleep(Duration::from_millis(life)).await;
            allocator.kill().await?;
            allocator.start_again()?;
        }
        anyhow::Ok(())
    };
    let made = async {
        for number in 1..CLAIMS {
            let pool = if number % 2 == 0 { "list" } else { "free" };
            claim(&scope, &format!("{pool}-{number}"), pool).await?;
        }
        Ok(())
    };
    tokio::try_join!(lives, made)?;
    are_named(&bound(&scope, CLAIMS).await?, &shown(&cloud).await?)?;
    // Each that was made is tagged: one that was made right before a kill, once it is looked at again.
    let tagged = shown(&cloud).await?.iter().filter(|one| !one.tags.is_empty()).count();
    ensure!(tagged == CLAIMS - 1, "{tagged} are tagged");
    claim(&scope, "late", "list").await?;
    waits(&scope, "late", "PoolExhausted", "maxIPs is 8").await?;
    scope.delete(CLAIM, "list-2").await?;
    has_address(&scope, "late").await?;
    // No token is good any more; another kind of credentials; Neutron away.
    cloud.forget_tokens()?;
    secret(&scope, &clouds(Some(&credential))).await?;
    cloud.stop_neutron().await?;
    claim(&scope, "free-100", "free").await?;
    waits(&scope, "free-100", "PoolNotReady", "Neutron").await?;
    cloud.start_neutron().await?;
    has_address(&scope, "free-100").await?;
    // The quota, and a network that is full.
    cloud.admin.quota(Some(u32::try_from(CLAIMS + 1)?)).await?;
    claim(&scope, "free-101", "free").await?;
    waits(&scope, "free-101", "PoolExhausted", "Quota exceeded").await?;
    cloud.admin.quota(None).await?;
    scope.delete(CLAIM, "free-1").await?;
    has_address(&scope, "free-101").await?;
    cloud.admin.external_network("small", "198.51.100.0/30").await?;
    let small = json!({"filter": {"name": "small"}});
    pool(&scope, "small", json!({"reclaimPolicy": "Retain", "floatingIPNetwork": small})).await?;
    claim(&scope, "small-0", "small").await?;
    has_address(&scope, "small-0").await?;
    claim(&scope, "small-1", "small").await?;
    waits(&scope, "small-1", "PoolExhausted", "No more IP addresses").await?;
    scope.delete(CLAIM, "small-0").await?;
    has_address(&scope, "small-1").await?;
    delete_all(&scope).await?;
    none_left(&scope).await?;
    let left = shown(&cloud).await?;
    let (kept, list): (Vec<&Shown>, Vec<&Shown>) = left.iter().partition(|one| one.address.starts_with("198.51.100."));
    ensure!(kept.len() == 1 && kept[0].description.starts_with("mooring made pool="), "{left:?}");
    ensure!(list.len() == 1 && list[0].description == "Ingress of the shop", "{left:?}");
    nothing_is_told(&scope, &allocator, &[USER.1, &credential.1]).await?;
    allocator.stop().await
}
