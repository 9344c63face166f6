//! Labels.

crate::mark::marks! {
    /// The Cluster to which an object belongs. On claims the deprecated form of `spec.clusterName`; copied to the `IPAddress`.
    /// Source: `ClusterNameLabel` in Cluster API's `api/core/v1beta2`.
    Label CLUSTER_NAME = "cluster.x-k8s.io/cluster-name" {
        on: "IPAddressClaim, IPAddress", value: "the Cluster's name", "Cluster API, allocator" => "allocator"
    }

    /// Which controller looks after an object when several do: one started with a watch filter sees only objects whose label
    /// has its value.
    /// Source: `WatchLabel` in Cluster API's `api/core/v1beta2`.
    Label WATCH_FILTER = "cluster.x-k8s.io/watch-filter" {
        on: "IPAddressClaim", value: "that of the allocator's setting `watch-filter`", "people, allocator" => "allocator"
    }

    /// The component that an installed object belongs to.
    /// Source: `ProviderNameLabel` in Cluster API's `api/core/v1beta2`.
    Label PROVIDER = "cluster.x-k8s.io/provider" {
        on: "all that clusterctl installs", value: "`ipam-mooring`", "the manifests of a release" => "clusterctl"
    }

    /// `clusterctl` knows the CRD; `clusterctl move` looks at kinds with this label only.
    /// Source: `ClusterctlLabel` in Cluster API's `cmd/clusterctl/api/v1alpha3`.
    Label CLUSTERCTL = "clusterctl.cluster.x-k8s.io" {
        on: "CRDs", value: "empty", "the manifests" => "clusterctl"
    }

    /// `clusterctl move` takes it along with all that it owns.
    /// Source: `ClusterctlMoveHierarchyLabel` in Cluster API's `cmd/clusterctl/api/v1alpha3`.
    Label MOVE_HIERARCHY = "clusterctl.cluster.x-k8s.io/move-hierarchy" {
        on: "CRDs", value: "empty", "the manifests" => "clusterctl"
    }

    /// Which versions of the CRD follow the contract `v1beta1` of Cluster API.
    /// Source: Cluster API's book, "Provider contract", API version labels.
    Label CONTRACT_V1BETA1 = "cluster.x-k8s.io/v1beta1" {
        on: "CRDs", value: "versions, joined by `_`", "the manifests" => "Cluster API"
    }

    /// Which versions of the CRD follow the contract `v1beta2` of Cluster API.
    Label CONTRACT_V1BETA2 = "cluster.x-k8s.io/v1beta2" {
        on: "CRDs", value: "versions, joined by `_`", "the manifests" => "Cluster API"
    }

    /// Agents advertise the address, whoever it is for.
    Label ADVERTISE = "mooring.dev/advertise" {
        on: "IPAddress", value: "`true`", "people" => "allocator, agents"
    }

    /// The node is last in order among those that may hold an address.
    /// Source: `LabelNodeExcludeBalancers` in `k8s.io/api/core/v1`.
    Label EXCLUDE_NODE = "node.kubernetes.io/exclude-from-external-load-balancers" {
        on: "Node", value: "any", "people, kubeadm" => "agents"
    }

    /// The Service of an `EndpointSlice`.
    /// Source: `LabelServiceName` in `k8s.io/api/discovery/v1`.
    Label SERVICE_NAME = "kubernetes.io/service-name" {
        on: "EndpointSlice", value: "the Service's name", "Kubernetes" => "allocator, agents"
    }
}
