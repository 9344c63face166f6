//! The search for the programs of Kubernetes, and etcd.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Binaries, Cache, ETCD, Error, Found, KUBERNETES, Source, download, golang, tools};
use crate::progress;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// kube-apiserver, 1.36.
    KubeApiserver,
    /// etcd, 3.6 or later.
    Etcd,
    /// kube-proxy, 1.36.
    KubeProxy,
    /// kube-controller-manager, 1.36.
    KubeControllerManager,
    /// kube-scheduler, 1.36.
    KubeScheduler,
    /// kubelet, 1.36.
    Kubelet,
    /// kubeadm, 1.36.
    Kubeadm,
    /// kubectl, 1.36.
    Kubectl,
}

impl Product {
    /// The name of its file.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Self::KubeApiserver => "kube-apiserver",
            Self::Etcd => "etcd",
            Self::KubeProxy => "kube-proxy",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kubelet => "kubelet",
            Self::Kubeadm => "kubeadm",
            Self::Kubectl => "kubectl",
        }
    }

    /// The version that is fetched or built.
    #[must_use]
    pub const fn pinned(self) -> &'static str {
        match self {
            Self::Etcd => ETCD,
            _ => KUBERNETES,
        }
    }

    /// What its versions must be.
    #[must_use]
    pub const fn needed(self) -> &'static str {
        match self {
            Self::Etcd => "3.6 or later",
            _ => "1.36.x",
        }
    }

    /// Whether that version can be used.
    #[must_use]
    pub fn accepts(self, version: &str) -> bool {
        // A pre-release comes before what it is named after.
        if version.contains('-') {
            return false;
        }
        let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        match self {
            Self::Etcd => major == 3 && minor >= 6,
            _ => (major, minor) == (1, 36),
        }
    }

    /// Asks a binary what it is.
    ///
    /// # Errors
    /// It cannot be executed, or its version cannot be used.
    pub fn check(self, path: &Path) -> Result<String, Error> {
        let question: &[&str] = match self {
            Self::Kubeadm => &["version", "--output=short"],
            Self::Kubectl => &["version", "--client"],
            _ => &["--version"],
        };
        let said = tools::run(Command::new(path).args(question))?;
        // "Kubernetes v1.36.3"; "v1.36.3"; "Client Version: v1.36.3" and "etcd Version: 3.6.8" with more lines
        let first = said.lines().next().unwrap_or_default();
        let version = first.rsplit(' ').next().unwrap_or_default().trim_start_matches('v');
        if self.accepts(version) {
            return Ok(version.to_owned());
        }
        Err(Error::Version { path: path.display().to_string(), found: first.to_owned(), needed: self.needed().into() })
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file())
    }
}

/// Finds both that a cluster needs, on this machine as it is. May take minutes the first time; says what it does.
///
/// # Errors
/// [`Error::Nowhere`] lists what was tried.
pub fn find() -> Result<Binaries, Error> {
    let finder = Finder::of_user()?;
    Ok(Binaries { etcd: finder.find(Product::Etcd)?, kube_apiserver: finder.find(Product::KubeApiserver)? })
}

/// Finds kube-proxy, as [`find`] does.
///
/// # Errors
/// [`Error::Nowhere`] lists what was tried.
pub fn kube_proxy() -> Result<Found, Error> {
    one(Product::KubeProxy)
}

/// Finds any one of them, as [`find`] does.
///
/// # Errors
/// [`Error::Nowhere`] lists what was tried.
pub fn one(product: Product) -> Result<Found, Error> {
    Finder::of_user()?.find(product)
}

/// Where to look.
#[derive(Clone, Debug)]
pub struct Finder {
    /// The value of `KUBEBUILDER_ASSETS`.
    pub kubebuilder_assets: Option<PathBuf>,
    /// The value of PATH.
    pub path: OsString,
    /// The cache.
    pub cache: Cache,
    /// Whether it may download and build.
    pub fetch: bool,
}

impl Finder {
    fn of_user() -> Result<Self, Error> {
        Ok(Self {
            kubebuilder_assets: std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from),
            path: std::env::var_os("PATH").unwrap_or_default(),
            cache: Cache::of_user()?,
            fetch: true,
        })
    }

    /// Finds one.
    ///
    /// # Errors
    /// [`Error::Nowhere`] lists what was tried.
    pub fn find(&self, product: Product) -> Result<Found, Error> {
        let mut tried = Vec::new();
        let here = self
            .kubebuilder_assets
            .iter()
            .map(|folder| (Source::KubebuilderAssets, folder.join(product.file())))
            .chain(std::env::split_paths(&self.path).map(|folder| (Source::Path, folder.join(product.file()))))
            .filter(|(source, path)| path.is_file() || *source == Source::KubebuilderAssets)
            .chain([(Source::Cache, self.cached(product))]);
        for (source, path) in here {
            if !path.is_file() {
                tried.push((source, format!("there is no {}", path.display())));
                continue;
            }
            match product.check(&path) {
                Ok(version) => {
                    return Ok(Found { product, version, path, source });
                }
                Err(error) => tried.push((source, error.to_string())),
            }
        }
        if self.fetch {
            // Another lab may be making it: the second one finds the result.
            let _lock = self.cache.lock(product.file())?;
            let path = self.cached(product);
            if let (true, Ok(version)) = (path.is_file(), product.check(&path)) {
                return Ok(Found { product, version, path, source: Source::Cache });
            }
            for source in [Source::Download, Source::GoBuild] {
                match self.fetch(product, source) {
                    Ok(found) => return Ok(found),
                    Err(error) => {
                        progress::line(format_args!("{product}, {source}: {error}"));
                        tried.push((source, error.to_string()));
                    }
                }
            }
        }
        let tried: Vec<_> = tried.into_iter().map(|(source, why)| format!("  {source}: {why}")).collect();
        Err(Error::Nowhere { product, tried: tried.join("\n") })
    }

    /// Where the pinned version lies in the cache.
    fn cached(&self, product: Product) -> PathBuf {
        self.cache.folder(&format!("{product}-{}-{}", product.pinned(), std::env::consts::ARCH)).join(product.file())
    }

    fn fetch(&self, product: Product, source: Source) -> Result<Found, Error> {
        let path = self.cached(product);
        let make = |to: &Path| {
            match source {
                Source::Download => download::download(product, to)?,
                _ => golang::build_product(product, to)?,
            }
            product.check(to)
        };
        let version = self.cache.fill(&path, make)?;
        Ok(Found { product, version, path, source })
    }
}
