//! The demo's act about Clusters: one that is created without an endpoint gets its address, and another cannot have the same.

use std::io::Stdout;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::ipam::cluster_parts::Parts;
use crate::ipam::endpoint::{ARGS, up};
use crate::ipam::endpoint_kinds::{CONTROL_PLANE, INFRASTRUCTURE};
use crate::ipam::scope::{ADDRESS, CLAIM, POOL};
use crate::ipam::table::{get, set};
use crate::observe::now;
use crate::report::{Report, Tone};

/// Brings up an API server with Cluster API's kinds, and an allocator, on a lab of its own.
///
/// # Errors
/// The lab's, or the Cluster gets no endpoint.
pub async fn act(report: &mut Report<Stdout>) -> Result<()> {
    let rig = up().await?;
    let allocator = rig.start_with("mooring-allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    report.event(Tone::Good, "an API server with the kinds of Cluster API, and an allocator with --endpoints=on");
    scope.create(POOL, "endpoints", scope.range(10, 20), json!({})).await?;
    let prod = Parts { scope: &scope, name: "prod".to_owned() };
    prod.create().await?;
    let begin = now();
    report.event(
        Tone::Plain,
        "created: Cluster prod, paused until it has its endpoint; its VSphereCluster, KubeadmControlPlane and Secret",
    );
    let host = prod.written().await?;
    let took = now().since(begin).as_millis();
    report.event(
        Tone::Good,
        &format!("{took} ms after the last of them it has {host} everywhere, and is not paused any more"),
    );
    let infrastructure = prod.read(INFRASTRUCTURE, "vsphereclusters").await?;
    let plane = prod.read(CONTROL_PLANE, "kubeadmcontrolplanes").await?;
    let line = |what: &str, object: &Value, path: &str| {
        format!(
            "{what:<20} {path:<64} {}",
            object.pointer(&format!("/spec/{}", path.replace('.', "/"))).unwrap_or(&Value::Null)
        )
    };
    let lines = [
        line("VSphereCluster", &infrastructure, "controlPlaneEndpoint.host"),
        line("KubeadmControlPlane", &plane, "kubeadmConfigSpec.clusterConfiguration.apiServer.certSANs"),
        format!("{:<20} {:<64} \"{host}\"", "Secret", "vip_address in the static pod of kube-vip"),
    ];
    report.detail(&lines.join("\n"));
    prod.says("Written").await?;
    report.detail(&format!("$ kubectl get ipaddressclaims\n{}", set(&get(&rig.server, &scope.place(CLAIM)).await?)));

    let other = Parts { scope: &scope, name: "staging".to_owned() };
    other.create_with(&host).await?;
    report.event(Tone::Plain, &format!("created: Cluster staging, whose VSphereCluster has the host {host} already"));
    let told = rig.world.until("staging to be told", |state| {
        let all = state.get(CLAIM, &scope.ns, "staging")?.pointer("/status/conditions")?.as_array()?;
        let ready = all.iter().find(|one| one["type"] == "Ready" && one["status"] == "False")?;
        ready["message"].as_str().map(str::to_owned)
    });
    report.event(Tone::Good, &format!("it stays paused: {}", told.await?));
    report.detail(&format!(
        "$ kubectl get ipaddresses.ipam.cluster.x-k8s.io\n{}",
        set(&get(&rig.server, &scope.place(ADDRESS)).await?)
    ));
    let still = other.read("cluster.x-k8s.io", "clusters").await?;
    (still["spec"]["paused"] == true).then_some(()).context("staging is not paused any more")?;
    allocator.stop().await
}
