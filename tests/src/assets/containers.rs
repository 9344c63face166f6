//! What runs containers: containerd and the plugins of a pod network, built from the `go.mod` in `tests/assets/containers`; and
//! runc, which is C in part, out of PATH or the distribution's package.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::golang::{asset, go, hash};
use super::{Cache, Error, tools};
use crate::progress;

/// Its folder below `tests/assets`, and the name of its lock.
const NAME: &str = "containers";
const CONTAINERD: &str = "github.com/containerd/containerd/v2/cmd";
const PLUGINS: &str = "github.com/containernetworking/plugins/plugins";
/// The programs built with Go, and their packages.
const PROGRAMS: [(&str, &str, &str); 6] = [
    ("containerd", CONTAINERD, "containerd"),
    ("containerd-shim-runc-v2", CONTAINERD, "containerd-shim-runc-v2"),
    ("ctr", CONTAINERD, "ctr"),
    ("bridge", PLUGINS, "main/bridge"),
    ("loopback", PLUGINS, "main/loopback"),
    ("host-local", PLUGINS, "ipam/host-local"),
];

/// The programs.
#[derive(Clone, Debug)]
pub struct Containers {
    /// The folder with `containerd`, its shim, `ctr`, and the plugins `bridge`, `host-local` and `loopback`.
    pub folder: PathBuf,
    /// runc.
    pub runc: PathBuf,
}

/// Finds them, or builds and fetches them: about a minute on two cores.
///
/// # Errors
/// There is no Go toolchain, a build fails, or there is neither runc nor a package of it.
pub fn containers() -> Result<Containers, Error> {
    let (source, cache) = (asset(NAME), Cache::of_user()?);
    let folder = cache.folder(&format!("{NAME}-{}", &hash(&source)?[..16]));
    let missing = || PROGRAMS.into_iter().filter(|(name, ..)| !folder.join(name).is_file()).collect::<Vec<_>>();
    if !missing().is_empty() {
        let _lock = cache.lock(NAME)?;
        for (name, module, package) in missing() {
            cache.fill(&folder.join(name), |to| build(&source, &format!("{module}/{package}"), to))?;
        }
    }
    Ok(Containers { folder, runc: runc(&cache)? })
}

fn build(source: &Path, package: &str, to: &Path) -> Result<(), Error> {
    let mut command = go(source)?;
    // The machine need not have the headers of btrfs.
    command.args(["-tags", "no_btrfs", "-ldflags", "-s -w"]).arg("-o").arg(to).arg(package);
    progress::while_busy(&format!("building {package} with Go"), || tools::run(&mut command)).map(drop)
}

/// runc in PATH, or the one that is unpacked from its package into the cache: nothing is installed.
fn runc(cache: &Cache) -> Result<PathBuf, Error> {
    if let Some(path) = tools::on_path("runc") {
        return Ok(path);
    }
    let path = cache.folder("runc-package").join("runc");
    let works = |path: &Path| tools::run(Command::new(path).arg("--version")).map(drop);
    if path.is_file() && works(&path).is_ok() {
        return Ok(path);
    }
    let _lock = cache.lock("runc")?;
    let missing = |detail: String| Error::Missing { program: "runc".into(), detail };
    let get = tools::on_path("apt-get").and_then(|apt| Some((apt, tools::on_path("dpkg-deb")?)));
    let (apt, dpkg) = get.ok_or_else(|| missing("install the package runc".into()))?;
    cache
        .fill(&path, |to| {
            let folder = to.parent().unwrap_or_else(|| Path::new("/"));
            let mut download = Command::new(apt);
            download.current_dir(folder).args(["-o", "Acquire::http::Timeout=20", "download", "runc"]);
            progress::while_busy("downloading the package runc", || tools::run(&mut download))?;
            let files = std::fs::read_dir(folder).map_err(Error::io("look for the package of runc"))?;
            let is_package = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "deb");
            let package = files.filter_map(|entry| Some(entry.ok()?.path())).find(is_package);
            let package = package.ok_or_else(|| missing("apt-get download left no package".into()))?;
            let unpacked = folder.join("unpacked");
            tools::run(Command::new(dpkg).arg("--extract").arg(package).arg(&unpacked))?;
            let places = ["usr/sbin/runc", "usr/bin/runc"].map(|place| unpacked.join(place));
            let found = places.into_iter().find(|place| place.is_file());
            let found = found.ok_or_else(|| missing("its package does not have it".into()))?;
            std::fs::copy(&found, to).map_err(Error::io(format!("copy {}", found.display())))?;
            works(to)
        })
        .map_err(|error| missing(format!("install the package runc by hand: {error}")))?;
    Ok(path)
}
