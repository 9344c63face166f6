//! `VSphereMachine`s without DHCP, and what an allocator does to them.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::endpoint_kinds::{INFRASTRUCTURE, crd};
use super::scope::Scope;
use super::server::{Crds, Server, documents_in};
use crate::observe::now;
use crate::rig::allocator::AllocatorRig;

/// The arguments of an allocator that serves machines, and nothing about Services.
pub const ARGS: [&str; 3] = ["--leader-election=false", "--services=off", "--machine-addresses=on"];
/// The finalizer that the provider of vSphere keeps on a machine until its virtual machine is destroyed.
pub const DESTROYED: &str = "vspheremachine.infrastructure.cluster.x-k8s.io";
/// Longest wait on a busy machine.
const LONG: Duration = Duration::from_mins(1);
/// The versions of machines that the API server serves; the last is stored.
const VERSION: &str = "v1beta2";

/// `VSphereMachine` and `VSphereMachineTemplate`, as their provider's v1.14 has their network. The limits are those of `v1beta2`.
#[must_use]
pub fn kinds() -> [Value; 2] {
    let text = |longest: u32| json!({"type": "string", "minLength": 1, "maxLength": longest});
    let texts = |longest: u32| json!({"type": "array", "maxItems": 128, "items": text(longest), "x-kubernetes-list-type": "atomic"});
    let flag = json!({"type": "boolean"});
    let reference = json!({"type": "object", "required": ["apiGroup", "kind", "name"],
        "properties": {"apiGroup": text(253), "kind": text(63), "name": text(253)}});
    let device = json!({"type": "object", "required": ["networkName"], "properties": {
        "networkName": text(2_048), "deviceName": text(1_024), "macAddr": text(23), "mtu": {"type": "integer", "format": "int64"},
        "dhcp4": flag, "dhcp6": flag, "skipIPAllocation": flag, "gateway4": text(64), "gateway6": text(64),
        "ipAddrs": texts(39), "nameservers": texts(64), "searchDomains": texts(1_024),
        "addressesFromPools": {"type": "array", "maxItems": 128, "items": reference, "x-kubernetes-list-type": "atomic"}}});
    let devices = json!({"type": "array", "maxItems": 128, "items": device, "x-kubernetes-list-type": "atomic"});
    let network = json!({"type": "object", "required": ["devices"], "properties": {"devices": devices}});
    let spec = json!({"type": "object", "required": ["network", "template"], "properties": {
        "template": text(2_048), "numCPUs": {"type": "integer", "format": "int32"}, "network": network}});
    let template = json!({"type": "object", "required": ["template"], "properties": {
        "template": {"type": "object", "required": ["spec"], "properties": {"spec": spec}}}});
    let versions = |spec: &Value| [("v1beta1", spec.clone()), (VERSION, spec.clone())];
    [
        crd(INFRASTRUCTURE, "VSphereMachine", &versions(&spec)),
        crd(INFRASTRUCTURE, "VSphereMachineTemplate", &versions(&template)),
    ]
}

/// An API server with Cluster API's kinds, those of machines, and the rights that the manifests give.
///
/// # Errors
/// The lab's, or a kind is refused.
pub async fn up() -> Result<AllocatorRig> {
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    install(&rig.server).await?;
    Ok(rig)
}

/// Adds to Cluster API's own kinds those of machines, and the rights.
///
/// # Errors
/// A kind is refused, or the rights are.
pub async fn install(server: &Server) -> Result<()> {
    for kind in kinds() {
        server.apply(&kind).await.context("a kind is refused")?;
        server.established(kind["metadata"]["name"].as_str().unwrap_or_default()).await?;
    }
    for object in documents_in("allocator/machine-addresses/rbac.yaml")? {
        server.apply(&object).await.context("the rights are refused")?;
    }
    Ok(())
}

/// The machines of a namespace. All are of Cluster `prod`, and made from template `workers`.
pub struct Machines<'a> {
    /// Where they are.
    pub scope: &'a Scope<'a>,
}

/// A device without DHCP.
#[must_use]
pub fn device(network: &str) -> Value {
    json!({"networkName": network, "dhcp4": false, "mtu": 9_000})
}

impl Machines<'_> {
    fn server(&self) -> &Server {
        &self.scope.rig.server
    }

    fn path(&self, plural: &str) -> String {
        format!("/apis/{INFRASTRUCTURE}/{VERSION}/namespaces/{}/{plural}", self.scope.ns)
    }

    fn machine(&self, name: &str) -> String {
        format!("{}/{name}", self.path("vspheremachines"))
    }

    /// Creates the Cluster, and the template with these labels.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn prepare(&self, labels: &Value) -> Result<()> {
        self.scope.cluster("prod", json!({})).await?;
        self.template(labels).await
    }

    /// Creates the template with these labels.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn template(&self, labels: &Value) -> Result<()> {
        let template = json!({
            "apiVersion": format!("{INFRASTRUCTURE}/{VERSION}"), "kind": "VSphereMachineTemplate",
            "metadata": {"name": "workers", "labels": labels},
            "spec": {"template": {"spec": {"template": "ubuntu", "network": {"devices": [device("vm-network")]}}}},
        });
        self.server().create(&self.path("vspheremachinetemplates"), &template).await?;
        Ok(())
    }

    /// Changes the template's labels.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn label_template(&self, labels: &Value) -> Result<()> {
        let path = format!("{}/workers", self.path("vspheremachinetemplates"));
        self.server().merge(&path, &json!({"metadata": {"labels": labels}})).await?;
        Ok(())
    }

    /// Creates a machine with these devices, as Cluster API does; the provider's finalizer is on it.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn create(&self, name: &str, devices: &Value) -> Result<()> {
        let machine = json!({
            "apiVersion": format!("{INFRASTRUCTURE}/{VERSION}"), "kind": "VSphereMachine",
            "metadata": {"name": name, "labels": {"cluster.x-k8s.io/cluster-name": "prod"}, "finalizers": [DESTROYED],
                "annotations": {"cluster.x-k8s.io/cloned-from-name": "workers"}},
            "spec": {"template": "ubuntu", "numCPUs": 2, "network": {"devices": devices}},
        });
        self.server().create(&self.path("vspheremachines"), &machine).await?;
        Ok(())
    }

    /// Deletes a machine: the provider destroys its virtual machine, which is not done yet.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.server().delete(&self.machine(name)).await?;
        Ok(())
    }

    /// The provider has destroyed the virtual machine.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn destroyed(&self, name: &str) -> Result<()> {
        self.server().merge(&self.machine(name), &json!({"metadata": {"finalizers": null}})).await?;
        Ok(())
    }

    /// The devices of a machine, now.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn devices(&self, name: &str) -> Result<Value> {
        Ok(self.server().get(&self.machine(name)).await?["spec"]["network"]["devices"].clone())
    }

    /// Waits until the first device has addresses. Returns all devices.
    ///
    /// # Errors
    /// It gets none.
    pub async fn served(&self, name: &str) -> Result<Value> {
        let deadline = now() + LONG;
        loop {
            let devices = self.devices(name).await?;
            if devices[0]["ipAddrs"].as_array().is_some_and(|all| !all.is_empty()) {
                return Ok(devices);
            }
            if now() > deadline {
                bail!("{name} has no addresses: {devices}; {:?}", self.events(name).await?);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The reasons and notes of the Events about a machine.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn events(&self, name: &str) -> Result<Vec<(String, String)>> {
        let list = self.server().get(&format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.scope.ns)).await?;
        let all = list["items"].as_array().cloned().unwrap_or_default();
        let about =
            all.iter().filter(|one| one["regarding"]["kind"] == "VSphereMachine" && one["regarding"]["name"] == name);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(about.map(|one| (text(&one["reason"]), text(&one["note"]))).collect())
    }

    /// Waits until an Event about a machine has this reason. Returns its note.
    ///
    /// # Errors
    /// There is none.
    pub async fn says(&self, name: &str, reason: &str) -> Result<String> {
        let deadline = now() + LONG;
        loop {
            let all = self.events(name).await?;
            if let Some((_, note)) = all.iter().find(|(is, _)| is == reason) {
                return Ok(note.clone());
            }
            if now() > deadline {
                bail!("no Event {reason} about {name}: {all:?}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
