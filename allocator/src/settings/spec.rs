//! The table of settings.

use mooring_allocator_services::words::CLASS;
use mooring_common::settings::{Spec, noted};

/// What the names of all environment variables begin with.
pub const ENV_PREFIX: &str = "MOORING_ALLOCATOR_";

const API: &str = "Kubernetes API";
const SCOPE: &str = "Which claims";
const SERVICES: &str = "Services of type LoadBalancer";
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

/// Every setting, in the order in which people read them.
pub const SETTINGS: &[Spec] = &[
    noted(
        spec(
            API,
            "kubeconfig",
            "FILE",
            "",
            "The kubeconfig. Waited for if it does not exist, read again when it changes",
        ),
        "the pod's service account",
    ),
    spec(API, "writes", "COUNT", "32", "Writes that may be under way at a time, 1 to 500"),
    spec(
        API,
        "writes-per-second",
        "COUNT",
        "0",
        "Writes a second at most, up to 100000. 0: as many as the API server takes",
    ),
    spec(API, "call-deadline", "TIME", "10s", "For the answer to a write or a read of one object, 500ms to 5m"),
    spec(API, "list-deadline", "TIME", "60s", "For a page of a list, and for a watch to be opened, 1s to 10m"),
    noted(
        spec(
            SCOPE,
            "namespaces",
            "NAME,...",
            "",
            "Only claims and pools of these namespaces, and pools without one. What others hand out is seen all the same, and is taken",
        ),
        "all",
    ),
    noted(
        spec(
            SCOPE,
            "watch-filter",
            "VALUE",
            "",
            "Only claims whose label cluster.x-k8s.io/watch-filter has this value",
        ),
        "all",
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
        "The ConfigMap with addresses for Services, as kube-vip's cloud provider reads it. The allocator must be allowed to read it",
    ),
    noted(
        spec(
            SERVICES,
            "services-namespace",
            "NAME",
            "",
            "The namespace of the claims that Services of several namespaces share. It counts as one of --namespaces",
        ),
        "the pod's, or kube-system",
    ),
    spec(
        SERVICES,
        "lb-class-name",
        "NAME,...",
        CLASS,
        "The loadBalancerClass of the Services that get addresses; of several classes any. none stands for no class",
    ),
    spec(
        SERVICES,
        "lb-class-only",
        "ON|OFF",
        "off",
        "Not those without a loadBalancerClass. Without lb-class-legacy-handling it says nothing: they are left out anyway",
    ),
    spec(
        SERVICES,
        "lb-class-legacy-handling",
        "ON|OFF",
        "on",
        "Those without a loadBalancerClass get addresses too. off: only if none is among lb-class-name",
    ),
    spec(
        ELECTION,
        "leader-election",
        "ON|OFF",
        "on",
        "Whether several allocators elect one that works. No address is given twice without it either; but two get in each other's way",
    ),
    noted(spec(ELECTION, "lease-namespace", "NAME", "", "The namespace of the Lease"), "the pod's, or kube-system"),
    spec(ELECTION, "lease-name", "NAME", "mooring-allocator", "The Lease that decides who leads"),
    spec(ELECTION, "lease-duration", "TIME", "15s", "For how long a renewal lasts. Whole seconds, 3s to 10m"),
    spec(
        ELECTION,
        "renew-deadline",
        "TIME",
        "10s",
        "When a renewal that keeps failing is given up. Shorter than lease-duration",
    ),
    spec(
        ELECTION,
        "retry-period",
        "TIME",
        "2s",
        "Between two renewals, 100ms or more. 1.2 times this must be shorter than renew-deadline",
    ),
    noted(
        spec(ELECTION, "identity", "NAME", "", "This allocator's name in the Lease; no two may have the same"),
        "the host's name and a random part",
    ),
    spec(OPERATE, "events", "ON|OFF", "on", "Whether Kubernetes Events are written. They never make a claim wait"),
    spec(OPERATE, "metrics", "ADDRESS:PORT", ":2114", "Where /metrics, /healthz and /readyz are served. off: nowhere"),
    spec(OPERATE, "log-level", "LEVEL", "info", "error, warn, info, debug or trace"),
    spec(OPERATE, "log-format", "FORMAT", "text", "text, or json: one object a line"),
];
