//! The agent and the allocator, built by Cargo.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use serde_json::Value;

use super::{Error, tools};
use crate::host::lock;
use crate::progress;

/// How a program is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// Quickly, with debug assertions: for tests.
    #[default]
    Dev,
    /// As it is shipped: optimised and static. For benches.
    Release,
}

/// What was built. One build serves a whole run: scenarios do not wait for Cargo, and all see the same program.
static BUILT: Mutex<BTreeMap<(&str, Profile), PathBuf>> = Mutex::new(BTreeMap::new());

/// Builds `mooring-agent` and answers where it is, or that of `MOORING_LAB_AGENT`.
///
/// # Errors
/// Cargo fails; its messages go to standard error.
pub fn agent(profile: Profile) -> Result<PathBuf, Error> {
    program("mooring-agent", "MOORING_LAB_AGENT", profile)
}

/// Builds `mooring-allocator` and answers where it is, or that of `MOORING_LAB_ALLOCATOR`.
///
/// # Errors
/// As [`agent`].
pub fn allocator(profile: Profile) -> Result<PathBuf, Error> {
    program("mooring-allocator", "MOORING_LAB_ALLOCATOR", profile)
}

/// `instead`: the variable that may name a binary to use instead of a build.
fn program(ours: &'static str, instead: &str, profile: Profile) -> Result<PathBuf, Error> {
    if let Some(path) = std::env::var_os(instead) {
        return Ok(path.into());
    }
    let mut built = lock(&BUILT);
    if let Some(path) = built.get(&(ours, profile)) {
        return Ok(path.clone());
    }
    let path = build(ours, profile)?;
    built.insert((ours, profile), path.clone());
    Ok(path)
}

fn build(ours: &str, profile: Profile) -> Result<PathBuf, Error> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cargo = std::env::var_os("CARGO").map(PathBuf::from).or_else(|| tools::on_path("cargo"));
    let missing = || Error::Missing { program: "cargo".into(), detail: "install Rust (https://rustup.rs)".into() };
    let mut command = Command::new(cargo.ok_or_else(missing)?);
    command.current_dir(workspace).args(["build", "--quiet", "--bin", ours]);
    command.arg("--message-format=json-render-diagnostics");
    if profile == Profile::Dev {
        // With the features that the lab itself is built with: nothing is built twice.
        command.arg("--workspace");
    } else {
        // Both packages, whichever is wanted: what they have in common is then built once.
        command.args(["--package", "mooring-agent", "--package", "mooring-allocator"]);
        let target = host_triple()?;
        // Settings of one target do not reach build scripts, and have a folder of their own: nothing is built twice.
        let flags = format!("target.{target}.rustflags=['-C', 'target-feature=+crt-static']");
        command.args(["--release", "--target", &target, "--config", &flags]);
    }
    let name = format!("{command:?}");
    let output = progress::while_busy(&format!("building {ours}"), || {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).output()
    })
    .map_err(Error::io(format!("run {name}")))?;
    if !output.status.success() {
        return Err(Error::Failed { command: name, detail: format!("{}; the reason is above", output.status) });
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let binary = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|message| {
        let ours = message["target"]["name"] == ours;
        message["executable"].as_str().filter(|_| ours).map(PathBuf::from)
    });
    binary.ok_or_else(|| Error::Failed { command: name, detail: "it names no executable".into() })
}

fn host_triple() -> Result<String, Error> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = tools::run(Command::new(rustc).arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Error::Failed { command: "rustc -vV".into(), detail: said.clone() })
}
