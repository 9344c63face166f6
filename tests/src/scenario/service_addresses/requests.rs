//! Requested addresses: given, or refused with a reason; one bad request affects only its own Service.

use anyhow::{Result, ensure};
use serde_json::json;

use super::service;
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{CLAIM, POOL, Scope};
use crate::ipam::services::{ADDRESSES, ingress};
use crate::runner::Test;

pub fn all() -> Vec<Test<()>> {
    vec![
        service!(given, "a-requested-address-is-given"),
        service!(refused, "a-requested-address-that-cannot-be-had-is-refused"),
        service!(nonsense, "a-bad-annotation-harms-one-service-only"),
        service!(changed, "another-address-is-asked-for"),
        service!(named_pool, "a-pool-is-named"),
    ]
}

async fn given(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.default_pool("p", 10, 19).await?;
    let work = async {
        scope.noted("noted", json!({ADDRESSES: format!(" {} ", scope.ip(15))})).await?;
        let mut spec = scope.balanced(80, "TCP");
        spec["loadBalancerIP"] = json!(scope.ip(16));
        scope.service_with("field", spec, json!({})).await?;
        ensure!(scope.advertised("noted").await? == [scope.ip(15)], "the annotation");
        ensure!(scope.advertised("field").await? == [scope.ip(16)], "the field");
        let field = scope.rig.server.get(&scope.service_path("field")).await?;
        ensure!(field["spec"]["loadBalancerIP"] == scope.ip(16), "what people wrote stays: {field}");
        // No other Service gets the address by chance.
        for n in 0..8 {
            scope.service(&format!("s{n}")).await?;
            scope.advertised(&format!("s{n}")).await?;
        }
        scope.sound().await
    };
    scope.with_agents(work).await
}

async fn refused(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.default_pool("p", 10, 19).await?;
    scope.node(&format!("{}-node", scope.ns), &scope.ip(12)).await?;
    scope
        .claim_with("machine", POOL, "p", json!({"annotations": {"mooring.dev/requested-address": scope.ip(13)}}))
        .await?;
    scope.bound("machine").await?;
    let work = async {
        scope.noted("first", json!({ADDRESSES: scope.ip(14)})).await?;
        scope.advertised("first").await?;
        for (name, last, reason, part) in [
            ("of-node", 12, "AddressOfNode", format!("{}-node", scope.ns)),
            ("of-claim", 13, "AddressTaken", format!("{}/machine", scope.ns)),
            ("of-service", 14, "AddressTaken", format!("{}/first", scope.ns)),
            ("nowhere", 99, "AddressNotInPool", "in no pool".to_owned()),
        ] {
            scope.noted(name, json!({ADDRESSES: scope.ip(last)})).await?;
            scope.service_says(name, reason, &part).await?;
            scope.until_event(&scope.ns, name, reason, &part).await?;
        }
        // Each Service heals when its obstacle is removed.
        scope.delete_service("first").await?;
        ensure!(scope.advertised("of-service").await? == [scope.ip(14)], "released");
        scope.delete(CLAIM, "machine").await?;
        ensure!(scope.advertised("of-claim").await? == [scope.ip(13)], "released by a claim");
        scope.rig.server.delete(&format!("/api/v1/nodes/{}-node", scope.ns)).await?;
        ensure!(scope.advertised("of-node").await? == [scope.ip(12)], "the node is gone");
        scope.merge(POOL, "p", json!({"spec": {"addresses": [format!("{}-{}", scope.ip(10), scope.ip(99))]}})).await?;
        ensure!(scope.advertised("nowhere").await? == [scope.ip(99)], "added to the pool");
        scope.sound().await
    };
    scope.with_agents(work).await
}

async fn nonsense(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.default_pool("p", 10, 19).await?;
    let work = async {
        let bad = [("host", "lb.example.org"), ("dhcp", "0.0.0.0"), ("two", "10.0.0.1,10.0.0.2"), ("six", "fd00::1")];
        for (name, text) in bad {
            scope.noted(name, json!({ADDRESSES: text})).await?;
        }
        scope.noted("pool", json!({"mooring.dev/pool": "Pod/x"})).await?;
        scope.service("good").await?;
        ensure!(scope.advertised("good").await? == [scope.ip(10)], "nothing stands in its way");
        for (name, _) in bad {
            scope.service_says(name, "InvalidRequest", "").await?;
            scope.until_event(&scope.ns, name, "InvalidRequest", "").await?;
        }
        scope.service_says("pool", "InvalidRequest", "Pod").await?;
        // After the correction the Service gets an address.
        scope.merge_service("host", json!({"metadata": {"annotations": {ADDRESSES: null}}})).await?;
        ensure!(scope.advertised("host").await? == [scope.ip(11)], "corrected");
        scope.sound().await
    };
    scope.with_agents(work).await
}

async fn changed(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.default_pool("p", 10, 19).await?;
    let work = async {
        scope.service("web").await?;
        scope.advertised("web").await?;
        scope.merge_service("web", json!({"metadata": {"annotations": {ADDRESSES: scope.ip(17)}}})).await?;
        scope.until_service("web", "to move", |service, _| (ingress(service) == [scope.ip(17)]).then_some(())).await?;
        // If the new request is refused, the Service keeps its address.
        scope.merge_service("web", json!({"metadata": {"annotations": {ADDRESSES: "192.0.2.1"}}})).await?;
        let message = scope.service_says("web", "AddressNotInPool", "192.0.2.1").await?;
        ensure!(message.contains(&format!("keeps {}", scope.ip(17))), "{message}");
        let service = scope.rig.server.get(&scope.service_path("web")).await?;
        ensure!(ingress(&service) == [scope.ip(17)], "{service}");
        scope.sound().await
    };
    scope.with_agents(work).await
}

async fn named_pool(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.default_pool("p", 10, 19).await?;
    scope.pool("other", scope.range(30, 39)).await?;
    let work = async {
        scope.noted("named", json!({"mooring.dev/pool": "other"})).await?;
        ensure!(scope.advertised("named").await? == [scope.ip(30)], "its pool");
        scope.noted("typo", json!({"mooring.dev/pool": "ohter"})).await?;
        scope.service_says("typo", "PoolNotUsable", "ohter").await?;
        scope
            .merge_service("typo", json!({"metadata": {"annotations": {"mooring.dev/pool": "InClusterIPPool/other"}}}))
            .await?;
        ensure!(scope.advertised("typo").await? == [scope.ip(31)], "corrected");
        scope.sound().await
    };
    scope.with_agents(work).await
}
