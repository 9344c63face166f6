//! `MetalLB`, and other controllers of Services without a class.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{CLEANUP, left, newcomer, nothing_twice, versions};
use crate::ipam::scope::{CLAIM, Scope};
use crate::ipam::server::Crds;
use crate::ipam::services::{ingress, said};
use crate::rig::allocator::AllocatorRig;
use crate::runner::Ctx;

/// A Service as `MetalLB` leaves it.
async fn metallb(scope: &Scope<'_>, name: &str, ip: &str, spec: Value) -> Result<()> {
    let meta = json!({"annotations": {"metallb.io/ip-allocated-from-pool": "first-pool"}});
    left(scope, name, (meta, spec, json!([{"ip": ip, "ipMode": "VIP"}]))).await
}

/// Somebody replaces the in-cluster provider by Mooring, and `MetalLB`, or a cloud controller, goes on serving: nothing is
/// written on any Service, and no finalizer is taken away.
pub async fn left_alone(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::Standalone).await?;
    let scope = rig.scope().await?;
    // A pool for machines, which even has the addresses.
    scope.pool("machines", scope.range(1, 99)).await?;
    scope.service("pending").await?;
    metallb(&scope, "served", &scope.ip(5), json!({"loadBalancerIP": scope.ip(5)})).await?;
    let name = json!([{"hostname": "lb.example.com"}]);
    left(&scope, "cloud", (json!({"finalizers": [CLEANUP]}), json!({}), name)).await?;
    let allocator = rig.start("allocator").await?;
    let before = versions(&scope);
    scope.canary().await?;
    metallb(&scope, "new", &scope.ip(6), json!({})).await?;
    scope.canary().await?;
    let now: Vec<_> = versions(&scope).into_iter().filter(|(name, _)| name != "new").collect();
    ensure!(now == before, "something was written: {before:?} {now:?}");
    let claims = rig.world.look(|state| {
        state
            .all(CLAIM, &scope.ns)
            .filter(|one| one["metadata"]["labels"].get("mooring.dev/service-family").is_some())
            .count()
    });
    ensure!(claims == 0, "{claims} claims for Services");
    // The finalizer is the cloud controller's to remove.
    scope.delete_service("cloud").await?;
    scope.canary().await?;
    let cloud = rig.server.get(&scope.service_path("cloud")).await?;
    ensure!(cloud["metadata"]["finalizers"] == json!([CLEANUP]), "{cloud}");
    for name in ["pending", "served", "new", "cloud"] {
        let events = scope.events_of(&scope.ns, name).await?;
        ensure!(events.is_empty(), "{name}: {events:?}");
    }
    scope.merge_service("cloud", json!({"metadata": {"finalizers": null}})).await?;
    allocator.stop().await?;
    Ok(())
}

/// `MetalLB` is removed, and its addresses are put into a pool for Services: each Service keeps its address.
pub async fn moved(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::Standalone).await?;
    let scope = rig.scope().await?;
    metallb(&scope, "one", &scope.ip(1), json!({})).await?;
    metallb(&scope, "two", &scope.ip(2), json!({"loadBalancerIP": scope.ip(2)})).await?;
    // Another controller goes on serving this one.
    metallb(&scope, "elsewhere", "192.0.2.9", json!({})).await?;
    // And this one, which has a class, and an address in the pool.
    metallb(&scope, "classed", &scope.ip(3), json!({"loadBalancerClass": "example.com/lb"})).await?;
    scope.service("aaa").await?;
    let before: Vec<_> =
        versions(&scope).into_iter().filter(|(name, _)| ["elsewhere", "classed"].contains(&name.as_str())).collect();
    scope.default_pool("p", 1, 9).await?;
    let allocator = rig.start("allocator").await?;
    let work = async {
        for (name, last) in [("one", 1), ("two", 2)] {
            let has = scope.advertised(name).await?;
            ensure!(has == [scope.ip(last)], "{name} has {has:?}");
        }
        for has in [scope.advertised("aaa").await?[0].clone(), newcomer(&scope, "later").await?] {
            ensure!((4..=9).any(|last| has == scope.ip(last)), "{has}");
        }
        nothing_twice(&scope, &[])?;
        let now: Vec<_> = versions(&scope)
            .into_iter()
            .filter(|(name, _)| ["elsewhere", "classed"].contains(&name.as_str()))
            .collect();
        ensure!(now == before, "something was written: {before:?} {now:?}");
        scope.no_services().await
    };
    scope.with_agents(work).await?;
    allocator.stop().await?;
    Ok(())
}

/// Two controllers serve one Service: Mooring gives in, says so, and takes nothing along.
pub async fn contested(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::Standalone).await?;
    let scope = rig.scope().await?;
    scope.default_pool("p", 1, 9).await?;
    let allocator = rig.start("allocator").await?;
    let theirs = "192.0.2.9";
    let work = async {
        scope.service("web").await?;
        scope.advertised("web").await?;
        let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": theirs}]}}});
        let mut written = 0;
        let ends = crate::observe::now() + std::time::Duration::from_mins(1);
        loop {
            let service = rig.server.get(&scope.service_path("web")).await?;
            if ingress(&service) != [theirs] {
                written += 1;
                rig.server.merge(&format!("{}/status", scope.service_path("web")), &status).await?;
            } else if said(&service).is_none()
                && service["metadata"]["annotations"].get("mooring.dev/ip-addresses").is_none()
            {
                break;
            }
            ensure!(crate::observe::now() < ends && written < 20, "they fight: {written} times");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        ensure!(written >= 2, "it gave in after {written}");
        scope.until_event(&scope.ns, "web", "ServedByAnother", theirs).await?;
        scope
            .rig
            .world
            .until("its claim to go", |state| state.all(CLAIM, &scope.ns).next().is_none().then_some(()))
            .await
    };
    scope.with_agents(work).await?;
    allocator.stop().await?;
    Ok(())
}
