//! What becomes of each setting of a manifest.

use std::fmt;

use serde::Serialize;

use super::carried::{self, Fate};
use super::pod::keeps_nodes;
use super::source::{Shape, Source, Variable, for_super_admin};
use crate::settings::kube_vip::{ENTRIES, Entry, Meaning};
use crate::settings::spec::{ENV_PREFIX, SETTINGS, Spec, find};
use crate::settings::translate::{Translation, translate};
use crate::settings::{Given, Loaded, Prefix, SettingsErrors, Warning, mistyped};

/// What becomes of a setting. In the order in which people should look at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Mooring does not do what it asks for.
    NotSupported,
    /// Its value cannot be read.
    Invalid,
    /// Mooring does something else.
    Different,
    /// Neither program reads it.
    Unknown,
    /// It changes nothing here.
    NoEffect,
    /// It has the same meaning, in another form.
    OtherForm,
    /// It has the same meaning and the same form here.
    Same,
    /// It is a setting of Mooring's.
    Ours,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "same",
            Self::Different => "DIFFERENT",
            Self::OtherForm => "other form",
            Self::NoEffect => "no effect",
            Self::NotSupported => "NOT SUPPORTED",
            Self::Invalid => "INVALID",
            Self::Ours => "ours",
            Self::Unknown => "unknown",
        })
    }
}

/// One setting of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its name in the manifest, a flag with its dashes.
    pub setting: String,
    /// Its value there.
    pub value: String,
    /// What becomes of it.
    pub verdict: Verdict,
    /// Our setting and its value, as an environment variable; empty: none.
    pub ours: String,
    /// Why, or what to do instead.
    pub note: String,
}

const OTHER_FORM: &str = "the same meaning, in another form";

/// Why another kubeconfig is taken.
const SUPER_ADMIN: &str =
    "kubeadm makes super-admin.conf on the first node only; admin.conf has the rights that the agent needs";

/// All settings of a manifest, flags first. `flags`: the manifest's own; `all`: with those that count first.
#[must_use]
pub fn rows(source: &Source, flags: &Given, all: &Given) -> Vec<Row> {
    let of_flags = flags.0.iter().map(|(name, value)| {
        let theirs = ENTRIES.iter().find(|entry| entry.flag == name);
        row(&format!("--{name}"), value, theirs, find(name))
    });
    let of_env = source.env.iter().map(|(name, variable)| match variable.text() {
        Some(value) => {
            let theirs = ENTRIES.iter().find(|entry| entry.env == name);
            row(name, value, theirs, SETTINGS.iter().find(|spec| spec.env() == *name))
        }
        None => unknown(source, all, name, variable),
    });
    let other = |field: &str, value: &str, verdict, note: &str| Row {
        setting: field.to_owned(),
        value: value.to_owned(),
        verdict,
        ours: String::new(),
        note: note.to_owned(),
    };
    let left = source.left.iter().map(|(field, value)| {
        other(field, value, Verdict::Different, "not carried over: write it into the new manifest")
    });
    let elsewhere = source.elsewhere.iter().map(|(field, from)| {
        other(field, from, Verdict::Invalid, "its settings are not in the file: write them there")
    });
    let nodes = source.schedule.fields().map(|(field, value)| other(field, &value.to_string(), Verdict::Same, ""));
    let on_node = source.kubeconfig.iter().filter_map(|path| {
        let ours = for_super_admin(path)?;
        let ours = format!("{}={ours}", env("kubeconfig"));
        Some(Row { ours, ..other("hostPath", path, Verdict::Different, SUPER_ADMIN) })
    });
    of_flags.chain(of_env).chain(on_node).chain(elsewhere).chain(left).chain(nodes).collect()
}

/// A variable whose value is not in the file.
fn unknown(source: &Source, all: &Given, name: &str, variable: &Variable) -> Row {
    let (verdict, ours, note) = match carried::fate(source, all, name, variable) {
        Fate::Kept(carried) => (Verdict::Same, carried.name, "its value is taken from there, as before".to_owned()),
        Fate::Unused(why) => {
            (if variable.is_node_name() { Verdict::Same } else { Verdict::NoEffect }, String::new(), why.to_owned())
        }
        Fate::Fixed(default) => (
            Verdict::Different,
            String::new(),
            format!("the manifest is made for the placeholder's default, {default}"),
        ),
        Fate::Asked(advice) => (Verdict::Invalid, String::new(), format!("its value is not in the file: {advice}")),
    };
    Row { setting: name.to_owned(), value: variable.words(), verdict, ours, note }
}

/// What the settings came to, all together: a row may not say otherwise.
pub(super) fn agree(rows: &mut Vec<Row>, source: &Source, loaded: &Loaded) {
    for row in &mut *rows {
        let about = |warning: &&Warning| warning.setting.rsplit(' ').next() == Some(row.setting.as_str());
        if let Some(warning) = loaded.warnings.iter().find(about) {
            let (verdict, note) = match warning.text.strip_prefix("has no effect: ") {
                Some(why) => (Verdict::NoEffect, why),
                None => (Verdict::Different, warning.text.as_str()),
            };
            (row.verdict, row.note) = (verdict, note.to_owned());
        }
        prefix(row, loaded);
    }
    if source.shape != Shape::Pod && !keeps_nodes(&loaded.settings, &source.schedule) {
        let note =
            "the agents run on control-plane nodes only: on others there is no API server for the VIP".to_owned();
        let (setting, ours) = ("affinity".to_owned(), String::new());
        rows.push(Row { setting, value: "(none)".to_owned(), verdict: Verdict::Different, ours, note });
    }
}

/// Prefix lengths are shown as they are used, and VIPs of Services have none.
fn prefix(row: &mut Row, loaded: &Loaded) {
    let name = env("prefix");
    let effective = loaded.effective.iter().find(|one| one.name == "prefix").map_or("", |one| &one.value);
    if !row.ours.starts_with(&format!("{name}=")) {
        return;
    }
    row.ours = format!("{name}={effective}");
    if row.verdict == Verdict::NoEffect {
        // kube-vip gives them to VIPs of Services.
        row.verdict = Verdict::Different;
    }
    let Prefix { v4, v6 } = loaded.settings.prefix;
    if row.verdict == Verdict::Same && loaded.settings.services.is_some() && (v4, v6) != (32, 128) {
        let note = "for the control plane's VIPs; those of Services have 32 and 128".to_owned();
        (row.verdict, row.note) = (Verdict::Different, note);
    } else if row.verdict == Verdict::Same && row.value != effective {
        (row.verdict, row.note) = (Verdict::OtherForm, OTHER_FORM.to_owned());
    }
}

/// Why there is no manifest: each setting that is in the way says so in its row.
pub(super) fn refuse(rows: &mut [Row], errors: &SettingsErrors) {
    for error in &errors.0 {
        let name = error.from.to_string();
        let is_about = |row: &&mut Row| {
            name.rsplit(' ').next() == Some(row.setting.as_str())
                && !matches!(row.verdict, Verdict::NotSupported | Verdict::Invalid)
        };
        if let Some(row) = rows.iter_mut().find(is_about) {
            row.verdict = if error.problem == "not supported" { Verdict::NotSupported } else { Verdict::Invalid };
            row.ours.clear();
            row.note = format!("{}: {}", error.problem, error.advice);
        }
    }
}

/// What needs somebody to look at it comes first.
pub(super) fn sort(rows: &mut [Row]) {
    rows.sort_by_key(|row| row.verdict);
}

fn row(setting: &str, value: &str, theirs: Option<&'static Entry>, ours: Option<&'static Spec>) -> Row {
    // What nobody here knows may be a password of something else.
    let is_hidden = theirs.map_or_else(|| ours.is_none(), Entry::is_secret);
    let row = |verdict, ours: String, note: &str| Row {
        setting: setting.to_owned(),
        value: if is_hidden { "(hidden)".to_owned() } else { value.to_owned() },
        verdict,
        ours,
        note: note.to_owned(),
    };
    let Some(entry) = theirs else {
        if let Some(spec) = ours {
            return row(Verdict::Ours, spec.env(), "");
        }
        let advice = mistyped::advice(setting).map(|advice| format!("; {advice}")).unwrap_or_default();
        return row(Verdict::Unknown, String::new(), &format!("neither kube-vip nor Mooring reads it{advice}"));
    };
    if value.is_empty() && !entry.empty_counts {
        return row(Verdict::NoEffect, String::new(), "an empty value counts as unset, in kube-vip as well");
    }
    match translate(entry, value) {
        Translation::Ours { name, value } if for_super_admin(&value).is_some() => {
            let ours = for_super_admin(&value).unwrap_or(value);
            row(Verdict::Different, format!("{}={ours}", env(name)), SUPER_ADMIN)
        }
        Translation::Ours { name, value: ours } => {
            let same = ours == value || matches!(entry.meaning, Meaning::Same(_));
            let verdict = if same { Verdict::Same } else { Verdict::OtherForm };
            let note = if same { "" } else { OTHER_FORM };
            row(verdict, format!("{}={ours}", env(name)), note)
        }
        Translation::Fine => row(Verdict::Same, String::new(), "that is what Mooring does"),
        Translation::NoEffect { why, .. } => row(Verdict::NoEffect, String::new(), why),
        Translation::Refused(advice) => row(Verdict::NotSupported, String::new(), advice),
        Translation::Invalid { problem, advice, .. } => {
            row(Verdict::Invalid, String::new(), &format!("{problem}: {advice}"))
        }
    }
}

fn env(name: &str) -> String {
    format!("{ENV_PREFIX}{}", name.to_uppercase().replace('-', "_"))
}
