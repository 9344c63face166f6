//! Variables whose values are not known before a node runs the manifest: what a placeholder of a template, a pod's field or
//! a `ConfigMap` elsewhere gives.

use std::collections::BTreeMap;

use super::source::{Source, SourceError, Variable};
use crate::settings::Given;
use crate::settings::kube_vip::{ENTRIES, Entry, Meaning};
use crate::settings::spec::{SETTINGS, Spec};

/// Stands for a VIP that is not known. A name, for a name's family is not known either.
const SOME_VIP: &str = "some-vip";

/// The settings that a manifest is made of, beside being in it: it cannot be made without knowing them.
const NEEDED: [&str; 16] = [
    "control-plane",
    "services",
    "services-placement",
    "services-lease-name",
    "service-updates",
    "sessions-namespace",
    "namespace",
    "lease-name",
    "kubeconfig",
    "credentials",
    "handover-grace",
    "metrics",
    "run-dir",
    "status-socket",
    "record",
    "node-name",
];

/// A variable of the printed manifest that has its value from where the translated one has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Our setting.
    pub setting: &'static str,
    /// The variable: ours, or kube-vip's where its values have another form.
    pub name: String,
    /// Its value.
    pub value: Variable,
}

/// What becomes of a variable whose value is not known.
pub(super) enum Fate {
    /// It does not count; why.
    Unused(&'static str),
    /// It is carried over.
    Kept(Carried),
    /// The manifest is made for this value, the default of a placeholder.
    Fixed(String),
    /// Its value must be given; how.
    Asked(String),
}

/// What a file says of the settings.
#[derive(Debug, Default)]
pub(super) struct Environment {
    /// The values that are known.
    pub texts: BTreeMap<String, String>,
    /// The variables that are carried over.
    pub carried: Vec<Carried>,
}

/// The environment with which the settings are worked out on no particular node. `flags`: they count first.
///
/// # Errors
/// A value that must be known stands elsewhere.
pub(super) fn environment(source: &Source, flags: &Given) -> Result<Environment, SourceError> {
    if let Some((field, from)) = source.elsewhere.first() {
        let advice = "write its settings into the file, or give the ConfigMap in the same file".to_owned();
        return Err(SourceError::Elsewhere { name: (*field).to_owned(), from: from.clone(), advice });
    }
    let mut all = Environment::default();
    for (name, variable) in &source.env {
        if let Some(text) = variable.text() {
            all.texts.insert(name.clone(), text.to_owned());
            continue;
        }
        match fate(source, flags, name, variable) {
            Fate::Unused(_) => {}
            Fate::Kept(carried) => all.carried.push(carried),
            Fate::Fixed(default) => _ = all.texts.insert(name.clone(), default),
            Fate::Asked(advice) => {
                return Err(SourceError::Elsewhere { name: name.clone(), from: variable.words(), advice });
            }
        }
    }
    if let Some(address) = all.carried.iter().find(|one| one.setting == "address") {
        all.texts.insert(address.name.clone(), SOME_VIP.to_owned());
    }
    Ok(all)
}

/// What becomes of a variable whose value is not known.
pub(super) fn fate(source: &Source, flags: &Given, name: &str, variable: &Variable) -> Fate {
    let theirs = ENTRIES.iter().find(|entry| entry.env == name);
    let ours = SETTINGS.iter().find(|spec| spec.env() == name);
    let setting = theirs.and_then(Entry::setting).and_then(crate::settings::spec::find).or(ours);
    let meaning = theirs.map(|entry| entry.meaning);
    match (setting, meaning) {
        (None, None) => Fate::Unused("neither kube-vip nor Mooring reads it"),
        (None, Some(Meaning::NoEffect(_, why))) => Fate::Unused(why),
        (None, Some(_)) if !by_flag(flags, theirs) && variable.default().is_some() => fixed(variable),
        (None, Some(_)) => match theirs.filter(|entry| !entry.flag.is_empty()) {
            entry if by_flag(flags, entry) => Fate::Unused(OVERRULED),
            Some(entry) => Fate::Asked(format!("write its value into the file, or give --{}", entry.flag)),
            None => Fate::Asked("write its value into the file".to_owned()),
        },
        (Some(spec), _) if is_overruled(source, flags, name, spec) => Fate::Unused(OVERRULED),
        (Some(spec), _) if spec.name == "node-name" && variable.is_node_name() => {
            Fate::Unused("the agent's pod has the name of its node")
        }
        (Some(spec), _) if NEEDED.contains(&spec.name) && variable.default().is_some() => fixed(variable),
        (Some(spec), _) if NEEDED.contains(&spec.name) => {
            Fate::Asked(format!("write its value into the file, or give --{}", spec.name))
        }
        (Some(spec), meaning) => {
            let name = if let None | Some(Meaning::Same(_)) = meaning { spec.env() } else { name.to_owned() };
            Fate::Kept(Carried { setting: spec.name, name, value: variable.clone() })
        }
    }
}

fn fixed(variable: &Variable) -> Fate {
    Fate::Fixed(variable.default().unwrap_or_default().to_owned())
}

/// Whether a flag of kube-vip's says it.
fn by_flag(flags: &Given, theirs: Option<&Entry>) -> bool {
    theirs.is_some_and(|entry| flags.0.contains_key(entry.flag))
}

const OVERRULED: &str = "another one counts before it";

/// Whether a flag, our own variable, or another one of kube-vip's says the setting first.
fn is_overruled(source: &Source, flags: &Given, name: &str, spec: &Spec) -> bool {
    let says = |name: &str| source.env.get(name).is_some_and(|value| value.text() != Some(""));
    let same = || ENTRIES.iter().filter(|entry| entry.setting() == Some(spec.name));
    let by_flag = flags.0.contains_key(spec.name) || same().any(|entry| flags.0.contains_key(entry.flag));
    let by_variable = || {
        name != spec.env()
            && (says(&spec.env()) || same().take_while(|entry| entry.env != name).any(|entry| says(entry.env)))
    };
    by_flag || by_variable()
}
