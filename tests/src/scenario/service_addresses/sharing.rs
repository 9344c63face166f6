//! One address for several Services: by a key, where ports and nodes allow.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::service;
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{CLAIM, Scope};
use crate::ipam::services::{GLOBAL, ingress};
use crate::runner::Test;

pub fn all() -> Vec<Test<()>> {
    vec![
        service!(dns, "53-tcp-and-53-udp-share"),
        service!(invited, "a-key-of-another-namespace-counts-by-invitation"),
        service!(local, "local-services-without-a-common-node-do-not-share"),
        service!(last_out, "the-last-who-shares-gives-back"),
    ]
}

fn key() -> Value {
    json!({"annotations": {"mooring.dev/sharing-key": "dns"}})
}

async fn dns(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.default_pool("p", 10, 19).await?;
    let work = async {
        scope.service_with("tcp", scope.balanced(53, "TCP"), key()).await?;
        scope.service_with("udp", scope.balanced(53, "UDP"), key()).await?;
        for name in ["tcp", "udp"] {
            let has = scope.advertised(name).await?;
            ensure!(has == [scope.ip(10)], "{name} has {has:?}");
        }
        let claims = scope.rig.world.look(|state| state.all(CLAIM, &scope.ns).count());
        ensure!(claims == 1, "{claims} claims");
        scope.service_with("clash", scope.balanced(53, "UDP"), key()).await?;
        let message = scope.service_says("clash", "PortConflict", "53/UDP").await?;
        ensure!(message.contains(&format!("{}/udp", scope.ns)), "{message}");
        scope
            .merge_service("clash", json!({"spec": {"ports": [{"name": "p", "port": 54, "protocol": "UDP"}]}}))
            .await?;
        ensure!(scope.advertised("clash").await? == [scope.ip(10)], "another port");
        scope.sound().await
    };
    scope.with_agents(work).await
}

async fn invited(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let tenant = scope.rig.scope().await?;
    let pool = format!("{}-shared", scope.ns);
    scope.create(GLOBAL, &pool, scope.range(10, 19), json!({})).await?;
    let meta = json!({"annotations": {
        "mooring.dev/sharing-key": format!("{}/dns", scope.ns), "mooring.dev/pool": format!("{GLOBAL}/{pool}"),
    }});
    let invite = |whom: Value| json!({"metadata": {"annotations": {"mooring.dev/sharing-namespaces": whom}}});
    let shared = scope.ip(10);
    let work = async {
        // It comes first, and takes nothing.
        tenant.service_with("web", tenant.balanced(53, "TCP"), meta.clone()).await?;
        tenant.service_says("web", "SharingNotAllowed", "mooring.dev/sharing-namespaces").await?;
        scope.service_with("dns", scope.balanced(53, "TCP"), meta.clone()).await?;
        ensure!(scope.advertised("dns").await? == [shared.clone()], "those whose key it is");
        scope.merge_service("dns", invite(json!(format!("other, {}", tenant.ns)))).await?;
        let message = tenant.service_says("web", "PortConflict", "a Service of another namespace").await?;
        ensure!(!message.contains(&format!("{}/", scope.ns)), "it names what is another's: {message}");
        let ports = json!({"spec": {"ports": [{"name": "p", "port": 443, "protocol": "TCP"}]}});
        tenant.merge_service("web", ports).await?;
        ensure!(tenant.advertised("web").await? == [shared.clone()], "it was invited");
        // The invitation is taken back.
        scope.merge_service("dns", invite(Value::Null)).await?;
        tenant.service_says("web", "SharingNotAllowed", "").await?;
        tenant.until_service("web", "to show nothing", |service, _| ingress(service).is_empty().then_some(())).await?;
        ensure!(scope.advertised("dns").await? == [shared.clone()], "it stays with them");
        tenant.delete_service("web").await?;
        scope.delete_service("dns").await?;
        scope.sound().await
    };
    scope.with_agents(work).await
}

async fn local(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.default_pool("p", 10, 19).await?;
    let work = async {
        let spec = |port, protocol| {
            let mut spec = scope.balanced(port, protocol);
            spec["externalTrafficPolicy"] = json!("Local");
            spec
        };
        scope.endpoints("web", &["n1", "n2"]).await?;
        scope.endpoints("dns", &["n3"]).await?;
        scope.service_with("web", spec(80, "TCP"), key()).await?;
        scope.advertised("web").await?;
        scope.service_with("dns", spec(53, "UDP"), key()).await?;
        scope.service_says("dns", "NoCommonNode", "no node has ready endpoints of both").await?;
        scope.until_event(&scope.ns, "dns", "NoCommonNode", "").await?;
        scope.endpoints("dns", &["n2", "n3"]).await?;
        ensure!(scope.advertised("dns").await? == [scope.ip(10)], "they have n2 in common");
        scope.sound().await
    };
    scope.with_agents(work).await
}

async fn last_out(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.default_pool("p", 10, 10).await?;
    let work = async {
        for (name, port) in [("one", 80), ("two", 81)] {
            scope.service_with(name, scope.balanced(port, "TCP"), key()).await?;
            scope.advertised(name).await?;
        }
        scope.delete_service("one").await?;
        scope
            .until_service("two", "to be alone", |service, state| {
                let claim = state.all(CLAIM, &scope.ns).next()?;
                let owners = claim["metadata"]["ownerReferences"].as_array()?;
                let alone = owners.len() == 1 && owners[0]["name"] == "two";
                (alone && ingress(service) == [scope.ip(10)]).then_some(())
            })
            .await?;
        scope.service("other").await?;
        scope.service_says("other", "PoolExhausted", "").await?;
        scope.delete_service("two").await?;
        ensure!(scope.advertised("other").await? == [scope.ip(10)], "given back by the last");
        scope.sound().await
    };
    scope.with_agents(work).await
}
