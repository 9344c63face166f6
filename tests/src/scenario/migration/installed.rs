//! The manifests as they are installed.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::json;

use crate::ipam::server::{Server, documents_in, object, place};
use crate::runner::Ctx;

/// What is in `manifests/allocator` keeps a pool in use.
pub async fn pools(_: &mut Ctx<()>) -> Result<()> {
    let server = Server::bare().await?;
    server.kustomize("allocator").await?;
    let kind = "InClusterIPPool";
    let all = place("v1alpha2", kind);
    let spec = json!({"addresses": ["10.0.0.0/24"], "prefix": 24});
    server.create(&all, &object("v1alpha2", kind, "p", &spec)).await?;
    let counts = json!({"total": 253, "free": 252, "used": 1, "outOfRange": 0});
    server.merge(&format!("{all}/p/status"), &json!({"status": {"ipAddresses": counts}})).await?;
    let dry = format!("{all}/p?dryRun=All");
    server.until_refused(&dry, &Method::DELETE, None).await?;
    let elsewhere = json!({"spec": {"addresses": ["10.0.1.0/24"]}});
    server.until_refused(&dry, &Method::PATCH, Some(&elsewhere)).await?;
    // The allocator deletes a pool that it made when the last claim is gone, though its status may be late.
    let allocator = server.as_user("system:serviceaccount:mooring-system:mooring-allocator").await?;
    let all = place("v1alpha2", "GlobalInClusterIPPool");
    server.create(&all, &object("v1alpha2", "GlobalInClusterIPPool", "made", &spec)).await?;
    server.merge(&format!("{all}/made/status"), &json!({"status": {"ipAddresses": counts}})).await?;
    ensure!(server.delete(&format!("{all}/made")).await.is_err_and(|refused| refused.code == 403), "people may not");
    allocator.delete(&format!("{all}/made")).await.context("the allocator may")?;
    Ok(())
}

/// An agent renews its session and ends another one, and cannot depose the allocator.
pub async fn leases(_: &mut Ctx<()>) -> Result<()> {
    let server = Server::bare().await?;
    for namespace in documents_in("allocator/namespace.yaml")? {
        server.apply(&namespace).await?;
    }
    server.kustomize("agent").await?;
    let agent = server.as_user("system:serviceaccount:kube-system:mooring-agent").await?;
    let all = "/apis/coordination.k8s.io/v1/namespaces/mooring-system/leases";
    let lease = |name: &str| {
        let spec = json!({"holderIdentity": "a", "leaseDurationSeconds": 15});
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec})
    };
    server.create(all, &lease("mooring-allocator")).await?;
    let taken = json!({"spec": {"holderIdentity": "node-a"}});
    agent.until_refused(&format!("{all}/mooring-allocator?dryRun=All"), &Method::PATCH, Some(&taken)).await?;
    let refused = agent.create(all, &lease("another")).await.err().context("it makes any Lease")?;
    ensure!(refused.message.contains("mooring-session.NODE only"), "{refused}");
    for name in ["mooring-session.node-a", "mooring-session.node-b"] {
        agent.create(all, &lease(name)).await?;
        agent.merge(&format!("{all}/{name}"), &json!({"spec": {"holderIdentity": ""}})).await?;
    }
    // Others are not limited.
    server.merge(&format!("{all}/mooring-allocator"), &taken).await?;
    Ok(())
}
