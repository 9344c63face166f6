//! What becomes of each setting of a manifest.

use std::fmt;

use serde::Serialize;

use super::source::{NODE_NAME, Source, Variable, for_super_admin};
use crate::settings::kube_vip::{ENTRIES, Entry, Meaning};
use crate::settings::spec::{ENV_PREFIX, SETTINGS, Spec, find};
use crate::settings::translate::{Translation, translate};
use crate::settings::{Given, mistyped};

/// What becomes of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It has the same meaning and the same form here.
    Same,
    /// It has the same meaning, in another form.
    Different,
    /// It changes nothing here.
    NoEffect,
    /// Mooring does not do what it asks for.
    NotSupported,
    /// Its value cannot be read.
    Invalid,
    /// It is a setting of Mooring's.
    Ours,
    /// Neither program reads it.
    Unknown,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "same",
            Self::Different => "different",
            Self::NoEffect => "no effect",
            Self::NotSupported => "not supported",
            Self::Invalid => "invalid",
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

/// Why another kubeconfig is taken.
const SUPER_ADMIN: &str =
    "kubeadm makes super-admin.conf on the first node only; admin.conf has the rights that the agent needs";

/// All settings of a manifest, flags first.
#[must_use]
pub fn rows(source: &Source, flags: &Given) -> Vec<Row> {
    let of_flags = flags.0.iter().map(|(name, value)| {
        let setting = format!("--{name}");
        let theirs = ENTRIES.iter().find(|entry| entry.flag == name);
        row(&setting, Some(value), value, theirs, find(name))
    });
    let of_env = source.env.iter().map(|(name, variable)| {
        let (value, shown) = match variable {
            Variable::Text(text) => (Some(text), text.clone()),
            Variable::Filled(from) => (None, from.clone()),
        };
        let theirs = ENTRIES.iter().find(|entry| entry.env == name);
        row(name, value, &shown, theirs, SETTINGS.iter().find(|spec| spec.env() == *name))
    });
    let left = source.left.iter().map(|(field, value)| Row {
        setting: (*field).to_owned(),
        value: value.clone(),
        verdict: Verdict::Different,
        ours: String::new(),
        note: "not carried over: write it into the new manifest".to_owned(),
    });
    let elsewhere = source.env_from.iter().map(|from| Row {
        setting: "envFrom".to_owned(),
        value: from.clone(),
        verdict: Verdict::Invalid,
        ours: String::new(),
        note: "its settings are not in the file: write them there, as env".to_owned(),
    });
    let on_node = source.kubeconfig.iter().filter_map(|path| {
        let ours = for_super_admin(path)?;
        Some(Row {
            setting: "hostPath".to_owned(),
            value: path.clone(),
            verdict: Verdict::Different,
            ours: format!("{}={ours}", env("kubeconfig")),
            note: SUPER_ADMIN.to_owned(),
        })
    });
    of_flags.chain(of_env).chain(on_node).chain(elsewhere).chain(left).collect()
}

/// `value`: None: the kubelet fills it in, from what `shown` says.
fn row(
    setting: &str,
    value: Option<&String>,
    shown: &str,
    theirs: Option<&'static Entry>,
    ours: Option<&'static Spec>,
) -> Row {
    // What nobody here knows may be a password of something else.
    let is_hidden = theirs.map_or_else(|| ours.is_none(), Entry::is_secret);
    let row = |verdict, ours: String, note: &str| Row {
        setting: setting.to_owned(),
        value: if is_hidden { "(hidden)".to_owned() } else { shown.to_owned() },
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
    let Some(value) = value else {
        return match entry.meaning {
            Meaning::Same(name) if shown == NODE_NAME => row(Verdict::Same, format!("{}={shown}", env(name)), ""),
            Meaning::NoEffect(_, why) => row(Verdict::NoEffect, String::new(), why),
            _ => row(
                Verdict::Invalid,
                String::new(),
                "its value is not in the file: write it there, or give the setting as a flag",
            ),
        };
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
            let same = ours == *value || matches!(entry.meaning, Meaning::Same(_));
            let verdict = if same { Verdict::Same } else { Verdict::Different };
            let note = if same { "" } else { "the same meaning, in another form" };
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
