//! Services that kube-vip's cloud provider has served keep their addresses.

use anyhow::{Result, ensure};
use serde_json::json;

use super::super::story;
use crate::ipam::scope::CLAIM;
use crate::ipam::server::Crds;
use crate::ipam::services::{ADDRESSES, ingress};
use crate::rig::allocator::AllocatorRig;
use crate::runner::{Ctx, Test};

pub fn all() -> Vec<Test<()>> {
    vec![
        story!("service-addresses", kept, "what-the-cloud-provider-gave-is-kept", 5),
        story!("service-addresses", restarted, "a-restart-changes-nothing", 5),
    ]
}

async fn kept(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::Standalone).await?;
    let scope = rig.scope().await?;
    scope.configure(json!({"range-global": format!("{}-{}", scope.ip(1), scope.ip(9))})).await?;
    // As kube-vip's cloud provider leaves them: the annotation, the field, the label, the finalizer; the status is from
    // kube-vip.
    let old = [
        ("one", scope.ip(1), 80),
        ("two", scope.ip(2), 80),
        ("same", scope.ip(2), 81),
        ("away", "192.0.2.7".to_owned(), 80),
    ];
    for (name, ip, port) in &old {
        let mut spec = scope.balanced(*port, "TCP");
        spec["loadBalancerIP"] = json!(ip);
        let meta = json!({
            "annotations": {ADDRESSES: ip}, "labels": {"implementation": "kube-vip"},
            "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
        });
        scope.service_with(name, spec, meta).await?;
        let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": ip}]}}});
        rig.server.merge(&format!("{}/status", scope.service_path(name)), &status).await?;
    }
    // A Service that already waits must not get an address that others have.
    scope.service("aaa").await?;
    let allocator = rig.start("allocator").await?;
    let work = async {
        for (name, ip, _) in &old {
            let has = scope.advertised(name).await?;
            ensure!(has == [ip.clone()], "{name} has {has:?}, not {ip}");
            scope
                .until_service(name, "to lose the field that nobody wrote", |service, _| {
                    service["spec"].get("loadBalancerIP").is_none().then_some(())
                })
                .await?;
        }
        let has = scope.advertised("aaa").await?;
        ensure!(has == [scope.ip(3)], "{has:?}");
        let claims = rig.world.look(|state| state.all(CLAIM, &scope.ns).count());
        ensure!(claims == 4, "{claims} claims: two share one");
        // No other program would remove the finalizer.
        for (name, ..) in &old {
            scope.delete_service(name).await?;
        }
        scope.no_services().await?;
        scope.no_config().await?;
        for pool in ["kubevip-global-ipv4", "kubevip-kept.addresses-ipv4"] {
            scope.gone(crate::ipam::services::GLOBAL, pool).await?;
        }
        scope.sound().await
    };
    scope.with_agents(work).await?;
    allocator.stop().await?;
    Ok(())
}

/// A restarted allocator finds the existing objects, and writes nothing.
async fn restarted(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::Standalone).await?;
    let scope = rig.scope().await?;
    let allocator = rig.start("allocator").await?;
    let data = json!({"cidr-global": format!("{}/28", scope.ip(0)), "allow-share-global": "true"});
    scope.configure(data).await?;
    let work = async {
        for n in 0..6 {
            scope.service_with(&format!("s{n}"), scope.balanced(80 + n % 3, "TCP"), json!({})).await?;
            scope.advertised(&format!("s{n}")).await?;
        }
        let versions = || {
            rig.world.look(|state| {
                let all = state.all("Service", &scope.ns).chain(state.all(CLAIM, "kube-system"));
                all.map(|one| one["metadata"]["resourceVersion"].to_string()).collect::<Vec<_>>()
            })
        };
        // The last change is visible: the allocator saw each Service with all its parts.
        scope.canary().await?;
        let before = versions();
        allocator.kill().await?;
        allocator.start_again()?;
        allocator.ready().await?;
        scope.canary().await?;
        ensure!(before == versions(), "something was written");
        // The allocator goes on working.
        scope.service("late").await?;
        let has = scope.advertised("late").await?;
        ensure!(has.len() == 1, "{has:?}");
        let service = rig.server.get(&scope.service_path("s0")).await?;
        ensure!(ingress(&service) == [scope.ip(1)], "{service}");
        scope.no_services().await?;
        scope.no_config().await
    };
    scope.with_agents(work).await?;
    scope.leave().await
}
