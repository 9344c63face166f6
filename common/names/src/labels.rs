//! Labels.

/// The Cluster to which an object belongs. On claims the deprecated form of `spec.clusterName`; copied to the `IPAddress`.
/// Source: `ClusterNameLabel` in Cluster API's `api/core/v1beta2`.
pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";

/// Which controller looks after an object when several do: one started with a watch filter sees only objects whose label has
/// its value. Source: `WatchLabel` in Cluster API's `api/core/v1beta2`.
pub const WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";

/// The component that an installed object belongs to, `ipam-NAME` for an IPAM provider. Written by packaging, not by us.
/// Source: `ProviderNameLabel` in Cluster API's `api/core/v1beta2`.
pub const PROVIDER: &str = "cluster.x-k8s.io/provider";

/// On a CRD: `clusterctl` knows it; `clusterctl move` looks at kinds with this label only. The value is empty.
/// Source: `ClusterctlLabel` in Cluster API's `cmd/clusterctl/api/v1alpha3`.
pub const CLUSTERCTL: &str = "clusterctl.cluster.x-k8s.io";

/// On a CRD or an object: `clusterctl move` takes it along with all that it owns. The value is empty.
/// Source: `ClusterctlMoveHierarchyLabel` in Cluster API's `cmd/clusterctl/api/v1alpha3`.
pub const MOVE_HIERARCHY: &str = "clusterctl.cluster.x-k8s.io/move-hierarchy";

/// On a CRD: which of its versions follow the contract `v1beta1` of Cluster API; several are joined by `_`.
/// Source: Cluster API's book, "Provider contract", API version labels.
pub const CONTRACT_V1BETA1: &str = "cluster.x-k8s.io/v1beta1";

/// The same as [`CONTRACT_V1BETA1`], for the contract `v1beta2`.
pub const CONTRACT_V1BETA2: &str = "cluster.x-k8s.io/v1beta2";

/// On an `IPAddress`, `true`: agents advertise it, whoever it is for.
pub const ADVERTISE: &str = "mooring.dev/advertise";
