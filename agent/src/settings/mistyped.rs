//! Names that look like kube-vip's and are none: kube-vip ignores them, and the setting that was meant has its default.

use std::collections::BTreeMap;

use mooring_common::settings::variables::nearest;
use mooring_common::settings::{Origin, SettingsError, Warning};

use super::kube_vip;

/// The beginnings of kube-vip's names that other programs' variables hardly have.
const PREFIXES: [&str; 6] = ["vip_", "svc_", "cp_", "lb_", "bgp_", "egress_"];

/// What to say of a variable that is like one of kube-vip's; None: it is one, or is like none. Its value may be anything, and is not
/// repeated.
#[must_use]
pub fn advice(name: &str) -> Option<String> {
    let theirs = || kube_vip::ENTRIES.iter().map(|entry| entry.env);
    if theirs().any(|env| env == name) {
        return None;
    }
    let near = nearest(name, theirs().filter(|env| !env.is_empty()).map(str::to_owned));
    match near.filter(|near| near.contains('_')) {
        Some(near) if name.contains('_') => Some(format!("did you mean {near}?")),
        _ => PREFIXES.iter().any(|prefix| name.starts_with(prefix)).then(|| "remove it".to_owned()),
    }
}

/// The mistyped variables, and what to say of each.
fn all(env: &BTreeMap<String, String>) -> impl Iterator<Item = (&String, String)> {
    // Ours, in capitals, are judged elsewhere.
    env.keys()
        .filter(|name| name.bytes().all(|byte| !byte.is_ascii_uppercase()))
        .filter_map(|name| Some((name, advice(name)?)))
}

/// As warnings: a new version of kube-vip may know the name, and kube-vip takes no notice either.
pub(super) fn warnings(env: &BTreeMap<String, String>) -> Vec<Warning> {
    let warning = |(name, advice): (&String, String)| Warning {
        setting: format!("environment {name}"),
        text: format!("has no effect: neither kube-vip nor Mooring has such a setting; {advice}"),
    };
    all(env).map(warning).collect()
}

/// As errors, where there are others: perhaps this is why.
pub(super) fn errors(env: &BTreeMap<String, String>) -> Vec<SettingsError> {
    let error = |(name, advice): (&String, String)| SettingsError {
        setting: name.clone(),
        value: "(hidden)".to_owned(),
        from: Origin::Environment(name.clone()),
        problem: "neither kube-vip nor Mooring has such a setting".into(),
        advice,
    };
    all(env).map(error).collect()
}
