//! CRDs of other projects, out of their Go modules.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::{Cache, Error, golang, tools};
use crate::progress;

/// Whose CRDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Project {
    /// Cluster API: `IPAddressClaim`, `IPAddress`, `Cluster`.
    ClusterApi,
    /// Cluster API's `KubeadmControlPlane`.
    KubeadmControlPlane,
    /// Its in-cluster IPAM provider, the last one that is to be had as a module: the two kinds of address pools.
    InClusterProvider,
}

impl Project {
    const fn module(self) -> &'static str {
        match self {
            Self::ClusterApi | Self::KubeadmControlPlane => "sigs.k8s.io/cluster-api",
            Self::InClusterProvider => "sigs.k8s.io/cluster-api-ipam-provider-in-cluster",
        }
    }

    const fn version(self) -> &'static str {
        match self {
            Self::ClusterApi | Self::KubeadmControlPlane => "v1.14.2",
            Self::InClusterProvider => "v1.0.3",
        }
    }

    /// As in a `go.sum`.
    const fn sum(self) -> &'static str {
        match self {
            Self::ClusterApi | Self::KubeadmControlPlane => "h1:o3GFNaeNFAOEEMpDPfhCK+2CjmV6gtQ8yLEcUwCg7bA=",
            Self::InClusterProvider => "h1:DO6VrWMAmkX7D50CSLiKR62kcvxtH2Zdm312KB115XE=",
        }
    }

    /// Where they are in the module.
    const fn folder(self) -> &'static str {
        match self {
            Self::ClusterApi => "core/config/crd/bases",
            Self::KubeadmControlPlane => "controlplane/kubeadm/config/crd/bases",
            Self::InClusterProvider => "config/crd/bases",
        }
    }

    const fn files(self) -> &'static [&'static str] {
        match self {
            Self::ClusterApi => &[
                "cluster.x-k8s.io_clusters.yaml",
                "ipam.cluster.x-k8s.io_ipaddressclaims.yaml",
                "ipam.cluster.x-k8s.io_ipaddresses.yaml",
            ],
            Self::KubeadmControlPlane => &["controlplane.cluster.x-k8s.io_kubeadmcontrolplanes.yaml"],
            Self::InClusterProvider => {
                &["ipam.cluster.x-k8s.io_globalinclusterippools.yaml", "ipam.cluster.x-k8s.io_inclusterippools.yaml"]
            }
        }
    }
}

/// What `go mod download -json` says.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Downloaded {
    dir: PathBuf,
    sum: String,
}

/// The files with a project's CRDs. The first time its Go module is downloaded, which takes the Go toolchain.
///
/// # Errors
/// There is no Go, no way to the module, or the module is another one than is pinned here.
pub fn crds(project: Project) -> Result<Vec<PathBuf>, Error> {
    let cache = Cache::of_user()?;
    let name = project.module().rsplit('/').next().unwrap_or_default();
    let folder = cache.folder(&format!("{name}-{}", project.version()));
    let all: Vec<PathBuf> = project.files().iter().map(|file| folder.join(file)).collect();
    if all.iter().all(|file| file.is_file()) {
        return Ok(all);
    }
    let _lock = cache.lock(name)?;
    if !all.iter().all(|file| file.is_file()) {
        let module = download(project, cache.folder(""))?;
        for file in project.files() {
            let from = module.join(project.folder()).join(file);
            cache.fill(&folder.join(file), |to| {
                fs::copy(&from, to).map(drop).map_err(Error::io(format!("copy {}", from.display())))
            })?;
        }
    }
    Ok(all)
}

/// The folder of the module.
fn download(project: Project, outside: PathBuf) -> Result<PathBuf, Error> {
    let module = format!("{}@{}", project.module(), project.version());
    let mut command = Command::new(golang::toolchain()?);
    // Outside of any module of ours.
    command.current_dir(outside).env_remove("GOFLAGS").args(["mod", "download", "-json", &module]);
    let said = progress::while_busy(&format!("downloading the Go module {module}"), || tools::run(&mut command))?;
    let failed = |detail: String| Error::Failed { command: format!("download of {module}"), detail };
    let found: Downloaded = serde_json::from_str(&said).map_err(|error| failed(error.to_string()))?;
    if found.sum != project.sum() {
        return Err(failed(format!("its sum is {}, expected is {}", found.sum, project.sum())));
    }
    Ok(Path::new(&found.dir).to_owned())
}
