//! The value and source of each setting, and the errors.

use std::fmt;

use serde::Serialize;

use super::spec::Spec;
use crate::values::Problem;

/// Where a setting's value came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "name")]
pub enum Origin {
    /// A flag, with its dashes.
    Flag(String),
    /// An environment variable of ours.
    Environment(String),
    /// An environment variable of kube-vip's.
    KubeVip(String),
    /// The namespace of the pod's service account, which kube-vip prefers to `cp_namespace`.
    PodNamespace,
    /// The setting was not given.
    #[default]
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::KubeVip(name) => write!(f, "kube-vip environment {name}"),
            Self::PodNamespace => f.write_str("namespace of the pod, as kube-vip does"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// The value of a setting and where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Effective {
    /// The setting.
    pub name: &'static str,
    /// Its value, in our form.
    pub value: String,
    /// The source of the value.
    pub source: Origin,
}

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} = {value:?} ({from}): {problem}; {advice}")]
pub struct SettingsError {
    /// The setting, by our name, or by kube-vip's if Mooring has none for it.
    pub setting: String,
    /// Its value as it was given.
    pub value: String,
    /// Where it was given.
    pub from: Origin,
    /// What is wrong.
    pub problem: String,
    /// Valid values.
    pub advice: String,
}

/// A harmless setting that may not do what was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The setting, as it was named.
    pub setting: String,
    /// What the operator should know.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.setting, self.text)
    }
}

/// What was set, for the log: the settings that have another value than the table's default, or were given.
#[must_use]
pub fn summary(effective: &[Effective], table: &[Spec]) -> String {
    let default = |name| table.iter().find(|spec| spec.name == name).map_or("", |spec| spec.default);
    let set = effective.iter().filter(|one| one.source != Origin::Default || one.value != default(one.name));
    let shown = set.map(|one| format!("{}={:?} ({})", one.name, one.value, one.source));
    shown.collect::<Vec<_>>().join(", ")
}

/// The gathered values, and their errors.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// One for each setting, in the order of the table.
    pub effective: Vec<Effective>,
    /// Harmless findings that the operator should know.
    pub warnings: Vec<Warning>,
    /// The invalid settings.
    pub errors: Vec<SettingsError>,
}

impl Gathered {
    /// The settings of the table, each with the value that `said` returns; otherwise with its default.
    pub fn new(table: &'static [Spec], mut said: impl FnMut(&'static Spec) -> Option<(String, Origin)>) -> Self {
        let effective = |spec| {
            let (value, source) = said(spec).unwrap_or_else(|| (spec.default.to_owned(), Origin::Default));
            Effective { name: spec.name, value, source }
        };
        Self { effective: table.iter().map(effective).collect(), warnings: Vec::new(), errors: Vec::new() }
    }

    /// The value of a setting of the table, and its source.
    #[must_use]
    pub fn get(&self, name: &str) -> (String, Origin) {
        let found = self.effective.iter().find(|e| e.name == name);
        found.map_or_else(|| (String::new(), Origin::Default), |e| (e.value.clone(), e.source.clone()))
    }

    /// Sets a worked-out default for a setting that was not given.
    pub fn default(&mut self, name: &str, value: String) {
        let found = self.effective.iter_mut().find(|e| e.name == name && e.source == Origin::Default);
        if let Some(effective) = found {
            effective.value = value;
        }
    }

    /// Shows a setting in the form in which it is used.
    pub fn show(&mut self, name: &str, value: &str) {
        for effective in self.effective.iter_mut().filter(|e| e.name == name) {
            value.clone_into(&mut effective.value);
        }
    }

    /// Shows a value that one setting sets for another.
    pub fn overrule(&mut self, name: &str, value: &str, by: &str) {
        let (_, source) = self.get(by);
        for effective in self.effective.iter_mut().filter(|e| e.name == name) {
            value.clone_into(&mut effective.value);
            effective.source = source.clone();
        }
    }

    /// Records that a setting is invalid.
    pub fn refuse(&mut self, name: &str, problem: impl Into<String>, advice: impl Into<String>) {
        let (value, from) = self.get(name);
        let error =
            SettingsError { setting: name.to_owned(), value, from, problem: problem.into(), advice: advice.into() };
        self.errors.push(error);
    }

    /// One setting, without the spaces around it; a problem becomes an error.
    pub fn field<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T, Problem>) -> Option<T> {
        match read(self.get(name).0.trim()) {
            Ok(value) => Some(value),
            Err((problem, advice)) => {
                self.refuse(name, problem, advice);
                None
            }
        }
    }
}
