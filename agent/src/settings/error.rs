//! What is wrong with settings, and what should be known of them.

use std::fmt;

use super::gather::Source;

/// One setting that will not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} = {value:?} ({from}): {problem}; {advice}")]
pub struct SettingsError {
    /// The setting, by our name, or by kube-vip's if Mooring has none for it.
    pub setting: String,
    /// Its value as it was given.
    pub value: String,
    /// Where it was given.
    pub from: Source,
    /// What is wrong.
    pub problem: String,
    /// What would do.
    pub advice: String,
}

/// All settings that will not do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsErrors(pub Vec<SettingsError>);

impl fmt::Display for SettingsErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0.len() == 1 { "setting" } else { "settings" };
        write!(f, "{} {plural} will not do:", self.0.len())?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for SettingsErrors {}

/// A setting that does no harm, but perhaps not what was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The setting, as it was named.
    pub setting: String,
    /// What should be known.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.setting, self.text)
    }
}
