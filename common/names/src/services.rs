//! Marks for Services of type `LoadBalancer`: on the Services, on their claims and addresses, on their pools. Source of those of
//! `kube-vip.io/`: kube-vip's `pkg/kubevip/annotations.go`.

/// The `loadBalancerClass` of the Services that kube-vip serves unless told otherwise.
pub const CLASS: &str = "kube-vip.io/kube-vip-class";

/// The value of [`MADE_FROM`].
pub const MADE_FROM_VALUE: &str = "kubevip";

/// The value of [`IMPLEMENTATION`].
pub const IMPLEMENTATION_VALUE: &str = "kube-vip";

crate::mark::marks! {
    /// Before the Service has an address: the addresses it wants. After: those it has, as kube-vip's users expect.
    Annotation ADDRESSES = "kube-vip.io/loadbalancerIPs" {
        on: "Service", value: "addresses, comma separated", "people, allocator" => "allocator; agents with kube-vip's placements"
    }

    /// The node that holds the Service's (first) address.
    Annotation VIP_HOST = "kube-vip.io/vipHost" {
        on: "Service", value: "a node's name", "allocator; agents with kube-vip's placements" => "people, kube-vip, agents"
    }

    /// Which addresses of the Service's status come from what it asks for, and were carried: agents take them out when the
    /// Service asks for others. An address that another controller wrote is not among them.
    Annotation TOLD = "mooring.dev/status-addresses" {
        on: "Service without an allocator of Mooring", value: "addresses, comma separated", "agents with kube-vip's placements" => "agents with kube-vip's placements"
    }

    /// Leave the Service alone.
    Annotation IGNORE = "kube-vip.io/ignore" {
        on: "Service", value: "`true`", "people" => "allocator; agents with kube-vip's placements"
    }

    /// The interface on which the Service's address is put. The allocator writes it where kube-vip's `ConfigMap` names one.
    Annotation INTERFACE = "kube-vip.io/serviceInterface" {
        on: "Service", value: "an interface's name", "people, allocator" => "allocator; agents with kube-vip's placements"
    }

    /// kube-vip's name of the Service's Lease. Services that share an address with kube-vip have the same.
    Annotation LEASE_NAME = "kube-vip.io/leaseName" {
        on: "Service", value: "a name", "people" => "allocator; agents with kube-vip's placements"
    }

    /// The pool from which the Service's address is to come.
    Annotation POOL = "mooring.dev/pool" {
        on: "Service", value: "`NAME` or `KIND/NAME`, one for each family", "people" => "allocator"
    }

    /// Services of the same key share one address.
    Annotation SHARING_KEY = "mooring.dev/sharing-key" {
        on: "Service", value: "`KEY` (in one namespace), or `NAMESPACE/KEY` (for all)", "people" => "allocator"
    }

    /// The namespaces whose Services may use the same sharing key. It counts on Services of the namespace that the key names.
    Annotation SHARING_NAMESPACES = "mooring.dev/sharing-namespaces" {
        on: "Service", value: "namespaces, comma separated, or `*`", "people" => "allocator"
    }

    /// Another controller serves the Service: neither agents nor the allocator do anything for it. The allocator takes the mark off once
    /// the status has shown no address for a minute; people may take it off too.
    Annotation LEFT = "mooring.dev/served-by-another" {
        on: "Service", value: "`true`", "allocator" => "allocator, agents"
    }

    /// The Service's pool has changed, and its address may. The allocator takes it off when that is done.
    Annotation REALLOCATE = "mooring.dev/reallocate" {
        on: "Service", value: "any", "people" => "allocator"
    }

    /// The `IPAddress` objects that the Service has. Agents go by it.
    Annotation RECORD = "mooring.dev/ip-addresses" {
        on: "Service", value: "`NAMESPACE/NAME=ADDRESS`, comma separated", "allocator" => "allocator, agents"
    }

    /// The `IPAddress` objects that the Service moves to, and those that it leaves while its status still shows them. Agents
    /// advertise them too: a Service has its next address before it loses the old one.
    Annotation MOVING = "mooring.dev/moving-ip-addresses" {
        on: "Service that gets another address", value: "`NAMESPACE/NAME=ADDRESS`, comma separated", "allocator" => "allocator, agents"
    }

    /// Which of the Service's addresses somebody asked for.
    Annotation REQUESTED = "mooring.dev/requested-addresses" {
        on: "Service", value: "addresses", "allocator" => "allocator"
    }

    /// The interface that the `ConfigMap` gave the Service.
    Annotation GIVEN_INTERFACE = "mooring.dev/given-interface" {
        on: "Service", value: "an interface's name", "allocator" => "allocator"
    }

    /// The family of an address for a Service. The `IPAddress` gets the label of its claim: agents advertise it.
    Label SERVICE_FAMILY = "mooring.dev/service-family" {
        on: "IPAddressClaim, IPAddress", value: "`ipv4` or `ipv6`", "allocator" => "allocator, agents"
    }

    /// The Services that a claim was made for.
    Annotation SERVICES = "mooring.dev/services" {
        on: "IPAddressClaim", value: "`NAMESPACE/NAME=UID`, comma separated", "allocator" => "allocator"
    }

    /// The `loadBalancerClass` that each of these Services had when an allocator gave it the claim. One that gets another class is let go by
    /// the allocator of the class it had, unless the allocator of its new class has written that one here.
    Annotation GIVEN_CLASSES = "mooring.dev/given-for-classes" {
        on: "IPAddressClaim", value: "`NAMESPACE/NAME=CLASS`, comma separated; without a class `NAMESPACE/NAME=`", "allocator" => "allocator"
    }

    /// Services that name no pool get an address out of this one. A pool of a namespace (or that serves certain namespaces)
    /// comes before one for all.
    Annotation SERVICE_DEFAULT = "mooring.dev/service-default" {
        on: "pools", value: "`true`", "people" => "allocator"
    }

    /// The pool is only for Services of this `loadBalancerClass`, unless they name it.
    Annotation SERVICE_CLASS = "mooring.dev/service-class" {
        on: "pools", value: "a class", "people" => "allocator"
    }

    /// The `ConfigMap` that the pool was made from.
    Label MADE_FROM = "mooring.dev/made-from" {
        on: "pools that the allocator made", value: "`kubevip`", "allocator" => "allocator"
    }

    /// Which part of the `ConfigMap` the pool is.
    Annotation SOURCE = "mooring.dev/source" {
        on: "pools that the allocator made", value: "`SCOPE FAMILY`: `global IPv4`, `namespace/NAME IPv6`", "allocator" => "allocator"
    }

    /// kube-vip's cloud provider puts it on a Service that it has served. The allocator writes it too: were one to go back, the
    /// provider would know what is in use.
    /// Source: `pkg/provider/loadBalancer.go` of kube-vip-cloud-provider.
    Label IMPLEMENTATION = "implementation" {
        on: "Service", value: "`kube-vip`", "kube-vip's cloud provider, allocator" => "allocator"
    }

    /// kube-vip's cloud provider leaves it on Services. The allocator takes it off: nobody else would.
    /// Source: `LoadBalancerCleanupFinalizer` in `k8s.io/cloud-provider/service/helpers`.
    Finalizer CLEANUP = "service.kubernetes.io/load-balancer-cleanup" {
        on: "Service", value: "", "kube-vip's cloud provider" => "allocator"
    }

    /// Whether the Service has its addresses, and if not, why.
    Condition CONDITION = "mooring.dev/AddressReady" {
        on: "Service", value: "`True`, `False`, with reason and message", "allocator" => "people, allocator; agents with kube-vip's placements"
    }
}

/// The reasons of [`CONDITION`] that end by themselves, mostly within moments: the allocator has not decided yet.
pub const PASSING: [&str; 2] = ["Allocating", "WaitingForNode"];

/// The reasons of [`CONDITION`] by which the allocator refuses the address that a Service asks for: no agent carries it for that
/// Service, even if the status shows it.
pub const REFUSING: [&str; 7] = [
    "AddressNotInPool",
    "AddressTaken",
    "AddressOfNode",
    "AddressOfControlPlane",
    "PortConflict",
    "NoCommonNode",
    "SharingNotAllowed",
];
