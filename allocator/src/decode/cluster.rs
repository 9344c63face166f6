//! Clusters and namespaces: the few fields that claims and pools depend on.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::meta::{Meta, Texts};

/// A Cluster, as the API server sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClusterJson<'a> {
    #[serde(borrow)]
    pub metadata: Meta<'a>,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    paused: Option<bool>,
}

impl ClusterJson<'_> {
    /// Whether the Cluster is paused, by its spec or by annotation.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.spec.paused == Some(true) || self.metadata.annotations.as_ref().is_some_and(|a| a.paused.is_some())
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
    use super::ClusterJson;

    #[test]
    fn paused_by_spec_or_annotation() {
        for (text, paused) in [
            (r#"{"spec":{}}"#, false),
            (r#"{"spec":{"paused":true}}"#, true),
            (r#"{"spec":{"paused":false},"metadata":{"annotations":{"cluster.x-k8s.io/paused":""}}}"#, true),
            (r#"{"metadata":{"annotations":{"other":"x"}}}"#, false),
        ] {
            assert_eq!(serde_json::from_str::<ClusterJson<'_>>(text).unwrap().is_paused(), paused, "{text}");
        }
    }
}
