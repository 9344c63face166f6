//! The control-plane endpoint of a Cluster, on a real API server: from a pool to every place that needs the address.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::story;
use crate::assets;
use crate::ipam::allocators::Allocator;
use crate::ipam::cluster_parts::{Parts, pod_with};
use crate::ipam::endpoint::{ARGS, kill_again_and_again, rights, rights_for, up};
use crate::ipam::endpoint_kinds::{self, CONTROL_PLANE, INFRASTRUCTURE};
use crate::ipam::managers::{Managers, infrastructure, until};
use crate::ipam::scope::{ADDRESS, CLAIM, POOL, Scope};
use crate::ipam::server::Crds;
use crate::observe::now;
use crate::rig::allocator::AllocatorRig;
use crate::runner::{Ctx, Skip, Test};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("endpoint", created_at_once, "created-at-once-and-unpaused-with-its-address", 10),
        story!("endpoint", inline_files, "files-of-capvs-own-templates", 10),
        story!("endpoint", kamaji, "a-control-plane-of-kamaji", 10),
        story!("endpoint", moved, "moved-by-clusterctl-it-keeps-its-address", 10),
        story!("endpoint", without_rights, "without-its-rights-it-says-which-are-missing", 10),
        story!("endpoint", with_managers, "with-the-managers-of-cluster-api", 10),
        story!("endpoint", in_memory, "with-the-in-memory-backend", 15).nightly(),
        story!("endpoint", merged_again, "the-same-texts-merged-again-roll-nothing-out", 10),
        story!("endpoint", applied_again, "the-same-texts-applied-by-the-server-again-roll-nothing-out", 10).nightly(),
        story!("endpoint", emptied_secret, "an-emptied-secret-is-filled-again", 10).nightly(),
        story!("endpoint", deleted_while_paused, "deleted-while-it-waits-it-is-unpaused", 10),
        story!("endpoint", killed, "killed-again-and-again-and-the-end-is-the-same", 10),
    ]
}

async fn created_at_once(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    scope.create(POOL, "endpoints", scope.range(10, 20), json!({})).await?;
    let parts = Parts { scope: &scope, name: "prod".to_owned() };
    parts.create().await?;
    let host = parts.written().await?;
    ensure!(host == scope.ip(10), "{host}");
    parts.says("Written").await?;
    // The same texts again, before there is a machine, and before Cluster API has copied the host.
    for (at, (path, text)) in parts.texts().into_iter().enumerate() {
        ensure!(at == 0 || parts.paused().await?, "it goes on while somebody still applies its objects");
        rig.server.merge(&path, &text).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    ensure!(parts.written().await? == host, "another host");
    // Nobody releases it while the Cluster lives.
    scope.delete(CLAIM, "prod").await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    ensure!(scope.seen(CLAIM, "prod").is_some(), "the endpoint was released");
    scope.delete_cluster("prod").await?;
    scope.gone(CLAIM, "prod").await?;
    ensure!(allocator.process().is_running(), "it ended");
    Ok(())
}

/// The static pod is inline, beside a script that speaks of it: only the address comes in.
async fn inline_files(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    scope.create(POOL, "endpoints", scope.range(10, 20), json!({})).await?;
    let parts = Parts { scope: &scope, name: "prod".to_owned() };
    let mut files = parts.create_inline().await?;
    let host = parts.host().await?;
    files[0]["content"] = json!(pod_with(&host));
    let plane = parts.read(CONTROL_PLANE, "kubeadmcontrolplanes").await?;
    let spec = &plane["spec"]["kubeadmConfigSpec"];
    ensure!(spec["files"] == files, "{spec}");
    ensure!(spec["clusterConfiguration"]["apiServer"]["certSANs"] == json!([host]), "{spec}");
    parts.says("Written").await?;
    allocator.stop().await
}

async fn kamaji(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    scope.create(POOL, "endpoints", scope.range(10, 20), json!({})).await?;
    let parts = Parts { scope: &scope, name: "prod".to_owned() };
    parts.create_kamaji().await?;
    let host = parts.host().await?;
    let plane = parts.read(CONTROL_PLANE, "kamajicontrolplanes").await?;
    let network = json!({"serviceType": "LoadBalancer", "serviceAddress": host, "certSANs": ["localhost", host]});
    ensure!(plane["spec"]["network"] == network, "{plane}");
    parts.says("Written").await?;
    allocator.stop().await
}

/// An allocator, and a Cluster whose control plane has answered.
async fn running<'a>(rig: &'a AllocatorRig, scope: &'a Scope<'a>) -> Result<(Allocator, Parts<'a>, String)> {
    let allocator = rig.start_with("allocator", &ARGS).await?;
    scope.create(POOL, "endpoints", scope.range(10, 20), json!({})).await?;
    let parts = Parts { scope, name: "prod".to_owned() };
    parts.create().await?;
    let host = parts.written().await?;
    parts.says("Written").await?;
    parts.initialise(&host).await?;
    Ok((allocator, parts, host))
}

/// A second `kubectl apply`, or an upgrade by Helm: each object gets the fields of its text back, the Cluster first, and seconds lie
/// between two of them.
async fn merged_again(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let scope = rig.scope().await?;
    let (allocator, parts, host) = running(&rig, &scope).await?;
    for (path, text) in parts.texts() {
        rig.server.merge(&path, &text).await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    ensure!(parts.paused().await?, "it goes on while somebody still applies its objects");
    ensure!(parts.written().await? == host, "another host");
    parts.says("Written").await?;
    // Without a pause, as GitOps does it; the Secret first, as Helm does.
    for (path, text) in parts.texts().into_iter().skip(1).rev() {
        rig.server.merge(&path, &text).await?;
    }
    parts.written_again(&host).await?;
    // Again and again: the repairs do not come later each time.
    let (path, text) = &parts.texts()[1];
    for _ in 0..9 {
        rig.server.merge(path, text).await?;
        parts.written_again(&host).await?;
    }
    parts.says("Written").await?;
    parts.told("PutBack", "leave that field out").await?;
    allocator.stop().await
}

/// The same by server-side apply, in the other order.
async fn applied_again(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let scope = rig.scope().await?;
    let (allocator, parts, host) = running(&rig, &scope).await?;
    for (path, text) in parts.texts().into_iter().rev() {
        let mut whole = rig.server.get(&path).await?;
        let metadata = json!({"name": whole["metadata"]["name"], "namespace": scope.ns,
            "annotations": text["metadata"]["annotations"]});
        let data = text.get("stringData").cloned().unwrap_or_default();
        whole = json!({"apiVersion": whole["apiVersion"], "kind": whole["kind"], "metadata": metadata, "stringData": data,
            "spec": text.get("spec").cloned().unwrap_or_default()});
        whole.as_object_mut().context("no object")?.retain(|_, field| !field.is_null());
        rig.server.apply(&whole).await?;
    }
    parts.written_again(&host).await?;
    allocator.stop().await
}

/// Nobody tells of it: it is read again.
async fn emptied_secret(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let scope = rig.scope().await?;
    let (allocator, parts, host) = running(&rig, &scope).await?;
    let (path, text) = parts.texts().pop().context("no Secret")?;
    rig.server.merge(&path, &text).await?;
    parts.written_again(&host).await?;
    allocator.stop().await
}

/// Its pool is misspelt: it waits for ever, and somebody deletes it. Something else of it is still to be done, as a finalizer says.
async fn deleted_while_paused(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    let parts = Parts { scope: &scope, name: "prod".to_owned() };
    parts.create().await?;
    parts.says("PoolNotReady").await?;
    scope.merge_cluster("prod", json!({"metadata": {"finalizers": ["example.com/machines"]}})).await?;
    scope.delete_cluster("prod").await?;
    parts.unpaused(Duration::from_millis(20)).await?;
    ensure!(scope.seen(CLAIM, "prod").is_some(), "the claim goes before its Cluster");
    scope.merge_cluster("prod", json!({"metadata": {"finalizers": null}})).await?;
    allocator.stop().await
}

/// What `clusterctl move` does on the side to which it moves: objects group after group, an owner before what it owns, and no
/// status. The claim stands there for a while before its `IPAddress` does.
async fn moved(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    let host = scope.ip(15);
    let parts = Parts { scope: &scope, name: "prod".to_owned() };

    let endpoint = json!({"host": host, "port": 6443});
    let reference = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": "prod"});
    let pool = scope.create(POOL, "endpoints", scope.range(10, 20), json!({})).await?;
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "prod", "annotations": {"mooring.dev/endpoint-pool": "InClusterIPPool/endpoints"}},
        "spec": {"paused": true, "controlPlaneEndpoint": endpoint, "infrastructureRef": reference(INFRASTRUCTURE, "VSphereCluster"),
            "controlPlaneRef": reference(CONTROL_PLANE, "KubeadmControlPlane")}});
    let clusters = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{}/clusters", scope.ns);
    let cluster = rig.server.create(&clusters, &cluster).await?;
    parts.create_secret(&pod_with(&host)).await?;
    let claim = json!({
        "labels": {"mooring.dev/endpoint-cluster": "prod"}, "ownerReferences": [owner(&cluster)],
        "finalizers": ["ipam.cluster.x-k8s.io/ReleaseAddress", "mooring.dev/endpoint-in-use"]});
    let claim = scope.claim_with("prod", POOL, "endpoints", claim).await?;
    quiet(&scope).await?;
    parts.create_infrastructure(&endpoint).await?;
    parts.create_kubeadm(&parts.files_by_secret(), &["localhost", &host]).await?;
    quiet(&scope).await?;
    let written = versions(&parts).await?;
    scope.address("prod", "endpoints", &host, json!({"ownerReferences": [owner(&claim), owner(&pool)]})).await?;
    // As long as the Cluster is paused nothing is written, not even the claim's status.
    scope.canary().await?;
    scope.merge_cluster("prod", json!({"spec": {"paused": null}})).await?;
    ensure!(scope.bound("prod").await?.ip() == host, "another address");
    parts.says("Written").await?;
    ensure!(parts.written().await? == host, "another host");
    ensure!(versions(&parts).await? == written, "something was written again");
    let given = rig.world.look(|state| {
        let is = |id: &(&str, String, String)| id.0 == ADDRESS && id.1 == scope.ns && id.2 == "prod";
        state.history.iter().filter(|one| is(&one.id)).map(|one| one.uid.clone()).collect::<BTreeSet<_>>()
    });
    ensure!(given.len() == 1, "IPAddresses prod: {given:?}");
    scope.sound().await?;
    allocator.stop().await
}

/// An owner reference.
fn owner(object: &Value) -> Value {
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "controller": object["kind"] == CLAIM, "blockOwnerDeletion": true})
}

/// The allocator has seen all that there is, and has given the claim no address.
async fn quiet(scope: &Scope<'_>) -> Result<()> {
    scope.canary().await?;
    let claim = scope.rig.server.get(&scope.path(CLAIM, "prod")).await?;
    ensure!(claim.pointer("/status/addressRef/name").is_none(), "the claim has an address already: {claim}");
    let address = scope.rig.server.get(&scope.path(ADDRESS, "prod")).await;
    ensure!(address.as_ref().is_err_and(|error| error.code == 404), "there is one already: {address:?}");
    Ok(())
}

/// The versions of the objects with the address.
async fn versions(parts: &Parts<'_>) -> Result<Vec<Value>> {
    let secret = parts.scope.rig.server.get(&format!("{}/prod-kubevip-pod", parts.secrets())).await?;
    let all = [
        parts.read(INFRASTRUCTURE, "vsphereclusters").await?,
        parts.read(CONTROL_PLANE, "kubeadmcontrolplanes").await?,
        secret,
    ];
    Ok(all.iter().map(|one| one["metadata"]["resourceVersion"].clone()).collect())
}

/// An allocator that may not list the kinds that Clusters name says so until it may.
async fn without_rights(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    endpoint_kinds::install(&rig.server).await?;
    let allocator = rig.spawn("allocator", &ARGS)?;
    let deadline = now() + Duration::from_mins(1);
    loop {
        let said = allocator.get("/readyz").await;
        let kinds = ["vsphereclusters", "kubeadmcontrolplanes", "kamajicontrolplanes"];
        let named = |text: &str| kinds.iter().all(|kind| text.contains(&format!("cannot list resource \"{kind}\"")));
        match said {
            Ok((503, text)) if named(&text) => break,
            said => ensure!(now() < deadline, "it says {said:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    rights(&rig).await?;
    allocator.ready().await?;
    let scope = rig.scope().await?;
    scope.create(POOL, "endpoints", scope.range(10, 20), json!({})).await?;
    let parts = Parts { scope: &scope, name: "prod".to_owned() };
    parts.create().await?;
    parts.written().await?;
    allocator.stop().await
}

/// Cluster API's own managers, and no address typed by anybody: the bootstrap data of the first Machine has the VIP in the static
/// pod and in the certificates, and the Cluster's kubeconfig points at it.
async fn with_managers(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    let managers = Managers::start(&rig.server).await.map_err(skipped)?;
    rights(&rig).await?;
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    let work = async {
        scope.create(POOL, "endpoints", scope.range(10, 20), json!({})).await?;
        let parts = Parts { scope: &scope, name: "prod".to_owned() };
        parts.create_for_managers().await?;
        let host = parts.written().await?;

        let server = &rig.server;
        let cluster = until(&managers, "the Cluster's endpoint", || async {
            let cluster = parts.read("cluster.x-k8s.io", "clusters").await?;
            Ok((cluster["spec"]["controlPlaneEndpoint"]["host"] == *host).then_some(cluster))
        });
        ensure!(cluster.await?["spec"]["controlPlaneEndpoint"]["port"] == 6443, "another port");
        let configs = format!("/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/{}/kubeadmconfigs", scope.ns);
        let secret = until(&managers, "bootstrap data", || async {
            let list = server.get(&configs).await?;
            let name = list.pointer("/items/0/status/dataSecretName").and_then(Value::as_str).map(str::to_owned);
            Ok(name)
        });
        let data = parts.secret(&secret.await?, "value").await?;
        ensure!(data.contains(&format!("value: \"{host}\"")), "the static pod lacks {host}:\n{data}");
        let sans = data.split("certSANs:").nth(1).context("no certSANs")?;
        let sans: String = sans.lines().skip(1).take_while(|line| line.trim_start().starts_with('-')).collect();
        ensure!(sans.contains(&host) && sans.contains("localhost"), "certSANs: {sans}");
        ensure!(data.contains(&format!("controlPlaneEndpoint: {host}:6443")), "no endpoint:\n{data}");
        let kubeconfig =
            until(&managers, "a kubeconfig", async || Ok(parts.secret("prod-kubeconfig", "value").await.ok()));
        let kubeconfig = kubeconfig.await?;
        ensure!(kubeconfig.contains(&format!("server: https://{host}:6443")), "{kubeconfig}");
        parts.says("Written").await
    };
    tokio::select! {
        ended = work => ended?,
        ended = infrastructure(&rig.server, &scope.ns) => ended?,
    }
    allocator.stop().await
}

/// No failure where there is no Go, or no way to its modules.
fn skipped(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<assets::Error>() {
        Ok(error) => Skip(error.to_string()).into(),
        Err(other) => other,
    }
}

/// The first port at which the provider for development serves an API.
const SIMULATED: u16 = 20_000;

/// With the provider for development, whose machines and API servers are simulated, a control plane comes up at the VIP: Cluster
/// API's managers reach it there, by the Cluster's kubeconfig, and find the first Node.
///
/// The provider serves at one address, for which it has certificates, and keeps a host that is set. So this address is the pool's.
async fn in_memory(_: &mut Ctx<()>) -> Result<()> {
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    let scope = rig.scope().await?;
    let vip = scope.ip(10);
    let managers = Managers::with_development(&rig.server, vip.parse()?).await.map_err(skipped)?;
    rights_for(&rig, "devclusters").await?;
    let kinds = format!("--endpoint-kinds=DevCluster.{INFRASTRUCTURE}");
    let allocator = rig.start_with("allocator", &[&ARGS[..], &[&kinds]].concat()).await?;
    scope.create(POOL, "endpoints", json!({"addresses": [vip], "prefix": 24}), json!({})).await?;
    let parts = Parts { scope: &scope, name: "prod".to_owned() };
    parts.create_simulated(SIMULATED).await?;
    parts.unpaused(Duration::from_millis(20)).await?;
    let infrastructure = parts.read(INFRASTRUCTURE, "devclusters").await?;
    ensure!(
        infrastructure["spec"]["controlPlaneEndpoint"] == json!({"host": vip, "port": SIMULATED}),
        "{infrastructure}"
    );
    // The provider would have set the same host by itself.
    let writers: Vec<&Value> =
        infrastructure["metadata"]["managedFields"].as_array().context("no fields")?.iter().collect();
    let host = |one: &&&Value| one["fieldsV1"]["f:spec"]["f:controlPlaneEndpoint"].get("f:host").is_some();
    let writers: Vec<&Value> = writers.iter().filter(host).map(|one| &one["manager"]).collect();
    ensure!(writers == ["mooring-allocator"], "the host is written by {writers:?}");

    let machines = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{}/machines", scope.ns);
    let running = until(&managers, "a Machine that runs", || async {
        let list = rig.server.get(&machines).await?;
        Ok(list.pointer("/items/0").filter(|one| one["status"]["phase"] == "Running").cloned())
    });
    let machine = running.await?;
    ensure!(machine["status"]["nodeRef"]["name"].is_string(), "no Node: {machine}");
    let initialised = until(&managers, "an initialised control plane", || async {
        let plane = parts.read(CONTROL_PLANE, "kubeadmcontrolplanes").await?;
        let status = &plane["status"];
        Ok((status["initialization"]["controlPlaneInitialized"] == true && status["readyReplicas"] == 1).then_some(()))
    });
    initialised.await?;
    let kubeconfig = parts.secret("prod-kubeconfig", "value").await?;
    ensure!(kubeconfig.contains(&format!("server: https://{vip}:{SIMULATED}")), "{kubeconfig}");
    parts.says("Written").await?;

    // To the end: the address goes back when the Cluster is gone, and not while its machines go.
    scope.delete(CLAIM, "prod").await?;
    scope.delete_cluster("prod").await?;
    scope.gone(CLAIM, "prod").await?;
    let left = rig.server.get(&machines).await?;
    ensure!(left["items"] == json!([]), "the address went before its machines: {left}");
    allocator.stop().await
}

/// Kills the allocator, again and again, while Clusters get their endpoints.
async fn killed(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let allocator: Allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    scope.create(POOL, "endpoints", scope.range(10, 60), json!({})).await?;
    let all: Vec<Parts<'_>> = (0..20).map(|n| Parts { scope: &scope, name: format!("c{n}") }).collect();
    let work = async {
        let mut hosts = BTreeSet::new();
        for parts in &all {
            parts.create().await?;
        }
        for parts in &all {
            hosts.insert(parts.written().await?);
        }
        Ok::<_, anyhow::Error>(hosts)
    };
    let hosts = tokio::select! {
        ended = work => ended?,
        ended = kill_again_and_again(&allocator) => { ended?; BTreeSet::new() }
    };
    ensure!(hosts.len() == all.len(), "an address twice: {hosts:?}");
    Ok(())
}
