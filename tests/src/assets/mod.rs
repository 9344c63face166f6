//! What the lab runs: the programs of Kubernetes, etcd, those of containers, the agent, and small Go programs. Found, fetched or
//! built; cached afterwards.
//!
//! Those of Kubernetes and etcd are looked for in this order, and the first that works is taken: `KUBEBUILDER_ASSETS`, PATH,
//! the cache, the official release, a build by the Go toolchain. etcd must be 3.6 or later: older ones lack the watch
//! progress that kube-apiserver 1.36 counts on, and watches hang.

mod cache;
mod cargo;
mod containers;
mod deny;
mod digest;
mod download;
mod earlier;
mod find;
mod golang;
mod modules;
mod openstack;
mod tools;

use std::fmt;
use std::path::{Path, PathBuf};

pub use cache::Cache;
pub use cargo::{Profile, agent, allocator, cargo, cargo_home, of_own_package, rustc, static_program};
pub use containers::{Containers, containers};
pub use deny::cargo_deny;
pub use digest::hex;
pub use earlier::{BEFORE_MEMBERS, earlier_agent};
pub use find::{Finder, Product, find, kube_proxy, one};
pub use golang::{Manager, go_program, helm, managed_crds, manager};
pub use modules::{Project, crds};
pub use openstack::{OpenStackPrograms, openstack};
pub use tools::{ensure, on_path, run};

/// The versions that are fetched or built. Found ones may differ in the patch.
pub const KUBERNETES: &str = "1.36.3";
/// As [`KUBERNETES`].
pub const ETCD: &str = "3.6.8";

/// Where a binary came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The folder named by `KUBEBUILDER_ASSETS`.
    KubebuilderAssets,
    /// A folder of PATH.
    Path,
    /// The lab's cache.
    Cache,
    /// The official release, downloaded now.
    Download,
    /// Built now from the `go.mod` files in `tests/assets`.
    GoBuild,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KubebuilderAssets => "KUBEBUILDER_ASSETS",
            Self::Path => "PATH",
            Self::Cache => "the cache",
            Self::Download => "downloaded",
            Self::GoBuild => "built with Go",
        })
    }
}

/// A binary that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub product: Product,
    /// Its version, without a `v`.
    pub version: String,
    /// Where it is.
    pub path: PathBuf,
    /// Where it came from.
    pub source: Source,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({}): {}", self.product, self.version, self.source, self.path.display())
    }
}

/// What a cluster needs.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// `kube-apiserver` 1.36
    pub kube_apiserver: Found,
    /// `etcd` 3.6 or later
    pub etcd: Found,
}

/// Something could not be found, fetched or built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// None of the ways to get a binary worked.
    #[error(
        "no {product}:\n{tried}\nDo one of these: set KUBEBUILDER_ASSETS to a folder that has it; put it into PATH; give \
         this machine access to the official releases; or install Go 1.26 or later (https://go.dev/dl), with access to \
         Go modules, and it is built"
    )]
    Nowhere {
        /// Which.
        product: Product,
        /// Each way, and why it failed.
        tried: String,
    },
    /// A file or folder.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried, and on what.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A program that the lab needs is not installed.
    #[error("{program} is not installed: {detail}")]
    Missing {
        /// The program.
        program: String,
        /// What to do.
        detail: String,
    },
    /// A program failed.
    #[error("{command} failed: {detail}")]
    Failed {
        /// The command.
        command: String,
        /// The end of what it said.
        detail: String,
    },
    /// The clone has no such commit.
    #[error(
        "this clone has no commit {commit}: make a clone with the whole history (git clone without --depth; git fetch --unshallow)"
    )]
    History {
        /// The commit.
        commit: &'static str,
    },
    /// A version that cannot be used.
    #[error("{path} is {found}, needed is {needed}")]
    Version {
        /// The binary.
        path: String,
        /// What it says it is.
        found: String,
        /// What it should be.
        needed: String,
    },
}

/// The SHA-256 digest of these bytes, in hexadecimal.
#[must_use]
pub fn sha256_of(bytes: &[u8]) -> String {
    digest::of_bytes(bytes)
}

/// The SHA-256 digest of a file, in hexadecimal.
///
/// # Errors
/// It cannot be read.
pub fn sha256(file: &Path) -> Result<String, Error> {
    digest::of_file(file).map_err(Error::io(format!("read {}", file.display())))
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
