//! The allocator's settings: flags, `MOORING_ALLOCATOR_*` environment, defaults, in this order.
//!
//! Every setting stands in one table ([`spec::SETTINGS`]); the flags, `--help` and docs/src/reference/allocator-settings.md
//! are made from it.

pub mod docs;
pub mod spec;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use mooring_common::kubeconfig::Source;
use mooring_common::log::{LOG_FORMATS, LOG_LEVELS, LogSettings};
use mooring_common::settings::{Effective, Gathered, Origin, Warning, variables};
pub use mooring_common::settings::{Host, SettingsError};
use mooring_common::values::{Problem, duration_within, listen, number, on_off, one_of, problem};

use mooring_allocator_services::class::ClassRules;

use self::spec::SETTINGS;
pub use self::types::{Election, Endpoints, Services, Settings};
use crate::api::PartKind;
use crate::driver::Scope;

/// All errors in the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsErrors(pub Vec<SettingsError>);

impl fmt::Display for SettingsErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, error) in self.0.iter().enumerate() {
            let SettingsError { setting, value, from, problem, advice } = error;
            let line = if n == 0 { "" } else { "\n" };
            match from {
                Origin::Flag(name) | Origin::Environment(name) | Origin::KubeVip(name) => write!(f, "{line}{name}")?,
                Origin::PodNamespace | Origin::Default => write!(f, "{line}--{setting}")?,
            }
            write!(f, " is {value:?}: {problem}; {advice}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsErrors {}

/// Valid settings, and the source of each.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// Harmless findings that the operator should know.
    pub warnings: Vec<Warning>,
    /// Each setting's value and source, in the order of the table.
    pub effective: Vec<Effective>,
}

impl Settings {
    /// Works out the settings from flags (`given`, by name without dashes) and environment. `random`: a number that no other
    /// process has.
    ///
    /// # Errors
    /// All errors, at once.
    pub fn load(
        given: &BTreeMap<String, String>,
        env: &BTreeMap<String, String>,
        host: &Host,
        random: u64,
    ) -> Result<Loaded, SettingsErrors> {
        let mut gathered = Gathered::new(SETTINGS, |spec| {
            let flag = given.get(spec.name).map(|value| (value.clone(), Origin::Flag(format!("--{}", spec.name))));
            flag.or_else(|| {
                let name = spec.env();
                let value = env.get(&name).filter(|value| !value.is_empty())?;
                let is_ours = !variables::is_service_link(&name, value, SETTINGS);
                is_ours.then(|| (value.clone(), Origin::Environment(name)))
            })
        });
        let (warnings, errors) = variables::judge(env, SETTINGS, "mooring-allocator");
        gathered.errors.extend(errors);
        match read(&mut gathered, host, random) {
            Some(settings) if gathered.errors.is_empty() => {
                Ok(Loaded { settings, warnings, effective: gathered.effective })
            }
            _ => Err(SettingsErrors(gathered.errors)),
        }
    }
}

fn read(g: &mut Gathered, host: &Host, random: u64) -> Option<Settings> {
    const SECOND: Duration = Duration::from_secs(1);
    let text = |text: &str| Ok(text.trim().to_owned());
    let kubeconfig = g.field("kubeconfig", text);
    let writes = g.field("writes", |text| number(text, 1, 500));
    let per_second = g.field("writes-per-second", |text| number(text, 0, 100_000));
    let call = g.field("call-deadline", |text| duration_within(text, SECOND / 2, 300 * SECOND, false));
    let list = g.field("list-deadline", |text| duration_within(text, SECOND, 600 * SECOND, false));
    let namespaces = g.field("namespaces", namespaces);
    let filter = g.field("watch-filter", text);
    let one_network = g.field("one-network", on_off);
    let metal3 = g.field("metal3", on_off);
    let openstack = g.field("openstack", on_off);
    let serves = g.field("services", on_off);
    let services = services(g, host);
    let gives = g.field("endpoints", on_off);
    let kinds = g.field("endpoint-kinds", part_kinds);
    let machine_addresses = g.field("machine-addresses", on_off);
    let phpipam = g.field("phpipam", on_off);
    let secrets_namespace = g.field("secrets-namespace", |text| own_namespace(host, text));
    let elects = g.field("leader-election", on_off);
    let election = election(g, host);
    let own = || format!("{}_{:x}", host.name.as_deref().unwrap_or("allocator"), random);
    let identity = g.field("identity", |text| Ok(if text.is_empty() { own() } else { text.to_owned() }));
    let events = g.field("events", on_off);
    let metrics = g.field("metrics", listen);
    let level = g.field("log-level", |text| one_of(text, LOG_LEVELS));
    let format = g.field("log-format", |text| one_of(text, LOG_FORMATS));
    let mut scope =
        Scope { namespaces: namespaces?, watch_filter: filter.map(|value| (!value.is_empty()).then_some(value))? };
    let services = if serves? { Some(services?) } else { None };
    if let Some(services) = services.as_ref().filter(|_| !scope.namespaces.is_empty()) {
        scope.namespaces.insert(services.home.clone());
    }
    Some(Settings {
        source: kubeconfig
            .map(|file| if file.is_empty() { Source::InCluster } else { Source::File(PathBuf::from(file)) })?,
        writes: usize::try_from(writes?).ok()?,
        writes_per_second: per_second.map(|count| (count > 0).then_some(count))?,
        call_deadline: call?,
        list_deadline: list?,
        scope,
        one_network: one_network?,
        metal3: metal3?,
        openstack: openstack?,
        phpipam: phpipam?,
        services,
        endpoints: if gives? { Some(Endpoints { kinds: kinds? }) } else { None },
        machine_addresses: machine_addresses?,
        secrets_namespace: secrets_namespace?,
        identity: identity?,
        election: if elects? { Some(election?) } else { None },
        events: events?,
        metrics: metrics?,
        log: LogSettings { level: level?, format: format? },
    })
}

/// A namespace; by default the pod's.
fn own_namespace(host: &Host, text: &str) -> Result<String, Problem> {
    let own = || host.pod_namespace.as_deref().unwrap_or("kube-system");
    dns_label(if text.is_empty() { own() } else { text })
}

fn services(g: &mut Gathered, host: &Host) -> Option<Services> {
    let config_map = g.field("services-configmap", |text| {
        let Some((namespace, name)) = text.split_once('/') else {
            return problem("not a namespace and a name", "give NAMESPACE/NAME");
        };
        Ok((dns_label(namespace)?, dns_name(name)?))
    });
    let home = g.field("services-namespace", |text| own_namespace(host, text));
    let outside_pools = g.field("services-outside-pools", on_off);
    let names = g.field("lb-class-name", classes);
    let only = g.field("lb-class-only", on_off);
    let legacy = g.field("lb-class-legacy-handling", on_off);
    let classes = ClassRules { names: names?, only: only?, legacy: legacy? };
    Some(Services { classes, config_map: config_map?, home: home?, outside_pools: outside_pools? })
}

/// The kinds live as long as the program: the names of followed kinds do.
fn part_kinds(text: &str) -> Result<Vec<PartKind>, Problem> {
    let mut all = Vec::new();
    for one in text.split(',').map(str::trim).filter(|one| !one.is_empty()) {
        let fits = |kind: &str| {
            kind.chars().all(|c| c.is_ascii_alphanumeric()) && kind.starts_with(|c: char| c.is_ascii_uppercase())
        };
        let Some((kind, group)) = one.split_once('.').filter(|(kind, _)| fits(kind)) else {
            return problem(
                "not a kind and a group",
                "give KIND.GROUP: VSphereCluster.infrastructure.cluster.x-k8s.io",
            );
        };
        all.push(PartKind {
            group: dns_name(group)?.leak(),
            kind: kind.to_owned().leak(),
            plural: format!("{}s", kind.to_ascii_lowercase()).leak(),
            of_control_planes: false,
        });
    }
    Ok(all)
}

/// `none` is the empty name of kube-vip's setting.
fn classes(text: &str) -> Result<Vec<String>, Problem> {
    let names: Vec<&str> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let fits = |name: &&str| name.len() <= 253 && !name.contains(char::is_whitespace);
    if names.is_empty() || !names.iter().all(fits) {
        return problem("not the name of a class", "give names as in spec.loadBalancerClass, or none");
    }
    Ok(names.into_iter().map(|name| if name == "none" { String::new() } else { name.to_owned() }).collect())
}

fn election(g: &mut Gathered, host: &Host) -> Option<Election> {
    const SECOND: Duration = Duration::from_secs(1);
    let namespace = g.field("lease-namespace", |text| own_namespace(host, text))?;
    let name = g.field("lease-name", dns_name)?;
    let lease_duration = g.field("lease-duration", |text| {
        let time = duration_within(text, 3 * SECOND, 600 * SECOND, false)?;
        if time.subsec_nanos() == 0 { Ok(time) } else { problem("not whole seconds", "give whole seconds") }
    })?;
    let renew_deadline =
        g.field("renew-deadline", |text| duration_within(text, SECOND, lease_duration.saturating_sub(SECOND), false))?;
    let retry_period = g.field("retry-period", |text| {
        let time = duration_within(text, SECOND / 10, 600 * SECOND, false)?;
        if time * 6 / 5 < renew_deadline {
            Ok(time)
        } else {
            problem("too long for renew-deadline", "give one of which 1.2 times is shorter than renew-deadline")
        }
    })?;
    Some(Election { namespace, name, lease_duration, renew_deadline, retry_period })
}

fn namespaces(text: &str) -> Result<BTreeSet<String>, Problem> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(dns_label).collect()
}

fn dns_label(text: &str) -> Result<String, Problem> {
    if text.len() <= 63 && !text.contains('.') {
        return dns_name(text);
    }
    problem("not the name of a namespace", "give a name of at most 63 letters, digits and dashes")
}

fn dns_name(text: &str) -> Result<String, Problem> {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    if !text.is_empty() && text.len() <= 253 && text.chars().all(word) {
        return Ok(text.to_owned());
    }
    problem("not the name of an object", "give lower-case letters, digits, dashes and dots")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(given: &[(&str, &str)], env: &[(&str, &str)]) -> Result<Settings, SettingsErrors> {
        let given = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let host = Host { name: Some("pod-1".into()), pod_namespace: Some("mooring-system".into()) };
        let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Settings::load(&given, &env, &host, 10).map(|loaded| loaded.settings)
    }

    #[test]
    fn defaults_are_sound() {
        let settings = load(&[], &[]).unwrap();
        assert_eq!(settings.source, Source::InCluster);
        let election = settings.election.unwrap();
        assert_eq!((election.namespace.as_str(), settings.identity.as_str()), ("mooring-system", "pod-1_a"));
        assert_eq!(settings.writes_per_second, None);
    }

    #[test]
    fn a_flag_wins_over_the_environment() {
        let env = [("MOORING_ALLOCATOR_WRITES", "7"), ("MOORING_ALLOCATOR_LEADER_ELECTION", "false")];
        let settings = load(&[("writes", "9")], &env).unwrap();
        assert_eq!((settings.writes, settings.election), (9, None));
    }

    #[test]
    fn a_mistyped_variable_is_refused() {
        let errors = load(&[], &[("MOORING_ALLOCATOR_SERVICE", "off")]).unwrap_err();
        assert_eq!(
            errors.to_string(),
            "MOORING_ALLOCATOR_SERVICE is \"off\": no such setting; did you mean MOORING_ALLOCATOR_SERVICES? Else remove it"
        );
        // The kubelet makes these for a Service of that name, and the agent's are not the allocator's.
        let made = [
            ("MOORING_ALLOCATOR_SERVICE_HOST", "10.96.0.7"),
            ("MOORING_ALLOCATOR_PORT", "tcp://10.96.0.7:443"),
            ("MOORING_SERVICES", "on"),
        ];
        assert!(load(&[], &made).is_ok());
    }

    #[test]
    fn spaces_around_a_value_do_not_count() {
        let settings = load(&[("writes", " 9 "), ("leader-election", " OFF")], &[]).unwrap();
        assert_eq!((settings.writes, settings.election), (9, None));
    }

    #[test]
    fn services_are_served_by_kube_vips_rules() {
        let services = load(&[], &[]).unwrap().services.unwrap();
        assert_eq!(services.classes, ClassRules::default());
        assert_eq!(
            (services.config_map, &*services.home),
            (("kube-system".into(), "kubevip".into()), "mooring-system")
        );
        assert!(!services.outside_pools);
        assert!(load(&[("services-outside-pools", "on")], &[]).unwrap().services.unwrap().outside_pools);
        assert_eq!(load(&[("services", "off")], &[]).unwrap().services, None);
        let env =
            [("MOORING_ALLOCATOR_LB_CLASS_LEGACY_HANDLING", "false"), ("MOORING_ALLOCATOR_LB_CLASS_NAME", "none,a/b")];
        let classes = load(&[], &env).unwrap().services.unwrap().classes;
        assert_eq!((classes.names, classes.legacy), (vec![String::new(), "a/b".into()], false));
        let some = load(&[("namespaces", "a")], &[]).unwrap().scope;
        assert!(some.has_namespace("a") && some.has_namespace("mooring-system") && !some.has_namespace("b"));
        let alone = load(&[("namespaces", "a"), ("services", "off")], &[]).unwrap().scope;
        assert!(!alone.has_namespace("mooring-system"));
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let wrong = [
            ("writes", "0"),
            ("call-deadline", "10"),
            ("namespaces", "a,B"),
            ("services", "maybe"),
            ("services-configmap", "kubevip"),
            ("lb-class-name", " "),
            ("leader-election", "perhaps"),
            ("lease-duration", "2500ms"),
            ("metrics", "nowhere"),
            ("log-level", "loud"),
        ];
        let errors = load(&wrong, &[]).unwrap_err();
        let told: Vec<&str> = errors.0.iter().map(|error| error.setting.as_str()).collect();
        assert_eq!(told, wrong.map(|(name, _)| name));
        assert!(errors.to_string().contains("--writes is \"0\": not a number in range; give 1 to 500"), "{errors}");
        assert!(load(&[("renew-deadline", "15s")], &[]).is_err());
        assert!(load(&[("retry-period", "9s")], &[]).is_err());
    }

    /// The settings that the chart gives by values of their own, or that the pod gives.
    const NOT_IN_THE_CHART: [&str; 14] = [
        "services",
        "services-configmap",
        "endpoints",
        "endpoint-kinds",
        "machine-addresses",
        "metal3",
        "openstack",
        "phpipam",
        "secrets-namespace",
        "lease-name",
        "metrics",
        "kubeconfig",
        "lease-namespace",
        "identity",
    ];

    #[test]
    fn the_charts_schema_names_every_setting() {
        let chart = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/mooring-allocator");
        let text = std::fs::read_to_string(chart.join("values.schema.json")).unwrap();
        let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
        let settings = &schema["definitions"]["settings"];
        assert_eq!(settings["additionalProperties"], false);
        let named: std::collections::BTreeSet<&str> =
            settings["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        let all: Vec<&str> = SETTINGS.iter().map(|spec| spec.name).collect();
        let own = all.iter().copied().filter(|name| !NOT_IN_THE_CHART.contains(name));
        assert_eq!(named, own.collect::<std::collections::BTreeSet<&str>>());
        for name in NOT_IN_THE_CHART {
            assert!(all.contains(&name), "there is no setting {name}");
        }
    }
}
