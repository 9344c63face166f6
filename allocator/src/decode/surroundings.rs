//! The other kinds on which Services' addresses depend: nodes, endpoints, `ConfigMap`s.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use kube::config::Kubeconfig;
use mooring_allocator_core::names::Key;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::meta::Meta;
use super::names::Names;
use super::text::Text;

/// Metadata without labels and annotations.
type Plain<'a> = Meta<'a, IgnoredAny, IgnoredAny>;

/// A Node, as the API server sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeJson<'a> {
    #[serde(borrow)]
    pub metadata: Plain<'a>,
    #[serde(borrow)]
    status: NodeStatus<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus<'a> {
    #[serde(borrow)]
    addresses: Vec<NodeAddress<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeAddress<'a> {
    #[serde(borrow)]
    address: Text<'a>,
}

impl NodeJson<'_> {
    /// The node's addresses, without host names.
    #[must_use]
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        let ip = |one: &NodeAddress<'_>| one.address.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
        self.status.addresses.iter().filter_map(ip).collect()
    }
}

/// An `EndpointSlice`, as the API server sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SliceJson<'a> {
    #[serde(borrow)]
    pub metadata: Meta<'a, SliceLabels<'a>, IgnoredAny>,
    #[serde(borrow)]
    endpoints: Option<Vec<Endpoint<'a>>>,
}

/// The labels of an `EndpointSlice`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SliceLabels<'a> {
    #[serde(borrow, rename = "kubernetes.io/service-name")]
    service: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Endpoint<'a> {
    #[serde(borrow)]
    node_name: Option<Text<'a>>,
    conditions: Conditions,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
}

impl SliceJson<'_> {
    /// The slice's Service, and the nodes with ready endpoints in the slice. None: the slice has no Service.
    pub fn nodes(&self, names: &mut Names) -> Option<(Key, BTreeSet<Arc<str>>)> {
        let service = self.metadata.labels.as_ref()?.service.as_ref().filter(|name| !name.is_empty())?;
        let key = Key { namespace: names.text(&self.metadata.namespace), name: Arc::from(&**service) };
        // An endpoint without a ready condition counts as ready (discovery.k8s.io/v1).
        let ready = self.endpoints.iter().flatten().filter(|one| one.conditions.ready != Some(false));
        let nodes = ready.filter_map(|one| one.node_name.as_ref()).map(|name| names.text(name)).collect();
        Some((key, nodes))
    }
}

/// A `ConfigMap`, as the API server sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConfigMapJson<'a> {
    #[serde(borrow)]
    pub metadata: Plain<'a>,
    /// The data of the `ConfigMap`.
    pub data: Option<BTreeMap<String, String>>,
}

impl ConfigMapJson<'_> {
    /// The API server's address in `kube-public/cluster-info`: with kubeadm, the control-plane endpoint. None for a host
    /// name.
    #[must_use]
    pub fn server(&self) -> Option<IpAddr> {
        let text = self.data.as_ref()?.get("kubeconfig")?;
        let config = Kubeconfig::from_yaml(text).ok()?;
        let server = config.clusters.into_iter().find_map(|one| one.cluster?.server)?;
        host(&server)
    }
}

/// The address in a URL.
#[must_use]
pub fn host(url: &str) -> Option<IpAddr> {
    let uri: http::Uri = url.parse().ok()?;
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
    host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodes_addresses() {
        let text = r#"{"metadata":{"name":"n1"},"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.1"},
            {"type":"InternalIP","address":"fd00::1"},{"type":"Hostname","address":"n1"}]}}"#;
        let node: NodeJson<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(node.addresses().len(), 2);
    }

    #[test]
    fn where_endpoints_are_ready() {
        let text = r#"{"metadata":{"name":"web-x","namespace":"n","labels":{"kubernetes.io/service-name":"web"}},"endpoints":[
            {"addresses":["10.1.0.1"],"nodeName":"a","conditions":{"ready":true}},{"nodeName":"b","conditions":{"ready":false}},
            {"nodeName":"c","conditions":{}},{"conditions":{"ready":true}}]}"#;
        let slice: SliceJson<'_> = serde_json::from_str(text).unwrap();
        let (key, nodes) = slice.nodes(&mut Names::default()).unwrap();
        assert_eq!(key, Key::new("n", "web"));
        assert_eq!(nodes.iter().map(|node| &**node).collect::<Vec<_>>(), ["a", "c"]);
        let none: SliceJson<'_> =
            serde_json::from_str(r#"{"metadata":{"name":"x","namespace":"n"},"endpoints":null}"#).unwrap();
        assert!(none.nodes(&mut Names::default()).is_none());
    }

    #[test]
    fn the_control_planes_address() {
        let config =
            "apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster: {server: \"https://10.0.0.100:6443\"}\n";
        let map =
            ConfigMapJson { data: Some([("kubeconfig".into(), config.into())].into()), ..ConfigMapJson::default() };
        assert_eq!(map.server(), Some("10.0.0.100".parse().unwrap()));
        assert_eq!(host("https://[fd00::1]:6443"), Some("fd00::1".parse().unwrap()));
        assert_eq!((host("https://api.example.org:6443"), host("nonsense here")), (None, None));
        assert_eq!(ConfigMapJson::default().server(), None);
    }
}
