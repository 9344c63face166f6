//! `mooring-agent manifest`, and `config --from`.

use std::ffi::OsString;
use std::path::Path;

use super::carried::{self, Carried, Environment};
use super::container::is_default;
use super::pod::{self, Kept, Kind, Options, PodError};
use super::report::{self, Row};
use super::source::{self, Shape, Source, SourceError};
use super::wrapped::{NotPutBack, Way};
use super::{SOME_NODE, rbac};
use crate::cli::{self, Action};
use crate::settings::spec::find;
use crate::settings::{Given, Host, Loaded, Settings, SettingsErrors, Warning};

/// What `manifest` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An object that runs the agent.
    Pod(Kind),
    /// The service account and its rights.
    Rbac,
}

/// Why there is nothing to print.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file gives no settings.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The arguments of the file's container are none of kube-vip's or ours.
    #[error("{file}: the arguments of the container: {problem}")]
    Arguments {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// The settings are invalid.
    #[error("{0}")]
    Settings(SettingsErrors),
    /// They do not fit a pod.
    #[error(transparent)]
    Pod(#[from] PodError),
    /// It stands in an object that cannot be written.
    #[error(transparent)]
    Wrapped(#[from] NotPutBack),
    /// Neither a kind nor a file.
    #[error("say what to print: static-pod, daemonset or rbac; or --from FILE, and it is what the file has")]
    NoKind,
}

/// A manifest of kube-vip's, or one of ours, read.
pub struct Translated {
    source: Source,
    /// Where in the file it stands.
    way: Way,
    flags: Given,
}

impl Translated {
    /// Reads the file.
    ///
    /// # Errors
    /// It gives no settings, or its container has arguments that nobody knows.
    pub fn read(file: &Path) -> Result<Self, ManifestError> {
        let (source, way) = source::read(file)?;
        let args = std::iter::once("mooring-agent").chain(source.args.iter().map(String::as_str)).map(OsString::from);
        let wrong = |problem| ManifestError::Arguments { file: file.display().to_string(), problem };
        match cli::parse(args, |_| None) {
            Ok(Action::Run(flags)) => Ok(Self { source, way, flags }),
            Ok(Action::Refuse(problem)) => Err(wrong(problem)),
            Ok(_) => Err(wrong("they do not run an agent".into())),
            Err(error) => Err(wrong(error.to_string().trim_end().to_owned())),
        }
    }

    /// What becomes of each setting, with flags that count first.
    #[must_use]
    pub fn rows(&self, flags: &Given) -> Vec<Row> {
        let mut rows = report::rows(&self.source, &self.flags, &self.with(flags));
        match self.load(flags) {
            Ok(loaded) => report::agree(&mut rows, &self.source, &loaded),
            Err(ManifestError::Settings(errors)) => report::refuse(&mut rows, &errors),
            // It is about no setting, or about one whose row says so.
            Err(_) => {}
        }
        report::sort(&mut rows);
        rows
    }

    /// The settings, with flags that count first.
    ///
    /// # Errors
    /// They are invalid, or not supported.
    pub fn load(&self, flags: &Given) -> Result<Loaded, ManifestError> {
        Ok(self.worked_out(flags)?.0)
    }

    /// The flags: its own, the mounted kubeconfig, and those that count first.
    fn with(&self, flags: &Given) -> Given {
        let mut all = self.flags.clone();
        // Ours is mounted where the node has it.
        let on_node = self.source.kubeconfig.clone().map(|path| source::for_super_admin(&path).unwrap_or(path));
        if let Some(path) = on_node.filter(|path| find("kubeconfig").is_some_and(|s| s.default != *path)) {
            all.0.insert("kubeconfig".to_owned(), path);
        }
        all.0.values_mut().for_each(not_super_admin);
        all.0.extend(flags.0.clone());
        all
    }

    fn worked_out(&self, flags: &Given) -> Result<(Loaded, Vec<Carried>), ManifestError> {
        let all = self.with(flags);
        let Environment { mut texts, carried } = carried::environment(&self.source, &all)?;
        texts.values_mut().for_each(not_super_admin);
        // A kubeconfig comes with no namespace; a service account does.
        let pod_namespace = self.source.namespace.clone().filter(|_| self.source.kubeconfig.is_none());
        let mut loaded = load(&all, texts, pod_namespace)?;
        let has_account = self.source.kubeconfig.is_some() || self.source.service_account;
        if !has_account && is_default(&loaded, "kubeconfig") {
            loaded.warnings.push(Warning { setting: "kubeconfig".to_owned(), text: NO_KUBECONFIG.to_owned() });
        }
        Ok((loaded, carried))
    }

    /// What is printed if nobody says: what the file has.
    fn kind(&self, loaded: &Loaded, options: &Options) -> Kind {
        match self.source.shape {
            Shape::Pod if self.source.service_account && pod::keeps_account(loaded, options) => Kind::Pod,
            Shape::Pod => Kind::StaticPod,
            Shape::DaemonSet | Shape::ChartValues => Kind::DaemonSet,
        }
    }
}

const NO_KUBECONFIG: &str = "the pod mounts none where kube-vip looks for it, and names no service account: a static pod gets \
                             /etc/kubernetes/admin.conf of its node; where nodes have another one, as with k3s and RKE2, give --kubeconfig";

fn not_super_admin(value: &mut String) {
    if let Some(path) = source::for_super_admin(value) {
        *value = path;
    }
}

fn load(
    flags: &Given,
    env: impl IntoIterator<Item = (String, String)>,
    pod_namespace: Option<String>,
) -> Result<Loaded, ManifestError> {
    let host = Host { name: Some(SOME_NODE.to_owned()), pod_namespace };
    Settings::load(flags, env, &host).map_err(ManifestError::Settings)
}

/// The manifest, and the settings that it was made of. `from`: the manifest that is translated.
///
/// # Errors
/// The settings are invalid, or do not fit a manifest of this kind.
pub fn manifest(
    what: Option<What>,
    flags: &Given,
    from: Option<&Translated>,
    mut options: Options,
) -> Result<(String, Loaded), ManifestError> {
    let Some(from) = from else {
        let loaded = load(flags, [], None)?;
        let text = match what.ok_or(ManifestError::NoKind)? {
            What::Pod(kind) => pod::render(kind, &loaded, &options)?,
            What::Rbac => rbac::render(&loaded.settings),
        };
        return Ok((text, loaded));
    };
    let (loaded, variables) = from.worked_out(flags)?;
    let (kubeconfig, schedule) = (from.source.kubeconfig.is_some(), from.source.schedule.clone());
    options.kept = Kept { kubeconfig, schedule: Some(schedule), variables };
    let own = from.kind(&loaded, &options);
    let text = match what {
        Some(What::Rbac) => rbac::render(&loaded.settings),
        Some(What::Pod(kind)) if kind != own => pod::render(kind, &loaded, &options)?,
        _ => {
            let text = pod::render(own, &loaded, &options)?;
            let is_in_object = from.source.shape != Shape::ChartValues && from.way.is_wrapped();
            if is_in_object { from.way.put(&text)? } else { text }
        }
    };
    Ok((text, loaded))
}

#[cfg(test)]
mod tests;
