//! The policies for the host of a control-plane endpoint.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::ipam::endpoint_kinds::{INFRASTRUCTURE, infrastructure_kind};
use crate::ipam::server::{Server, object, place};
use crate::observe::now;
use crate::rig::allocator::USER;
use crate::runner::Ctx;

const ALL: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/default/vsphereclusters";
const EXCLUDED: (&str, &str) = ("mooring.dev/endpoint-policy", "exclude");
const EXCLUDED_BY_KYVERNO: (&str, &str) = ("policies.kyverno.io/check-wc-cp-ip", "exclude");

/// An infrastructure cluster.
fn cluster(name: &str, host: &str, annotation: Option<(&str, &str)>) -> Value {
    let annotations: Value = annotation.map_or_else(|| json!({}), |(key, value)| json!({key: value}));
    let mut one = json!({
        "apiVersion": format!("{INFRASTRUCTURE}/v1beta2"), "kind": "VSphereCluster",
        "metadata": {"name": name, "annotations": annotations}, "spec": {"server": "vcenter.example.com"},
    });
    if !host.is_empty() {
        one["spec"]["controlPlaneEndpoint"] = json!({"host": host, "port": 6443});
    }
    one
}

/// An API server with the policies, a kind of infrastructure clusters, and the pool that the policies name.
async fn up(pool: &Value) -> Result<Server> {
    let server = Server::up().await?;
    let kind = infrastructure_kind();
    server.apply(&kind).await?;
    server.established(kind["metadata"]["name"].as_str().unwrap_or_default()).await?;
    let kind = "GlobalInClusterIPPool";
    server.create(&place("v1alpha2", kind), &object("v1alpha2", kind, "control-planes", pool)).await?;
    server.kustomize("policies/endpoints").await?;
    Ok(server)
}

/// What the API server says to the creation of an object; nothing is kept. None: it would be created.
async fn said(server: &Server, object: &Value) -> Result<Option<String>> {
    match server.create(&format!("{ALL}?dryRun=All"), object).await {
        Ok(_) => Ok(None),
        Err(refused) if refused.code == 403 || refused.code == 422 => Ok(Some(refused.message)),
        Err(other) => bail!("{object}: {other}"),
    }
}

/// Policies, and the objects that they look at, are seen a moment later than written.
async fn until(server: &Server, object: &Value, word: &str) -> Result<()> {
    let deadline = now() + Duration::from_mins(1);
    loop {
        let is = said(server, object).await?;
        if is.as_ref().is_some_and(|message| message.contains(word)) || (is.is_none() && word.is_empty()) {
            return Ok(());
        }
        ensure!(now() < deadline, "{object}: {is:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A host outside the pool is refused; who is excluded may have any.
pub async fn in_pool(_: &mut Ctx<()>) -> Result<()> {
    let server = up(&json!({
        "addresses": ["10.9.0.10-10.9.1.20", "10.9.2.0/30", "10.9.3.7"], "prefix": 16, "gateway": "10.9.0.20",
        "excludedAddresses": ["10.9.0.12", "10.9.0.100-10.9.0.110"],
    }))
    .await?;
    until(&server, &cluster("c", "10.8.0.1", None), "none of the addresses of GlobalInClusterIPPool control-planes")
        .await?;
    for inside in ["10.9.0.10", "10.9.0.250", "10.9.1.1", "10.9.1.20", "10.9.2.3", "10.9.3.7", ""] {
        let is = said(&server, &cluster("c", inside, None)).await?;
        ensure!(is.is_none(), "{inside} is refused: {is:?}");
    }
    for outside in ["10.9.0.9", "10.9.1.21", "10.9.2.4", "10.9.3.8", "10.9.0.12", "10.9.0.105", "10.9.0.20", "fd00::1"]
    {
        let is = said(&server, &cluster("c", outside, None)).await?;
        ensure!(is.as_ref().is_some_and(|is| is.contains("none of the addresses")), "{outside}: {is:?}");
        for excluded in [EXCLUDED, EXCLUDED_BY_KYVERNO] {
            let is = said(&server, &cluster("c", outside, Some(excluded))).await?;
            ensure!(is.is_none(), "{outside} is refused in spite of {excluded:?}: {is:?}");
        }
    }
    let is = said(&server, &cluster("c", "api.example.com", None)).await?;
    ensure!(is.as_ref().is_some_and(|is| is.contains("is a name")), "{is:?}");
    // Excluded by name.
    let rules = json!([{"apiGroups": [INFRASTRUCTURE], "apiVersions": ["*"], "operations": ["*"], "resources": ["vsphereclusters"],
        "resourceNames": ["management"]}]);
    let binding =
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/endpoint-in-pool.mooring.dev";
    server.merge(binding, &json!({"spec": {"matchResources": {"excludeResourceRules": rules}}})).await?;
    until(&server, &cluster("management", "10.8.0.1", None), "").await?;
    until(&server, &cluster("c", "10.8.0.1", None), "none of the addresses").await?;
    // A pool of IPv6: a range counts as its network.
    let six = json!({"spec": {"addresses": ["fd00:9::10-fd00:9::20"], "prefix": 64, "gateway": null, "excludedAddresses": null}});
    server.merge(&format!("{}/control-planes", place("v1alpha2", "GlobalInClusterIPPool")), &six).await?;
    until(&server, &cluster("c", "fd00:9::11", None), "").await?;
    until(&server, &cluster("c", "fd00:8::11", None), "none of the addresses").await?;
    until(&server, &cluster("c", "10.9.3.7", None), "none of the addresses").await?;
    // No such pool: nothing can be checked, so nothing is let through.
    server.delete(&format!("{}/control-planes", place("v1alpha2", "GlobalInClusterIPPool"))).await?;
    until(&server, &cluster("c", "fd00:9::11", None), "no params found for policy binding").await
}

/// A host that another's claim has is refused; one's own is not.
pub async fn not_anothers(_: &mut Ctx<()>) -> Result<()> {
    let server = up(&json!({"addresses": ["10.9.0.0/16"], "prefix": 16})).await?;
    let pool = json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": "control-planes"});
    for (name, ip) in [("other", "10.9.0.10"), ("mine", "10.9.0.11")] {
        let spec = json!({"address": ip, "prefix": 16, "claimRef": {"name": name}, "poolRef": pool});
        server.create(&place("v1beta2", "IPAddress"), &object("v1beta2", "IPAddress", name, &spec)).await?;
    }
    until(&server, &cluster("mine", "10.9.0.10", None), "belongs to the claim other").await?;
    let mut of_another_name = cluster("infrastructure-of-mine", "10.9.0.11", None);
    let is = said(&server, &of_another_name).await?;
    ensure!(is.is_some_and(|is| is.contains("belongs to the claim mine")), "it is nobody's");
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "mine", "uid": "1"});
    of_another_name["metadata"]["ownerReferences"] = json!([owner]);
    for mine in [cluster("mine", "10.9.0.11", None), cluster("mine", "10.9.0.12", None), of_another_name] {
        let is = said(&server, &mine).await?;
        ensure!(is.is_none(), "{mine}: {is:?}");
    }
    let is = said(&server, &cluster("mine", "10.9.0.10", Some(EXCLUDED))).await?;
    ensure!(is.is_none(), "{is:?}");
    // The allocator writes for a Cluster whose infrastructure cluster has another name and no owner yet.
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}]});
    server.apply(&role).await?;
    let is = said(&server.as_user(USER).await?, &cluster("infrastructure-of-mine", "10.9.0.11", None)).await?;
    ensure!(is.is_none(), "the allocator is refused: {is:?}");
    Ok(())
}

/// A host stays as it is once it is set.
pub async fn immutable(_: &mut Ctx<()>) -> Result<()> {
    let server = up(&json!({"addresses": ["10.9.0.0/16"], "prefix": 16})).await?;
    until(&server, &cluster("c", "10.8.0.1", None), "none of the addresses").await?;
    server.create(ALL, &cluster("c", "", None)).await?;
    let path = format!("{ALL}/c");
    let host = |host: Value| json!({"spec": {"controlPlaneEndpoint": {"host": host, "port": 6443}}});
    server.merge(&path, &host(json!("10.9.0.10"))).await.context("the first host is refused")?;
    server.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await.context("a label is refused")?;
    for change in [host(json!("10.9.0.11")), json!({"spec": {"controlPlaneEndpoint": null}})] {
        let refused = server.merge(&path, &change).await.err().with_context(|| format!("{change} is let through"))?;
        let words = "the control-plane endpoint is 10.9.0.10 and stays it";
        ensure!(refused.code == 403 && refused.message.contains(words), "{refused}");
    }
    let (key, value) = EXCLUDED;
    server.merge(&path, &json!({"metadata": {"annotations": {key: value}}})).await?;
    server.merge(&path, &host(json!("10.9.0.11"))).await.context("what is excluded is refused")?;
    Ok(())
}
