//! Prometheus metrics. Every label has a bounded set of values, except the pools' names.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use mooring_allocator_core::book::Counts;
use mooring_allocator_core::names::PoolRef;
use mooring_allocator_core::protocol::Reason;
use mooring_allocator_core::remote::Note;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::api::{Observe, Verb};

/// From a millisecond to a minute.
const ALLOCATION: [f64; 15] = [0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];
/// For calls.
const CALL: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByState {
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    verb: &'static str,
    resource: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCall {
    verb: &'static str,
    resource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutsideCall {
    kind: &'static str,
    call: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPool {
    kind: &'static str,
    namespace: String,
    pool: String,
    state: &'static str,
}

/// All metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Claims that got an address.
    pub allocations: Counter,
    /// Addresses that were released.
    pub releases: Counter,
    /// Objects that were withdrawn because another object had the address earlier.
    pub withdrawn: Counter,
    /// Bound objects that have an address in common.
    pub duplicates: Counter,
    /// Addresses that a node heard another host have.
    pub conflicts: Counter,
    failures: Family<ByReason, Counter>,
    claims_waiting: Family<ByReason, Gauge>,
    latency: Histogram,
    calls: Family<ByOutcome, Counter>,
    call_seconds: Family<ByCall, Histogram, fn() -> Histogram>,
    pools: Family<ByPool, Gauge>,
    outside_calls: Family<ByOutsideCall, Histogram, fn() -> Histogram>,
    outside_notes: Family<ByReason, Counter>,
    /// Writes that wait for their turn.
    pub waiting: Gauge,
    /// Writes that are under way.
    pub under_way: Gauge,
    /// Whether this allocator leads.
    pub leads: Gauge,
    /// Events that were dropped because claims came first.
    pub events_dropped: Counter,
    /// Services that got an address, or a different address.
    pub services_assigned: Counter,
    /// Services that released their addresses.
    pub services_released: Counter,
    services: Family<ByState, Gauge>,
    /// Writes for Clusters' endpoints.
    pub endpoint_writes: Counter,
    endpoints: Family<ByState, Gauge>,
    /// Writes for machines' addresses.
    pub machine_writes: Counter,
    machines: Family<ByState, Gauge>,
    service_latency: Histogram,
    /// Entries of the `ConfigMap` that cannot be read.
    pub config_problems: Gauge,
    /// The start of this process, in seconds since 1970.
    started: Gauge<f64, AtomicU64>,
}

/// What is found in outside systems; also the reasons of Events.
pub const ORPHAN: &str = "OrphanedEntry";
/// An entry of a claim that is gone was deleted.
pub const ORPHAN_RELEASED: &str = "OrphanedEntryReleased";
/// The entry of a claim's address is gone or changed.
pub const MISSING: &str = "EntryMissing";
/// It was put back.
pub const PUT_BACK: &str = "EntryPutBack";
/// It could not be put back.
pub const NOT_PUT_BACK: &str = "EntryNotPutBack";
/// The outside system was not asked when an address was let go.
pub const NOT_ASKED: &str = "EntryLeft";

/// The reason of a note.
#[must_use]
pub const fn reason_of(note: &Note) -> &'static str {
    match note {
        Note::Orphan(_) => ORPHAN,
        Note::OrphanReleased(_) => ORPHAN_RELEASED,
        Note::Missing(..) => MISSING,
        Note::PutBack(..) => PUT_BACK,
        Note::NotPutBack(..) => NOT_PUT_BACK,
        Note::NotAsked(..) => NOT_ASKED,
    }
}

impl Metrics {
    fn register_pools(&self, registry: &mut Registry) {
        registry.register(
            "pool_addresses",
            "Addresses (in a prefix pool: prefixes) of each pool; as in its status",
            self.pools.clone(),
        );
        registry.register_with_unit(
            "outside_call",
            "How long calls to outside systems took, by kind of pool, call and outcome",
            Unit::Seconds,
            self.outside_calls.clone(),
        );
        registry.register(
            "outside_findings",
            "What was found in outside systems: entries of claims that are gone, entries that people deleted or changed",
            self.outside_notes.clone(),
        );
        for reason in [ORPHAN, ORPHAN_RELEASED, MISSING, PUT_BACK, NOT_PUT_BACK, NOT_ASKED] {
            self.outside_notes.get_or_create(&ByReason { reason }).inc_by(0);
        }
    }

    /// A call to an outside system has ended.
    pub fn outside_call(&self, kind: &'static str, call: &'static str, outcome: &'static str, took: Duration) {
        self.outside_calls.get_or_create(&ByOutsideCall { kind, call, outcome }).observe(took.as_secs_f64());
    }

    /// Something was found in an outside system.
    pub fn outside_note(&self, note: &Note) {
        self.outside_notes.get_or_create(&ByReason { reason: reason_of(note) }).inc();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("mooring_allocator");
        let call_seconds: fn() -> Histogram = || Histogram::new(CALL);
        let metrics = Self {
            allocations: Counter::default(),
            releases: Counter::default(),
            withdrawn: Counter::default(),
            duplicates: Counter::default(),
            conflicts: Counter::default(),
            failures: Family::default(),
            claims_waiting: Family::default(),
            latency: Histogram::new(ALLOCATION),
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(call_seconds),
            pools: Family::default(),
            outside_calls: Family::new_with_constructor(call_seconds),
            outside_notes: Family::default(),
            waiting: Gauge::default(),
            under_way: Gauge::default(),
            leads: Gauge::default(),
            events_dropped: Counter::default(),
            services_assigned: Counter::default(),
            services_released: Counter::default(),
            services: Family::default(),
            endpoint_writes: Counter::default(),
            endpoints: Family::default(),
            machine_writes: Counter::default(),
            machines: Family::default(),
            service_latency: Histogram::new(ALLOCATION),
            config_problems: Gauge::default(),
            started: Gauge::default(),
            registry: Registry::default(),
        };
        let m = &metrics;
        registry.register("allocations", "Claims that got an address", m.allocations.clone());
        registry.register("releases", "Addresses that were given back", m.releases.clone());
        registry.register(
            "failures",
            "Claims that could not have an address when they were looked at, by reason",
            m.failures.clone(),
        );
        registry.register(
            "claims_waiting",
            "Claims without an address, by the reason of their condition Ready. Paused: the claim or its Cluster is. Pending: no condition yet",
            m.claims_waiting.clone(),
        );
        registry.register(
            "withdrawn",
            "IPAddress objects that were withdrawn before they were bound, because another had the address earlier",
            m.withdrawn.clone(),
        );
        registry.register(
            "duplicates",
            "Pairs of bound IPAddress objects found that have an address in common",
            m.duplicates.clone(),
        );
        registry.register(
            "conflicts",
            "Addresses that somebody else was heard to have on the wire",
            m.conflicts.clone(),
        );
        registry.register_with_unit(
            "allocation",
            "From the moment a claim is seen until it is bound",
            Unit::Seconds,
            m.latency.clone(),
        );
        registry.register("api_calls", "Calls to the API server, by outcome", m.calls.clone());
        registry.register_with_unit(
            "api_call",
            "How long calls to the API server took",
            Unit::Seconds,
            m.call_seconds.clone(),
        );
        m.register_pools(&mut registry);
        registry.register("writes_waiting", "Writes that wait for their turn", m.waiting.clone());
        registry.register("writes_under_way", "Writes that are under way", m.under_way.clone());
        registry.register("leads", "Whether this allocator leads: 1 or 0", m.leads.clone());
        registry.register(
            "events_dropped",
            "Kubernetes Events that were left out because claims came first",
            m.events_dropped.clone(),
        );
        m.register_services(&mut registry);
        registry.register_with_unit(
            "start_time",
            "When this process began, since 1970",
            Unit::Seconds,
            m.started.clone(),
        );
        // From the start: a counter that appears with its first event hides that event from rate() and increase().
        for reason in FAILURES {
            m.failures.get_or_create(&ByReason { reason: reason.name() }).inc_by(0);
        }
        m.claims_waiting(&BTreeMap::new());
        let info = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "What this program is", info);
        let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
        metrics.started.set(since.map_or(0.0, |since| since.as_secs_f64()));
        Self { registry, ..metrics }
    }
}

impl Metrics {
    /// The metrics about Services.
    fn register_services(&self, registry: &mut Registry) {
        registry.register(
            "services_assigned",
            "Services of type LoadBalancer that got an address, or another one",
            self.services_assigned.clone(),
        );
        registry.register(
            "services_released",
            "Services that gave their addresses back",
            self.services_released.clone(),
        );
        registry.register(
            "endpoint_writes",
            "Writes for the control-plane endpoints of Clusters",
            self.endpoint_writes.clone(),
        );
        registry.register(
            "endpoints",
            "Clusters that ask for a control-plane endpoint, by the reason of their claim's condition mooring.dev/EndpointReady",
            self.endpoints.clone(),
        );
        registry.register("machine_writes", "Writes for the addresses of VSphereMachines", self.machine_writes.clone());
        registry.register(
            "machines",
            "VSphereMachines that have, or need, an address of a pool, by where it stands",
            self.machines.clone(),
        );
        registry.register(
            "services",
            "Services of type LoadBalancer, by the reason of their condition mooring.dev/AddressReady",
            self.services.clone(),
        );
        registry.register_with_unit(
            "service_assignment",
            "From the moment a Service without an address is seen until it has one",
            Unit::Seconds,
            self.service_latency.clone(),
        );
        registry.register(
            "config_problems",
            "Entries of the ConfigMap of addresses for Services that cannot be read",
            self.config_problems.clone(),
        );
    }

    /// A claim could not have an address.
    pub fn failed(&self, reason: Reason) {
        self.failures.get_or_create(&ByReason { reason: reason.name() }).inc();
    }

    /// The number of claims that wait, for each reason.
    pub fn claims_waiting(&self, counts: &BTreeMap<&'static str, usize>) {
        let conditions = FAILURES.map(Reason::name);
        for reason in conditions.into_iter().chain([Reason::Other.name(), "Paused", "Pending"]) {
            let count = counts.get(reason).copied().unwrap_or_default();
            self.claims_waiting.get_or_create(&ByReason { reason }).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// A claim is bound; the time since it was first seen.
    pub fn bound_after(&self, time: Duration) {
        self.latency.observe(time.as_secs_f64());
    }

    /// A Service has an address; the time since it was first seen without one.
    pub fn service_after(&self, time: Duration) {
        self.service_latency.observe(time.as_secs_f64());
    }

    /// The number of Services for each reason.
    pub fn services(&self, counts: &BTreeMap<&str, usize>) {
        self.services.clear();
        for (reason, count) in counts {
            let state = ByState { reason: (*reason).to_owned() };
            self.services.get_or_create(&state).set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
    }

    /// The number of Clusters for each reason.
    pub fn endpoints(&self, counts: &BTreeMap<&'static str, usize>) {
        for (reason, count) in counts {
            let state = ByState { reason: (*reason).to_owned() };
            self.endpoints.get_or_create(&state).set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
    }

    /// The number of machines for each reason.
    pub fn machines(&self, counts: &BTreeMap<&'static str, usize>) {
        for (reason, count) in counts {
            let state = ByState { reason: (*reason).to_owned() };
            self.machines.get_or_create(&state).set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
    }

    /// Resets the pools' metrics: all pools are shown again.
    pub fn no_pools(&self) {
        self.pools.clear();
    }

    /// The counts of a pool; None: the pool is gone.
    pub fn pool(&self, pool: &PoolRef, counts: Option<&Counts>) {
        let label = |state| ByPool {
            kind: pool.kind.name(),
            namespace: pool.namespace.to_string(),
            pool: pool.name.to_string(),
            state,
        };
        for (state, of) in STATES {
            match counts {
                Some(counts) => {
                    self.pools.get_or_create(&label(state)).set(of(counts));
                }
                None => {
                    self.pools.remove(&label(state));
                }
            }
        }
    }

    /// The page that Prometheus reads.
    ///
    /// # Errors
    /// A metric cannot be written: a bug in the program.
    pub fn page(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode(&mut page, &self.registry)?;
        Ok(page)
    }
}

/// Why this program gives a claim no address.
const FAILURES: [Reason; 3] = [Reason::AllocationFailed, Reason::PoolNotReady, Reason::PoolExhausted];

/// The value of a label, and the thing it counts.
type State = (&'static str, fn(&Counts) -> i64);

const STATES: [State; 6] = [
    ("total", |counts| counts.total),
    ("free", |counts| counts.free),
    ("used", |counts| counts.used),
    ("out_of_range", |counts| counts.out_of_range),
    ("resting", |counts| counts.resting),
    ("available", |counts| counts.available),
];

impl Observe for Metrics {
    fn on_call(&self, verb: Verb, resource: &'static str, outcome: &'static str, latency: Duration) {
        let verb = verb.as_str();
        self.calls.get_or_create(&ByOutcome { verb, resource, outcome }).inc();
        self.call_seconds.get_or_create(&ByCall { verb, resource }).observe(latency.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooring_allocator_core::names::PoolKind;

    #[test]
    fn the_alerts_and_the_dashboard_ask_for_metrics_that_exist() {
        let metrics = Metrics::default();
        let pool = PoolRef::new(PoolKind::InClusterIPPool, "n", "p");
        metrics.pool(&pool, Some(&Counts { total: 7, free: 6, used: 1, out_of_range: 0, resting: 0, available: 6 }));
        metrics.failed(Reason::PoolExhausted);
        metrics.services(&BTreeMap::from([("Assigned", 1)]));
        metrics.on_call(Verb::Create, "ipaddresses", "ok", Duration::from_millis(1));
        let page = metrics.page().unwrap();
        let exist: Vec<&str> = page.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/monitoring");
        for file in ["allocator-rules.yaml", "mooring.json", "tests/allocator.yaml"] {
            let text = std::fs::read_to_string(folder.join(file)).unwrap();
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let asked: Vec<&str> = words.filter(|word| word.starts_with("mooring_allocator_")).collect();
            assert!(asked.len() > 10, "{file}: {asked:?}");
            let unknown: Vec<&&str> = asked.iter().filter(|word| !exist.contains(*word)).collect();
            assert!(unknown.is_empty(), "{file} asks for what the allocator does not have: {unknown:?}");
        }
    }

    #[test]
    fn every_reason_is_there_from_the_start_and_back_to_none() {
        let metrics = Metrics::default();
        let page = metrics.page().unwrap();
        for line in [r#"failures_total{reason="PoolExhausted"} 0"#, r#"claims_waiting{reason="Pending"} 0"#] {
            assert!(page.contains(&format!("mooring_allocator_{line}\n")), "{line} is not in {page}");
        }
        metrics.claims_waiting(&BTreeMap::from([("PoolExhausted", 2)]));
        assert!(metrics.page().unwrap().contains(r#"claims_waiting{reason="PoolExhausted"} 2"#));
        metrics.claims_waiting(&BTreeMap::new());
        assert!(metrics.page().unwrap().contains(r#"claims_waiting{reason="PoolExhausted"} 0"#));
    }

    #[test]
    fn the_book_names_every_metric() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src");
        let page = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        // Some write the names in full.
        let pages = ["allocator.md", "services.md", "endpoint.md", "machine-addresses.md", "providers.md"];
        let book: String = pages.map(page).concat();
        let book = book.replace("`mooring_allocator_", "`");
        let shown = Metrics::default().page().unwrap();
        let types = shown.lines().filter_map(|line| line.strip_prefix("# TYPE mooring_allocator_")?.rsplit_once(' '));
        let mut count = 0;
        for (name, kind) in types {
            let name = match kind {
                "counter" => format!("{name}_total"),
                "info" => format!("{name}_info"),
                _ => name.to_owned(),
            };
            let is_explained = book.contains(&format!("`{name}`")) || book.contains(&format!("`{name}{{"));
            assert!(is_explained, "no page of docs/src explains {name}: {pages:?}");
            count += 1;
        }
        assert!(count > 15, "only {count} metrics");
    }

    #[test]
    fn a_pool_that_is_gone_is_not_shown() {
        let metrics = Metrics::default();
        let pool = PoolRef::new(PoolKind::InClusterIPPool, "n", "p");
        metrics.pool(&pool, Some(&Counts { total: 7, free: 6, used: 1, out_of_range: 0, resting: 0, available: 6 }));
        metrics.allocations.inc();
        metrics.bound_after(Duration::from_millis(7));
        let page = metrics.page().unwrap();
        let line = r#"mooring_allocator_pool_addresses{kind="InClusterIPPool",namespace="n",pool="p",state="free"} 6"#;
        assert!(page.contains(line), "{page}");
        assert!(page.contains("mooring_allocator_allocations_total 1"), "{page}");
        assert!(page.contains(r#"mooring_allocator_allocation_seconds_bucket{le="0.01"} 1"#), "{page}");
        metrics.pool(&pool, None);
        assert!(!metrics.page().unwrap().contains("pool_addresses{"));
    }
}
