//! Pools steer the agents: the allocator copies a pool's interface and node settings to its addresses.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::service;
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{ADDRESS, Scope};
use crate::ipam::services::{GLOBAL, annotation, ingress};
use crate::runner::Test;

const POOL: &str = "InClusterIPPool";
const INTERFACE: &str = "mooring.dev/interface";
const SELECTOR: &str = "mooring.dev/node-selector";
const HOLDER: &str = "mooring.dev/holder";

pub fn all() -> Vec<Test<()>> {
    vec![
        service!(follows, "what-a-pool-says-is-on-its-addresses"),
        service!(nonsense, "what-a-pool-says-that-makes-no-sense-is-told"),
        service!(config_map, "the-interface-of-the-configmap-is-on-pool-and-service"),
        service!(let_go, "who-held-what-is-advertised-no-more-is-forgotten"),
    ]
}

/// Waits until an address has exactly these settings.
async fn says(scope: &Scope<'_>, address: &str, interface: Option<&str>, selector: Option<&str>) -> Result<()> {
    let what = format!("IPAddress {address} to say {interface:?}, {selector:?}");
    let found = scope.rig.world.until(&what, |state| {
        let one = state.get(ADDRESS, &scope.ns, address)?;
        (annotation(one, INTERFACE) == interface && annotation(one, SELECTOR) == selector).then_some(())
    });
    found.await.with_context(|| format!("it is {:?}", scope.seen(ADDRESS, address)))
}

fn notes(annotations: &Value) -> Value {
    json!({"metadata": {"annotations": annotations}})
}

/// The allocator copies the settings when it makes the address, and updates them when the pool is edited; settings that
/// people wrote on the address stay.
async fn follows(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let said = json!({"mooring.dev/service-default": "true", INTERFACE: "eth1", SELECTOR: "edge"});
    scope.create(POOL, "p", scope.range(10, 19), json!({"annotations": said})).await?;
    // The first visible version has the settings already: no node may take the address for one without them.
    scope.service("web").await?;
    let claim = scope.claim_of("web").await?;
    let first = scope.rig.world.until("an IPAddress", |state| state.get(ADDRESS, &scope.ns, &claim).cloned()).await?;
    ensure!(annotation(&first, INTERFACE) == Some("eth1") && annotation(&first, SELECTOR) == Some("edge"), "{first}");
    // No agent advertises a machine's address.
    scope.claim("machine", "p").await?;
    let bound = scope.bound("machine").await?;
    ensure!(annotation(&bound.address, INTERFACE).is_none(), "{}", bound.address);
    scope.merge(POOL, "p", notes(&json!({INTERFACE: "eth2", SELECTOR: null}))).await?;
    says(scope, &claim, Some("eth2"), None).await?;
    scope.merge(ADDRESS, &claim, notes(&json!({INTERFACE: "vlan7"}))).await?;
    scope.merge(POOL, "p", notes(&json!({INTERFACE: null, SELECTOR: "rack=1"}))).await?;
    says(scope, &claim, Some("vlan7"), Some("rack=1")).await?;
    // If the address is to be advertised, the pool's settings apply to it too.
    scope.merge(ADDRESS, "machine", json!({"metadata": {"labels": {"mooring.dev/advertise": "true"}}})).await?;
    says(scope, "machine", None, Some("rack=1")).await?;
    scope.sound().await
}

async fn nonsense(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let said = json!({"mooring.dev/service-default": "true", INTERFACE: "eth1", SELECTOR: "zone in (a)"});
    scope.create(POOL, "p", scope.range(10, 19), json!({"annotations": said})).await?;
    scope.service("web").await?;
    let claim = scope.claim_of("web").await?;
    says(scope, &claim, Some("eth1"), None).await?;
    let (reason, message) = scope.pool_says(POOL, "p", "AnnotationsInvalid", true).await?;
    ensure!(reason == "AnnotationIgnored" && message.contains("zone in (a)"), "{reason}: {message}");
    scope.until_event(&scope.ns, "p", "InvalidAnnotation", "zone in (a)").await?;
    // While the new value is wrong, the last valid value stays.
    scope.merge(POOL, "p", notes(&json!({INTERFACE: "eth 1", SELECTOR: "zone=a"}))).await?;
    says(scope, &claim, Some("eth1"), Some("zone=a")).await?;
    let told = scope.rig.world.until("the pool to say what is wrong now", |state| {
        let all = state.get(POOL, &scope.ns, "p")?.pointer("/status/conditions")?.as_array()?;
        let one = all.iter().find(|one| one["type"] == "AnnotationsInvalid")?["message"].as_str()?;
        (one.contains("eth 1") && !one.contains("zone")).then_some(())
    });
    told.await?;
    scope.merge(POOL, "p", notes(&json!({INTERFACE: "auto"}))).await?;
    says(scope, &claim, Some("auto"), Some("zone=a")).await?;
    scope.pool_says(POOL, "p", "AnnotationsInvalid", false).await?;
    Ok(())
}

async fn config_map(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let pool = format!("kubevip-{}-ipv4", scope.ns);
    let range = format!("{}-{}", scope.ip(1), scope.ip(9));
    let data =
        |interface: &str| json!({format!("range-{}", scope.ns): range, format!("interface-{}", scope.ns): interface});
    scope.configure(data("eth1")).await?;
    let work = async {
        scope.service("web").await?;
        scope.advertised("web").await?;
        let claim = scope.claim_of("web").await?;
        for interface in ["eth1", "eth2"] {
            scope.configure(data(interface)).await?;
            says(scope, &claim, Some(interface), None).await?;
            // As kube-vip's cloud provider does.
            scope
                .until_service("web", &format!("to say {interface}"), |service, _| {
                    (annotation(service, "kube-vip.io/serviceInterface") == Some(interface)).then_some(())
                })
                .await?;
            let there = scope.rig.world.until("the pool", |state| state.get(GLOBAL, "", &pool).cloned()).await?;
            ensure!(annotation(&there, INTERFACE) == Some(interface), "{there}");
        }
        // The ConfigMap owns the pool: the allocator corrects edits of fields that the ConfigMap sets; other fields
        // belong to people.
        let path = format!("{}/v1alpha2/globalinclusterippools/{pool}", crate::ipam::server::IPAM);
        scope.rig.server.merge(&path, &notes(&json!({INTERFACE: "eth9", SELECTOR: "edge"}))).await?;
        says(scope, &claim, Some("eth2"), Some("edge")).await
    };
    scope.with_agents(work).await?;
    scope.no_services().await?;
    scope.no_config().await?;
    scope.gone(GLOBAL, &pool).await
}

async fn let_go(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.default_pool("p", 10, 19).await?;
    scope.service("web").await?;
    let claim = scope.claim_of("web").await?;
    scope.bound(&claim).await?;
    scope.hold(&scope.ns, &claim, "node-1").await?;
    scope.until_service("web", "to be shown", |service, _| (!ingress(service).is_empty()).then_some(())).await?;
    // Somebody else's finalizer keeps the claim, and so the address, when the Service goes.
    let seen = scope.seen(crate::ipam::scope::CLAIM, &claim).context("no claim")?;
    let mut finalizers = seen["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.push("example.org/slow".into());
    scope.merge(crate::ipam::scope::CLAIM, &claim, json!({"metadata": {"finalizers": finalizers}})).await?;
    scope.delete_service("web").await?;
    let forgotten = |name: &'static str, key: String| async move {
        let what = format!("the record of {name} to be gone");
        let found = scope
            .rig
            .world
            .until(&what, |state| annotation(state.get(ADDRESS, &scope.ns, &key)?, HOLDER).is_none().then_some(()));
        found.await
    };
    forgotten("the Service's", claim.clone()).await?;
    ensure!(scope.seen(ADDRESS, &claim).is_some(), "the address went before its claim's other finalizers");
    scope
        .merge(
            crate::ipam::scope::CLAIM,
            &claim,
            json!({"metadata": {"finalizers": ["ipam.cluster.x-k8s.io/ReleaseAddress"]}}),
        )
        .await?;
    scope.gone(ADDRESS, &claim).await?;
    // The same for an address that was advertised by its label.
    scope.claim("outside", "p").await?;
    scope.bound("outside").await?;
    let label = |value: Value| json!({"metadata": {"labels": {"mooring.dev/advertise": value}}});
    scope.merge(ADDRESS, "outside", label("true".into())).await?;
    scope.hold(&scope.ns, "outside", "node-1").await?;
    scope.canary().await?;
    ensure!(scope.seen(ADDRESS, "outside").is_some_and(|one| annotation(&one, HOLDER).is_some()), "it is held");
    scope.merge(ADDRESS, "outside", label(Value::Null)).await?;
    forgotten("the other", "outside".to_owned()).await
}
