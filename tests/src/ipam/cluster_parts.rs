//! A Cluster and the objects that it names, and what an endpoint does to them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::endpoint_kinds::{CONTROL_PLANE, INFRASTRUCTURE, KAMAJI_VERSION};
use super::scope::{CLAIM, Scope};
use crate::observe::now;

/// The provider for development notes on a `DevCluster` which listener serves its API.
const LISTENER: &str = "inmemorycluster.infrastructure.cluster.x-k8s.io/listener";
/// Longest wait on a busy machine.
const LONG: Duration = Duration::from_mins(1);
/// A static pod that lacks its address.
pub const POD: &str = "# the VIP\nkind: Pod\nspec:\n  containers:\n  - name: kube-vip\n    env:\n    - name: vip_address\n      value: # to come\n";

/// A script as CAPV's templates bring it beside the static pod. It speaks of kube-vip, and is no YAML.
const SCRIPT: &str = "#!/bin/bash\n# What kubeadm init needs with kube-vip: see https://github.com/kube-vip/kube-vip/issues/684\nset -e\n\
    if [[ -f /run/kubeadm/kubeadm.yaml ]]; then\n  sed -i 's#path: /etc/kubernetes/admin.conf#path: /etc/kubernetes/super-admin.conf#' \\\n    \
    /etc/kubernetes/manifests/kube-vip.yaml\nfi\n";
/// Where the static pod is.
const MANIFEST: &str = "/etc/kubernetes/manifests/kube-vip.yaml";

/// The static pod with its address.
#[must_use]
pub fn pod_with(host: &str) -> String {
    POD.replace("value:", &format!("value: \"{host}\""))
}

/// A Cluster and its parts.
pub struct Parts<'a> {
    /// Where they are.
    pub scope: &'a Scope<'a>,
    /// The name of all of them.
    pub name: String,
}

impl Parts<'_> {
    fn of(&self, group: &str, plural: &str) -> String {
        let version = if plural == "kamajicontrolplanes" { KAMAJI_VERSION } else { "v1beta2" };
        format!("/apis/{group}/{version}/namespaces/{}/{plural}", self.scope.ns)
    }

    /// One of the parts, as it is now.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn read(&self, group: &str, plural: &str) -> Result<Value> {
        Ok(self.scope.rig.server.get(&format!("{}/{}", self.of(group, plural), self.name)).await?)
    }

    /// The path of the Secrets.
    #[must_use]
    pub fn secrets(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.scope.ns)
    }

    /// Everything in one go, as a chart creates it: paused until the endpoint is written.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn create(&self) -> Result<()> {
        self.create_with("").await
    }

    /// As [`Parts::create`]; `host`: what its infrastructure cluster has already.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn create_with(&self, host: &str) -> Result<()> {
        self.create_cluster("KubeadmControlPlane").await?;
        let endpoint = if host.is_empty() { Value::Null } else { json!({"host": host, "port": 6443}) };
        self.create_infrastructure(&endpoint).await?;
        self.create_kubeadm(&self.files_by_secret(), &["localhost"]).await?;
        self.create_secret(POD).await
    }

    /// As [`Parts::create`], with all that Cluster API's managers need for a first Machine.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn create_for_managers(&self) -> Result<()> {
        let spec = json!({"template": {"spec": {}}});
        self.create_object(INFRASTRUCTURE, "VSphereMachineTemplate", &spec).await?;
        self.create_cluster("KubeadmControlPlane").await?;
        // The provider of the infrastructure would add the port.
        self.create_infrastructure(&json!({"port": 6443})).await?;
        self.create_kubeadm(&self.files_by_secret(), &["localhost"]).await?;
        self.create_secret(POD).await
    }

    /// As [`Parts::create_for_managers`], for a machine that carries out the bootstrap data. `pod`: its static pod; `kubeadm`: what
    /// the `KubeadmControlPlane` says besides.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn create_for_machine(&self, pod: &str, version: &str, mut kubeadm: Value) -> Result<()> {
        let spec = json!({"template": {"spec": {}}});
        self.create_object(INFRASTRUCTURE, "VSphereMachineTemplate", &spec).await?;
        self.create_cluster("KubeadmControlPlane").await?;
        self.create_infrastructure(&json!({"port": 6443})).await?;
        let files = kubeadm["files"].as_array_mut().context("no files")?;
        files.extend(self.files_by_secret().as_array().into_iter().flatten().skip(1).cloned());
        self.create_control_plane(version, &kubeadm).await?;
        self.create_secret(pod).await
    }

    /// As [`Parts::create_for_managers`], for the provider for development, which simulates the machines and serves their API at
    /// `port`.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn create_simulated(&self, port: u16) -> Result<()> {
        let backend = json!({"inMemory": {}});
        let machine = json!({"template": {"spec": {"backend": backend}}});
        self.create_object(INFRASTRUCTURE, "DevMachineTemplate", &machine).await?;
        self.create_cluster_with("KubeadmControlPlane", "DevCluster").await?;
        let spec = json!({"backend": backend, "controlPlaneEndpoint": {"port": port}});
        // The provider takes a host that is set for one of its own, from before a restart, and looks for the note that it would have left.
        let listener = json!({LISTENER: format!("{}/{}", self.scope.ns, self.name)});
        self.create_annotated(INFRASTRUCTURE, "DevCluster", &spec, &listener).await?;
        let kubeadm = json!({"files": self.files_by_secret(), "clusterConfiguration": {"apiServer": {"certSANs": ["localhost"]}}});
        self.create_control_plane_of("DevMachineTemplate", "v1.34.0", &kubeadm).await?;
        self.create_secret(POD).await
    }

    /// As [`Parts::create`], with the files of CAPV's own templates, all inline. Returns these.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn create_inline(&self) -> Result<Value> {
        let file = |path: &str, mode: &str, content: &str| json!({"path": path, "owner": "root:root", "permissions": mode, "content": content});
        let files = json!([
            file(MANIFEST, "0644", POD),
            file("/etc/kube-vip.hosts", "0644", "127.0.0.1 localhost kubernetes"),
            file("/etc/pre-kubeadm-commands/50-kube-vip-prepare.sh", "0700", SCRIPT),
        ]);
        self.create_cluster("KubeadmControlPlane").await?;
        self.create_infrastructure(&Value::Null).await?;
        self.create_kubeadm(&files, &[]).await?;
        Ok(files)
    }

    /// As [`Parts::create`], with a control plane of Kamaji.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn create_kamaji(&self) -> Result<()> {
        self.create_cluster("KamajiControlPlane").await?;
        self.create_infrastructure(&Value::Null).await?;
        let network = json!({"serviceType": "LoadBalancer", "certSANs": ["localhost"]});
        let spec = json!({"version": "v1.34.0", "replicas": 2, "dataStoreName": "default", "network": network});
        self.create_object(CONTROL_PLANE, "KamajiControlPlane", &spec).await.map(drop)
    }

    /// Creates the Cluster, paused for its endpoint.
    async fn create_cluster(&self, plane: &str) -> Result<()> {
        self.create_cluster_with(plane, "VSphereCluster").await
    }

    async fn create_cluster_with(&self, plane: &str, infrastructure: &str) -> Result<()> {
        let reference = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": self.name});
        let cluster = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": self.name, "annotations": {
                "mooring.dev/endpoint-pool": "InClusterIPPool/endpoints", "mooring.dev/paused-for-endpoint": "true"}},
            "spec": {"paused": true, "infrastructureRef": reference(INFRASTRUCTURE, infrastructure),
                "controlPlaneRef": reference(CONTROL_PLANE, plane)},
        });
        self.scope.rig.server.create(&self.of("cluster.x-k8s.io", "clusters"), &cluster).await?;
        Ok(())
    }

    /// Creates the infrastructure cluster. `endpoint`: null if it has none.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn create_infrastructure(&self, endpoint: &Value) -> Result<()> {
        let mut spec = json!({"server": "vcenter.example.com"});
        if !endpoint.is_null() {
            spec["controlPlaneEndpoint"] = endpoint.clone();
        }
        self.create_object(INFRASTRUCTURE, "VSphereCluster", &spec).await
    }

    /// Creates the `KubeadmControlPlane`.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn create_kubeadm(&self, files: &Value, sans: &[&str]) -> Result<()> {
        let mut kubeadm = json!({"files": files});
        if !sans.is_empty() {
            kubeadm["clusterConfiguration"] = json!({"apiServer": {"certSANs": sans}});
        }
        self.create_control_plane("v1.34.0", &kubeadm).await
    }

    async fn create_control_plane(&self, version: &str, kubeadm: &Value) -> Result<()> {
        self.create_control_plane_of("VSphereMachineTemplate", version, kubeadm).await
    }

    async fn create_control_plane_of(&self, template: &str, version: &str, kubeadm: &Value) -> Result<()> {
        let reference = json!({"apiGroup": INFRASTRUCTURE, "kind": template, "name": self.name});
        let spec = json!({
            "replicas": 1, "version": version, "machineTemplate": {"spec": {"infrastructureRef": reference}},
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            "kubeadmConfigSpec": kubeadm,
        });
        self.create_object(CONTROL_PLANE, "KubeadmControlPlane", &spec).await
    }

    /// Files of a control plane whose static pod is in the Secret.
    #[must_use]
    pub fn files_by_secret(&self) -> Value {
        let secret = json!({"name": format!("{}-kubevip-pod", self.name), "key": "content"});
        json!([{"path": "/etc/hosts", "content": "127.0.0.1 localhost"}, {"path": MANIFEST, "contentFrom": {"secret": secret}}])
    }

    /// Creates the Secret with the static pod.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn create_secret(&self, content: &str) -> Result<()> {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{}-kubevip-pod", self.name)},
            "stringData": {"content": content}});
        self.scope.rig.server.create(&self.secrets(), &secret).await?;
        Ok(())
    }

    async fn create_object(&self, group: &str, kind: &str, spec: &Value) -> Result<()> {
        self.create_annotated(group, kind, spec, &Value::Null).await
    }

    async fn create_annotated(&self, group: &str, kind: &str, spec: &Value, annotations: &Value) -> Result<()> {
        let path = self.of(group, &format!("{}s", kind.to_lowercase()));
        let version = path.trim_start_matches(&format!("/apis/{group}/")).split('/').next().unwrap_or_default();
        let object = json!({"apiVersion": format!("{group}/{version}"), "kind": kind,
            "metadata": {"name": self.name, "annotations": annotations}, "spec": spec});
        self.scope.rig.server.create(&path, &object).await.with_context(|| format!("{kind} is refused"))?;
        Ok(())
    }

    /// Cluster API has taken over the endpoint, and the control plane has answered once.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn initialise(&self, host: &str) -> Result<()> {
        let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": host, "port": 6443}}});
        self.scope.merge_cluster(&self.name, endpoint).await?;
        let path = format!("{}/{}/status", self.of("cluster.x-k8s.io", "clusters"), self.name);
        let status = json!({"status": {"initialization": {"controlPlaneInitialized": true}}});
        self.scope.rig.server.merge(&path, &status).await?;
        Ok(())
    }

    /// The paths of the objects of [`Parts::create`], and what the chart's text says of each: nothing with an address.
    #[must_use]
    pub fn texts(&self) -> Vec<(String, Value)> {
        let path = |group: &str, plural: &str| format!("{}/{}", self.of(group, plural), self.name);
        let annotations = json!({
            "mooring.dev/endpoint-pool": "InClusterIPPool/endpoints", "mooring.dev/paused-for-endpoint": "true"});
        let kubeadm = json!({"files": self.files_by_secret(), "clusterConfiguration": {"apiServer": {"certSANs": ["localhost"]}}});
        vec![
            (
                path("cluster.x-k8s.io", "clusters"),
                json!({"metadata": {"annotations": annotations}, "spec": {"paused": true}}),
            ),
            (path(CONTROL_PLANE, "kubeadmcontrolplanes"), json!({"spec": {"kubeadmConfigSpec": kubeadm}})),
            (format!("{}/{}-kubevip-pod", self.secrets(), self.name), json!({"stringData": {"content": POD}})),
        ]
    }

    /// Whether the Cluster is paused.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn paused(&self) -> Result<bool> {
        Ok(self.read("cluster.x-k8s.io", "clusters").await?["spec"]["paused"] == true)
    }

    /// Waits until every place has this address again.
    ///
    /// # Errors
    /// One stays without.
    pub async fn written_again(&self, host: &str) -> Result<()> {
        let deadline = now() + LONG * 2;
        loop {
            match self.written().await {
                Ok(other) if other == host => return Ok(()),
                Ok(other) => anyhow::bail!("another host: {other}"),
                Err(error) if now() > deadline => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Waits for an Event of this reason about the Cluster, with this part in its note.
    ///
    /// # Errors
    /// There is none.
    pub async fn told(&self, reason: &str, part: &str) -> Result<()> {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.scope.ns);
        let deadline = now() + LONG;
        loop {
            let list = self.scope.rig.server.get(&path).await?;
            let all = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            let is = |one: &Value| {
                let noted = one["note"].as_str().is_some_and(|note| note.contains(part));
                one["regarding"]["name"] == *self.name && one["reason"] == reason && noted
            };
            if all.iter().any(is) {
                return Ok(());
            }
            ensure!(now() < deadline, "no Event {reason} with {part:?} about {}", self.name);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// A text in a Secret.
    ///
    /// # Errors
    /// It is not there.
    pub async fn secret(&self, name: &str, key: &str) -> Result<String> {
        let secret = self.scope.rig.server.get(&format!("{}/{name}", self.secrets())).await?;
        let data: k8s_openapi::ByteString = serde_json::from_value(secret["data"][key].clone())?;
        Ok(String::from_utf8(data.0)?)
    }

    /// Waits until the Cluster is not paused any more; then every place must have the address. Returns it.
    ///
    /// # Errors
    /// It stays paused, or a place lacks the address.
    pub async fn written(&self) -> Result<String> {
        let host = self.host().await?;
        let plane = self.read(CONTROL_PLANE, "kubeadmcontrolplanes").await?;
        let spec = &plane["spec"]["kubeadmConfigSpec"];
        ensure!(spec["clusterConfiguration"]["apiServer"]["certSANs"] == json!(["localhost", host]), "{spec}");
        let text = self.secret(&format!("{}-kubevip-pod", self.name), "content").await?;
        ensure!(text == pod_with(&host), "{text}");
        Ok(host)
    }

    /// Waits until the Cluster is not paused any more; then the infrastructure cluster must have the claim's address. Returns it.
    ///
    /// # Errors
    /// It stays paused, or the infrastructure cluster has not the address.
    pub async fn host(&self) -> Result<String> {
        self.unpaused(Duration::from_millis(20)).await?;
        let infrastructure = self.read(INFRASTRUCTURE, "vsphereclusters").await?;
        let endpoint = &infrastructure["spec"]["controlPlaneEndpoint"];
        let host = endpoint["host"].as_str().context("no host")?.to_owned();
        ensure!(endpoint["port"] == 6443, "{endpoint}");
        let bound = self.scope.bound(&self.name).await?;
        ensure!(bound.ip() == host, "{host} is not the claim's: {}", bound.address);
        Ok(host)
    }

    /// Waits until the Cluster is not paused any more; looks so often.
    ///
    /// # Errors
    /// It stays paused.
    pub async fn unpaused(&self, interval: Duration) -> Result<()> {
        let deadline = now() + LONG;
        loop {
            let cluster = self.read("cluster.x-k8s.io", "clusters").await?;
            if cluster["spec"]["paused"] != true {
                ensure!(cluster["metadata"]["annotations"]["mooring.dev/paused-for-endpoint"].is_null(), "{cluster}");
                return Ok(());
            }
            if now() > deadline {
                let claim = self.scope.rig.server.get(&self.scope.path(CLAIM, &self.name)).await;
                anyhow::bail!("still paused: {cluster}\n{claim:?}");
            }
            tokio::time::sleep(interval).await;
        }
    }

    /// Waits until the claim says where the endpoint stands.
    ///
    /// # Errors
    /// It does not.
    pub async fn says(&self, reason: &str) -> Result<()> {
        let what = format!("claim {} to say {reason}", self.name);
        let said = self.scope.rig.world.until(&what, |state| {
            let all = state.get(CLAIM, &self.scope.ns, &self.name)?.pointer("/status/conditions")?.as_array()?;
            let of = |kind: &str| all.iter().find(|one| one["type"] == kind);
            // The other condition stays.
            (of("mooring.dev/EndpointReady")?["reason"] == reason && of("Ready").is_some()).then_some(())
        });
        said.await
    }
}
