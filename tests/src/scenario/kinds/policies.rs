//! The admission policies work as described.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Method;
use mooring_api::annotations::{DELETE_FOR_MOVE, PAUSED, SKIP_VALIDATE_DELETE};
use mooring_api::finalizers::RELEASE_ADDRESS;
use mooring_api::pool::PoolKind;
use mooring_names::{metal3, openstack};
use serde_json::{Value, json};

use crate::ipam::server::{Server, documents_in, object, place, place_in};
use crate::observe::now;
use crate::runner::Ctx;

/// Each kind of pool with a sound spec.
fn pools() -> [(&'static str, Value); 4] {
    let ip = json!({"addresses": ["10.0.0.0/24"], "prefix": 24});
    let prefix = json!({"prefixes": ["fd00::/48"]});
    PoolKind::ALL.map(|kind| {
        let is_prefix = matches!(kind, PoolKind::Prefix | PoolKind::GlobalPrefix);
        (kind.name(), if is_prefix { prefix.clone() } else { ip.clone() })
    })
}

fn used(used: i64, out_of_range: i64) -> Value {
    json!({"status": {"ipAddresses": {"total": 253, "free": 253 - used, "used": used, "outOfRange": out_of_range}}})
}

async fn with(file: &str) -> Result<Server> {
    let server = Server::up().await?;
    for policy in documents_in(file)? {
        server.apply(&policy).await.with_context(|| format!("{file} is refused"))?;
    }
    Ok(server)
}

pub async fn in_use(_: &mut Ctx<()>) -> Result<()> {
    let server = with("policies/pool-in-use.yaml").await?;
    let mut minded = false;
    for (kind, spec) in pools() {
        let all = place("v1alpha2", kind);
        for name in ["used", "unused", "moved", "skipped", "unknown"] {
            server.create(&all, &object("v1alpha2", kind, name, &spec)).await?;
            if name != "unknown" {
                server.merge(&format!("{all}/{name}/status"), &used(i64::from(name != "unused"), 0)).await?;
            }
        }
        for (name, annotation) in [("moved", DELETE_FOR_MOVE), ("skipped", SKIP_VALIDATE_DELETE)] {
            server.merge(&format!("{all}/{name}"), &json!({"metadata": {"annotations": {annotation: ""}}})).await?;
        }
        let path = format!("{all}/used");
        if !minded {
            // Until the policy is in force, deletions must be dry runs.
            server.until_refused(&format!("{path}?dryRun=All"), &Method::DELETE, None).await?;
            minded = true;
        }
        let refused = server.delete(&path).await.err().with_context(|| format!("{kind} was deleted while in use"))?;
        ensure!(
            refused.code == 403 && refused.message.contains("Pool has IPAddresses allocated: 1 in use"),
            "{refused}"
        );
        for name in ["unused", "moved", "skipped", "unknown"] {
            server.delete(&format!("{all}/{name}")).await.with_context(|| format!("{kind} {name}"))?;
        }
        server.merge(&format!("{path}/status"), &used(0, 0)).await?;
        server.delete(&path).await.with_context(|| format!("{kind}, no longer in use"))?;
    }
    // The same in the old version.
    let (old, new) = (place("v1alpha1", "InClusterIPPool"), place("v1alpha2", "InClusterIPPool"));
    server.create(&new, &object("v1alpha2", "InClusterIPPool", "p", &pools()[0].1)).await?;
    server.merge(&format!("{new}/p/status"), &used(3, 0)).await?;
    let refused = server.delete(&format!("{old}/p")).await.err().context("it was deleted in the old version")?;
    ensure!(refused.message.contains("3 in use"), "{refused}");
    with_its_namespace(&server).await
}

/// A namespace can be deleted with all objects in it.
async fn with_its_namespace(server: &Server) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "leaving"}});
    server.create("/api/v1/namespaces", &namespace).await?;
    let all = place_in("v1alpha2", "InClusterIPPool", "leaving");
    server.create(&all, &object("v1alpha2", "InClusterIPPool", "p", &pools()[0].1)).await?;
    let path = format!("{all}/p");
    server.merge(&format!("{path}/status"), &used(3, 0)).await?;
    let refused = server.delete(&path).await.err().context("it was deleted while in use")?;
    ensure!(refused.message.contains("3 in use"), "{refused}");
    server.delete("/api/v1/namespaces/leaving").await?;
    // The policy sees the change a moment later.
    let deadline = now() + Duration::from_mins(1);
    while let Err(refused) = server.delete(&path).await {
        ensure!(now() < deadline, "its namespace cannot go: {refused}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

pub async fn shrink(_: &mut Ctx<()>) -> Result<()> {
    let server = with("policies/pool-shrink.yaml").await?;
    let kind = "InClusterIPPool";
    let all = place("v1alpha2", kind);
    server.create(&all, &object("v1alpha2", kind, "p", &pools()[0].1)).await?;
    server.merge(&format!("{all}/p/status"), &used(2, 0)).await?;
    let path = format!("{all}/p");
    let dry = format!("{path}?dryRun=All");
    let spec = |addresses: &[&str], prefix: i64| json!({"spec": {"addresses": addresses, "prefix": prefix}});
    let elsewhere = spec(&["10.0.1.0/24"], 24);
    server.until_refused(&dry, &Method::PATCH, Some(&elsewhere)).await?;
    for (patch, refused) in [
        (elsewhere.clone(), true),
        (spec(&["fd00::/64"], 64), true),
        (spec(&["10.0.0.1-10.0.0.9"], 24), false),
        (spec(&["10.0.0.0/24", "10.0.1.0/24"], 16), false),
        (spec(&["10.0.0.77"], 32), false),
        (json!({"metadata": {"labels": {"a": "b"}}}), false),
        (json!({"spec": {"gateway": "10.0.0.1"}}), false),
    ] {
        match server.merge(&dry, &patch).await {
            Ok(_) => ensure!(!refused, "let through: {patch}"),
            Err(error) => {
                ensure!(refused && error.code == 403, "{patch}: {error}");
                ensure!(error.message.contains("do not contain allocated addresses: 2 are in use"), "{error}");
            }
        }
    }
    // All used addresses are out of range already, or no address is used: any change is allowed.
    for counts in [used(2, 2), used(0, 0)] {
        server.merge(&format!("{path}/status"), &counts).await?;
        server.merge(&dry, &elsewhere).await?;
    }
    let kind = "GlobalInClusterPrefixPool";
    let all = place("v1alpha2", kind);
    server.create(&all, &object("v1alpha2", kind, "p", &pools()[2].1)).await?;
    server.merge(&format!("{all}/p/status"), &used(2, 0)).await?;
    let dry = format!("{all}/p?dryRun=All");
    let refused = server.merge(&dry, &json!({"spec": {"prefixes": ["fd01::/48"]}})).await;
    ensure!(refused.is_err_and(|error| error.code == 403), "moved to another prefix");
    server.merge(&dry, &json!({"spec": {"prefixes": ["fd01::/48", "fd00::/52"]}})).await?;
    Ok(())
}

pub async fn finalizer(_: &mut Ctx<()>) -> Result<()> {
    let server = with("policies/claim-finalizer.yaml").await?;
    let claim = |pool: &str, more: Value| {
        let pool = json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": pool, "name": "p"});
        let mut claim = object("v1beta2", "IPAddressClaim", "c", &json!({"poolRef": pool}));
        if let (Some(meta), Value::Object(more)) = (claim["metadata"].as_object_mut(), more) {
            meta.extend(more);
        }
        claim
    };
    let deadline = now() + Duration::from_mins(1);
    let finalizers = async |version: &str, mut claim: Value| -> Result<Value> {
        claim["apiVersion"] = json!(format!("ipam.cluster.x-k8s.io/{version}"));
        loop {
            match server.create(&format!("{}?dryRun=All", place(version, "IPAddressClaim")), &claim).await {
                Ok(made) => return Ok(made["metadata"]["finalizers"].clone()),
                // The policy controller learns of a new kind some time after the API server serves the kind.
                Err(refused) if refused.code == 503 && now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(refused) => return Err(refused.into()),
            }
        }
    };
    while finalizers("v1beta2", claim("InClusterIPPool", json!({}))).await?.is_null() {
        ensure!(now() < deadline, "the policy does nothing");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for kind in PoolKind::ALL.map(PoolKind::name).into_iter().chain(["PHPIPAMIPPool"]) {
        for version in ["v1alpha1", "v1beta1", "v1beta2"] {
            let seen = finalizers(version, claim(kind, json!({}))).await?;
            ensure!(seen == json!([RELEASE_ADDRESS]), "{version}, {kind}: {seen}");
        }
    }
    let theirs = json!({"finalizers": ["example.com/theirs"]});
    let seen = finalizers("v1beta2", claim("InClusterIPPool", theirs)).await?;
    ensure!(seen == json!(["example.com/theirs", RELEASE_ADDRESS]), "{seen}");
    let both = json!({"finalizers": [RELEASE_ADDRESS, "example.com/theirs"]});
    let seen = finalizers("v1beta2", claim("InClusterIPPool", both.clone())).await?;
    ensure!(seen == both["finalizers"], "{seen}");
    let seen = finalizers("v1beta2", claim("InfobloxIPPool", json!({}))).await?;
    ensure!(seen.is_null(), "a claim that is not ours: {seen}");
    for (group, kind) in [
        ("ipam.example.com", "InClusterIPPool"),
        (metal3::GROUP, "IPPool"),
        (openstack::GROUP, "OpenStackFloatingIPPool"),
    ] {
        let mut foreign = claim(kind, json!({}));
        foreign["spec"]["poolRef"]["apiGroup"] = json!(group);
        let seen = finalizers("v1beta2", foreign).await?;
        ensure!(seen.is_null(), "a claim of another group's pool: {kind} of {group}: {seen}");
    }
    let seen = finalizers("v1beta2", claim("InClusterIPPool", json!({"annotations": {PAUSED: ""}}))).await?;
    ensure!(seen.is_null(), "a paused claim: {seen}");
    Ok(())
}
