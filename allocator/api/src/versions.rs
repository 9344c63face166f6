//! The versions of each group that Mooring speaks. Each object knows in which one it was read. An API server that serves only an
//! older one is spoken to in that: `Api::all_with(client, &version)`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A version of a group.
pub trait Version: Copy + Default + Sized + 'static {
    /// All of them, oldest first.
    const ALL: &'static [Self];

    /// `v1beta2`, say.
    fn name(self) -> &'static str;

    /// The newest that an API server serves, by the names that discovery tells; `None` when it serves none that is known.
    fn newest<'a>(served: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let served: Vec<&str> = served.into_iter().collect();
        Self::ALL.iter().rev().copied().find(|one| served.contains(&one.name()))
    }
}

macro_rules! versions {
    ($type:ident: $($variant:ident = $name:literal),+) => {
        impl Version for $type {
            const ALL: &'static [Self] = &[$(Self::$variant),+];
            fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

/// The versions of claims and addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum IpamVersion {
    /// Without `spec.clusterName`.
    #[serde(rename = "ipam.cluster.x-k8s.io/v1alpha1")]
    V1alpha1,
    /// With two lists of conditions: `status.conditions` in the old style and `status.v1beta2.conditions` in the new.
    #[serde(rename = "ipam.cluster.x-k8s.io/v1beta1")]
    V1beta1,
    /// Cluster API 1.11 and later.
    #[default]
    #[serde(rename = "ipam.cluster.x-k8s.io/v1beta2")]
    V1beta2,
}

versions!(IpamVersion: V1alpha1 = "v1alpha1", V1beta1 = "v1beta1", V1beta2 = "v1beta2");

/// The versions of pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PoolVersion {
    /// The old form with `subnet`, `start` and `end`.
    #[serde(rename = "ipam.cluster.x-k8s.io/v1alpha1")]
    V1alpha1,
    /// What is stored.
    #[default]
    #[serde(rename = "ipam.cluster.x-k8s.io/v1alpha2")]
    V1alpha2,
}

versions!(PoolVersion: V1alpha1 = "v1alpha1", V1alpha2 = "v1alpha2");

/// The versions of pools of outside systems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OutsideVersion {
    /// The only one.
    #[default]
    #[serde(rename = "ipam.cluster.x-k8s.io/v1alpha1")]
    V1alpha1,
}

versions!(OutsideVersion: V1alpha1 = "v1alpha1");

/// The versions of Clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ClusterVersion {
    /// Cluster API up to 1.15.
    #[serde(rename = "cluster.x-k8s.io/v1beta1")]
    V1beta1,
    /// Cluster API 1.11 and later.
    #[default]
    #[serde(rename = "cluster.x-k8s.io/v1beta2")]
    V1beta2,
}

versions!(ClusterVersion: V1beta1 = "v1beta1", V1beta2 = "v1beta2");

#[cfg(test)]
mod tests {
    use super::{IpamVersion, Version};

    #[test]
    fn the_newest_served_is_taken() {
        assert_eq!(IpamVersion::newest(["v1beta1", "v1alpha1"]), Some(IpamVersion::V1beta1));
        assert_eq!(IpamVersion::newest(["v1beta3", "v1beta2", "v1alpha1"]), Some(IpamVersion::V1beta2));
        assert_eq!(IpamVersion::newest(["v2"]), None);
    }
}
