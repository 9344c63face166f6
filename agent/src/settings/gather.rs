//! Collects the value of each setting and its source, before any validation.

use std::collections::BTreeMap;

use clap::ArgMatches;
use mooring_common::settings::flags::given;
use mooring_common::settings::variables;
use mooring_common::settings::{Gathered, Host, Origin, SettingsError, Warning};

use super::kube_vip::{self, Entry, Meaning, Part};
use super::spec::{SETTINGS, Spec};
use super::translate::{Translation, translate};
use super::{balancer, mistyped, parse};

/// The flags that were given, by name without dashes: ours and kube-vip's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given(pub BTreeMap<String, String>);

impl Given {
    /// The settings among the arguments that clap found on the command line.
    #[must_use]
    pub fn from_matches(matches: &ArgMatches) -> Self {
        let ours = SETTINGS.iter().map(|s| s.name);
        let theirs = kube_vip::ENTRIES.iter().map(|e| e.flag).filter(|f| !f.is_empty());
        Self(given(matches, ours.chain(theirs)))
    }
}

/// Sorts flags and environment, and reports whether anything of kube-vip's was given.
pub(super) fn gather(given: &Given, env: &BTreeMap<String, String>, host: &Host) -> (Gathered, bool) {
    let mut gatherer = Gatherer::default();
    gatherer.theirs(given, env);
    let (warnings, errors) = variables::judge(env, SETTINGS, "mooring-agent");
    gatherer.warnings.extend(warnings);
    gatherer.warnings.extend(mistyped::warnings(env));
    gatherer.errors.extend(errors);
    let ours = |spec: &'static Spec| {
        let flag = given.0.get(spec.name).map(|value| (value.clone(), Origin::Flag(format!("--{}", spec.name))));
        let name = spec.env();
        let variable = env
            .get(&name)
            .filter(|v| spec.empty_counts || !v.is_empty())
            .filter(|v| !variables::is_service_link(&name, v, SETTINGS));
        let variable = variable.map(|value| (value.clone(), Origin::Environment(name)));
        let flag = flag.or_else(|| gatherer.flags.remove(spec.name));
        let of_kube_vip = gatherer.variables.remove(spec.name);
        if let (Some(flag), Some(of_kube_vip)) = (&flag, &of_kube_vip) {
            gatherer.compare(flag, of_kube_vip);
        }
        flag.or(variable).or(of_kube_vip)
    };
    let mut all = Gathered::new(SETTINGS, ours);
    (all.warnings, all.errors) = (gatherer.warnings, gatherer.errors);
    gatherer.refused.extend(balancer::conflict(given, env, &all.get("port").0));
    judge(&mut all, gatherer.refused);
    if gatherer.kube_vip {
        follow_pod_namespace(&mut all, host);
    }
    (all, gatherer.kube_vip)
}

/// Settings that Mooring does not support are errors where kube-vip would act on them. Elsewhere they do no harm.
fn judge(all: &mut Gathered, refused: Vec<(Part, SettingsError)>) {
    for (part, error) in refused {
        let off = match part {
            Part::Services if !serves(all) => "services",
            Part::ControlPlane if !holds_control_plane(all) => "control-plane",
            _ => {
                all.errors.push(error);
                continue;
            }
        };
        let text = format!("has no effect: {off} is off on this node");
        all.warnings.push(Warning { setting: error.from.to_string(), text });
    }
}

/// Whether this node holds VIPs of Services. A value that cannot be read has its own error.
fn serves(all: &Gathered) -> bool {
    parse::on_off(all.get("services").0.trim()).unwrap_or(true)
}

/// Whether this node holds the control plane's VIPs: by default if there is an address, or nothing else to do. A value
/// that cannot be read has its own error.
pub(super) fn holds_control_plane(all: &Gathered) -> bool {
    let said = all.get("control-plane").0;
    if said.trim().is_empty() {
        !serves(all) || !all.get("address").0.is_empty()
    } else {
        parse::on_off(said.trim()).unwrap_or(true)
    }
}

/// A pod of kube-vip's keeps its Lease in its own namespace, whatever `cp_namespace` says. With another namespace there
/// would be two Leases during a migration, and two owners.
fn follow_pod_namespace(gathered: &mut Gathered, host: &Host) {
    let (namespace, source) = gathered.get("namespace");
    let Some(pod) = host.pod_namespace.as_ref().filter(|pod| **pod != namespace) else {
        return;
    };
    if matches!(source, Origin::KubeVip(_) | Origin::Default) {
        let text = format!(
            "the Lease is in the pod's namespace {pod:?}, not in {namespace:?}, because that is where kube-vip keeps it; \
             MOORING_NAMESPACE overrides that",
        );
        gathered.warnings.push(Warning { setting: "namespace".into(), text });
        for effective in gathered.effective.iter_mut().filter(|e| e.name == "namespace") {
            (effective.value, effective.source) = (pod.clone(), Origin::PodNamespace);
        }
    }
}

#[derive(Default)]
struct Gatherer {
    /// Whether anything of kube-vip's was given.
    kube_vip: bool,
    /// By our name: from kube-vip's flags.
    flags: BTreeMap<&'static str, (String, Origin)>,
    /// By our name: from kube-vip's environment.
    variables: BTreeMap<&'static str, (String, Origin)>,
    warnings: Vec<Warning>,
    errors: Vec<SettingsError>,
    /// What is not supported, and counts for a part of kube-vip alone.
    refused: Vec<(Part, SettingsError)>,
}

impl Gatherer {
    /// Reads kube-vip's names.
    fn theirs(&mut self, given: &Given, env: &BTreeMap<String, String>) {
        for entry in kube_vip::ENTRIES {
            if let Some(value) = given.0.get(entry.flag) {
                self.take(entry, value, Origin::Flag(format!("--{}", entry.flag)));
            }
            // kube-vip treats most empty variables as absent.
            if let Some(value) = env.get(entry.env).filter(|v| entry.empty_counts || !v.is_empty()) {
                self.take(entry, value, Origin::KubeVip(entry.env.to_owned()));
            }
        }
    }

    fn take(&mut self, entry: &'static Entry, value: &str, source: Origin) {
        self.kube_vip = true;
        if let Some(text) = logrus(entry, value) {
            self.warn(&source, text);
        }
        match translate(entry, value) {
            Translation::Ours { name, value } => self.put(name, value, source),
            Translation::Invalid { name, problem, advice } => self.refuse(name, value, source, problem, advice),
            Translation::Refused(advice) => {
                let error = refusal(entry.name(), value, source, "not supported", advice);
                match entry.part {
                    Part::Any => self.errors.push(error),
                    part => self.refused.push((part, error)),
                }
            }
            Translation::NoEffect { why, quiet: false } => self.warn(&source, format!("has no effect: {why}")),
            Translation::NoEffect { quiet: true, .. } | Translation::Fine => {}
        }
    }

    fn put(&mut self, name: &'static str, value: String, source: Origin) {
        let said = if matches!(source, Origin::Flag(_)) { &mut self.flags } else { &mut self.variables };
        match said.get(name) {
            None => {
                said.insert(name, (value, source));
            }
            Some((other, _)) if *other == value => {}
            Some((_, winner)) => {
                let text = format!("has no effect: {winner} says otherwise");
                self.warn(&source, text);
            }
        }
    }

    /// In kube-vip the environment overrides flags; here it is the other way round.
    fn compare(&mut self, flag: &(String, Origin), variable: &(String, Origin)) {
        let ((said, by_flag), (other, by_variable)) = (flag, variable);
        let switch = |text: &str| parse::on_off(text.trim()).ok();
        let same = said.trim() == other.trim() || (switch(said).is_some() && switch(said) == switch(other));
        if !same {
            let text = format!(
                "has no effect: {by_flag} says otherwise, and flags count first here; kube-vip itself would use {other:?}. \
                 Remove one of them"
            );
            self.warn(by_variable, text);
        }
    }

    fn warn(&mut self, source: &Origin, text: String) {
        self.warnings.push(Warning { setting: source.to_string(), text });
    }

    fn refuse(&mut self, setting: &str, value: &str, from: Origin, problem: &str, advice: &str) {
        self.errors.push(refusal(setting, value, from, problem, advice));
    }
}

/// kube-vip's older numbers of log levels are logrus's. What such a number means now, if somebody may mean that.
fn logrus(entry: &Entry, value: &str) -> Option<String> {
    let Meaning::SlogLevel(_) = entry.meaning else { return None };
    let number = value.trim().parse().ok().filter(|number| (1..=6).contains(number))?;
    let meant = ["error", "error", "warn", "info", "debug", "trace"].get(usize::try_from(number).ok()? - 1)?;
    let now = parse::log_level_name(kube_vip::slog_level(number));
    Some(format!(
        "{number} means {now}, as in kube-vip today; older versions meant {meant} by it: if you mean that, set MOORING_LOG_LEVEL={meant}"
    ))
}

pub(super) fn refusal(setting: &str, value: &str, from: Origin, problem: &str, advice: &str) -> SettingsError {
    let (setting, value) = (setting.to_owned(), value.to_owned());
    SettingsError { setting, value, from, problem: problem.into(), advice: advice.into() }
}
