//! `Cluster`, as far as it says whether to wait.

use k8s_openapi::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

use crate::annotations;
use crate::kind::kind;
use crate::versions::ClusterVersion;

/// The group of Clusters.
pub const GROUP: &str = "cluster.x-k8s.io";

/// The part of a Cluster's spec that Mooring reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterSpec {
    /// Whether controllers are to leave it, and all that belongs to it, alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

kind! {
    /// A cluster of Cluster API, for reading only: all but `spec.paused` and the metadata is left out.
    Cluster = "Cluster", "clusters", self::GROUP, ClusterVersion, NamespaceResourceScope, spec: ClusterSpec
}

impl Cluster {
    /// Whether it is paused, by its spec or by annotation. Source: `IsPaused` in Cluster API's `util/annotations`.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        let annotated = |all: &std::collections::BTreeMap<String, String>| all.contains_key(annotations::PAUSED);
        self.spec.paused == Some(true) || self.metadata.annotations.as_ref().is_some_and(annotated)
    }
}
