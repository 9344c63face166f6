//! Clusters and namespaces: the few fields that claims and pools depend on.

use mooring_allocator_core::clusters::Pause;
use mooring_allocator_endpoints::notes::is_marked;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::meta::{Meta, Texts};
use super::text::Text;

/// A Cluster, as the API server sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClusterJson<'a> {
    #[serde(borrow)]
    pub metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    paused: Option<bool>,
    #[serde(borrow)]
    control_plane_endpoint: Option<Endpoint<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Endpoint<'a> {
    #[serde(borrow)]
    host: Option<Text<'a>>,
}

impl ClusterJson<'_> {
    /// Whether the Cluster is paused, by its spec or by annotation; and whether it has its endpoint then.
    #[must_use]
    pub fn pause(&self) -> Pause {
        let annotations = self.metadata.annotations.as_ref();
        let held = annotations.is_some_and(|a| a.paused.is_some());
        if self.spec.paused != Some(true) && !held {
            return Pause::None;
        }
        let for_endpoint = annotations.and_then(|a| a.paused_for_endpoint.as_deref()).is_some_and(is_marked);
        let endpoint = self.spec.control_plane_endpoint.as_ref();
        let has_host = endpoint.and_then(|one| one.host.as_deref()).is_some_and(|host| !host.is_empty());
        if has_host && (held || !for_endpoint) { Pause::WithEndpoint } else { Pause::BeforeEndpoint }
    }
}

/// A namespace, as the API server sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceJson<'a> {
    #[serde(borrow)]
    pub metadata: Meta<'a, Texts, IgnoredAny>,
}

#[cfg(test)]
mod tests {
    use super::{ClusterJson, Pause};

    #[test]
    fn paused_by_spec_or_annotation_with_its_endpoint_or_without() {
        let host = r#""controlPlaneEndpoint":{"host":"10.0.0.1","port":6443}"#;
        let ours =
            |value: &str| format!(r#""metadata":{{"annotations":{{"mooring.dev/paused-for-endpoint":"{value}"}}}}"#);
        for (text, pause) in [
            (r#"{"spec":{}}"#.to_owned(), Pause::None),
            (r#"{"metadata":{"annotations":{"other":"x"}}}"#.to_owned(), Pause::None),
            (format!(r#"{{"spec":{{{host}}}}}"#), Pause::None),
            (
                r#"{"spec":{"paused":true,"controlPlaneEndpoint":{"host":"","port":0}}}"#.to_owned(),
                Pause::BeforeEndpoint,
            ),
            (
                r#"{"spec":{"paused":false},"metadata":{"annotations":{"cluster.x-k8s.io/paused":""}}}"#.to_owned(),
                Pause::BeforeEndpoint,
            ),
            (format!(r#"{{"spec":{{"paused":true,{host}}}}}"#), Pause::WithEndpoint),
            (format!(r#"{{"spec":{{"paused":true,{host}}},{}}}"#, ours("true")), Pause::BeforeEndpoint),
            (format!(r#"{{"spec":{{"paused":true,{host}}},{}}}"#, ours("false")), Pause::WithEndpoint),
        ] {
            assert_eq!(serde_json::from_str::<ClusterJson<'_>>(&text).unwrap().pause(), pause, "{text}");
        }
    }
}
