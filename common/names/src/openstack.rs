//! Names of Cluster API's provider for OpenStack, letter by letter, so that its pools of floating IPs can be taken over and handed
//! back. Source of all: `api/v1alpha1/openstackfloatingippool_types.go` of cluster-api-provider-openstack.

/// The group of pools of floating IPs.
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";

crate::mark::marks! {
    /// The floating IP must be given back before the address may go.
    Finalizer PROTECT_ADDRESS = "openstackfloatingippool.infrastructure.cluster.x-k8s.io/delete-floating-ip" {
        on: "IPAddress of an `OpenStackFloatingIPPool`", value: "", "allocator, the provider for OpenStack" => "allocator, the provider for OpenStack"
    }

    /// The pool stays as long as an address refers to it.
    Finalizer PROTECT_POOL = "openstackfloatingippool.infrastructure.cluster.x-k8s.io" {
        on: "OpenStackFloatingIPPool", value: "", "allocator, the provider for OpenStack" => "allocator, the provider for OpenStack"
    }
}
