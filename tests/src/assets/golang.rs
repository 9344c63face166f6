//! Builds by the Go toolchain.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ring::digest::{Context, SHA256};

use super::{Cache, Error, KUBERNETES, Product, digest, tools};
use crate::progress;

/// The folder of this crate: the lab runs from a clone.
const TESTS: &str = env!("CARGO_MANIFEST_DIR");

/// Builds a product's pinned version from its `go.mod` and `go.sum` of ours.
pub fn build_product(product: Product, to: &Path) -> Result<(), Error> {
    let (folder, package, ldflags, about) = match product {
        Product::Etcd => {
            ("etcd", "go.etcd.io/etcd/server/v3".to_owned(), "-s -w".to_owned(), "about 40 s on two cores")
        }
        // The first one takes the longest: the others find most packages built.
        _ => {
            ("kubernetes", format!("k8s.io/kubernetes/cmd/{product}"), kubernetes_ldflags(), "up to 4 min on two cores")
        }
    };
    let mut command = go(&asset(folder))?;
    command.args(["-ldflags", &ldflags]).arg("-o").arg(to).arg(package);
    let what = format!("building {product} {} with Go ({about}, 2 GB of memory)", product.pinned());
    progress::while_busy(&what, || tools::run(&mut command)).map(drop)
}

/// A binary of Kubernetes knows its version only if the build sets it.
fn kubernetes_ldflags() -> String {
    let version = "k8s.io/component-base/version";
    let mut numbers = KUBERNETES.split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let set = |name: &str, value: &str| format!(" -X {version}.{name}={value}");
    [
        "-s -w".to_owned(),
        set("gitVersion", &format!("v{KUBERNETES}")),
        set("gitMajor", major),
        set("gitMinor", minor),
        set("gitTreeState", "clean"),
    ]
    .concat()
}

/// Builds a Go program of the clone, for example `elector` in `tests/elector`; returns the path of the binary. Built
/// again only when a file of its folder changed.
///
/// # Errors
/// There is no Go toolchain, or the build fails.
pub fn go_program(folder: &str) -> Result<PathBuf, Error> {
    cached(folder, &Path::new(TESTS).join(folder), ".", "-s -w", "")
}

/// `helm`: that of PATH, or one that is built from its Go module; `tests/assets/helm` names the version.
///
/// # Errors
/// There is neither, or no way to the module.
pub fn helm() -> Result<PathBuf, Error> {
    if let Some(path) = tools::on_path("helm") {
        return Ok(path);
    }
    // The version of Kubernetes that it takes for the cluster's where it asks none.
    let set = |name: &str, value: &str| format!(" -X helm.sh/helm/v3/pkg/{name}={value}");
    let minor = KUBERNETES.split('.').nth(1).unwrap_or_default();
    let kubernetes = ["chartutil", "lint/rules"].map(|package| {
        set(&format!("{package}.k8sVersionMajor"), "1") + &set(&format!("{package}.k8sVersionMinor"), minor)
    });
    let ldflags = format!("-s -w{}", kubernetes.concat());
    let source = Path::new(TESTS).join("assets/helm");
    cached("helm", &source, "helm.sh/helm/v3/cmd/helm", &ldflags, " (about 2 min on two cores)")
}

/// A manager of Cluster API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// Clusters and Machines.
    Core,
    /// `KubeadmConfig`s: the bootstrap data of Machines.
    Bootstrap,
    /// `KubeadmControlPlane`s.
    ControlPlane,
    /// The provider for development: `DevCluster`s and `DevMachine`s, whose API servers it simulates in its own process.
    Development,
}

impl Manager {
    /// Those that any Cluster with a `KubeadmControlPlane` needs.
    pub const NEEDED: [Self; 3] = [Self::Core, Self::Bootstrap, Self::ControlPlane];

    /// Its name in the lab.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "capi-core",
            Self::Bootstrap => "capi-bootstrap",
            Self::ControlPlane => "capi-control-plane",
            Self::Development => "capi-development",
        }
    }

    /// Its module. `tests/assets/cluster-api` names the version, the last one whose managers can be built.
    const fn module(self) -> &'static str {
        match self {
            Self::Core | Self::Bootstrap | Self::ControlPlane => "sigs.k8s.io/cluster-api",
            Self::Development => "sigs.k8s.io/cluster-api/test",
        }
    }

    /// Its folder in the module: the package, and where its CRDs are.
    const fn folder(self) -> &'static str {
        match self {
            Self::Core => "",
            Self::Bootstrap => "/bootstrap/kubeadm",
            Self::ControlPlane => "/controlplane/kubeadm",
            Self::Development => "/infrastructure/docker",
        }
    }
}

/// A manager of Cluster API, built from its Go module.
///
/// # Errors
/// There is no Go toolchain, or no way to the module.
pub fn manager(manager: Manager) -> Result<PathBuf, Error> {
    let package = format!("{}{}", manager.module(), manager.folder());
    // The first one takes the longest: the others find most packages built.
    cached(manager.name(), &asset("cluster-api"), &package, "-s -w", " (up to 3 min on two cores)")
}

/// The files with the CRDs of a manager.
///
/// # Errors
/// As [`manager`].
pub fn managed_crds(manager: Manager) -> Result<Vec<PathBuf>, Error> {
    let mut command = Command::new(toolchain()?);
    command.current_dir(asset("cluster-api")).env_remove("GOFLAGS");
    let said = tools::run(command.args(["list", "-m", "-f", "{{.Dir}}", manager.module()]))?;
    let folder = format!("{}{}/config/crd/bases", said.trim(), manager.folder());
    let reading = || Error::io(format!("read {folder}"));
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).map_err(reading())? {
        files.push(entry.map_err(reading())?.path());
    }
    files.sort();
    Ok(files)
}

/// Builds a package of the module in a folder, unless the cache has it from the same files.
fn cached(name: &str, source: &Path, package: &str, ldflags: &str, about: &str) -> Result<PathBuf, Error> {
    let cache = Cache::of_user()?;
    let hash = hash(source)?;
    let binary = cache.folder(&format!("go-{name}-{}", &hash[..16])).join(name);
    if binary.is_file() {
        return Ok(binary);
    }
    let _lock = cache.lock(name)?;
    if !binary.is_file() {
        cache.fill(&binary, |to| {
            let mut command = go(source)?;
            command.args(["-ldflags", ldflags]).arg("-o").arg(to).arg(package);
            progress::while_busy(&format!("building {name} with Go{about}"), || tools::run(&mut command)).map(drop)
        })?;
    }
    Ok(binary)
}

/// A folder with a `go.mod` of ours for programs of others.
pub(super) fn asset(folder: &str) -> PathBuf {
    Path::new(TESTS).join("assets").join(folder)
}

/// `go build`, in that folder, static, with nothing that changes go.mod.
pub(super) fn go(folder: &Path) -> Result<Command, Error> {
    let mut command = Command::new(toolchain()?);
    command.current_dir(folder).env("CGO_ENABLED", "0").env_remove("GOFLAGS").env_remove("GOOS").env_remove("GOARCH");
    command.args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false"]);
    Ok(command)
}

/// The program `go`.
pub(super) fn toolchain() -> Result<PathBuf, Error> {
    let usual = PathBuf::from("/usr/local/go/bin/go");
    tools::on_path("go").or_else(|| usual.is_file().then_some(usual)).ok_or_else(|| {
        let detail = "Go 1.26 or later builds and fetches what is not there: https://go.dev/dl".to_owned();
        Error::Missing { program: "go".into(), detail }
    })
}

/// Of the names and contents of all files in the folder.
pub(super) fn hash(folder: &Path) -> Result<String, Error> {
    let reading = || Error::io(format!("read {}", folder.display()));
    let mut files: Vec<_> =
        fs::read_dir(folder).map_err(reading())?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let mut context = Context::new(&SHA256);
    for file in files.iter().filter(|file| file.is_file()) {
        // Not the whole path: a clone elsewhere finds what another one has built.
        context.update(file.file_name().unwrap_or_default().as_encoded_bytes());
        context.update(digest::of_file(file).map_err(reading())?.as_bytes());
    }
    Ok(digest::hex(context))
}
