//! Finalizers, letter by letter as Cluster API's in-cluster provider writes them, so that its objects can be taken over and
//! handed back. Source of all: `api/v1alpha2` and `pkg/ipamutil` of cluster-api-ipam-provider-in-cluster.

/// On an `IPAddressClaim`: its address must be given back before it may go.
pub const RELEASE_ADDRESS: &str = "ipam.cluster.x-k8s.io/ReleaseAddress";

/// On an `IPAddress`: it stays as long as its claim does, whoever deletes it.
pub const PROTECT_ADDRESS: &str = "ipam.cluster.x-k8s.io/ProtectAddress";

/// On a pool: it stays as long as an `IPAddress` refers to it.
pub const PROTECT_POOL: &str = "ipam.cluster.x-k8s.io/ProtectPool";
