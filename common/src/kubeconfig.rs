//! The cluster's address and the program's credentials: a kubeconfig file, or a pod's service account.
//!
//! kubeadm writes the file after the kubelet has started us, so the file may be missing or half written. Its certificates are
//! renewed once a year. Therefore the program checks the file repeatedly: its inode, size and times show a change.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError};

use crate::text::cut;

/// The directory of the pod's own credentials.
const POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The size limit of a kubeconfig, in bytes.
const LONGEST: u64 = 4 << 20;

/// The source of the credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A kubeconfig file.
    File(PathBuf),
    /// The pod's service account.
    InCluster,
}

/// There are no usable credentials (yet). The text says what to do. The program waits and tries again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No such file.
    #[error("kubeconfig {path} does not exist (yet): waiting for it; kubeadm writes it, or set another path")]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A directory in its place.
    #[error(
        "kubeconfig {path} is a directory: a hostPath volume without `type: FileOrCreate` makes one when the file is missing; remove it, and set that type"
    )]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// A pipe, socket or device.
    #[error("kubeconfig {path} is not a regular file: name the file itself")]
    NotAFile {
        /// The value in the file.
        path: PathBuf,
    },
    /// Nothing in it.
    #[error("kubeconfig {path} is empty: waiting until it is written (`type: FileOrCreate` makes an empty one)")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("cannot read {path}: {error}: check its owner and mode, and the volume it is mounted by")]
    Unreadable {
        /// The file, or one that it names.
        path: PathBuf,
        /// The system's words.
        error: String,
    },
    /// The file is not a kubeconfig, or not a complete one.
    #[error("kubeconfig {path} is not one, or half written: {what}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with the file; never a part of its content.
        what: String,
    },
    /// The kubeconfig needs a feature that this program does not support.
    #[error(
        "kubeconfig {path} uses {what}, which is not supported: give it a client certificate, a token or a tokenFile, and a direct server address"
    )]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The field.
        what: &'static str,
    },
    /// A file of the pod's service account is missing.
    #[error(
        "no service account in this pod ({what}): set a kubeconfig, or run with serviceAccountName and automountServiceAccountToken"
    )]
    InCluster {
        /// What is missing.
        what: String,
    },
    /// Certificate and key do not make a client.
    #[error("the credentials cannot be used: {what}: check certificate, key and CA of the kubeconfig")]
    Credentials {
        /// What is wrong; never a part of the credentials.
        what: String,
    },
}

/// The loaded configuration, and the state of its files for detecting changes. Its `Debug` shows no credential.
#[derive(Clone)]
pub struct Loaded {
    /// For kube.
    pub config: kube::Config,
    /// The files it came from, as they were.
    seen: Seen,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded").field("server", &self.config.cluster_url.to_string()).finish_non_exhaustive()
    }
}

/// The state of a file: device, inode, size, times. None: not there.
type State = Option<(u64, u64, u64, i64, i64, i64, i64)>;

/// Files and their states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen(Vec<(PathBuf, State)>);

impl Seen {
    fn of(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(
            paths
                .into_iter()
                .map(|path| {
                    let state = state(&path);
                    (path, state)
                })
                .collect(),
        )
    }

    /// Adds a file, in its state now.
    #[must_use]
    pub fn and(mut self, path: &Path) -> Self {
        self.0.push((path.to_path_buf(), state(path)));
        self
    }

    /// Whether any of the files has changed.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.0.iter().any(|(path, then)| state(path) != *then)
    }
}

fn state(path: &Path) -> State {
    let m = std::fs::metadata(path).ok()?;
    Some((m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()))
}

impl Loaded {
    /// Whether any of the files has changed since this was loaded.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.seen.changed()
    }
}

impl Source {
    /// The file's state now, to see whether a file that could not be loaded has changed.
    #[must_use]
    pub fn seen(&self) -> Seen {
        match self {
            Self::File(path) => Seen::of([path.clone()]),
            Self::InCluster => Seen::of(["token", "ca.crt"].map(|name| Path::new(POD).join(name))),
        }
    }

    /// Reads the kubeconfig and the files it names: local files, at most some 10 kB.
    pub async fn load(&self) -> Result<Loaded, ConfigError> {
        let Self::File(path) = self else { return in_cluster() };
        // The state is taken before reading: a change in between is then noticed.
        let mut files = vec![path.clone()];
        let before = state(path);
        let (config, named) = connect(parse(&read(path)?, path)?, path).await?;
        if config.accept_invalid_certs {
            tracing::warn!(path = %path.display(), "kubeconfig says insecure-skip-tls-verify: anybody may pose as the API server");
        }
        files.extend(named);
        let mut seen = Seen::of(files);
        if let Some(first) = seen.0.first_mut() {
            first.1 = before;
        }
        Ok(Loaded { config, seen })
    }
}

fn in_cluster() -> Result<Loaded, ConfigError> {
    let seen = Source::InCluster.seen();
    let mut config =
        kube::Config::incluster_env().map_err(|error| ConfigError::InCluster { what: cut(&error.to_string(), 200) })?;
    config.default_retry = false;
    Ok(Loaded { config, seen })
}

/// What to connect with out of a kubeconfig that stands at `path`, and the files that it names and that were or will
/// be read. Reads the CA's.
///
/// # Errors
/// When it does not say where the cluster is, or wants what is not supported.
pub async fn connect(file: Kubeconfig, path: &Path) -> Result<(kube::Config, Vec<PathBuf>), ConfigError> {
    let malformed = |what: &str| ConfigError::Malformed { path: path.to_path_buf(), what: what.into() };
    let unsupported = |what| ConfigError::Unsupported { path: path.to_path_buf(), what };
    if file.clusters.is_empty() {
        return Err(malformed("it names no cluster"));
    }
    let context = file.contexts.iter().find(|c| Some(&c.name) == file.current_context.as_ref());
    let context = context.and_then(|c| c.context.as_ref());
    let cluster = context.and_then(|c| file.clusters.iter().find(|named| named.name == c.cluster));
    let cluster = cluster.and_then(|named| named.cluster.as_ref());
    let user = context.and_then(|c| file.auth_infos.iter().find(|named| Some(&named.name) == c.user.as_ref()));
    let user = user.and_then(|named| named.auth_info.as_ref());
    if user.is_some_and(|user| user.exec.is_some()) {
        return Err(unsupported("exec"));
    }
    if user.is_some_and(|user| user.auth_provider.is_some()) {
        return Err(unsupported("auth-provider"));
    }
    if cluster.is_some_and(|c| c.proxy_url.as_deref().is_some_and(|url| !url.is_empty())) {
        return Err(unsupported("proxy-url"));
    }
    let files = named(cluster, user);
    files.iter().try_for_each(|file| is_whole(file))?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|error| translate(path, error))?;
    let url = &config.cluster_url;
    if !matches!(url.scheme_str(), Some("https" | "http")) || url.host().is_none_or(str::is_empty) {
        return Err(malformed("the cluster's server is not a URL as https://HOST:PORT"));
    }
    // HTTPS_PROXY is for external hosts; API servers are reached directly.
    config.proxy_url = None;
    config.default_retry = false;
    Ok((config, files))
}

/// The files that count: data in the kubeconfig itself take precedence.
fn named(cluster: Option<&Cluster>, user: Option<&AuthInfo>) -> Vec<PathBuf> {
    let ca = cluster.filter(|c| c.certificate_authority_data.is_none()).and_then(|c| c.certificate_authority.as_ref());
    let certificate = user.filter(|u| u.client_certificate_data.is_none()).and_then(|u| u.client_certificate.as_ref());
    let key = user.filter(|u| u.client_key_data.is_none()).and_then(|u| u.client_key.as_ref());
    let token = user.filter(|u| u.token.is_none()).and_then(|u| u.token_file.as_ref());
    [ca, certificate, key, token].into_iter().flatten().map(PathBuf::from).collect()
}

/// A file that is read to its end must have an end: not a pipe, nor `/dev/zero`.
fn is_whole(path: &Path) -> Result<(), ConfigError> {
    let error = match std::fs::metadata(path) {
        Ok(meta) if !meta.is_file() => "not a regular file".to_owned(),
        Ok(meta) if meta.len() > LONGEST => format!("it has {} bytes", meta.len()),
        Ok(_) => return Ok(()),
        Err(error) => error.to_string(),
    };
    Err(ConfigError::Unreadable { path: path.to_path_buf(), error })
}

/// Reads the file, with an error for each kind of object that may be in its place.
fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    let owned = || path.to_path_buf();
    let missing = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => ConfigError::Missing { path: owned() },
        _ => ConfigError::Unreadable { path: owned(), error: error.to_string() },
    };
    let meta = std::fs::metadata(path).map_err(missing)?;
    if meta.is_dir() {
        return Err(ConfigError::Directory { path: owned() });
    }
    if !meta.is_file() {
        return Err(ConfigError::NotAFile { path: owned() });
    }
    if meta.len() == 0 {
        return Err(ConfigError::Empty { path: owned() });
    }
    if meta.len() > LONGEST {
        return Err(ConfigError::Malformed { path: owned(), what: format!("it has {} bytes", meta.len()) });
    }
    std::fs::read(path).map_err(missing)
}

/// A kubeconfig that stands at `path`: the files that it names are beside it, unless it says otherwise.
///
/// kube's own reader is not used: it takes UTF-16 as well, and panics at half a character.
///
/// # Errors
/// When the text is not a complete kubeconfig. The error's text contains only names from the file: the file holds keys.
pub fn parse(bytes: &[u8], path: &Path) -> Result<Kubeconfig, ConfigError> {
    let text = std::str::from_utf8(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    let text = text.map_err(|_| ConfigError::Malformed { path: path.to_path_buf(), what: "not UTF-8".into() })?;
    let mut file = Kubeconfig::from_yaml(text).map_err(|error| translate(path, error))?;
    let directory = path.parent().unwrap_or_else(|| Path::new("/"));
    let clusters = file.clusters.iter_mut().filter_map(|named| named.cluster.as_mut());
    let users = file.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut());
    let users = users.flat_map(|user| [&mut user.client_certificate, &mut user.client_key, &mut user.token_file]);
    for name in clusters.map(|cluster| &mut cluster.certificate_authority).chain(users).flatten() {
        // An absolute name stays unchanged.
        *name = directory.join(&*name).to_string_lossy().into_owned();
    }
    Ok(file)
}

/// kube's error in words that quote nothing of the file: the file holds keys.
fn translate(path: &Path, error: KubeconfigError) -> ConfigError {
    let owned = || path.to_path_buf();
    let malformed = |what: String| ConfigError::Malformed { path: owned(), what };
    match error {
        KubeconfigError::ReadConfig(error, path) => ConfigError::Unreadable { path, error: error.to_string() },
        KubeconfigError::Parse(error) => {
            // The parser quotes the offending line; only the line's number is reported.
            let text = error.to_string();
            let line: String = text
                .split_once("line ")
                .map(|(_, rest)| rest)
                .unwrap_or_default()
                .chars()
                .take_while(char::is_ascii_digit)
                .collect();
            malformed(if line.is_empty() {
                "not the YAML of a kubeconfig".into()
            } else {
                format!("not the YAML of a kubeconfig at line {line}")
            })
        }
        KubeconfigError::CurrentContextNotSet => malformed("current-context is not set".into()),
        KubeconfigError::MissingClusterUrl => malformed("the cluster has no server".into()),
        KubeconfigError::LoadCertificateAuthority(e) => data(path, "certificate-authority", e),
        KubeconfigError::LoadClientCertificate(e) => data(path, "client-certificate", e),
        KubeconfigError::LoadClientKey(e) => data(path, "client-key", e),
        KubeconfigError::ParseCertificates(_) => malformed("certificate-authority is not PEM".into()),
        KubeconfigError::ParseClusterUrl(e) => malformed(format!("the cluster's server is not a URL: {e}")),
        KubeconfigError::LoadContext(name) => {
            malformed(format!("current-context {:?} is not among its contexts", cut(&name, 80)))
        }
        KubeconfigError::LoadClusterOfContext(name) => {
            malformed(format!("cluster {:?} is not among its clusters", cut(&name, 80)))
        }
        _ => malformed("kube does not understand it".into()),
    }
}

fn data(path: &Path, field: &str, error: LoadDataError) -> ConfigError {
    match error {
        LoadDataError::ReadFile(error, path) => ConfigError::Unreadable { path, error: error.to_string() },
        LoadDataError::DecodeBase64(_) => {
            ConfigError::Malformed { path: path.to_path_buf(), what: format!("{field}-data is not base64") }
        }
        LoadDataError::NoBase64DataOrFile => {
            ConfigError::Malformed { path: path.to_path_buf(), what: format!("{field} is missing") }
        }
    }
}
