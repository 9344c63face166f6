//! Prometheus metrics. Every label has a bounded set of values.

mod labels;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

pub use labels::{Form, Netlink, Takeover, Transition};

use super::descriptors;
use crate::api::Verb;
use crate::core::echo::State;
use crate::core::time::Time;

/// The value of a gauge that says yes (1) or no (0), before either is known.
const NOT_KNOWN: i64 = -1;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByAddress {
    address: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByTransition {
    cause: Transition,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByTakeover {
    cause: Takeover,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByForm {
    form: Form,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByVerb {
    verb: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByVerbAndCategory {
    verb: &'static str,
    category: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOperation {
    operation: Netlink,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: &'static str,
    node: String,
}

/// All metrics of the agent.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    held: Family<ByAddress, Gauge>,
    lease_held: Gauge,
    transitions: Family<ByTransition, Counter>,
    takeovers: Family<ByTakeover, Counter>,
    /// When each address's fence ends. The time left is computed on each scrape.
    fences: Mutex<BTreeMap<IpAddr, Time>>,
    fence_left: Family<ByAddress, Gauge<f64, AtomicU64>>,
    announcements: Family<ByForm, Counter>,
    conflicts: Family<ByAddress, Counter>,
    probe_misses: Counter,
    probes_answered: Gauge,
    probes_filtered: Gauge,
    api_requests: Family<ByVerb, Histogram>,
    api_errors: Family<ByVerbAndCategory, Counter>,
    netlink_errors: Family<ByOperation, Counter>,
    services_wanted: Gauge,
    services_carried: Gauge,
    lease_of_other_program: Gauge,
    services_of_other_program: Gauge,
    files_open: Gauge,
    files_most: Gauge,
}

impl Metrics {
    pub(super) fn new(node: &str) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("mooring"),
            held: Family::default(),
            lease_held: Gauge::default(),
            transitions: Family::default(),
            takeovers: Family::default(),
            fences: Mutex::default(),
            fence_left: Family::default(),
            announcements: Family::default(),
            conflicts: Family::default(),
            probe_misses: Counter::default(),
            probes_answered: Gauge::default(),
            probes_filtered: Gauge::default(),
            api_requests: Family::new_with_constructor(latencies),
            api_errors: Family::default(),
            netlink_errors: Family::default(),
            services_wanted: Gauge::default(),
            services_carried: Gauge::default(),
            lease_of_other_program: Gauge::default(),
            services_of_other_program: Gauge::default(),
            files_open: Gauge::default(),
            files_most: Gauge::default(),
        };
        metrics.register(node);
        metrics
    }

    /// prometheus-client ends each help text with a full stop itself.
    fn register(&mut self, node: &str) {
        let build = Info::new(Build { version: env!("CARGO_PKG_VERSION"), node: node.to_owned() });
        let r = &mut self.registry;
        r.register("vip_held", "Whether this node carries the VIP (1) or not (0)", self.held.clone());
        r.register("lease_held", "Whether this node holds the Lease (1) or not (0)", self.lease_held.clone());
        r.register(
            "transitions",
            "How often this node began or ceased to carry the VIPs, by cause",
            self.transitions.clone(),
        );
        r.register("takeovers", "How often this node took the VIPs, by what made them free", self.takeovers.clone());
        r.register_with_unit(
            "fence_left",
            "For how long the kernel keeps the VIP if the agent does not refresh it",
            Unit::Seconds,
            self.fence_left.clone(),
        );
        r.register(
            "announcements",
            "Frames sent to tell the segment who carries a VIP, by form",
            self.announcements.clone(),
        );
        r.register(
            "conflicts",
            "How often another host was heard to claim the VIP without a right to it",
            self.conflicts.clone(),
        );
        r.register(
            "probe_misses",
            "Probes of a holder on the segment that were not answered in time",
            self.probe_misses.clone(),
        );
        self.probes_answered.set(NOT_KNOWN);
        r.register(
            "probes_answered",
            "Whether any other host on the segment answers this node's probes (1), none does (0), or too little was asked (-1)",
            self.probes_answered.clone(),
        );
        r.register(
            "probes_filtered",
            "Whether the network drops ARP probes with sender 0.0.0.0 (1) or not (0)",
            self.probes_filtered.clone(),
        );
        r.register_with_unit(
            "api_requests",
            "How long requests to the Kubernetes API took, answered or not, by verb",
            Unit::Seconds,
            self.api_requests.clone(),
        );
        r.register(
            "api_errors",
            "Requests to the Kubernetes API that failed, by verb and category",
            self.api_errors.clone(),
        );
        r.register("netlink_errors", "Requests to the kernel that failed, by operation", self.netlink_errors.clone());
        r.register(
            "lease_held_by_other_program",
            "Whether another program (kube-vip) holds the Lease (1) or not (0)",
            self.lease_of_other_program.clone(),
        );
        let services = [
            ("services_vips", "How many VIPs of Services and the like there should be", &self.services_wanted),
            ("services_vips_held", "How many VIPs of Services and the like this node carries", &self.services_carried),
            (
                "services_vips_of_other_program",
                "How many VIPs of Services have a Lease that another program (kube-vip) holds",
                &self.services_of_other_program,
            ),
        ];
        r.register("open_files", "How many files and connections the agent has open", self.files_open.clone());
        r.register("max_open_files", "How many files and connections it may have open", self.files_most.clone());
        for (name, help, gauge) in services {
            r.register(name, help, gauge.clone());
        }
        r.register("build", "Which agent this is", build);
    }

    /// Whether this node carries `address`.
    pub fn held(&self, address: IpAddr, held: bool) {
        self.held.get_or_create(&by(address)).set(i64::from(held));
    }

    /// How many VIPs of Services there should be, and how many this node carries.
    pub fn services(&self, wanted: usize, carried: usize) {
        self.services_wanted.set(i64::try_from(wanted).unwrap_or(i64::MAX));
        self.services_carried.set(i64::try_from(carried).unwrap_or(i64::MAX));
    }

    /// Whether this node holds the Lease.
    pub fn lease_held(&self, held: bool) {
        self.lease_held.set(i64::from(held));
    }

    /// Whether another program (kube-vip) holds the Lease: then no agent carries the VIP, and nothing is wrong.
    pub fn lease_of_other_program(&self, is_other: bool) {
        self.lease_of_other_program.set(i64::from(is_other));
    }

    /// How many VIPs of Services have a Lease that another program holds.
    pub fn services_of_other_program(&self, vips: usize) {
        self.services_of_other_program.set(i64::try_from(vips).unwrap_or(i64::MAX));
    }

    /// Counts a beginning or end of carrying.
    pub fn transition(&self, cause: Transition) {
        self.transitions.get_or_create(&ByTransition { cause }).inc();
    }

    /// Counts a take-over.
    pub fn takeover(&self, cause: Takeover) {
        self.takeovers.get_or_create(&ByTakeover { cause }).inc();
    }

    /// Records until when the kernel keeps `address`; None: the kernel does not have the address.
    pub fn fence(&self, address: IpAddr, until: Option<Time>) {
        let mut fences = self.fences.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = until {
            fences.insert(address, until);
        } else {
            fences.remove(&address);
            self.fence_left.get_or_create(&by(address)).set(0.0);
        }
    }

    /// Counts frames sent to announce.
    pub fn announced(&self, form: Form, frames: u64) {
        self.announcements.get_or_create(&ByForm { form }).inc_by(frames);
    }

    /// Counts a foreign claim of `address`.
    pub fn conflict(&self, address: IpAddr) {
        self.conflicts.get_or_create(&by(address)).inc();
    }

    /// Sets whether other hosts answer probes.
    pub fn probes(&self, echo: State) {
        self.probes_answered.set(match echo {
            State::Unknown | State::NotAsked => NOT_KNOWN,
            State::Nobody => 0,
            State::Answered | State::Filtered => 1,
        });
        self.probes_filtered.set(i64::from(echo == State::Filtered));
    }

    /// Counts an unanswered probe.
    pub fn probe_missed(&self) {
        self.probe_misses.inc();
    }

    /// Records how long a request to the API took, and how it ended.
    pub fn api_request(&self, verb: Verb, outcome: &'static str, took: Duration) {
        // Operators see all changes of existing objects as one verb.
        let verb = if verb.writes() && verb != Verb::Create { "update" } else { verb.as_str() };
        self.api_requests.get_or_create(&ByVerb { verb }).observe(took.as_secs_f64());
        let category = match outcome {
            "ok" => return,
            "refused" | "unreachable" | "broken" => "connect",
            "forbidden" | "unauthorized" => "denied",
            "not_found" | "gone" => "gone",
            "server" | "not_ready" => "server",
            "timeout" | "tls" | "conflict" => outcome,
            _ => "other",
        };
        self.api_errors.get_or_create(&ByVerbAndCategory { verb, category }).inc();
    }

    /// Counts a request to the kernel that failed.
    pub fn netlink_error(&self, operation: Netlink) {
        self.netlink_errors.get_or_create(&ByOperation { operation }).inc();
    }

    /// Drops the metrics of an address that is no VIP any more, so that a DNS name that moves does not grow the page.
    pub fn forget(&self, address: IpAddr) {
        self.fences.lock().unwrap_or_else(PoisonError::into_inner).remove(&address);
        let label = by(address);
        self.held.remove(&label);
        self.fence_left.remove(&label);
        self.conflicts.remove(&label);
    }

    /// The page, in the `OpenMetrics` text format.
    ///
    /// # Errors
    /// Never: writing to a String cannot fail.
    pub fn page(&self, now: Time) -> Result<String, std::fmt::Error> {
        for (address, until) in self.fences.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            self.fence_left.get_or_create(&by(*address)).set(until.since(now).as_secs_f64());
        }
        for (gauge, value) in [(&self.files_open, descriptors::open()), (&self.files_most, descriptors::most())] {
            if let Some(value) = value {
                gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            }
        }
        let mut page = String::new();
        text::encode(&mut page, &self.registry)?;
        Ok(page)
    }
}

/// From a local answer to an answer just before the timeout, in seconds.
fn latencies() -> Histogram {
    Histogram::new([0.002, 0.005, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
}

fn by(address: IpAddr) -> ByAddress {
    ByAddress { address: address.to_string() }
}
