//! The table of kube-vip's settings, and what each becomes here.
//!
//! A manifest of kube-vip's works when only its image is changed, or the agent refuses to start and names the setting
//! in the way. No setting that would matter is ignored silently.

use super::types::LogLevel;

/// A setting of kube-vip.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its environment variable; empty: it has none.
    pub env: &'static str,
    /// Its flag without dashes; empty: it has none, or it is spelled like ours.
    pub flag: &'static str,
    /// Whether the flag may stand without a value.
    pub boolean: bool,
    /// Whether an empty environment variable has a meaning; otherwise it counts as unset.
    pub empty_counts: bool,
    /// What reads it in kube-vip. Where that is off, the setting is not refused.
    pub part: Part,
    /// Its counterpart in Mooring.
    pub meaning: Meaning,
}

/// What kube-vip does on a node, and with which setting of ours that is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Whatever it does.
    Any,
    /// The control plane's VIPs.
    ControlPlane,
    /// VIPs of Services.
    Services,
}

/// The counterpart of a kube-vip setting.
#[derive(Clone, Copy, Debug)]
pub enum Meaning {
    /// Our setting of this name; the value has the same form.
    Same(&'static str),
    /// Our setting of this name; kube-vip's value is in whole seconds.
    Seconds(&'static str),
    /// Our setting of this name; kube-vip's value is a number of Go's `slog`.
    SlogLevel(&'static str),
    /// Our setting of this name; kube-vip's value is a boolean: the values for true and for false.
    Either(&'static str, [&'static str; 2]),
    /// These values are what Mooring does; any other is refused with this advice.
    Only(&'static [&'static str], &'static str),
    /// Without effect here. Unless it has one of these values, a warning says why that does no harm.
    NoEffect(&'static [&'static str], &'static str),
}

impl Entry {
    /// The name for people.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        if self.env.is_empty() { self.flag } else { self.env }
    }

    /// Our setting of the same meaning.
    #[must_use]
    pub const fn setting(&self) -> Option<&'static str> {
        match self.meaning {
            Meaning::Same(name) | Meaning::Seconds(name) | Meaning::SlogLevel(name) | Meaning::Either(name, _) => {
                Some(name)
            }
            Meaning::Only(..) | Meaning::NoEffect(..) => None,
        }
    }

    /// Whether its value may be or hold a password, which is not shown.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        ["bgp_peerpass", "bgp_peers"].contains(&self.env)
    }
}

/// kube-vip's values of a boolean are Go's.
#[must_use]
pub fn go_bool(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// The level that a number of Go's `slog` stands for.
#[must_use]
pub const fn slog_level(number: i32) -> LogLevel {
    match number {
        i32::MIN..=-8 => LogLevel::Trace,
        -7..=-1 => LogLevel::Debug,
        0..=3 => LogLevel::Info,
        4..=7 => LogLevel::Warn,
        _ => LogLevel::Error,
    }
}

use Meaning::{Either, NoEffect, Only, Same, Seconds, SlogLevel};

const fn entry(env: &'static str, flag: &'static str, meaning: Meaning) -> Entry {
    Entry { env, flag, boolean: false, empty_counts: false, part: Part::Any, meaning }
}

const fn of(part: Part, entry: Entry) -> Entry {
    Entry { part, ..entry }
}

const fn switch(env: &'static str, flag: &'static str, meaning: Meaning) -> Entry {
    Entry { boolean: true, ..entry(env, flag, meaning) }
}

const TRUE: &[&str] = &["true"];
const FALSE: &[&str] = &["false"];
const WATCHED: &str = "Mooring watches EndpointSlices, of Services with externalTrafficPolicy Local";
const BGP: &str = "it is about BGP, which Mooring does not speak";
const TABLE: &str = "it is about routing tables, which Mooring does not write";
const BALANCER: &str = "it is about kube-vip's load balancer, which Mooring does not have";
const DHCP: &str = "it is about DHCP, which Mooring does not speak";
const EGRESS: &str = "it is about egress for Services, which Mooring does not do";
const DEAD: &str = "kube-vip itself no longer reads it";
const BGP_HEALTH: &str = "kube-vip does not use it with ARP; see health-address";

/// Every setting of kube-vip. Where two mean the same setting of ours, the first one given wins.
pub const ENTRIES: &[Entry] = &[
    // What is announced how.
    switch(
        "vip_arp",
        "arp",
        Only(TRUE, "Mooring announces by ARP and NDP only: set it to true, or keep kube-vip for the other modes"),
    ),
    switch(
        "bgp_enable",
        "bgp",
        Only(FALSE, "Mooring does not speak BGP: remove it and set vip_arp=true, or keep kube-vip on these nodes"),
    ),
    switch(
        "vip_routingtable",
        "table",
        Only(
            FALSE,
            "Mooring does not write routing tables: remove it and set vip_arp=true, or keep kube-vip on these nodes",
        ),
    ),
    switch(
        "vip_wireguard",
        "wireguard",
        Only(FALSE, "Mooring has no WireGuard mode: remove it and set vip_arp=true, or keep kube-vip on these nodes"),
    ),
    switch("cp_enable", "controlplane", Same("control-plane")),
    switch("svc_enable", "", Same("services")),
    // The VIP.
    entry("address", "", Same("address")),
    entry("vip_address", "vip", Same("address")),
    entry("vip_subnet", "vipSubnet", Same("prefix")),
    entry(
        "vip_cidr",
        "",
        NoEffect(&["32", "128", "32,128"], "kube-vip itself no longer reads it; set vip_subnet or MOORING_PREFIX"),
    ),
    entry("vip_interface", "", Same("interface")),
    entry("port", "", Same("port")),
    entry("vip_nodename", "nodeName", Same("node-name")),
    entry("dns_mode", "dnsMode", Same("dns-mode")),
    of(
        Part::ControlPlane,
        switch(
            "vip_ddns",
            "ddns",
            Only(
                FALSE,
                "Mooring does not register names by DHCP: give the name an address of its own and set address to the name",
            ),
        ),
    ),
    entry("dhcp_mode", "dhcpMode", NoEffect(&["ipv4"], DHCP)),
    entry("dhcp_backoff_attempts", "dhcpBackoffAttempts", NoEffect(&["3"], DHCP)),
    switch(
        "vip_allow_interface_not_up",
        "allowInterfaceNotUp",
        NoEffect(FALSE, "Mooring always waits for an interface that is not up"),
    ),
    switch(
        "vip_interfaceloglobal",
        "loInterfaceGlobalScope",
        Only(FALSE, "Mooring holds no VIP on lo: set vip_interface to the interface of the segment"),
    ),
    switch(
        "vip_skipdad",
        "",
        NoEffect(&["true", "false"], "Mooring never waits for duplicate address detection; it probes by itself"),
    ),
    // The Lease.
    switch(
        "vip_leaderelection",
        "leaderElection",
        NoEffect(
            &["true", "false"],
            "with ARP kube-vip elects a leader whatever this setting says, and so does Mooring",
        ),
    ),
    entry(
        "",
        "leaderElectionType",
        Only(&["kubernetes"], "Mooring elects by a Kubernetes Lease: set it to kubernetes"),
    ),
    entry("", "etcdCACert", Only(&[""], "Mooring elects by a Kubernetes Lease, not in etcd: remove it")),
    entry("", "etcdCert", Only(&[""], "Mooring elects by a Kubernetes Lease, not in etcd: remove it")),
    entry("", "etcdKey", Only(&[""], "Mooring elects by a Kubernetes Lease, not in etcd: remove it")),
    entry("", "etcdEndpoints", Only(&[""], "Mooring elects by a Kubernetes Lease, not in etcd: remove it")),
    entry("cp_namespace", "", Same("namespace")),
    entry("vip_leasename", "leaseName", Same("lease-name")),
    entry("vip_leaseduration", "leaseDuration", Seconds("lease-duration")),
    entry("vip_renewdeadline", "leaseRenewDuration", Seconds("renew-deadline")),
    entry("vip_retryperiod", "leaseRetry", Seconds("retry-period")),
    entry("vip_leaseannotations", "", Same("lease-annotations")),
    switch(
        "vip_preserve_on_leadership_loss",
        "preserveVipOnLeadershipLoss",
        NoEffect(
            FALSE,
            "api-loss=hold, the default, keeps the VIP while the API is away, and yields to any other owner",
        ),
    ),
    switch("vip_loseleadership", "loseLeadership", NoEffect(FALSE, "Mooring always hands over when the link is down")),
    entry(
        "vip_loseleadership_timeout_seconds",
        "loseLeadershiptTimeoutSeconds",
        NoEffect(&["30"], "Mooring hands over at once when the link is down; link-down-delay makes it wait"),
    ),
    // The API.
    entry("k8s_config_file", "k8sConfigPath", Same("kubeconfig")),
    entry("kubernetes_addr", "", Same("api-servers")),
    switch("cp_detect", "autodetectcp", NoEffect(FALSE, "Mooring always asks this host's own API server first")),
    // Announcing.
    entry(
        "vip_arpRate",
        "",
        NoEffect(
            &["3000"],
            "Mooring announces at once and when something changes; announce-refresh sets the slow repetition",
        ),
    ),
    // Operations.
    entry("prometheus_server", "prometheusHTTPServer", Same("metrics")),
    entry("vip_loglevel", "log", SlogLevel("log-level")),
    entry(
        "health_check_port",
        "healthCheckPort",
        Only(
            &["0"],
            "Mooring serves /livez and /readyz at the address of metrics: remove it and point the pod's probes there",
        ),
    ),
    switch(
        "enable_node_labeling",
        "enableNodeLabeling",
        Only(FALSE, "Mooring does not label nodes: remove it; the Lease and `mooring-agent status` name the holder"),
    ),
    entry("config_file", "", NoEffect(&[], "kube-vip does not read the file it names, nor does Mooring")),
    entry("", "config-file", Only(&[""], "Mooring reads no file: give its settings as flags or environment")),
    entry("instance_name", "instanceName", NoEffect(&[], EGRESS)),
    entry("INSTANCE_NAME", "", NoEffect(&[], EGRESS)),
    switch("vip_singlenode", "", NoEffect(FALSE, DEAD)),
    switch("vip_startleader", "", NoEffect(FALSE, DEAD)),
    entry("vip_configmap", "", NoEffect(&[], DEAD)),
    // Services.
    entry("vip_servicesinterface", "serviceInterface", Same("services-interface")),
    of(
        Part::Services,
        entry(
            "svc_namespace",
            "",
            Only(
                &[""],
                "Mooring serves Services of all namespaces: remove it, and let the pools say which namespaces may claim",
            ),
        ),
    ),
    switch("svc_election", "servicesElection", Either("services-placement", ["lease-per-service", "global-lease"])),
    of(
        Part::Services,
        switch(
            "per_service_election_on_demand",
            "perServiceElectionOnDemand",
            Only(
                FALSE,
                "Mooring knows one Lease for all Services (svc_election=false) or one for each (true): remove it from all nodes before you move them",
            ),
        ),
    ),
    entry("svc_leasename", "servicesLeaseName", Same("services-lease-name")),
    // Where a mooring-allocator gives addresses, it needs these too.
    switch("lb_class_only", "lbClassOnly", Either("lb-class-only", ["on", "off"])),
    // kube-vip asks whether the variable is there: an empty one means Services without a class.
    Entry { empty_counts: true, ..entry("lb_class_name", "lbClassName", Same("lb-class-name")) },
    switch("lb_class_legacy_handling", "lbClassNameLegacyHandling", Either("lb-class-legacy-handling", ["on", "off"])),
    switch("disable_service_updates", "disableServiceUpdates", Either("service-updates", ["off", "on"])),
    switch("enable_endpoints", "enableEndpoints", NoEffect(FALSE, WATCHED)),
    switch("enable_endpointslices", "enableEndpointSlices", NoEffect(&["true", "false"], WATCHED)),
    entry("debounce_time", "debounceTime", NoEffect(&["0s", "0"], WATCHED)),
    of(
        Part::Services,
        switch(
            "enable_service_security",
            "onlyAllowTrafficServicePorts",
            Only(FALSE, "Mooring filters no packets: remove it, and let a firewall drop what may not reach the VIP"),
        ),
    ),
    // kube-vip's load balancer for the API server.
    switch(
        "lb_enable",
        "enableLoadBalancer",
        NoEffect(
            FALSE,
            "Mooring has no load balancer for the API server: the VIP follows a healthy one, which answers all requests",
        ),
    ),
    entry(
        "lb_port",
        "lbPort",
        NoEffect(
            &["6443"],
            "it is about kube-vip's load balancer, which Mooring does not have; refused if it is not port, with lb_enable and control-plane on",
        ),
    ),
    entry("lb_fwdmethod", "lbForwardingMethod", NoEffect(&["local"], BALANCER)),
    entry("backend_health_check_interval", "", NoEffect(&["5"], BALANCER)),
    // BGP.
    entry("bgp_routerid", "bgpRouterID", NoEffect(&[], BGP)),
    entry("bgp_routerinterface", "", NoEffect(&[], BGP)),
    entry("bgp_as", "localAS", NoEffect(&["65000"], BGP)),
    entry("bgp_peeraddress", "peerAddress", NoEffect(&[], BGP)),
    entry("bgp_peeras", "peerAS", NoEffect(&["65000"], BGP)),
    entry("bgp_peerpass", "peerPass", NoEffect(&[], BGP)),
    entry("bgp_peers", "bgppeers", NoEffect(&[], BGP)),
    switch("bgp_multihop", "multihop", NoEffect(FALSE, BGP)),
    entry("bgp_sourceif", "sourceIF", NoEffect(&[], BGP)),
    entry("bgp_sourceip", "sourceIP", NoEffect(&[], BGP)),
    entry("bgp_hold_time", "bgpHoldTimer", NoEffect(&["30"], BGP)),
    entry("bgp_keepalive_interval", "bgpKeepAliveInterval", NoEffect(&["10"], BGP)),
    switch("bgp_attach_ip_to_interface", "bgpAttachIPToInterface", NoEffect(FALSE, BGP)),
    entry("annotation", "annotations", NoEffect(&[], BGP)),
    switch("zebra_enable", "zebra", NoEffect(FALSE, BGP)),
    entry("zebra_url", "zebraUrl", NoEffect(&["unix:/var/run/frr/zserv.api"], BGP)),
    entry("zebra_version", "zebraVersion", NoEffect(&["6"], BGP)),
    entry("zebra_software_name", "zebraSoftwareName", NoEffect(&["frr8.3"], BGP)),
    entry("mpbgp_nexthop", "", NoEffect(&[], BGP)),
    entry("mpbgp_ipv4", "", NoEffect(&[], BGP)),
    entry("mpbgp_ipv6", "", NoEffect(&[], BGP)),
    entry("control_plane_health_check_address", "controlPlaneHealthCheckAddress", NoEffect(&[], BGP_HEALTH)),
    entry(
        "control_plane_health_check_period_seconds",
        "controlPlaneHealthCheckPeriodSeconds",
        NoEffect(&["5"], BGP_HEALTH),
    ),
    entry(
        "control_plane_health_check_timeout_seconds",
        "controlPlaneHealthCheckTimeoutSeconds",
        NoEffect(&["3"], BGP_HEALTH),
    ),
    entry(
        "control_plane_health_check_failure_threshold",
        "controlPlaneHealthCheckFailureThreshold",
        NoEffect(&["3"], BGP_HEALTH),
    ),
    entry("control_plane_health_check_ca_path", "controlPlaneHealthCheckCAPath", NoEffect(&[], BGP_HEALTH)),
    // Routing tables.
    entry("vip_routingtableid", "tableID", NoEffect(&["198"], TABLE)),
    entry("vip_routingtabletype", "tableType", NoEffect(&["1"], TABLE)),
    entry("vip_routingprotocol", "routingProtocol", NoEffect(&["248"], TABLE)),
    switch("vip_cleanroutingtable", "cleanRoutingTable", NoEffect(FALSE, TABLE)),
    // Egress, UPnP, mirrors.
    entry("egress_podcidr", "", NoEffect(&[], EGRESS)),
    entry("egress_servicecidr", "", NoEffect(&[], EGRESS)),
    switch("egress_withnftables", "egressWithNftables", NoEffect(&["true", "false"], EGRESS)),
    switch("egress_enableinternalsnat", "", NoEffect(FALSE, EGRESS)),
    switch("egress_clean", "", NoEffect(FALSE, EGRESS)),
    switch("EGRESS_CLEAN", "", NoEffect(FALSE, EGRESS)),
    entry("iptables_backend", "", NoEffect(&[], EGRESS)),
    of(
        Part::Services,
        switch(
            "enable_upnp",
            "",
            Only(FALSE, "Mooring does not speak UPnP: remove it and forward the port on the router"),
        ),
    ),
    entry("mirror_dest_interface", "mirrorDestInterface", Only(&[""], "Mooring mirrors no traffic: remove it")),
    // Clouds, before kube-vip 0.9.
    switch("vip_packet", "", Only(FALSE, "Mooring does not speak to Equinix Metal: remove it")),
    entry("vip_packetproject", "", NoEffect(&[], DEAD)),
    entry("vip_packetprojectid", "", NoEffect(&[], DEAD)),
    entry("provider_config", "", NoEffect(&[], DEAD)),
];
