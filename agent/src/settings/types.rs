//! The settings as the rest of the agent reads them. All values are valid: [`super::Settings::load`] makes no others.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use mooring_common::log::{LogFormat, LogLevel, LogSettings};
pub use mooring_common::values::Listen;

use super::parse;
use crate::api::objects::Key;
use crate::catalog::Classes;

/// All settings of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// VIPs of Services and other `IPAddress` objects; None: off.
    pub services: Option<Services>,
    /// The control plane's VIPs, none twice; empty: this node does not hold them.
    pub addresses: Vec<Address>,
    /// Which answers of a DNS name count.
    pub dns_mode: DnsMode,
    /// Prefix lengths of the VIPs.
    pub prefix: Prefix,
    /// The interface; None: the interface of the default route.
    pub interface: Option<String>,
    /// The API server's port, on the VIP and on loopback.
    pub port: u16,
    /// This node's name, lower case: the identity in the Lease.
    pub node_name: String,
    /// The Lease.
    pub lease: LeaseSettings,
    /// How the API is reached.
    pub api: Api,
    /// The segment as witness; None: off.
    pub witness: Option<Witness>,
    /// What a holder does when its Lease lapses because the API is away.
    pub api_loss: ApiLoss,
    /// Carrying a VIP without a Lease; None: off.
    pub provisional: Option<Provisional>,
    /// How long a planned hand-over waits for the successor's announcement.
    pub handover_grace: Duration,
    /// The local API server's health.
    pub health: Health,
    /// How long the link must be down before the VIP is handed over.
    pub link_down_delay: Duration,
    /// Announcements.
    pub announce: Announce,
    /// Whether an address is probed before it is taken.
    pub conflict_probe: bool,
    /// Where metrics and health are served; None: nowhere.
    pub metrics: Option<Listen>,
    /// The agent's own directory.
    pub run_dir: PathBuf,
    /// The socket that `mooring-agent status` reads.
    pub status_socket: PathBuf,
    /// The file for the record of the core's inputs and outputs; None: no record.
    pub record: Option<PathBuf>,
    /// The log.
    pub log: LogSettings,
}

/// VIPs of Services and other `IPAddress` objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Services {
    /// Default interface for VIPs that specify none.
    pub interface: ServicesInterface,
    /// The namespace of sessions.
    pub sessions: String,
    /// What decides which node has which VIP.
    pub placement: Placement,
}

/// What decides which node has which VIP of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Mooring's placement: by the nodes' sessions.
    Sessions,
    /// kube-vip's placement: the holder of the Lease has the VIP.
    Leases(Leases),
}

/// kube-vip's placements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leases {
    /// The namespace of the Lease that all share.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Each Service has a Lease of its own; the shared one is for VIPs that no Service has.
    pub per_service: bool,
    /// Whether the agent writes the holder on Services whose addresses do not come from the allocator.
    pub updates: bool,
    /// Which Services count by the addresses they state themselves.
    pub classes: Classes,
}

/// Default interface for VIPs that specify none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServicesInterface {
    /// The control plane's interface: the named one, or the interface of the default route.
    Same,
    /// The interface of this name.
    Named(String),
    /// The interface whose subnet contains the address.
    Auto,
}

/// A VIP as the settings name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// An address.
    Ip(IpAddr),
    /// A DNS name, to be followed when its answer changes. Lower case, no dot at the end.
    Name(String),
    /// The `IPAddress` with the address.
    Object(Key),
}

/// What the name of an `IPAddress` begins with.
pub(super) const OBJECT: &str = "ipaddress:";

impl Settings {
    /// Whether this node holds the control plane's VIPs.
    #[must_use]
    pub fn control_plane(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// The limit of frames for each part of the agent: the control plane's VIP and the VIPs of Services may be on one interface,
    /// and share it.
    #[must_use]
    pub fn rate_limit_each(&self) -> Option<u32> {
        let parts = if self.control_plane() && self.services.is_some() { 2 } else { 1 };
        self.announce.rate_limit.map(|limit| (limit / parts).max(1))
    }

    /// The API server of this node, on loopback.
    #[must_use]
    pub fn loopback(&self) -> Option<http::Uri> {
        format!("https://127.0.0.1:{}", self.port).parse().ok()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Name(name) => name.fmt(f),
            Self::Object(key) => write!(f, "{OBJECT}{key}"),
        }
    }
}

/// Which answers of a DNS name count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsMode {
    /// The first answer, whatever its family.
    First,
    /// The first IPv4 answer.
    Ipv4,
    /// The first IPv6 answer.
    Ipv6,
    /// The first answer of each family.
    Dual,
}

impl DnsMode {
    /// The answers that count, in the resolver's order: only answers that may be a VIP. Empty if none may.
    #[must_use]
    pub fn pick(self, answers: &[IpAddr]) -> Vec<IpAddr> {
        let mut usable = answers.iter().copied().filter(|ip| parse::usable(*ip).is_ok());
        let first = |want: fn(&IpAddr) -> bool| usable.clone().find(want);
        match self {
            Self::First => usable.next().into_iter().collect(),
            Self::Ipv4 => first(IpAddr::is_ipv4).into_iter().collect(),
            Self::Ipv6 => first(IpAddr::is_ipv6).into_iter().collect(),
            Self::Dual => first(IpAddr::is_ipv4).into_iter().chain(first(IpAddr::is_ipv6)).collect(),
        }
    }
}

/// Prefix lengths, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// For IPv4 VIPs, 1 to 32.
    pub v4: u8,
    /// For IPv6 VIPs, 1 to 128.
    pub v6: u8,
}

impl Prefix {
    /// The length for `address`.
    #[must_use]
    pub const fn of(self, address: IpAddr) -> u8 {
        match address {
            IpAddr::V4(_) => self.v4,
            IpAddr::V6(_) => self.v6,
        }
    }
}

/// The Lease that decides who holds the VIPs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// Whole seconds, at least 3.
    pub duration: Duration,
    /// Shorter than `duration`, longer than 1.2 times `retry_period`.
    pub renew_deadline: Duration,
    /// Between two renewals.
    pub retry_period: Duration,
    /// Annotations that the agent keeps on the Lease.
    pub annotations: BTreeMap<String, String>,
}

/// How the Kubernetes API is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    /// The kubeconfig; it need not exist yet.
    pub kubeconfig: PathBuf,
    /// Which credentials are used.
    pub credentials: Credentials,
    /// API servers to ask, in this order, instead of the kubeconfig's own. Each has a scheme and a host.
    pub servers: Vec<http::Uri>,
}

/// Which credentials are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// The kubeconfig if it exists; else the pod's service account if it has one; else the agent waits for the
    /// kubeconfig.
    Auto,
    /// The kubeconfig only.
    Kubeconfig,
    /// The pod's service account only.
    InCluster,
}

/// The segment as witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Between two probes.
    pub interval: Duration,
    /// Missed probes after which a holder is abandoned, 2 to 20.
    pub misses: u8,
}

/// What a holder does when its Lease lapses because the API is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiLoss {
    /// Serves on, under a short fence, as long as enough of the other nodes are heard, and yields to any other owner.
    Hold,
    /// Serves on, whether or not other nodes are heard.
    HoldAlone,
    /// Gives the VIP up.
    Release,
}

/// Carrying a VIP without a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provisional {
    /// How much later each rank's turn comes.
    pub delay: Duration,
}

/// What is asked for the health of the local API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthAddress {
    /// `/readyz` at the address of this node that `default/kubernetes` lists; on loopback while none is listed.
    Found,
    /// This URL, whatever is listed.
    At(http::Uri),
    /// Nothing: health does not decide.
    Off,
}

/// How the local API server's health is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// What is asked.
    pub address: HealthAddress,
    /// Between two probes.
    pub interval: Duration,
    /// For one probe.
    pub timeout: Duration,
    /// Successes in a row that make it healthy.
    pub rise: u8,
    /// Failures in a row that make it unhealthy.
    pub fall: u8,
    /// The name that its certificate must have.
    pub server_name: String,
}

/// Announcements on the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announce {
    /// Between two repetitions once the first ones are out; None: none.
    pub refresh: Option<Duration>,
    /// Frames a second and interface at most; None: no limit.
    pub rate_limit: Option<u32>,
}
