//! Marks for the addresses of `VSphereMachine`s: on the machines, their templates and Clusters, on pools, and on claims. Those of
//! `cluster.x-k8s.io` are the static-IP adapter's (Spectro Cloud's `cluster-api-provider-vsphere-static-ip`, `pkg/ipam/ipam.go`).

crate::mark::marks! {
    /// The pool of the machine's addresses, by name.
    Label POOL_NAME = "cluster.x-k8s.io/ip-pool-name" {
        on: "VSphereMachine, VSphereMachineTemplate", value: "the pool's name", "people" => "allocator"
    }

    /// The pools of the machine's addresses: those with the same value.
    Label POOL_GROUP = "cluster.x-k8s.io/ip-pool-group" {
        on: "VSphereMachine, VSphereMachineTemplate, pools", value: "any", "people" => "allocator"
    }

    /// The network of a machine's devices, and of a pool. Pools that a machine's label names have the same value; without that
    /// label a pool comes first whose value is the device's `networkName`.
    Label NETWORK_NAME = "cluster.x-k8s.io/network-name" {
        on: "VSphereMachine, VSphereMachineTemplate, pools", value: "any", "people" => "allocator"
    }

    /// The namespace whose `InClusterIPPool`s the Cluster's machines use. Another namespace than the Cluster's leaves cluster-wide
    /// pools only.
    Annotation POOL_NAMESPACE = "cluster.x-k8s.io/ip-pool-namespace" {
        on: "Cluster", value: "a namespace", "people" => "allocator"
    }

    /// The search domains of the machine's devices.
    Annotation MACHINE_SEARCH_DOMAINS = "cluster.x-k8s.io/dns-search-domains" {
        on: "VSphereMachine, VSphereMachineTemplate", value: "domains, comma separated", "people" => "allocator"
    }

    /// The template from which the machine was made.
    /// Source: `TemplateClonedFromNameAnnotation` in Cluster API's `api/core/v1beta2`.
    Annotation CLONED_FROM = "cluster.x-k8s.io/cloned-from-name" {
        on: "VSphereMachine", value: "the template's name", "Cluster API" => "allocator"
    }

    /// The name servers of machines that have an address of the pool.
    Annotation NAMESERVERS = "mooring.dev/nameservers" {
        on: "pools", value: "addresses, comma separated", "people" => "allocator"
    }

    /// The search domains of machines that have an address of the pool, and no annotation of their own.
    Annotation SEARCH_DOMAINS = "mooring.dev/search-domains" {
        on: "pools", value: "domains, comma separated", "people" => "allocator"
    }

    /// The device that the address is for.
    Label DEVICE = "mooring.dev/machine-device" {
        on: "claims of machines", value: "its place in `spec.network.devices`, from 0", "allocator" => "people"
    }

    /// The machine is not gone yet.
    Finalizer IN_USE = "mooring.dev/machine-in-use" {
        on: "claims of machines", value: "", "allocator" => "allocator"
    }
}

/// The group of `VSphereMachine`s and their templates.
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// The kind of machines.
pub const KIND: &str = "VSphereMachine";
