//! `mooring-agent manifest`, and `config --from`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::pod::{self, Kind, Options, PodError};
use super::report::{self, Row};
use super::source::{self, Shape, Source, SourceError};
use super::{SOME_NODE, rbac};
use crate::cli::{self, Action};
use crate::settings::spec::find;
use crate::settings::{Given, Host, Loaded, Settings, SettingsErrors};

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
    /// Neither a kind nor a file.
    #[error("say what to print: static-pod, daemonset or rbac; or --from FILE, and it is what the file has")]
    NoKind,
}

/// A manifest of kube-vip's, or one of ours, read.
pub struct Translated {
    source: Source,
    flags: Given,
}

impl Translated {
    /// Reads the file.
    ///
    /// # Errors
    /// It gives no settings, or its container has arguments that nobody knows.
    pub fn read(file: &Path) -> Result<Self, ManifestError> {
        let source = source::read(file)?;
        let args = std::iter::once("mooring-agent").chain(source.args.iter().map(String::as_str)).map(OsString::from);
        let wrong = |problem| ManifestError::Arguments { file: file.display().to_string(), problem };
        match cli::parse(args, |_| None) {
            Ok(Action::Run(flags)) => Ok(Self { source, flags }),
            Ok(_) => Err(wrong("they do not run an agent".into())),
            Err(error) => Err(wrong(error.to_string().trim_end().to_owned())),
        }
    }

    /// What becomes of each setting.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        report::rows(&self.source, &self.flags)
    }

    /// The settings, with flags that count first.
    ///
    /// # Errors
    /// They are invalid, or not supported.
    pub fn load(&self, flags: &Given) -> Result<Loaded, ManifestError> {
        let mut all = self.flags.clone();
        // Ours is mounted where the node has it.
        let on_node = self.source.kubeconfig.clone().map(|path| source::for_super_admin(&path).unwrap_or(path));
        if let Some(path) = on_node.filter(|path| find("kubeconfig").is_some_and(|s| s.default != *path)) {
            all.0.insert("kubeconfig".to_owned(), path);
        }
        let mut env = self.source.environment()?;
        for value in all.0.values_mut().chain(env.values_mut()) {
            if let Some(path) = source::for_super_admin(value) {
                *value = path;
            }
        }
        all.0.extend(flags.0.clone());
        // A kubeconfig comes with no namespace; a service account does.
        let pod_namespace = self.source.namespace.clone().filter(|_| self.source.kubeconfig.is_none());
        load(&all, env, pod_namespace)
    }
}

fn load(flags: &Given, env: BTreeMap<String, String>, pod_namespace: Option<String>) -> Result<Loaded, ManifestError> {
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
    let loaded = match from {
        Some(from) => from.load(flags)?,
        None => load(flags, BTreeMap::new(), None)?,
    };
    options.kubeconfig = from.is_some_and(|from| from.source.kubeconfig.is_some());
    let what = match (what, from) {
        (Some(what), _) => what,
        (None, Some(from)) if from.source.shape == Shape::Pod => What::Pod(Kind::StaticPod),
        (None, Some(_)) => What::Pod(Kind::DaemonSet),
        (None, None) => return Err(ManifestError::NoKind),
    };
    let text = match what {
        What::Pod(kind) => pod::render(kind, &loaded, &options)?,
        What::Rbac => rbac::render(&loaded.settings),
    };
    Ok((text, loaded))
}

#[cfg(test)]
mod tests;
