//! kube-vip's `ConfigMap` in full.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::service;
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{CLAIM, Scope};
use crate::ipam::services::{GLOBAL, annotation, ingress};
use crate::ipam::world::SOON;
use crate::observe::now;
use crate::runner::Test;

pub fn all() -> Vec<Test<()>> {
    vec![
        service!(whole, "configmap-whole"),
        service!(dual_stack, "both-families"),
        service!(bad_entry, "a-bad-entry-harms-nothing-else"),
        service!(edited, "configmap-edited-under-living-services-moves-nobody"),
        service!(ends, "search-order-and-ends"),
        service!(second_pool, "a-second-default-pool-enlarges-the-first"),
    ]
}

/// Runs with this `ConfigMap`, and deletes it afterwards.
async fn with(scope: &Scope<'_>, data: Value, work: impl Future<Output = Result<()>>) -> Result<()> {
    scope.configure(data).await?;
    scope.with_agents(work).await?;
    scope.no_services().await?;
    scope.no_config().await?;
    for pool in ["kubevip-global-ipv4", "kubevip-global-ipv6"] {
        scope.gone(GLOBAL, pool).await?;
    }
    for family in ["ipv4", "ipv6"] {
        scope.gone(GLOBAL, &format!("kubevip-{}-{family}", scope.ns)).await?;
    }
    Ok(())
}

async fn pool_of(scope: &Scope<'_>, service: &str) -> Result<String> {
    let claim = scope.claim_of(service).await?;
    let claim = scope.rig.server.get(&scope.path(CLAIM, &claim)).await?;
    Ok(claim["spec"]["poolRef"]["name"].as_str().unwrap_or_default().to_owned())
}

/// A namespace's range is not shadowed by a global CIDR; overlapping scopes share one view; shared addresses; interfaces.
async fn whole(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let ns = scope.ns.clone();
    let data = json!({
        "cidr-global": format!("{}/28", scope.ip(0)),
        format!("range-{ns}"): format!("{}-{}", scope.ip(1), scope.ip(3)),
        format!("cidr-{ns}"): format!("{}/126", scope.ip6("8")),
        format!("allow-share-{ns}"): "true",
        "interface-global": "eth0",
        format!("interface-{ns}"): "eth1",
    });
    let work = async {
        scope.service("one").await?;
        let one = scope.advertised("one").await?;
        ensure!(one == [scope.ip(1)], "{one:?}");
        ensure!(pool_of(scope, "one").await? == format!("kubevip-{ns}-ipv4"), "its namespace's own");
        // The same port: another address. Another port: a shared address.
        scope.service("two").await?;
        ensure!(scope.advertised("two").await? == [scope.ip(2)], "another address");
        scope.service_with("three", scope.balanced(53, "UDP"), json!({})).await?;
        ensure!(scope.advertised("three").await? == [scope.ip(1)], "the lowest with room");
        let service = scope.rig.server.get(&scope.service_path("three")).await?;
        ensure!(annotation(&service, "kube-vip.io/serviceInterface") == Some("eth1"), "{service}");
        // An address from one pool is not free in the other; a used address counts in the pool it came from.
        scope.counts(GLOBAL, &format!("kubevip-{ns}-ipv4"), [3, 1, 2, 0]).await?;
        scope.counts(GLOBAL, "kubevip-global-ipv4", [15, 13, 0, 0]).await?;
        scope.counts(GLOBAL, &format!("kubevip-{ns}-ipv6"), [4, 4, 0, 0]).await?;
        scope.sound().await
    };
    with(scope, data, work).await
}

async fn dual_stack(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let data = json!({"cidr-global": format!("{}/29,{}/125", scope.ip(0), scope.ip6("8"))});
    let (v4, v6) = (scope.ip(1), scope.ip6("8"));
    let work = async {
        let both = |policy: &str, families: Value| {
            let mut spec = scope.balanced(80, "TCP");
            spec["ipFamilyPolicy"] = json!(policy);
            spec["ipFamilies"] = families;
            spec
        };
        scope.service_with("required", both("RequireDualStack", json!(["IPv4", "IPv6"])), json!({})).await?;
        scope
            .until_service("required", "to have both", |service, _| {
                (ingress(service) == [v4.clone(), v6.clone()]).then_some(())
            })
            .await?;
        scope.service_with("six", both("SingleStack", json!(["IPv6"])), json!({})).await?;
        let six = scope.advertised("six").await?;
        ensure!(six == [scope.ip6("9")], "{six:?}");
        scope.service_with("prefers", both("PreferDualStack", json!(["IPv6", "IPv4"])), json!({})).await?;
        scope
            .until_service("prefers", "to have both, its first family first", |service, _| {
                (ingress(service) == [scope.ip6("a"), scope.ip(2)]).then_some(())
            })
            .await?;
        scope.sound().await
    };
    with(scope, data, work).await
}

async fn bad_entry(scope: &Scope<'_>, allocator: &Allocator) -> Result<()> {
    let data = json!({
        "cidr-global": format!("{}/29,10.0.0.300/32", scope.ip(0)),
        "range-nowhere": "nonsense", "search-order": "sideways", "cidrs-global": "10.0.0.0/8", "cidr-dhcp": "0.0.0.0/32",
    });
    let work = async {
        scope.service("web").await?;
        ensure!(scope.advertised("web").await? == [scope.ip(1)], "the good entry counts");
        for part in ["10.0.0.300/32", "range-nowhere", "search-order", "cidrs-global", "DHCP"] {
            scope.until_event("kube-system", "kubevip", "InvalidEntry", part).await?;
        }
        // The counts follow a moment later.
        let deadline = now() + SOON;
        loop {
            let bad = allocator.metric("mooring_allocator_config_problems", &[]).await?;
            if bad == Some(5.0) {
                return Ok(());
            }
            ensure!(now() < deadline, "{bad:?} problems are counted, not 5");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    with(scope, data, work).await
}

async fn edited(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let data = json!({"range-global": format!("{}-{}", scope.ip(1), scope.ip(9))});
    let work = async {
        scope.service("web").await?;
        scope.advertised("web").await?;
        scope.configure(json!({"range-global": format!("{}-{}", scope.ip(5), scope.ip(9))})).await?;
        let message = scope.service_says("web", "Advertised", "is no longer in").await?;
        ensure!(message.starts_with(&scope.ip(1)) && message.contains("mooring.dev/reallocate"), "{message}");
        scope.merge_service("web", json!({"metadata": {"annotations": {"mooring.dev/reallocate": "please"}}})).await?;
        scope
            .until_service("web", "to move", |service, _| {
                let done = ingress(service) == [scope.ip(5)] && annotation(service, "mooring.dev/reallocate").is_none();
                done.then_some(())
            })
            .await?;
        scope.sound().await
    };
    with(scope, data, work).await
}

async fn ends(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let data = json!({
        "cidr-global": format!("{}/29", scope.ip(16)), "search-order": "desc", "skip-end-ips-in-cidr": "true",
    });
    let work = async {
        for (name, ip) in [("one", scope.ip(22)), ("two", scope.ip(21))] {
            scope.service(name).await?;
            let has = scope.advertised(name).await?;
            ensure!(has == [ip.clone()], "{has:?}, not {ip}");
        }
        scope.counts(GLOBAL, "kubevip-global-ipv4", [6, 4, 2, 0]).await
    };
    with(scope, data, work).await
}

/// Users' pools of the same rank.
async fn second_pool(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.default_pool("a", 10, 10).await?;
    scope.default_pool("b", 20, 29).await?;
    let work = async {
        scope.service("one").await?;
        ensure!(scope.advertised("one").await? == [scope.ip(10)], "the first by name");
        scope.service("two").await?;
        ensure!(scope.advertised("two").await? == [scope.ip(20)], "the second");
        scope.sound().await
    };
    scope.with_agents(work).await
}
