//! The table of settings.

use mooring_allocator_services::words::CLASS;
use mooring_common::settings::{Spec, noted};

/// The prefix of all environment variables.
pub const ENV_PREFIX: &str = "MOORING_ALLOCATOR_";

const API: &str = "Kubernetes API";
const SCOPE: &str = "Which claims";
const SERVICES: &str = "Services of type LoadBalancer";
const ENDPOINTS: &str = "Endpoints of Clusters";
const MACHINES: &str = "Addresses of machines";
const PROVIDERS: &str = "Outside systems";
const ELECTION: &str = "Leader election";
const OPERATE: &str = "Operations";

const fn spec(
    group: &'static str,
    name: &'static str,
    value: &'static str,
    default: &'static str,
    help: &'static str,
) -> Spec {
    Spec { prefix: ENV_PREFIX, name, group, value, default, default_note: "", empty_counts: false, help }
}

/// All settings, in the order of the documentation.
pub const SETTINGS: &[Spec] = &[
    noted(
        spec(
            API,
            "kubeconfig",
            "FILE",
            "",
            "The kubeconfig file. If it does not exist, the allocator waits for it; if it changes, it is read again",
        ),
        "the pod's service account",
    ),
    spec(API, "writes", "COUNT", "32", "Number of concurrent writes, 1 to 500"),
    spec(API, "writes-per-second", "COUNT", "0", "Limit of writes per second, up to 100000. 0: no limit"),
    spec(API, "call-deadline", "TIME", "10s", "Timeout for a write or a read of one object, 500ms to 5m"),
    spec(API, "list-deadline", "TIME", "60s", "Timeout for a page of a list, and for opening a watch, 1s to 10m"),
    noted(
        spec(
            SCOPE,
            "namespaces",
            "NAME,...",
            "",
            "Only serve claims and pools of these namespaces, and cluster-wide pools. Addresses that other allocators hand out still count as used",
        ),
        "all",
    ),
    noted(
        spec(
            SCOPE,
            "watch-filter",
            "VALUE",
            "",
            "Only serve claims whose label cluster.x-k8s.io/watch-filter has this value",
        ),
        "all",
    ),
    spec(
        SCOPE,
        "one-network",
        "ON|OFF",
        "off",
        "Whether the pools of all namespaces are one network unless they name another. off: pools of different namespaces may hand out the same addresses",
    ),
    spec(
        SCOPE,
        "metal3",
        "ON|OFF",
        "off",
        "Whether claims of metal3's IPPools (ipam.metal3.io) are served too. It needs further permissions: manifests/allocator/metal3. metal3's controller must not run",
    ),
    spec(
        SERVICES,
        "services",
        "ON|OFF",
        "on",
        "Whether Services of type LoadBalancer get addresses. off: they are not even looked at, and nothing but claims is served",
    ),
    spec(
        SERVICES,
        "services-configmap",
        "NAMESPACE/NAME",
        "kube-system/kubevip",
        "The ConfigMap with addresses for Services, in the format of kube-vip's cloud provider. The allocator needs permission to read it",
    ),
    noted(
        spec(
            SERVICES,
            "services-namespace",
            "NAME",
            "",
            "The namespace of claims that are shared by Services of several namespaces. It counts as one of --namespaces",
        ),
        "the pod's, or kube-system",
    ),
    spec(
        SERVICES,
        "lb-class-name",
        "NAME,...",
        CLASS,
        "Serve Services with one of these loadBalancerClasses. none stands for Services without a class",
    ),
    spec(
        SERVICES,
        "services-outside-pools",
        "ON|OFF",
        "off",
        "Whether a Service gets an address that it asks for and that no pool has, as with kube-vip's cloud provider. Whoever may write Services can then take any free address of the network",
    ),
    spec(
        SERVICES,
        "lb-class-only",
        "ON|OFF",
        "off",
        "Do not serve Services without a loadBalancerClass. No effect if lb-class-legacy-handling is off: then they are not served anyway",
    ),
    spec(
        SERVICES,
        "lb-class-legacy-handling",
        "ON|OFF",
        "on",
        "Also serve Services without a loadBalancerClass. off: only if lb-class-name contains none",
    ),
    spec(
        ENDPOINTS,
        "endpoints",
        "ON|OFF",
        "off",
        "Whether Clusters of Cluster API that ask for it get their control-plane endpoint. It needs further permissions: manifests/allocator/endpoints",
    ),
    spec(
        ENDPOINTS,
        "endpoint-kinds",
        "KIND.GROUP,...",
        "VSphereCluster.infrastructure.cluster.x-k8s.io",
        "The kinds of infrastructure clusters that get the endpoint: any that has spec.controlPlaneEndpoint.host. The allocator needs permission for each",
    ),
    spec(
        PROVIDERS,
        "openstack",
        "ON|OFF",
        "off",
        "Whether claims of OpenStackFloatingIPPools are served too. It needs further permissions: manifests/allocator/openstack",
    ),
    spec(
        PROVIDERS,
        "phpipam",
        "ON|OFF",
        "off",
        "Whether claims of PHPIPAMIPPools are served too. It needs their CRD and further permissions: manifests/allocator/phpipam",
    ),
    noted(
        spec(
            PROVIDERS,
            "secrets-namespace",
            "NAME",
            "",
            "The namespace of the Secrets that PHPIPAMIPPools name. The allocator needs permission to get them",
        ),
        "the pod's, or kube-system",
    ),
    spec(
        MACHINES,
        "machine-addresses",
        "ON|OFF",
        "off",
        "Whether VSphereMachines whose labels, or whose template's, name a pool get addresses for devices without DHCP. It needs further permissions: manifests/allocator/machine-addresses",
    ),
    spec(
        ELECTION,
        "leader-election",
        "ON|OFF",
        "on",
        "Whether several allocators elect a leader. Without an election no address is given twice either, but two allocators disturb each other",
    ),
    noted(spec(ELECTION, "lease-namespace", "NAME", "", "The namespace of the Lease"), "the pod's, or kube-system"),
    spec(ELECTION, "lease-name", "NAME", "mooring-allocator", "The Lease of the election"),
    spec(
        ELECTION,
        "lease-duration",
        "TIME",
        "15s",
        "Time after which a Lease that is not renewed expires. Whole seconds, 3s to 10m",
    ),
    spec(
        ELECTION,
        "renew-deadline",
        "TIME",
        "10s",
        "Time after which the leader gives up a renewal that keeps failing. Shorter than lease-duration",
    ),
    spec(
        ELECTION,
        "retry-period",
        "TIME",
        "2s",
        "Time between two renewals, at least 100ms. 1.2 times this must be shorter than renew-deadline",
    ),
    noted(
        spec(ELECTION, "identity", "NAME", "", "This allocator's name in the Lease; it must be unique"),
        "the host's name and a random part",
    ),
    spec(OPERATE, "events", "ON|OFF", "on", "Whether Kubernetes Events are written. Events never delay a claim"),
    spec(OPERATE, "metrics", "ADDRESS:PORT", ":2114", "The address of /metrics, /healthz and /readyz. off: not served"),
    spec(OPERATE, "log-level", "LEVEL", "info", "error, warn, info, debug or trace"),
    spec(OPERATE, "log-format", "FORMAT", "text", "text, or json: one object a line"),
];
