//! Services of type `LoadBalancer` in a scope. A task plays the agents: it writes on each `IPAddress` that a node holds the
//! address.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use http::Method;
use mooring_names::{record, services};
use serde_json::{Value, json};

use super::scope::{ADDRESS, CLAIM, Scope};
use super::server::{IPAM, Refused};
use super::world::{SOON, State};
use crate::observe::now;
use crate::rig::allocator::name;

/// Services.
pub const SERVICE: &str = "Service";
/// The kind of pool that the `ConfigMap` becomes.
pub const GLOBAL: &str = "GlobalInClusterIPPool";
/// The condition's type.
pub const CONDITION: &str = "mooring.dev/AddressReady";
/// The node that holds every address.
pub const NODE: &str = "node-1";
/// The annotation that requests addresses, and shows the addresses of the Service.
pub const ADDRESSES: &str = "kube-vip.io/loadbalancerIPs";

const CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps";

/// The condition of a Service: whether it is true, its reason and its message.
#[must_use]
pub fn said(service: &Value) -> Option<(bool, String, String)> {
    let all = service.pointer("/status/conditions")?.as_array()?;
    let one = all.iter().find(|one| one["type"] == CONDITION)?;
    let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
    Some((one["status"] == "True", text("reason"), text("message")))
}

/// The addresses in a Service's status.
#[must_use]
pub fn ingress(service: &Value) -> Vec<String> {
    let all = service.pointer("/status/loadBalancer/ingress").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(|one| Some(one["ip"].as_str()?.to_owned())).collect()
}

/// The value of an annotation.
#[must_use]
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"].get(key)?.as_str()
}

/// The `IPAddress` objects that agents advertise for a Service: namespace, name, address.
fn named(service: &Value) -> impl Iterator<Item = (&str, &str, IpAddr)> {
    let served = service["spec"]["type"] == "LoadBalancer" && service["metadata"].get("deletionTimestamp").is_none();
    let text = |key| annotation(service, key).filter(|_| served);
    let lines = record::named(text(services::RECORD), text(services::MOVING));
    lines.map(|line| (line.namespace, line.name, line.address))
}

impl Scope<'_> {
    /// The spec of a Service of type `LoadBalancer` with this port.
    #[must_use]
    pub fn balanced(&self, port: u16, protocol: &str) -> Value {
        json!({
            "type": "LoadBalancer", "selector": {"app": "none"}, "allocateLoadBalancerNodePorts": false,
            "ports": [{"name": "p", "port": port, "protocol": protocol}],
        })
    }

    /// Creates a Service; `meta` is merged into its metadata.
    pub async fn service_with(&self, name: &str, spec: Value, meta: Value) -> Result<Value> {
        let mut object = self.object(SERVICE, name, spec, meta);
        object["apiVersion"] = "v1".into();
        let place = format!("/api/v1/namespaces/{}/services", self.ns);
        self.rig.server.create(&place, &object).await.with_context(|| format!("Service {name} is refused"))
    }

    /// Creates a Service with port 80/TCP.
    pub async fn service(&self, name: &str) -> Result<Value> {
        self.service_with(name, self.balanced(80, "TCP"), json!({})).await
    }

    /// Creates a Service with port 80/TCP and these annotations.
    pub async fn noted(&self, name: &str, annotations: Value) -> Result<Value> {
        self.service_with(name, self.balanced(80, "TCP"), json!({"annotations": annotations})).await
    }

    /// The path of a Service.
    #[must_use]
    pub fn service_path(&self, name: &str) -> String {
        format!("/api/v1/namespaces/{}/services/{name}", self.ns)
    }

    /// Merges a patch into a Service.
    pub async fn merge_service(&self, name: &str, patch: Value) -> Result<Value, Refused> {
        self.rig.server.merge(&self.service_path(name), &patch).await
    }

    /// Deletes a Service.
    pub async fn delete_service(&self, name: &str) -> Result<Value, Refused> {
        self.rig.server.delete(&self.service_path(name)).await
    }

    /// Waits until `look` finds something in a Service.
    pub async fn until_service<T>(
        &self,
        name: &str,
        what: &str,
        mut look: impl FnMut(&Value, &State) -> Option<T>,
    ) -> Result<T> {
        let what = format!("Service {}/{name} {what}", self.ns);
        let found = self.rig.world.until(&what, |state| look(state.get(SERVICE, &self.ns, name)?, state));
        found.await.with_context(|| {
            self.rig.world.look(|state| {
                let claims: Vec<&Value> = state.all(CLAIM, &self.ns).collect();
                format!("it is {:?}, the claims {claims:?}", state.get(SERVICE, &self.ns, name))
            })
        })
    }

    /// Waits until a Service reports that its addresses are advertised and its status has them; returns the addresses.
    pub async fn advertised(&self, name: &str) -> Result<Vec<String>> {
        self.until_service(name, "to be advertised", |service, _| {
            let (is, reason, _) = said(service)?;
            let all = ingress(service);
            (is && reason == "Advertised" && !all.is_empty()).then_some(all)
        })
        .await
    }

    /// Waits until the condition of a Service has this reason, and a message with this part; returns the message.
    pub async fn service_says(&self, name: &str, reason: &str, part: &str) -> Result<String> {
        self.until_service(name, &format!("to say {reason}: {part}"), |service, _| {
            let (_, is, message) = said(service)?;
            (is == reason && message.contains(part)).then_some(message)
        })
        .await
    }

    /// Waits until everything that Mooring wrote on a Service is removed, and the Service has no claim.
    pub async fn bare(&self, name: &str) -> Result<()> {
        self.until_service(name, "to be bare", |service, state| {
            let ours = |key: &String| key.starts_with("mooring.dev/") || key.starts_with("kube-vip.io/");
            let notes = service["metadata"]["annotations"].as_object().into_iter().flatten();
            let left = notes.filter(|(key, _)| ours(key)).count();
            let of_it = format!("{}/{name}=", self.ns);
            let claims = state
                .all(CLAIM, "")
                .filter(|claim| annotation(claim, "mooring.dev/services").is_some_and(|text| text.contains(&of_it)));
            (left == 0 && ingress(service).is_empty() && said(service).is_none() && claims.count() == 0).then_some(())
        })
        .await
    }

    /// Writes the `ConfigMap` of kube-vip's cloud provider.
    pub async fn configure(&self, data: Value) -> Result<()> {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kubevip"}, "data": data});
        let made = match self.rig.server.create(CONFIG, &object).await {
            Err(refused) if refused.code == 409 => self.rig.server.replace(&format!("{CONFIG}/kubevip"), &object).await,
            made => made,
        };
        made.context("the ConfigMap is refused")?;
        Ok(())
    }

    /// Deletes that `ConfigMap`.
    pub async fn no_config(&self) -> Result<()> {
        match self.rig.server.delete(&format!("{CONFIG}/kubevip")).await {
            Ok(_) => Ok(()),
            Err(refused) if refused.code == 404 => Ok(()),
            Err(refused) => Err(refused.into()),
        }
    }

    /// Deletes all Services of the namespace, and waits until they are gone with their claims.
    pub async fn no_services(&self) -> Result<()> {
        let all = |state: &State| state.all(SERVICE, &self.ns).map(|one| name(one).to_owned()).collect::<Vec<_>>();
        let names = self.rig.world.look(all);
        let delete = |name: String| async move {
            let mut done = self.delete_service(&name).await;
            while done.as_ref().is_err_and(|error| error.code == 0) {
                // The API server is busy.
                done = self.delete_service(&name).await;
            }
            ensure!(done.as_ref().map_or_else(|error| error.code == 404, |_| true), "{done:?}");
            Ok(())
        };
        let some = !names.is_empty();
        stream::iter(names).map(delete).buffer_unordered(16).try_collect::<()>().await?;
        if !some {
            return Ok(());
        }
        let gone = |state: &State| state.all(SERVICE, &self.ns).next().is_none().then_some(());
        self.rig.world.until_within(4 * SOON, "all Services to be gone", gone).await
    }

    /// Creates a pool for the Services of the namespace, with these addresses (by their last part).
    pub async fn default_pool(&self, name: &str, first: u8, last: u8) -> Result<()> {
        let meta = json!({"annotations": {"mooring.dev/service-default": "true"}});
        self.create("InClusterIPPool", name, self.range(first, last), meta).await?;
        Ok(())
    }

    /// The claim that a Service has, in this namespace.
    pub async fn claim_of(&self, service: &str) -> Result<String> {
        let of_it = format!("{}/{service}=", self.ns);
        self.until_service(service, "to have a claim", |_, state| {
            let mut all = state.all(CLAIM, &self.ns);
            let its =
                all.find(|claim| annotation(claim, "mooring.dev/services").is_some_and(|text| text.contains(&of_it)));
            Some(name(its?).to_owned())
        })
        .await
    }

    /// Waits until an address is in quarantine.
    pub async fn until_rests(&self, ip: &str) -> Result<()> {
        let rests = |state: &State| {
            let mut all = state.all(ADDRESS, &self.ns).filter(|one| one["spec"]["address"] == ip);
            all.any(|one| annotation(one, "mooring.dev/quarantined-until").is_some()).then_some(())
        };
        self.rig.world.until(&format!("{ip} to rest"), rests).await
    }

    /// Waits for an Event of this reason about an object of this name, with this part in its note.
    pub async fn until_event(&self, namespace: &str, object: &str, reason: &str, part: &str) -> Result<()> {
        let deadline = now() + SOON;
        loop {
            let all = self.events_of(namespace, object).await?;
            if all.iter().any(|(is, note)| is == reason && note.contains(part)) {
                return Ok(());
            }
            ensure!(now() < deadline, "no Event {reason} with {part:?} about {object}, but {all:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Creates a Node with this address.
    pub async fn node(&self, name: &str, ip: &str) -> Result<()> {
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": ip}]}});
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        self.rig.server.create("/api/v1/nodes", &object).await?;
        self.rig.server.merge(&format!("/api/v1/nodes/{name}/status"), &status).await?;
        Ok(())
    }

    /// Writes on which nodes a Service has ready endpoints.
    pub async fn endpoints(&self, service: &str, nodes: &[&str]) -> Result<()> {
        let name = format!("{service}-slice");
        let place = format!("/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices", self.ns);
        let endpoint = |(n, node): (usize, &&str)| json!({"addresses": [format!("10.200.0.{}", n + 1)], "nodeName": node, "conditions": {"ready": true}});
        let endpoints: Vec<Value> = nodes.iter().enumerate().map(endpoint).collect();
        let object = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": endpoints,
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
        });
        match self.rig.server.create(&place, &object).await {
            Err(refused) if refused.code == 409 => {
                self.rig.server.merge(&format!("{place}/{name}"), &json!({"endpoints": endpoints})).await?;
            }
            made => _ = made?,
        }
        Ok(())
    }

    /// The reasons and notes of the Events about an object of that name, in a namespace.
    ///
    /// Without the API server's own: its repair of cluster IPs watches Services and their IPs apart, and reports a Service
    /// which it sees before the IP (`ClusterIPNotAllocated`).
    pub async fn events_of(&self, namespace: &str, object: &str) -> Result<Vec<(String, String)>> {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        let list = self.rig.server.ask(Method::GET, &path, None, "application/json").await?;
        let all = list["items"].as_array().cloned().unwrap_or_default();
        let about = all.iter().filter(|one| {
            one["regarding"]["name"] == object && one["reportingController"] != "ipallocator-repair-controller"
        });
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(about.map(|one| (text(&one["reason"]), text(&one["note"]))).collect())
    }

    /// Plays the agents, for ever: writes a holder on every address that a Service names, and on no other, as agents do.
    pub async fn hold_all(&self) -> Result<Infallible> {
        // Each address is written once: the watch shows the write a moment later.
        let mut done = BTreeSet::new();
        loop {
            let found = self.rig.world.until_within(Duration::from_hours(1), "an address to hold", |state| {
                let free: Vec<&Value> = state
                    .all(ADDRESS, "")
                    .filter(|one| one["metadata"]["labels"].get("mooring.dev/service-family").is_some())
                    .filter(|one| annotation(one, "mooring.dev/holder").is_none())
                    .filter(|one| one["metadata"].get("deletionTimestamp").is_none())
                    .filter(|one| !done.contains(&one["metadata"]["uid"].to_string()))
                    .collect();
                if free.is_empty() {
                    return None;
                }
                let named: BTreeSet<(&str, &str, IpAddr)> = state.all(SERVICE, "").flat_map(named).collect();
                let place = |one: &Value| {
                    let ns = one["metadata"]["namespace"].as_str().unwrap_or_default();
                    let ip = one["spec"]["address"].as_str()?.parse().ok()?;
                    let uid = one["metadata"]["uid"].to_string();
                    named.contains(&(ns, name(one), ip)).then(|| (ns.to_owned(), name(one).to_owned(), uid))
                };
                let free: Vec<(String, String, String)> = free.into_iter().filter_map(place).collect();
                (!free.is_empty()).then_some(free)
            });
            let found = found.await?;
            let hold = |(ns, name, uid): (String, String, String)| async move {
                self.hold(&ns, &name, NODE).await.map(|()| uid)
            };
            done.extend(stream::iter(found).map(hold).buffer_unordered(16).try_collect::<Vec<_>>().await?);
            // Not after each change: this loop goes through all addresses.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Writes that a node holds an address.
    pub async fn hold(&self, ns: &str, address: &str, node: &str) -> Result<()> {
        let holder = json!({"node": node, "session": {"uid": "u", "transitions": 1}}).to_string();
        let patch = json!({"metadata": {"annotations": {"mooring.dev/holder": holder}}});
        let place = format!("{IPAM}/v1beta2/namespaces/{ns}/ipaddresses/{address}");
        let mut tries = 0;
        loop {
            tries += 1;
            match self.rig.server.merge(&place, &patch).await {
                Ok(_) => return Ok(()),
                // The address is gone.
                Err(refused) if refused.code == 404 || refused.code == 409 => return Ok(()),
                // The API server is busy.
                Err(refused) if refused.code == 0 && tries < 10 => {}
                Err(refused) => return Err(refused.into()),
            }
        }
    }

    /// Does `work` while a node holds every address.
    pub async fn with_agents<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = work => done,
            failed = self.hold_all() => match failed? {},
        }
    }
}
