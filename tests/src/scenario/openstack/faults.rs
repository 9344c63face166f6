//! What goes wrong between the allocator and OpenStack.

use anyhow::{Context as _, Result, ensure};
use mooring_neutron::USER;
use serde_json::json;

use super::life::shown;
use super::{ARGS, are_named, bound, claim, delete_all, none_left, nothing_is_told, pool, secret, up};
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::CLAIM;
use crate::openstack::StandIn;
use crate::runner::Ctx;

/// After how many requests each process is killed. The first ones are the log-in, the search for the network and the look.
const LIVES: [usize; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 17, 21, 26];
/// How many claims each of both pools has.
const CLAIMS: usize = 100;

/// Wrong credentials, tokens that end, requests that fail, and nobody there.
pub async fn trouble(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let cloud = StandIn::start(&rig.server.lab().host("client")?, 40)?;
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    secret(&scope, &cloud.clouds("not-the-password")).await?;
    pool(&scope, "fips", json!({"reclaimPolicy": "Delete"})).await?;
    claim(&scope, "c0", "fips").await?;
    scope.refused_with("c0", "PoolNotReady", "Keystone refuses the credentials").await?;
    // A changed Secret needs no restart.
    secret(&scope, &cloud.clouds(USER.1)).await?;
    are_named(&bound(&scope, 1).await?, &shown(&cloud))?;
    let logins = cloud.cloud.asked("POST", "/v3/auth/tokens");
    cloud.cloud.forget_tokens();
    claim(&scope, "c1", "fips").await?;
    scope.bound("c1").await?;
    ensure!(cloud.cloud.asked("POST", "/v3/auth/tokens") == logins + 1, "not one more log-in");
    cloud.leave().await?;
    claim(&scope, "c2", "fips").await?;
    scope.refused_with("c2", "PoolNotReady", "Neutron").await?;
    cloud.come_back()?;
    scope.bound("c2").await?;
    cloud.cloud.fail_at_random(7, 60);
    for number in 3..15 {
        claim(&scope, &format!("c{number}"), "fips").await?;
    }
    bound(&scope, 15).await?;
    delete_all(&scope).await?;
    cloud.cloud.heal();
    ensure!(shown(&cloud).is_empty(), "left: {:?}", shown(&cloud));
    nothing_is_told(&scope, &allocator, &[USER.1, "not-the-password", "token-"]).await?;
    allocator.stop().await
}

/// Kills an allocator again and again, after ever more requests, and leaves it running.
async fn killed_often(allocator: &Allocator, cloud: &StandIn) -> Result<()> {
    for life in LIVES {
        let count = cloud.cloud.requests() + life;
        // Its work may end before: then it is killed at rest.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(3), cloud.cloud.until_requests(count)).await;
        allocator.kill().await?;
        allocator.start_again()?;
    }
    Ok(())
}

/// Killed at each request, while claims come, and while they go: none is leaked, none is given twice.
pub async fn killed(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let cloud = StandIn::start(&rig.server.lab().host("client")?, 250)?;
    let mut given = Vec::new();
    for number in 0..4 {
        given.push(cloud.cloud.allocate(&format!("of a person {number}")).context("no address")?.address.to_string());
    }
    let before = shown(&cloud);
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    secret(&scope, &cloud.clouds(USER.1)).await?;
    let list = json!({"preAllocatedFloatingIPs": given, "maxIPs": CLAIMS, "reclaimPolicy": "Delete"});
    pool(&scope, "list", list).await?;
    pool(&scope, "free", json!({"reclaimPolicy": "Delete"})).await?;
    let made = async {
        for number in 0..CLAIMS {
            for pool in ["list", "free"] {
                claim(&scope, &format!("{pool}-{number}"), pool).await?;
            }
        }
        Ok(())
    };
    tokio::try_join!(killed_often(&allocator, &cloud), made)?;
    are_named(&bound(&scope, 2 * CLAIMS).await?, &shown(&cloud))?;
    let gone = async {
        for number in 0..CLAIMS {
            for pool in ["list", "free"] {
                scope.delete(CLAIM, &format!("{pool}-{number}")).await?;
            }
        }
        Ok(())
    };
    tokio::try_join!(killed_often(&allocator, &cloud), gone)?;
    none_left(&scope).await?;
    ensure!(shown(&cloud) == before, "left: {:?}", shown(&cloud));
    nothing_is_told(&scope, &allocator, &[USER.1, "token-"]).await?;
    allocator.stop().await
}
