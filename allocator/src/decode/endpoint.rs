//! Clusters, infrastructure clusters and control planes, as far as endpoints depend on them.
//!
//! These kinds are of other projects, of several versions, and few: they are read as JSON, each field where it may stand.

use std::sync::Arc;

use mooring_allocator_core::names::{Key, Uid, Version};
use mooring_allocator_endpoints::notes::{Notes, kept};
use mooring_allocator_endpoints::objects::{Cluster, ControlPlane, File, Infrastructure, Place, Reference};
use mooring_allocator_endpoints::words;
use mooring_names::annotations;
use serde_json::Value;

pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

pub(super) fn is_true(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer) == Some(&Value::Bool(true))
}

pub(super) fn annotation<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.pointer("/metadata/annotations")?.get(name)?.as_str()
}

/// Namespace and name of an object.
#[must_use]
pub fn key(value: &Value) -> Option<Key> {
    Some(Key::new(text(value, "/metadata/namespace")?, text(value, "/metadata/name")?))
}

/// Uid of an object.
#[must_use]
pub fn uid(value: &Value) -> Option<Uid> {
    text(value, "/metadata/uid").map(Uid::from)
}

/// The resource version of an object.
#[must_use]
pub fn version(value: &Value) -> Option<Version> {
    text(value, "/metadata/resourceVersion").map(Version::from)
}

pub(super) fn is_deleting(value: &Value) -> bool {
    text(value, "/metadata/deletionTimestamp").is_some()
}

pub(super) fn is_held(value: &Value) -> bool {
    annotation(value, annotations::PAUSED).is_some()
}

/// Whether a control plane has answered once: the field of `v1beta2`, that of control planes of `v1beta1`, and the condition of
/// Clusters of `v1beta1`.
fn is_initialised(value: &Value) -> bool {
    let conditions = value.pointer("/status/conditions").and_then(Value::as_array);
    let condition =
        |one: &Value| text(one, "/type") == Some("ControlPlaneInitialized") && text(one, "/status") == Some("True");
    is_true(value, "/status/initialization/controlPlaneInitialized")
        || is_true(value, "/status/initialized")
        || conditions.is_some_and(|all| all.iter().any(condition))
}

/// A reference of a Cluster: `apiGroup` in `v1beta2`, `apiVersion` in `v1beta1`.
fn reference(value: &Value, field: &str, namespace: &Arc<str>) -> Option<Reference> {
    let one = value.pointer("/spec")?.get(field)?;
    let group = text(one, "/apiGroup").or_else(|| text(one, "/apiVersion")?.split_once('/').map(|(group, _)| group))?;
    let key = Key { namespace: namespace.clone(), name: text(one, "/name")?.into() };
    Some(Reference { group: group.into(), kind: text(one, "/kind")?.into(), key })
}

/// The host that is set. An address that is none is as good as no host: some manifests have it as a placeholder.
fn host(value: &Value) -> Option<Box<str>> {
    let text = text(value, "/spec/controlPlaneEndpoint/host")?;
    let unspecified = text.trim().parse().is_ok_and(|ip: std::net::IpAddr| ip.is_unspecified());
    kept(text).filter(|_| !unspecified)
}

/// A port that is set.
fn port(value: &Value, pointer: &str) -> Option<u16> {
    value.pointer(pointer)?.as_u64().and_then(|port| port.try_into().ok()).filter(|port| *port != 0)
}

/// A Cluster, read in this version; None: it lacks what every object has.
#[must_use]
pub fn cluster(value: &Value, api: &'static str) -> Option<Cluster> {
    let key = key(value)?;
    let variables = value
        .pointer("/spec/topology")
        .map(|topology| topology.get("variables").and_then(Value::as_array).cloned().unwrap_or_default());
    Some(Cluster {
        uid: uid(value)?,
        version: version(value)?,
        api,
        deleting: is_deleting(value),
        moving: annotation(value, annotations::DELETE_FOR_MOVE).is_some(),
        paused: is_true(value, "/spec/paused"),
        held: is_held(value),
        initialised: is_initialised(value),
        notes: Notes::read(|name| annotation(value, name)),
        infrastructure: reference(value, "infrastructureRef", &key.namespace),
        control_plane: reference(value, "controlPlaneRef", &key.namespace),
        host: host(value),
        port: port(value, "/spec/clusterNetwork/apiServerPort"),
        variables,
        key,
    })
}

/// The pool that a namespace names for its Clusters.
#[must_use]
pub fn default_pool(namespace: &Value) -> Option<Box<str>> {
    kept(annotation(namespace, words::POOL)?)
}

/// An infrastructure cluster of this group and kind.
#[must_use]
pub fn infrastructure(value: &Value, group: &str, kind: &str) -> Option<Infrastructure> {
    Some(Infrastructure {
        reference: Reference { group: group.into(), kind: kind.into(), key: key(value)? },
        uid: uid(value)?,
        version: version(value)?,
        deleting: is_deleting(value),
        held: is_held(value),
        host: host(value),
        port: port(value, "/spec/controlPlaneEndpoint/port"),
    })
}

fn texts(value: Option<&Value>) -> Vec<Box<str>> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(Box::from).collect()
}

/// A control plane of this group and kind: a `KubeadmControlPlane`, or else a `KamajiControlPlane`.
#[must_use]
pub fn control_plane(value: &Value, group: &str, kind: &str) -> Option<ControlPlane> {
    let kubeadm = value.pointer("/spec/kubeadmConfigSpec");
    let (place, sans) = if kind == "KubeadmControlPlane" {
        let files = kubeadm.and_then(|spec| spec.get("files")).and_then(Value::as_array);
        let files = files.into_iter().flatten().map(file).collect();
        (Place::Files(files), value.pointer("/spec/kubeadmConfigSpec/clusterConfiguration/apiServer/certSANs"))
    } else {
        let address = text(value, "/spec/network/serviceAddress").map(Box::from);
        (Place::ServiceAddress(address), value.pointer("/spec/network/certSANs"))
    };
    Some(ControlPlane {
        reference: Reference { group: group.into(), kind: kind.into(), key: key(value)? },
        uid: uid(value)?,
        version: version(value)?,
        deleting: is_deleting(value),
        held: is_held(value),
        initialised: is_initialised(value),
        sans: texts(sans),
        place,
    })
}

fn file(one: &Value) -> File {
    let secret = one.pointer("/contentFrom/secret");
    File {
        path: text(one, "/path").unwrap_or_default().into(),
        content: text(one, "/content").map(Box::from),
        encoded: text(one, "/encoding").is_some()
            || text(one, "/contentFormat").is_some_and(|format| !format.eq_ignore_ascii_case("raw")),
        secret: secret.and_then(|secret| Some((text(secret, "/name")?.into(), text(secret, "/key")?.into()))),
        whole: one.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_versions_of_a_cluster_are_read() {
        let old = json!({
            "metadata": {"namespace": "n", "name": "c", "uid": "u", "resourceVersion": "7",
                "annotations": {"mooring.dev/endpoint-pool": "InClusterIPPool/p", "mooring.dev/paused-for-endpoint": ""}},
            "spec": {"paused": true, "controlPlaneEndpoint": {"host": "", "port": 0},
                "infrastructureRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VSphereCluster", "name": "c"}},
            "status": {"conditions": [{"type": "ControlPlaneInitialized", "status": "True"}]},
        });
        let read = cluster(&old, "v1beta1").unwrap();
        let part = read.infrastructure.clone().unwrap();
        assert_eq!(
            (&*part.group, &*part.kind, part.key.to_string()),
            ("infrastructure.cluster.x-k8s.io", "VSphereCluster", "n/c".into())
        );
        assert!(read.paused && read.initialised && !read.held && read.notes.paused_for_endpoint);
        assert_eq!((read.notes.pool.as_deref(), read.host, read.variables), (Some("InClusterIPPool/p"), None, None));
        let mut new = old.clone();
        new["spec"] = json!({"topology": {"classRef": {"name": "x"}}, "controlPlaneEndpoint": {"host": "10.0.0.1"},
            "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "c-x"}});
        new["status"] = json!({"initialization": {"controlPlaneInitialized": true}});
        let read = cluster(&new, "v1beta2").unwrap();
        assert_eq!((read.host.as_deref(), read.variables), (Some("10.0.0.1"), Some(vec![])));
        assert_eq!((read.initialised, read.control_plane.unwrap().key.name.to_string()), (true, "c-x".into()));
        assert_eq!(cluster(&json!({"metadata": {}}), "v1beta2"), None);
    }

    #[test]
    fn a_control_planes_files_are_read() {
        let files = json!([
            {"path": "/etc/kubernetes/manifests/a.yaml", "content": "x", "owner": "root"},
            {"path": "/b", "encoding": "base64", "contentFrom": {"secret": {"name": "s", "key": "k"}}},
            {"path": "/c", "content": "x", "contentFormat": "Raw"},
            {"path": "/d", "content": "x", "contentFormat": "go-template"},
        ]);
        let value = json!({"metadata": {"namespace": "n", "name": "c", "uid": "u", "resourceVersion": "7"},
            "spec": {"kubeadmConfigSpec": {"files": files, "clusterConfiguration": {"apiServer": {"certSANs": ["localhost"]}}}}});
        let read = control_plane(&value, "g", "KubeadmControlPlane").unwrap();
        let Place::Files(all) = &read.place else { panic!() };
        assert_eq!((all[0].content.as_deref(), &all[0].whole, all[0].encoded), (Some("x"), &files[0], false));
        assert_eq!((&all[1].secret, all[1].encoded), (&Some(("s".into(), "k".into())), true));
        assert_eq!([all[2].encoded, all[3].encoded], [false, true]);
        assert_eq!(read.sans, ["localhost".into()]);
        let value = json!({"metadata": value["metadata"], "spec": {"network": {"serviceAddress": "10.0.0.1"}}});
        let read = control_plane(&value, "g", "KamajiControlPlane").unwrap();
        assert_eq!((read.place, read.sans), (Place::ServiceAddress(Some("10.0.0.1".into())), vec![]));
    }
}
