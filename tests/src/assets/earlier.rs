//! An agent of an earlier commit: what runs on the nodes that are not upgraded yet.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cargo::{cargo, workspace};
use super::{Cache, Error, tools};
use crate::progress;

/// The last commit whose agents publish no member objects.
pub const BEFORE_MEMBERS: &str = "2928e0bc792c0315cf41af9e4c1de622df2a1d7d";

/// Builds the agent of an earlier commit from the clone's history, unless the cache has it; for tests, with debug assertions.
///
/// # Errors
/// [`Error::History`] if the clone has no such commit. Git or Cargo fails.
pub fn earlier_agent(commit: &'static str) -> Result<PathBuf, Error> {
    let cache = Cache::of_user()?;
    let binary = cache.folder(&format!("agent-{}", &commit[..12])).join("mooring-agent");
    if binary.is_file() {
        return Ok(binary);
    }
    let _lock = cache.lock("agent-of-before")?;
    if !binary.is_file() {
        let known = tools::run(git()?.args(["cat-file", "-e"]).arg(format!("{commit}^{{commit}}")));
        known.map_err(|_| Error::History { commit })?;
        cache.fill(&binary, |to| build(commit, to))?;
    }
    Ok(binary)
}

fn build(commit: &str, to: &Path) -> Result<(), Error> {
    let folder = tempfile::tempdir().map_err(Error::io("make a temporary folder"))?;
    let (archive, source, target) =
        (folder.path().join("source.tar"), folder.path().join("source"), folder.path().join("target"));
    fs::create_dir(&source).map_err(Error::io(format!("make {}", source.display())))?;
    tools::run(git()?.args(["archive", "--output"]).arg(&archive).arg(commit))?;
    let reading = File::open(&archive).map_err(Error::io(format!("open {}", archive.display())))?;
    let mut unpack = Command::new(tools::ensure("tar", "tar")?);
    let unpacked = unpack.arg("-x").current_dir(&source).stdin(Stdio::from(reading)).status();
    let status = unpacked.map_err(Error::io("run tar"))?;
    if !status.success() {
        return Err(Error::Failed { command: format!("{unpack:?}"), detail: status.to_string() });
    }
    let mut command = Command::new(cargo()?);
    command.args(["build", "--quiet", "--locked", "--package", "mooring-agent", "--bin", "mooring-agent"]);
    command.current_dir(&source).env("CARGO_TARGET_DIR", &target);
    let what = format!("building the agent of commit {} (about 2 min on two cores)", &commit[..12]);
    progress::while_busy(&what, || tools::run(&mut command))?;
    let built = target.join("debug/mooring-agent");
    fs::copy(&built, to).map(drop).map_err(Error::io(format!("copy {}", built.display())))
}

fn git() -> Result<Command, Error> {
    let mut command = Command::new(tools::ensure("git", "git")?);
    command.current_dir(workspace());
    Ok(command)
}
