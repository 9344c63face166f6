//! Finalizers, letter by letter as Cluster API's in-cluster provider writes them, so that its objects can be taken over and
//! handed back. Source of all: `api/v1alpha2` and `pkg/ipamutil` of cluster-api-ipam-provider-in-cluster.

crate::mark::marks! {
    /// The claim's address must be given back before the claim may go.
    Finalizer RELEASE_ADDRESS = "ipam.cluster.x-k8s.io/ReleaseAddress" {
        on: "IPAddressClaim", value: "", "allocator, the policy `claim-finalizer`" => "allocator"
    }

    /// The address stays as long as its claim does, whoever deletes it.
    Finalizer PROTECT_ADDRESS = "ipam.cluster.x-k8s.io/ProtectAddress" {
        on: "IPAddress", value: "", "allocator" => "allocator"
    }

    /// The pool stays as long as an `IPAddress` refers to it.
    Finalizer PROTECT_POOL = "ipam.cluster.x-k8s.io/ProtectPool" {
        on: "pools", value: "", "allocator" => "allocator"
    }
}
