//! What is wrong with settings.

use std::fmt;

use mooring_common::settings::SettingsError;

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
