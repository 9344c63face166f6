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
        "The VIPs, one or several with commas: IPv4 or IPv6 addresses; DNS names, followed when the answer changes; or ipaddress:NAMESPACE/NAME, an IPAddress object, read when an API server answers and kept",
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
            "Prefix length: one number for the VIPs' family, or IPv4 and IPv6 with a comma, as in \"32,128\". Shorter ones only for a VIP that is not alone in its subnet",
        ),
        "32,128",
    ),
    noted(
        spec(
            VIP,
            "interface",
            "NAME",
            "",
            "The network interface that carries the VIPs. One that does not exist yet is waited for",
        ),
        "that of the default route",
    ),
    spec(VIP, "port", "PORT", "6443", "The port of the API server, on the VIP and on this host"),
    noted(
        spec(VIP, "node-name", "NAME", "", "This node's name, its identity in the Lease; lower-cased"),
        "the host's name",
    ),
    noted(
        spec(
            VIP,
            "control-plane",
            "ON|OFF",
            "",
            "Whether this node holds the control plane's VIPs, which address names, with the others that do",
        ),
        "on, if address is given",
    ),
    spec(
        SERVICES,
        "services",
        "ON|OFF",
        "off",
        "Whether this node holds VIPs of Services, and others out of IPAddress objects, with the others that do",
    ),
    noted(
        spec(
            SERVICES,
            "services-interface",
            "NAME|auto",
            "",
            "The interface for VIPs whose Service and IPAddress name none. auto: the one whose subnet has the address",
        ),
        "as interface",
    ),
    noted(
        spec(
            SERVICES,
            "services-placement",
            "session|global-lease|lease-per-service",
            "",
            "Who has which VIP of a Service. session: Mooring's own, spread over the nodes. The others are kube-vip's, to share VIPs with it while nodes are moved: whoever has the one Lease, or the Service's own. The same on all nodes",
        ),
        "session; where kube-vip's names switch services on, as they say",
    ),
    spec(
        SERVICES,
        "services-lease-name",
        "NAME",
        "plndr-svcs-lock",
        "With kube-vip's placements: the Lease that all Services share, also as NAMESPACE/NAME; else in namespace",
    ),
    spec(
        SERVICES,
        "service-updates",
        "ON|OFF",
        "on",
        "With kube-vip's placements: whether the status of a Service to which no mooring-allocator has given its addresses is written, with kube-vip.io/vipHost",
    ),
    spec(
        SERVICES,
        "lb-class-name",
        "CLASS",
        CLASS,
        "With kube-vip's placements: the spec.loadBalancerClass of Services that count although no mooring-allocator has given them their addresses",
    ),
    spec(
        SERVICES,
        "lb-class-only",
        "ON|OFF",
        "off",
        "With kube-vip's placements: whether of these only those with that class count, not those without any",
    ),
    spec(
        SERVICES,
        "lb-class-legacy-handling",
        "ON|OFF",
        "on",
        "With kube-vip's placements: whether of these those without a class count, as lb-class-only says; off: only if lb-class-name is empty",
    ),
    spec(
        SERVICES,
        "sessions-namespace",
        "NAME",
        "mooring-system",
        "The namespace of the nodes' sessions, one Lease for each node. The same on all nodes",
    ),
    spec(LEASE, "namespace", "NAME", "kube-system", "The namespace of the Lease"),
    spec(
        LEASE,
        "lease-name",
        "NAME",
        "plndr-cp-lock",
        "The Lease that decides who holds the VIPs, also as NAMESPACE/NAME. The default is kube-vip's, so that both can take part in one election",
    ),
    spec(
        LEASE,
        "lease-duration",
        "TIME",
        "15s",
        "For how long a renewal lasts. Whole seconds, at least 3s. The same on all nodes",
    ),
    spec(
        LEASE,
        "renew-deadline",
        "TIME",
        "10s",
        "When a renewal that keeps failing is given up. Shorter than lease-duration; with api-loss hold, 2.75s shorter at least is what counts",
    ),
    spec(
        LEASE,
        "retry-period",
        "TIME",
        "2s",
        "Between two renewals. 1.2 times this must be shorter than renew-deadline",
    ),
    spec(LEASE, "lease-annotations", "JSON", "{}", "Annotations to keep on the Lease, as a JSON object of strings"),
    spec(
        API,
        "kubeconfig",
        "FILE",
        "/etc/kubernetes/admin.conf",
        "The kubeconfig. Waited for if it does not exist, read again when it changes",
    ),
    spec(
        API,
        "credentials",
        "WHICH",
        "auto",
        "auto: the kubeconfig if it exists, else the pod's service account if it has one. Or kubeconfig, or in-cluster: only that one",
    ),
    noted(
        spec(API, "api-servers", "URL,...", "", "API servers to ask, in this order, as https://HOST:PORT or HOST:PORT"),
        "this host's own, then those the cluster names",
    ),
    spec(
        OUTAGE,
        "witness-interval",
        "TIME",
        "100ms",
        "How often candidates probe the holder on the segment. 0: off; a crash is then noticed after lease-duration",
    ),
    spec(OUTAGE, "witness-misses", "COUNT", "3", "Missed probes after which the holder is given up for dead, 2 to 20"),
    spec(
        OUTAGE,
        "api-loss",
        "WHAT",
        "hold",
        "What a holder does that cannot renew because the API is away. hold: serves on and yields to any other owner; release: gives the VIP up",
    ),
    spec(
        OUTAGE,
        "provisional",
        "ON|OFF",
        "on",
        "Whether a node may carry a VIP that nobody carries while the API cannot be asked; off with api-loss release",
    ),
    spec(
        OUTAGE,
        "provisional-delay",
        "TIME",
        "200ms",
        "How much later each next node's turn comes to do so, 10ms to 10s",
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
    noted(
        spec(HEALTH, "health-address", "URL", "", "What is asked, with the credentials of the kubeconfig"),
        "https://127.0.0.1:PORT/readyz",
    ),
    spec(HEALTH, "health-interval", "TIME", "1s", "Between two questions, 100ms to 1m"),
    spec(HEALTH, "health-timeout", "TIME", "2s", "For one answer, 50ms to 1m"),
    spec(HEALTH, "health-rise", "COUNT", "2", "Good answers in a row that make it healthy, 1 to 100"),
    spec(HEALTH, "health-fall", "COUNT", "2", "Bad or missing answers in a row that make it unhealthy, 1 to 100"),
    spec(HEALTH, "health-server-name", "NAME", "kubernetes", "The name that its certificate must carry"),
    spec(
        ANNOUNCE,
        "announce-refresh",
        "TIME",
        "30s",
        "How often a held VIP is announced again, 1s to 1h. 0: only when something changes",
    ),
    spec(
        ANNOUNCE,
        "arp-rate-limit",
        "FRAMES",
        "0",
        "Frames a second and interface at most, up to 1000. 0: no limit. Switches with dynamic ARP inspection shut a port down above 15",
    ),
    spec(
        ANNOUNCE,
        "conflict-probe",
        "ON|OFF",
        "on",
        "Whether an address is probed for a foreign owner before it is taken",
    ),
    Spec {
        empty_counts: true,
        ..spec(
            OPERATE,
            "metrics",
            "ADDRESS:PORT",
            ":2112",
            "Where /metrics, /livez and /readyz are served. Empty: nowhere",
        )
    },
    spec(
        OPERATE,
        "run-dir",
        "DIRECTORY",
        "/run/mooring",
        "The agent's own directory; another one for each network namespace",
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
            "Records what the core is told and answers, a line of JSON each, to be replayed. Empty: nothing is recorded",
        ),
        "nothing is recorded",
    ),
    spec(OPERATE, "log-level", "LEVEL", "info", "error, warn, info, debug or trace"),
    spec(OPERATE, "log-format", "FORMAT", "text", "text, or json: one object a line"),
];
