//! What the agent is told: flags, `MOORING_*` environment, kube-vip's environment names, defaults, in this order.
//!
//! Every setting stands in one table ([`spec::SETTINGS`]), every setting of kube-vip in another
//! ([`kube_vip::ENTRIES`]). The flags, `--help`, `mooring-agent config` and docs/src/reference/settings.md are made from them.

pub mod docs;
mod error;
mod gather;
pub mod kube_vip;
mod parse;
pub mod spec;
mod types;
mod validate;

pub use self::error::{SettingsError, SettingsErrors, Warning};
pub use self::gather::{Effective, Given, Source};
pub use self::parse::usable;
pub use self::types::{
    Address, Announce, Api, ApiLoss, Credentials, DnsMode, Health, LeaseSettings, Leases, Listen, LogFormat, LogLevel,
    LogSettings, Placement, Prefix, Provisional, Services, ServicesInterface, Settings, Witness,
};

/// What the machine says, for defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The host's name, for `node-name`. None if the kernel does not say.
    pub name: Option<String>,
    /// The namespace of the pod's service account, if one is mounted.
    pub pod_namespace: Option<String>,
}

/// Where the kernel says the host's name.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";
/// Where the kubelet puts the namespace of the pod's service account.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

impl Host {
    /// Asks this machine.
    #[must_use]
    pub fn read() -> Self {
        // Either file may well be absent; where its absence matters the setting's own error says what to do.
        let line = |path| std::fs::read_to_string(path).ok().map(|s| s.trim().to_owned()).filter(|s| !s.is_empty());
        Self { name: line(HOSTNAME), pod_namespace: line(POD_NAMESPACE) }
    }
}

/// Settings that are sound, and where each came from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// What is harmless, but should be known.
    pub warnings: Vec<Warning>,
    /// Each setting's value and source, in the order of the table.
    pub effective: Vec<Effective>,
}

impl Settings {
    /// Works out the settings from flags and environment.
    ///
    /// # Errors
    /// Everything that is wrong, at once; each error names the setting, its value, its source and what would do.
    pub fn load(
        given: &Given,
        env: impl IntoIterator<Item = (String, String)>,
        host: &Host,
    ) -> Result<Loaded, SettingsErrors> {
        let mut gathered = gather::gather(given, env, host);
        let settings = validate::validate(&mut gathered, host);
        match settings {
            Some(settings) if gathered.errors.is_empty() => {
                Ok(Loaded { settings, warnings: gathered.warnings, effective: gathered.effective })
            }
            _ => Err(SettingsErrors(gathered.errors)),
        }
    }
}

#[cfg(test)]
mod tests;
