//! Clusters and namespaces, as far as they say something to us.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::meta::Meta;
use super::text::Text;

/// A Cluster as it comes.
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
    /// Whether it is paused, by its spec or by annotation.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.spec.paused == Some(true) || self.metadata.annotations.as_ref().is_some_and(|a| a.paused.is_some())
    }
}

/// A namespace as it comes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceJson<'a> {
    #[serde(borrow)]
    pub metadata: NamespaceMeta<'a>,
}

/// Its name and labels.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceMeta<'a> {
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow)]
    pub resource_version: Text<'a>,
    pub labels: BTreeMap<String, String>,
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
