//! The agent's settings: flags, `MOORING_*` environment, kube-vip's environment names, defaults, in this order.
//!
//! Every setting stands in one table ([`spec::SETTINGS`]), every setting of kube-vip in another
//! ([`kube_vip::ENTRIES`]). The flags, `--help`, `mooring-agent config` and docs/src/reference/settings.md are made from them.

mod balancer;
pub mod docs;
mod error;
mod gather;
pub mod kube_vip;
pub mod mistyped;
mod parse;
pub mod spec;
pub mod translate;
mod types;
mod validate;

pub use mooring_common::settings::{Effective, Host, Origin, SettingsError, Warning};

pub use self::error::SettingsErrors;
pub use self::gather::Given;
pub use self::parse::usable;
pub use self::types::{
    Address, Announce, Api, ApiLoss, Credentials, DnsMode, Health, HealthAddress, LeaseSettings, Leases, Listen,
    LogFormat, LogLevel, LogSettings, Placement, Prefix, Provisional, Services, ServicesInterface, Settings, Witness,
};

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
    /// Works out the settings from flags and environment.
    ///
    /// # Errors
    /// All errors at once; each error names the setting, its value, its source and a valid value.
    pub fn load(
        given: &Given,
        env: impl IntoIterator<Item = (String, String)>,
        host: &Host,
    ) -> Result<Loaded, SettingsErrors> {
        let env = env.into_iter().collect();
        let (mut gathered, kube_vip) = gather::gather(given, &env, host);
        let settings = validate::validate(&mut gathered, kube_vip, host);
        match settings {
            Some(settings) if gathered.errors.is_empty() => {
                Ok(Loaded { settings, warnings: gathered.warnings, effective: gathered.effective })
            }
            _ => Err(SettingsErrors(gathered.errors.into_iter().chain(mistyped::errors(&env)).collect())),
        }
    }
}

#[cfg(test)]
mod tests;
