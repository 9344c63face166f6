//! cargo-deny, which checks licenses, sources and advisories of all crates.

use std::path::PathBuf;
use std::process::Command;

use super::{Cache, Error, cargo, tools};
use crate::progress;

/// The version that is built where none is installed.
const VERSION: &str = "0.20.2";

/// `cargo-deny`: that of PATH, or that of the cache. The first time it is built from its crates, which takes minutes.
///
/// # Errors
/// There is no way to the crates, or they cannot be built.
pub fn cargo_deny() -> Result<PathBuf, Error> {
    if let Some(path) = tools::on_path("cargo-deny") {
        return Ok(path);
    }
    let cache = Cache::of_user()?;
    let path = cache.folder(&format!("cargo-deny-{VERSION}-{}", std::env::consts::ARCH)).join("cargo-deny");
    if path.is_file() {
        return Ok(path);
    }
    let _lock = cache.lock("cargo-deny")?;
    if !path.is_file() {
        cache.fill(&path, |to| {
            let root = to.with_extension("root");
            // It is used for seconds: it need not be fast. Its build leaves the processors to others.
            let mut command = Command::new("nice");
            command
                .args(["-n", "19"])
                .arg(cargo()?)
                .args(["install", "--quiet", "--locked", "cargo-deny", "--version", VERSION, "--root"])
                .arg(&root);
            command.args(["--config", "net.retry=1"]);
            for quicker in ["opt-level=1", "lto=false", "codegen-units=16"] {
                command.args(["--config", &format!("profile.release.{quicker}")]);
            }
            progress::while_busy(&format!("building cargo-deny {VERSION} (some minutes on two cores)"), || {
                tools::run(&mut command)
            })?;
            let built = root.join("bin/cargo-deny");
            std::fs::rename(&built, to).map_err(Error::io(format!("move {}", built.display())))
        })?;
    }
    Ok(path)
}
