//! kube-vip with its cloud provider.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{CLEANUP, left, newcomer, nothing_twice};
use crate::ipam::scope::Scope;
use crate::ipam::server::Crds;
use crate::ipam::services::{ADDRESSES, ingress};
use crate::rig::allocator::AllocatorRig;
use crate::runner::Ctx;

/// The metadata that the cloud provider and kube-vip leave. `asked`: the annotation, if there is one.
fn meta(asked: Option<&str>) -> Value {
    let mut meta = json!({
        "annotations": {"kube-vip.io/vipHost": "node-9"}, "labels": {"implementation": "kube-vip"}, "finalizers": [CLEANUP],
    });
    if let Some(asked) = asked {
        meta["annotations"][ADDRESSES] = asked.into();
    }
    meta
}

/// The status that kube-vip writes.
fn points(ips: &[&str]) -> Value {
    ips.iter().map(|ip| json!({"ip": ip})).collect()
}

/// A Service that was left: its name, annotation, `spec.loadBalancerIP`, and the addresses in its status.
type Left = (&'static str, Option<String>, Option<String>, Vec<String>);

/// Requests that kube-vip serves, or ignores, and that make no sense to Mooring: what the status shows stays where it is.
pub async fn kept(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::Standalone).await?;
    let scope = rig.scope().await?;
    scope.configure(json!({"range-global": format!("{}-{}", scope.ip(1), scope.ip(19))})).await?;
    let ip = |last: u8| scope.ip(last);
    let old: [Left; 7] = [
        ("two-of-a-family", Some(format!("{},{}", ip(1), ip(2))), None, vec![ip(1), ip(2)]),
        ("both-on-single-stack", Some(format!("{},{}", ip(3), scope.ip6("3"))), None, vec![ip(3)]),
        ("host-name", Some("lb.example.com".to_owned()), None, vec![ip(4)]),
        ("dhcp", Some("0.0.0.0".to_owned()), None, vec![ip(5)]),
        ("field-of-another-family", None, Some(scope.ip6("6")), vec![ip(6)]),
        ("status-alone", None, None, vec![ip(7)]),
        ("field-alone", None, Some(ip(8)), vec![ip(8)]),
    ];
    for (name, asked, field, shown) in &old {
        let spec = field.as_ref().map_or_else(|| json!({}), |field| json!({"loadBalancerIP": field}));
        let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
        left(&scope, name, (meta(asked.as_deref()), spec, points(&shown))).await?;
    }
    // One that is being deleted, and that a finalizer of somebody else keeps.
    let mut deleted = meta(Some(&ip(9)));
    deleted["finalizers"] = json!(["example.com/theirs"]);
    left(&scope, "going", (deleted, json!({"loadBalancerIP": ip(9)}), points(&[&ip(9)]))).await?;
    scope.delete_service("going").await?;
    // Services that wait for an address, before and after the others by name.
    scope.service("aaa").await?;
    scope.service("zzz").await?;
    let allocator = rig.start("allocator").await?;
    let work = async {
        for name in ["aaa", "zzz"] {
            let has = scope.advertised(name).await?;
            ensure!(has.iter().all(|has| (10..=19).any(|last| *has == ip(last))), "{name} has {has:?}");
        }
        let has = newcomer(&scope, "later").await?;
        ensure!((10..=19).any(|last| has == ip(last)), "{has}");
        for (name, .., shown) in &old {
            let service = rig.server.get(&scope.service_path(name)).await?;
            ensure!(ingress(&service) == *shown, "{name}: {service}");
        }
        for name in ["two-of-a-family", "both-on-single-stack", "host-name", "dhcp", "field-of-another-family"] {
            scope.service_says(name, "InvalidRequest", "").await?;
        }
        nothing_twice(&scope, &[])?;
        // People correct a request: the Service keeps one of its addresses.
        scope.merge_service("two-of-a-family", json!({"metadata": {"annotations": {ADDRESSES: ip(2)}}})).await?;
        scope
            .until_service("two-of-a-family", "to have the one it asks for", |one, _| {
                (ingress(one) == [ip(2)]).then_some(())
            })
            .await?;
        free(&scope).await
    };
    scope.with_agents(work).await?;
    allocator.stop().await?;
    Ok(())
}

/// Everything goes when the Services go: nothing is leaked.
async fn free(scope: &Scope<'_>) -> Result<()> {
    let freed = json!({"metadata": {"finalizers": null}});
    scope.merge_service("going", freed).await?;
    scope.no_services().await?;
    scope.no_config().await?;
    scope.gone(crate::ipam::services::GLOBAL, "kubevip-global-ipv4").await?;
    scope.sound().await
}

/// kube-vip was down when the cloud provider chose: the annotation and the field name the address, and no status does.
pub async fn down(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::Standalone).await?;
    let scope = rig.scope().await?;
    scope.configure(json!({"range-global": format!("{}-{}", scope.ip(1), scope.ip(9))})).await?;
    scope.service("aaa").await?;
    let ip = scope.ip(1);
    left(&scope, "chosen", (meta(Some(&ip)), json!({"loadBalancerIP": ip}), json!([]))).await?;
    let ip = scope.ip(2);
    left(&scope, "annotated", (meta(Some(&ip)), json!({}), json!([]))).await?;
    let ip = scope.ip(3);
    let plain = json!({"finalizers": [CLEANUP]});
    left(&scope, "field", (plain, json!({"loadBalancerIP": ip}), json!([]))).await?;
    let allocator = rig.start("allocator").await?;
    let work = async {
        for (name, last) in [("chosen", 1), ("annotated", 2), ("field", 3), ("aaa", 4)] {
            let has = scope.advertised(name).await?;
            ensure!(has == [scope.ip(last)], "{name} has {has:?}");
        }
        nothing_twice(&scope, &[])?;
        scope.no_services().await?;
        scope.no_config().await?;
        // The pool goes with its last claim.
        scope.gone(crate::ipam::services::GLOBAL, "kubevip-global-ipv4").await?;
        scope.sound().await
    };
    scope.with_agents(work).await?;
    allocator.stop().await?;
    Ok(())
}
