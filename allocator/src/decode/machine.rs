//! `VSphereMachine`s, their templates and Clusters, as far as machines' addresses depend on them.
//!
//! As with endpoints, these kinds are of other projects and of several versions: they are read as JSON. What is read is the same in
//! all versions.

use std::sync::Arc;

use mooring_allocator_machines::device::Device;
use mooring_allocator_machines::objects::{Cluster, Labels, Template, VSphereMachine, kept};
use mooring_allocator_machines::words;
use mooring_names::labels;
use serde_json::Value;

use super::endpoint::{annotation, is_deleting, is_held, is_true, key, uid, version};

fn label<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.pointer("/metadata/labels")?.get(name)?.as_str().filter(|text| !text.is_empty())
}

fn note(value: &Value, name: &str) -> Option<Box<str>> {
    kept(annotation(value, name)?)
}

/// A Cluster; None: it lacks what every object has.
#[must_use]
pub fn cluster(value: &Value) -> Option<Cluster> {
    let paused = is_true(value, "/spec/paused") || is_held(value);
    Some(Cluster { key: key(value)?, paused, pool_namespace: note(value, words::POOL_NAMESPACE) })
}

/// A template; None: it lacks what every object has.
#[must_use]
pub fn template(value: &Value) -> Option<Template> {
    let labels = Labels::read(|name| label(value, name));
    Some(Template { key: key(value)?, labels, search: note(value, words::MACHINE_SEARCH_DOMAINS) })
}

/// A machine, read in this version; None: it lacks what every object has.
#[must_use]
pub fn machine(value: &Value, api: &'static str) -> Option<VSphereMachine> {
    let devices = value.pointer("/spec/network/devices").and_then(Value::as_array);
    Some(VSphereMachine {
        key: key(value)?,
        uid: uid(value)?,
        version: version(value)?,
        api,
        deleting: is_deleting(value),
        held: is_held(value),
        cluster: label(value, labels::CLUSTER_NAME).map(Arc::from),
        labels: Labels::read(|name| label(value, name)),
        search: note(value, words::MACHINE_SEARCH_DOMAINS),
        template: annotation(value, words::CLONED_FROM).filter(|name| !name.is_empty()).map(Arc::from),
        devices: devices.into_iter().flatten().map(Device::read).collect(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_machine_its_template_and_its_cluster_are_read() {
        let meta = json!({"namespace": "n", "name": "m", "uid": "u", "resourceVersion": "7",
            "labels": {"cluster.x-k8s.io/cluster-name": "prod", "cluster.x-k8s.io/ip-pool-name": "p"},
            "annotations": {"cluster.x-k8s.io/cloned-from-name": "t", "cluster.x-k8s.io/dns-search-domains": "a, b",
                "cluster.x-k8s.io/ip-pool-namespace": "pools", "cluster.x-k8s.io/paused": ""}});
        let value = json!({"metadata": meta, "spec": {"network": {"devices": [{"networkName": "net"}, {"networkName": "x", "dhcp4": true}]}}});
        let read = machine(&value, "v1beta1").unwrap();
        assert_eq!((read.key.to_string().as_str(), &*read.version.0, read.api), ("n/m", "7", "v1beta1"));
        assert_eq!((read.cluster.as_deref(), read.template.as_deref()), (Some("prod"), Some("t")));
        assert_eq!((read.labels.pool.as_deref(), read.search.as_deref()), (Some("p"), Some("a, b")));
        assert!(read.held && !read.deleting);
        assert_eq!(read.devices.iter().map(|one| one.wants).collect::<Vec<_>>(), [true, false]);
        let read = template(&value).unwrap();
        assert_eq!((read.labels.pool.as_deref(), read.search.as_deref()), (Some("p"), Some("a, b")));
        let read = cluster(&value).unwrap();
        assert_eq!((read.paused, read.pool_namespace.as_deref()), (true, Some("pools")));
        let bare = json!({"metadata": {"namespace": "n", "name": "m", "uid": "u", "resourceVersion": "7"}, "spec": {"paused": true}});
        assert!(cluster(&bare).unwrap().paused && machine(&bare, "v1beta2").unwrap().devices.is_empty());
        assert!(machine(&json!({"metadata": {}}), "v1beta2").is_none());
    }
}
