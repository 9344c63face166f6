//! Prometheus metrics. Every label has a bounded set of values.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::api::Verb;
use crate::core::action::{Cause, Why};
use crate::core::time::Time;

/// Makes an enum whose members are the values of a label.
macro_rules! label {
    ($(#[$doc:meta])* $name:ident { $($(#[$member_doc:meta])* $member:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$member_doc])* $member),+ }

        impl $name {
            /// The label's value.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$member => $text),+ }
            }
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
                EncodeLabelValue::encode(&self.as_str(), encoder)
            }
        }
    };
}

label!(
    /// Why this node took a VIP.
    Takeover {
        /// The last holder's Lease had expired.
        Expiry = "expiry",
        /// The last holder answered nobody on the segment.
        Witness = "witness",
        /// The last holder handed it over.
        Handover = "handover",
        /// Nobody held the Lease.
        Empty = "empty",
        /// Nobody carried it, and the API could not be asked.
        Provisional = "provisional",
        /// It was on the interface when the agent started.
        Adopted = "adopted",
    }
);

label!(
    /// Why this node began or ceased to carry the VIPs.
    Transition {
        /// It took them.
        Taken = "taken",
        /// It handed them over.
        HandedOver = "handed_over",
        /// Another node took the Lease.
        LeaseTaken = "lease_taken",
        /// The Lease could not be renewed.
        LeaseExpired = "lease_expired",
        /// Another host carries it with better right.
        Yielded = "yielded",
        /// The link is down, or the interface gone.
        LinkDown = "link_down",
        /// None of them could be put on the interface.
        CannotCarry = "cannot_carry",
    }
);

label!(
    /// The form of an announcement.
    Form {
        /// A gratuitous ARP request.
        ArpRequest = "arp_request",
        /// A gratuitous ARP reply.
        ArpReply = "arp_reply",
        /// An unsolicited neighbour advertisement.
        NeighborAdvertisement = "neighbor_advertisement",
    }
);

label!(
    /// What was asked of the kernel.
    Netlink {
        /// To add an address.
        Add = "add",
        /// To refresh an address's lifetime.
        Refresh = "refresh",
        /// To remove an address.
        Remove = "remove",
        /// What there is.
        Dump = "dump",
        /// Changes, of which some were not told.
        Subscribe = "subscribe",
    }
);

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
    api_requests: Family<ByVerb, Histogram>,
    api_errors: Family<ByVerbAndCategory, Counter>,
    netlink_errors: Family<ByOperation, Counter>,
    services_wanted: Gauge,
    services_carried: Gauge,
}

impl From<Cause> for Takeover {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Free => Self::Empty,
            Cause::Handover => Self::Handover,
            Cause::Expiry => Self::Expiry,
            Cause::Witness => Self::Witness,
            Cause::Adopted => Self::Adopted,
            Cause::Provisional => Self::Provisional,
        }
    }
}

impl From<Why> for Transition {
    fn from(why: Why) -> Self {
        match why {
            Why::LeaseLost => Self::LeaseTaken,
            Why::Yielded => Self::Yielded,
            Why::HandedOver | Why::NotWanted => Self::HandedOver,
            Why::ApiLost | Why::Late => Self::LeaseExpired,
            Why::LinkDown => Self::LinkDown,
            Why::CannotCarry => Self::CannotCarry,
        }
    }
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
            api_requests: Family::new_with_constructor(latencies),
            api_errors: Family::default(),
            netlink_errors: Family::default(),
            services_wanted: Gauge::default(),
            services_carried: Gauge::default(),
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
        let services = [
            ("services_vips", "How many VIPs of Services and the like there should be", &self.services_wanted),
            ("services_vips_held", "How many VIPs of Services and the like this node carries", &self.services_carried),
        ];
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

#[cfg(test)]
mod tests {
    use super::*;

    const VIP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 10));

    fn lines(metrics: &Metrics, now: Time) -> Vec<String> {
        metrics.page(now).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_page_can_be_read_and_every_metric_is_explained() {
        let metrics = Metrics::new("cp1");
        metrics.held(VIP, true);
        metrics.lease_held(true);
        metrics.transition(Transition::Taken);
        metrics.takeover(Takeover::Witness);
        metrics.fence(VIP, Some(Time::from_nanos(12_500_000_000)));
        metrics.announced(Form::ArpReply, 6);
        metrics.conflict(VIP);
        metrics.probe_missed();
        metrics.api_request(Verb::Update, "conflict", Duration::from_millis(4));
        metrics.netlink_error(Netlink::Refresh);
        let lines = lines(&metrics, Time::from_nanos(2_000_000_000));
        for wanted in [
            r#"mooring_vip_held{address="192.0.2.10"} 1"#,
            "mooring_lease_held 1",
            r#"mooring_transitions_total{cause="taken"} 1"#,
            r#"mooring_takeovers_total{cause="witness"} 1"#,
            r#"mooring_fence_left_seconds{address="192.0.2.10"} 10.5"#,
            r#"mooring_announcements_total{form="arp_reply"} 6"#,
            r#"mooring_conflicts_total{address="192.0.2.10"} 1"#,
            "mooring_probe_misses_total 1",
            r#"mooring_api_requests_seconds_count{verb="update"} 1"#,
            r#"mooring_api_errors_total{verb="update",category="conflict"} 1"#,
            r#"mooring_netlink_errors_total{operation="refresh"} 1"#,
            r#"mooring_build_info{version="0.1.0",node="cp1"} 1"#,
            "# EOF",
        ] {
            assert!(lines.iter().any(|line| line == wanted), "{wanted} is not in {lines:#?}");
        }
        // Every sample belongs to a family with a type and a help that is a sentence.
        let mut family = String::new();
        for line in lines.iter().filter(|line| *line != "# EOF") {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, text) = help.split_once(' ').unwrap();
                assert!(
                    text.ends_with('.') && text.split(' ').count() > 3 && text.starts_with(char::is_uppercase),
                    "{line}"
                );
                name.clone_into(&mut family);
            } else if !line.starts_with('#') {
                let (name, value) = line.rsplit_once(' ').unwrap();
                assert!(name.starts_with(&family), "{line}");
                value.parse::<f64>().unwrap();
            }
        }
    }

    #[test]
    fn a_fence_runs_down_and_an_address_can_be_forgotten() {
        let metrics = Metrics::new("cp1");
        metrics.fence(VIP, Some(Time::from_nanos(1)));
        let late = Time::from_nanos(5);
        assert!(lines(&metrics, late).contains(&r#"mooring_fence_left_seconds{address="192.0.2.10"} 0.0"#.to_owned()));
        metrics.forget(VIP);
        assert!(!metrics.page(late).unwrap().contains("192.0.2.10"));
    }
}
