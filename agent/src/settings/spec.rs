//! The table of Mooring's own settings.

pub use mooring_common::settings::Spec;
use mooring_common::settings::noted;
use mooring_names::services::CLASS;

/// What the names of all our environment variables begin with.
pub const ENV_PREFIX: &str = "MOORING_";

/// The setting of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Spec> {
    SETTINGS.iter().find(|spec| spec.name == name)
}

const VIP: &str = "VIP";
const SERVICES: &str = "Services";
const LEASE: &str = "Lease";
const API: &str = "Kubernetes API";
const OUTAGE: &str = "Crashes and outages";
const HEALTH: &str = "Health of the local API server";
const ANNOUNCE: &str = "Announcing";
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
    spec(
        VIP,
        "address",
        "ADDRESS,...",
        "",
        "The VIPs, separated by commas. Each is an IPv4 or IPv6 address; a DNS name, whose answer is followed when it changes; or ipaddress:NAMESPACE/NAME, an IPAddress object, read when an API server answers and kept",
    ),
    spec(
        VIP,
        "dns-mode",
        "MODE",
        "first",
        "Which answers of a DNS name become VIPs: first, ipv4, ipv6, or dual (the first of each family)",
    ),
    noted(
        spec(
            VIP,
            "prefix",
            "BITS",
            "",
            "Prefix length: one number for the VIPs' family, or IPv4 and IPv6 with a comma, as in \"32,128\". A shorter prefix is only for a VIP that is not the only address of its subnet on the interface",
        ),
        "32,128",
    ),
    noted(
        spec(
            VIP,
            "interface",
            "NAME",
            "",
            "The network interface that carries the VIPs. The agent waits for one that does not exist yet",
        ),
        "that of the default route",
    ),
    spec(VIP, "port", "PORT", "6443", "The port of the API server, on the VIP and on this host"),
    noted(
        spec(VIP, "node-name", "NAME", "", "This node's name, which is its identity in the Lease; in lower case"),
        "the host's name",
    ),
    noted(
        spec(
            VIP,
            "control-plane",
            "ON|OFF",
            "",
            "Whether this node takes part in holding the control plane's VIPs, which address names",
        ),
        "on, if address is given",
    ),
    spec(
        SERVICES,
        "services",
        "ON|OFF",
        "off",
        "Whether this node takes part in holding VIPs of Services, and other VIPs that come from IPAddress objects",
    ),
    noted(
        spec(
            SERVICES,
            "services-interface",
            "NAME|auto",
            "",
            "The interface for VIPs whose Service and IPAddress name none. auto: the interface whose subnet has the address",
        ),
        "as interface",
    ),
    noted(
        spec(
            SERVICES,
            "services-placement",
            "session|global-lease|lease-per-service",
            "",
            "Which node has which VIP of a Service. session: Mooring's own placement, spread over the nodes. global-lease and lease-per-service are kube-vip's, to share VIPs with kube-vip while nodes are moved: the node that holds the one Lease, or the Service's own Lease. The same on all nodes",
        ),
        "session; if kube-vip's names switch services on, kube-vip's placement",
    ),
    spec(
        SERVICES,
        "services-lease-name",
        "NAME",
        "plndr-svcs-lock",
        "With kube-vip's placements: the Lease that all Services share, as NAME (in the namespace of --namespace) or NAMESPACE/NAME",
    ),
    spec(
        SERVICES,
        "service-updates",
        "ON|OFF",
        "on",
        "With kube-vip's placements: whether the agent writes status and kube-vip.io/vipHost of Services to which no mooring-allocator has given an address",
    ),
    spec(
        SERVICES,
        "lb-class-name",
        "CLASS",
        CLASS,
        "With kube-vip's placements: the spec.loadBalancerClass of the Services that are served although no mooring-allocator has given them an address. none: no class",
    ),
    spec(
        SERVICES,
        "lb-class-only",
        "ON|OFF",
        "off",
        "With kube-vip's placements, of these Services: whether those without a class are left out",
    ),
    spec(
        SERVICES,
        "lb-class-legacy-handling",
        "ON|OFF",
        "on",
        "With kube-vip's placements, of these Services: on: those without a class are served, unless lb-class-only is on. off: they are served only if lb-class-name is none",
    ),
    spec(
        SERVICES,
        "sessions-namespace",
        "NAME",
        "mooring-system",
        "The namespace of the nodes' sessions: a Lease and a ConfigMap for each node. The same on all nodes",
    ),
    spec(LEASE, "namespace", "NAME", "kube-system", "The namespace of the Lease"),
    spec(
        LEASE,
        "lease-name",
        "NAME",
        "plndr-cp-lock",
        "The Lease that decides which node holds the VIPs, as NAME or NAMESPACE/NAME. The default is kube-vip's, so that both programs can take part in one election",
    ),
    spec(
        LEASE,
        "lease-duration",
        "TIME",
        "15s",
        "How long a renewal lasts. Whole seconds, at least 3s. The same on all nodes",
    ),
    spec(
        LEASE,
        "renew-deadline",
        "TIME",
        "10s",
        "How long a failing renewal is tried. Shorter than lease-duration; with api-loss hold, capped at lease-duration minus 2.75s",
    ),
    spec(
        LEASE,
        "retry-period",
        "TIME",
        "2s",
        "The time between two renewals. 1.2 times this must be shorter than renew-deadline, and this at most two thirds of lease-duration less 1s",
    ),
    spec(
        LEASE,
        "lease-annotations",
        "JSON",
        "{}",
        "Annotations that the agent keeps on the Lease, as a JSON object of strings",
    ),
    spec(
        API,
        "kubeconfig",
        "FILE",
        "/etc/kubernetes/admin.conf",
        "The kubeconfig. The agent waits for it if it does not exist, and reads it again when it changes",
    ),
    spec(
        API,
        "credentials",
        "WHICH",
        "auto",
        "auto: the kubeconfig if it exists, otherwise the pod's service account if it has one. kubeconfig, in-cluster: only that one",
    ),
    noted(
        spec(
            API,
            "api-servers",
            "URL,...",
            "",
            "The API servers that the agent asks, in this order, as https://HOST:PORT or HOST:PORT",
        ),
        "this host's own, then those the cluster names",
    ),
    spec(
        OUTAGE,
        "witness-interval",
        "TIME",
        "100ms",
        "How often candidates probe the holder on the segment. 0: off; a crash is then noticed after lease-duration",
    ),
    spec(
        OUTAGE,
        "witness-misses",
        "COUNT",
        "3",
        "Missed probes after which a candidate considers the holder gone, 2 to 20",
    ),
    spec(
        OUTAGE,
        "api-loss",
        "WHAT",
        "hold",
        "What a holder does when it cannot renew because the API is away. hold: it goes on serving while it hears enough other nodes, and yields to any other owner; hold-alone: the same, whether or not it hears them; release: it removes the VIP",
    ),
    spec(
        OUTAGE,
        "provisional",
        "ON|OFF",
        "on",
        "Whether a node may carry a VIP that no node carries while the API does not answer; off with api-loss release",
    ),
    spec(
        OUTAGE,
        "provisional-delay",
        "TIME",
        "200ms",
        "How much later each next node's turn to carry such a VIP comes, 10ms to 10s",
    ),
    spec(
        OUTAGE,
        "handover-grace",
        "TIME",
        "5s",
        "How long a node that hands its VIP over waits for its successor, at most 1m",
    ),
    spec(
        OUTAGE,
        "link-down-delay",
        "TIME",
        "0ms",
        "How long the link must be down before the VIP is handed over, at most 10m",
    ),
    spec(
        HEALTH,
        "health-address",
        "auto|off|URL",
        "auto",
        "What the agent asks, with the credentials of the kubeconfig. auto: /readyz of this node's API server, at the address that default/kubernetes lists; 127.0.0.1 while it lists none. A node without an API server is not judged by one. off: health does not decide which node has the VIP",
    ),
    spec(HEALTH, "health-interval", "TIME", "1s", "The time between two requests, 100ms to 1m"),
    spec(HEALTH, "health-timeout", "TIME", "2s", "How long the agent waits for an answer, 50ms to 1m"),
    spec(
        HEALTH,
        "health-rise",
        "COUNT",
        "2",
        "Good answers in a row after which the API server counts as healthy, 1 to 100",
    ),
    spec(
        HEALTH,
        "health-fall",
        "COUNT",
        "2",
        "Bad or missing answers in a row after which the API server counts as unhealthy, 1 to 100",
    ),
    spec(HEALTH, "health-server-name", "NAME", "kubernetes", "The name that the API server's certificate must have"),
    spec(
        ANNOUNCE,
        "announce-refresh",
        "TIME",
        "30s",
        "How often a holder announces its VIP again, 1s to 1h. 0: only when something changes",
    ),
    spec(
        ANNOUNCE,
        "arp-rate-limit",
        "FRAMES",
        "0",
        "Most frames a second on an interface, announcements and probes, up to 1000. 0: no limit. Switches with dynamic ARP inspection shut a port down above 15",
    ),
    spec(
        ANNOUNCE,
        "conflict-probe",
        "ON|OFF",
        "on",
        "Whether a node probes for a foreign owner before it takes an address",
    ),
    Spec {
        empty_counts: true,
        ..spec(
            OPERATE,
            "metrics",
            "ADDRESS:PORT",
            ":2112",
            "Where the agent serves /metrics, /livez and /readyz. off, or empty: nowhere",
        )
    },
    spec(
        OPERATE,
        "run-dir",
        "DIRECTORY",
        "/run/mooring",
        "The agent's own directory; a different one for each network namespace",
    ),
    noted(
        spec(OPERATE, "status-socket", "FILE", "", "The socket that `mooring-agent status` reads"),
        "RUN-DIR/agent.sock",
    ),
    noted(
        spec(
            OPERATE,
            "record",
            "FILE",
            "",
            "A file for the input and output of the agent's core, one line of JSON each, which can be replayed. Empty: nothing is recorded",
        ),
        "nothing is recorded",
    ),
    spec(OPERATE, "log-level", "LEVEL", "info", "error, warn, info, debug or trace"),
    spec(OPERATE, "log-format", "FORMAT", "text", "text, or json: one object a line"),
];
