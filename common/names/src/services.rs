//! Marks for Services of type `LoadBalancer`: on the Services, on their claims and addresses, on their pools.

/// On a Service. Before it has an address: the addresses it wants, comma separated. After: those it has, as kube-vip's users
/// expect. Source: kube-vip's `pkg/kubevip/annotations.go`, as the others of `kube-vip.io/`.
pub const ADDRESSES: &str = "kube-vip.io/loadbalancerIPs";
/// On a Service, written: the node that holds its (first) address.
pub const VIP_HOST: &str = "kube-vip.io/vipHost";
/// On a Service, `true`: leave it alone.
pub const IGNORE: &str = "kube-vip.io/ignore";
/// On a Service: the interface on which its address is put; written where the `ConfigMap` names one.
pub const INTERFACE: &str = "kube-vip.io/serviceInterface";
/// On a Service: kube-vip's name of its Lease. Services that share an address with kube-vip have the same.
pub const LEASE_NAME: &str = "kube-vip.io/leaseName";
/// The `loadBalancerClass` of the Services that kube-vip serves unless told otherwise.
pub const CLASS: &str = "kube-vip.io/kube-vip-class";

/// On a Service: the pool from which its address is to come: `NAME` or `KIND/NAME`, one for each family.
pub const POOL: &str = "mooring.dev/pool";
/// On a Service: those of the same key (in one namespace; `NAMESPACE/KEY` for all) share one address.
pub const SHARING_KEY: &str = "mooring.dev/sharing-key";
/// On a Service, any value: its pool has changed, and its address may. It is taken off when that is done.
pub const REALLOCATE: &str = "mooring.dev/reallocate";

/// On a Service, written: the `IPAddress` objects it has, `NAMESPACE/NAME=ADDRESS`, comma separated. Agents go by it.
pub const RECORD: &str = "mooring.dev/ip-addresses";
/// On a Service, written: which of its addresses somebody asked for.
pub const REQUESTED: &str = "mooring.dev/requested-addresses";
/// On a Service, written: the interface that the `ConfigMap` gave it.
pub const GIVEN_INTERFACE: &str = "mooring.dev/given-interface";

/// On a claim made for a Service, a label: `ipv4` or `ipv6`. The `IPAddress` gets the same: agents advertise it.
pub const SERVICE_FAMILY: &str = "mooring.dev/service-family";
/// On a claim made for Services: who they are, `NAMESPACE/NAME=UID`, comma separated.
pub const SERVICES: &str = "mooring.dev/services";

/// On a pool, `true`: Services that name no pool get an address out of it. One of a namespace (or that serves certain
/// namespaces) comes before one for all.
pub const SERVICE_DEFAULT: &str = "mooring.dev/service-default";
/// On a pool: only for Services of this `loadBalancerClass`, unless they name it.
pub const SERVICE_CLASS: &str = "mooring.dev/service-class";
/// On a pool made here, a label: the `ConfigMap` it was made from, `kubevip`.
pub const MADE_FROM: &str = "mooring.dev/made-from";
/// The value of that label.
pub const MADE_FROM_VALUE: &str = "kubevip";
/// On a pool made here, an annotation: which part of the `ConfigMap` it is.
pub const SOURCE: &str = "mooring.dev/source";

/// The label that kube-vip's cloud provider puts on a Service it has served. Written too: were one to go back to it, it would
/// know what is in use. Source: `pkg/provider/loadBalancer.go` of kube-vip-cloud-provider.
pub const IMPLEMENTATION: &str = "implementation";
/// Its value.
pub const IMPLEMENTATION_VALUE: &str = "kube-vip";
/// The finalizer that kube-vip's cloud provider leaves on Services. Nobody else would take it off.
/// Source: `LoadBalancerCleanupFinalizer` in `k8s.io/cloud-provider/service/helpers`.
pub const CLEANUP: &str = "service.kubernetes.io/load-balancer-cleanup";

/// The type of the condition on a Service.
pub const CONDITION: &str = "mooring.dev/AddressReady";
