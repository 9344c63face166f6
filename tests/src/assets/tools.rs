//! Programs of the machine.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::Error;
use crate::{progress, userns};

/// A program in PATH, or where programs of the administrator are.
#[must_use]
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Finds a program; root on Debian or Ubuntu installs its package when it is missing.
///
/// # Errors
/// It is missing; the message names the package.
pub fn ensure(program: &str, package: &str) -> Result<PathBuf, Error> {
    if let Some(path) = on_path(program) {
        return Ok(path);
    }
    let missing = |detail: String| Error::Missing { program: program.to_owned(), detail };
    let Some(apt) = on_path("apt-get").filter(|_| userns::is_machine_root()) else {
        return Err(missing(format!("install the package {package} (as root: apt-get install {package})")));
    };
    let get = |args: &[&str]| {
        let mut command = Command::new(&apt);
        command.args(["-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::http::Timeout=20"]).args(args);
        run(command.env("DEBIAN_FRONTEND", "noninteractive"))
    };
    let install = ["install", "--yes", "--no-install-recommends", package];
    progress::line(format_args!("{program} is missing: installing the package {package}"));
    progress::while_busy(&format!("installing {package}"), || {
        // A machine without package lists, or with old ones, needs them first.
        get(&install).or_else(|_| get(&["update"]).and_then(|_| get(&install)))
    })
    .map_err(|error| missing(format!("install the package {package} by hand: {error}")))?;
    on_path(program).ok_or_else(|| missing(format!("the package {package} does not have it")))
}

/// Runs a command and returns what it printed.
///
/// # Errors
/// It cannot be started, or it fails; the error has the end of what it said.
pub fn run(command: &mut Command) -> Result<String, Error> {
    let name = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().map_err(Error::io(format!("run {name}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<_> = said.lines().collect();
    let end = lines[lines.len().saturating_sub(6)..].join("\n    ");
    Err(Error::Failed { command: name, detail: format!("{}\n    {end}", output.status) })
}
