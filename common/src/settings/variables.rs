//! Environment variables with a program's prefix that are not its settings: a typing error must not go unnoticed.

use std::collections::BTreeMap;

use super::{Origin, SettingsError, Spec, Warning};

/// Judges the variables with the prefix of a program's table. `program`: its name, for the advice.
#[must_use]
pub fn judge(
    env: &BTreeMap<String, String>,
    table: &'static [Spec],
    program: &str,
) -> (Vec<Warning>, Vec<SettingsError>) {
    let (mut warnings, mut errors) = (vec![], vec![]);
    let prefix = table.first().map_or("", |spec| spec.prefix);
    for (name, value) in env.iter().filter(|(name, _)| name.starts_with(prefix)) {
        let known = table.iter().any(|spec| spec.env() == *name);
        if is_service_link(name, value, table) {
            // A warning only where the name could be taken for a setting.
            if known {
                let text =
                    "is ignored: the kubelet made it for a Service; set enableServiceLinks: false on the pod".into();
                warnings.push(Warning { setting: format!("environment {name}"), text });
            }
        } else if !known {
            let advice = match nearest(name, table.iter().map(Spec::env)) {
                Some(near) => format!("did you mean {near}? Else remove it"),
                None => format!("remove it; `{program} --help` lists all settings"),
            };
            let (setting, value, from) = (name.clone(), value.clone(), Origin::Environment(name.clone()));
            errors.push(SettingsError { setting, value, from, problem: "no such setting".into(), advice });
        }
    }
    (warnings, errors)
}

/// Whether the kubelet made this variable for a Service whose name begins as the program's prefix: `_SERVICE_HOST`,
/// `_SERVICE_PORT[_NAME]`, and `_PORT[_NUMBER_TCP[_ADDR|_PORT|_PROTO]]`.
#[must_use]
pub fn is_service_link(name: &str, value: &str, table: &'static [Spec]) -> bool {
    let url = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let numbered = ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| {
        let Some((head, tail)) = name.rsplit_once(protocol) else {
            return false;
        };
        let number = head.rsplit_once("_PORT_").map_or("", |(_, number)| number);
        !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit())
            && ["", "_ADDR", "_PORT", "_PROTO"].contains(&tail)
    });
    let service = name.ends_with("_SERVICE_HOST") || name.contains("_SERVICE_PORT");
    let known = || table.iter().any(|spec| spec.env() == name);
    (url && name.ends_with("_PORT")) || numbered || (service && !known())
}

/// The name that is nearest to a mistyped one, if any is near.
#[must_use]
pub fn nearest(wrong: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let near = (wrong.len() / 3).min(6);
    // A name that is much longer or shorter is not near, and need not be compared.
    let scored = names.filter(|name| name.len().abs_diff(wrong.len()) <= near);
    let scored = scored.map(|name| (distance(wrong, &name), name));
    scored.min().filter(|(distance, _)| *distance <= near).map(|(_, name)| name)
}

/// Levenshtein's distance, in bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = i;
        let mut left = i + 1;
        for (slot, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let best = (corner + usize::from(x != y)).min(left + 1).min(*slot + 1);
            corner = std::mem::replace(slot, best);
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(a.len())
}
