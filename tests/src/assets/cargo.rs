//! The agent and the allocator, built by Cargo.

use std::collections::BTreeMap;
use std::ffi::OsString;
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
    let path = match profile {
        // With the features that the lab itself is built with: nothing is built twice.
        Profile::Dev => build(ours, command()?.arg("--workspace")),
        Profile::Release => static_program(ours, &host_triple()?, &[]),
    }?;
    built.insert((ours, profile), path.clone());
    Ok(path)
}

/// Builds a program as it is shipped for that target: optimised, static, and without a path of this machine in it. The
/// variables are for the build.
///
/// # Errors
/// Cargo fails; its messages go to standard error.
pub fn static_program(ours: &str, target: &str, variables: &[(String, String)]) -> Result<PathBuf, Error> {
    let mut command = command()?;
    // Both packages, whichever is wanted: what they have in common is then built once.
    command.args(["--locked", "--release", "--package", "mooring-agent", "--package", "mooring-allocator"]);
    // Settings of one target do not reach build scripts, and have a folder of their own: nothing is built twice.
    let mut flags = vec!["-C".to_owned(), "target-feature=+crt-static".to_owned()];
    let elsewhere = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let folders = [(cargo_home(), "/cargo"), (Some(workspace()), "/mooring"), (elsewhere, "/mooring/target")];
    for (folder, name) in folders {
        flags.extend(folder.map(|folder| format!("--remap-path-prefix={}={name}", folder.display())));
    }
    command.args(["--target", target, "--config", &format!("target.{target}.rustflags={flags:?}")]);
    keep_out(&mut command, std::env::vars_os().map(|(name, _)| name));
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    build(ours, &mut command)
}

/// Takes the variables away that would change the bytes of a program.
fn keep_out(command: &mut Command, names: impl Iterator<Item = OsString>) {
    for name in names.filter(|name| name.to_str().is_some_and(changes_bytes)) {
        command.env_remove(name);
    }
}

/// Whether a variable changes what a release build makes. Which Rust (`RUSTC`, `RUSTUP_TOOLCHAIN`) and which C compiler and linker
/// (`CC`, `CARGO_TARGET_…_LINKER`) build is the person's choice. Sources: Cargo's book, "Environment variables" and
/// "Configuration"; the crate `cc`, "External configuration via environment variables".
fn changes_bytes(name: &str) -> bool {
    // `cc` knows NAME, TARGET_NAME, HOST_NAME, NAME_triple.
    let of_cc = ["CFLAGS", "CXXFLAGS", "ASFLAGS", "ARFLAGS", "RANLIBFLAGS"];
    let flags = of_cc.into_iter().any(|known| {
        let name = name.strip_prefix("TARGET_").or_else(|| name.strip_prefix("HOST_")).unwrap_or(name);
        name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    });
    let others = [
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_INCREMENTAL",
        "CPATH",
        "C_INCLUDE_PATH",
        "CRATE_CC_NO_DEFAULTS",
        "LIBRARY_PATH",
        // What `mooring-agent manifest` prints.
        "MOORING_IMAGE",
        "RUSTC_BOOTSTRAP",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_WRAPPER",
        "RUSTFLAGS",
    ];
    flags
        || others.contains(&name)
        || name.starts_with("CARGO_BUILD_RUSTC_")
        || name.starts_with("CARGO_PROFILE_")
        || (name.starts_with("CARGO_") && name.ends_with("_RUSTFLAGS"))
}

/// The program `cargo`.
///
/// # Errors
/// It is not installed.
pub fn cargo() -> Result<PathBuf, Error> {
    let missing = || Error::Missing { program: "cargo".into(), detail: "install Rust (https://rustup.rs)".into() };
    std::env::var_os("CARGO").map(PathBuf::from).or_else(|| tools::on_path("cargo")).ok_or_else(missing)
}

/// The variables by which `cargo run` and `cargo test` tell the lab of its own package. No Cargo that the lab starts may have them:
/// build scripts ask for the same names (that of ring does), and what depends on such a crate is built anew when one has changed,
/// which is half of the workspace, and again when a person calls Cargo the next time.
pub fn of_own_package() -> impl Iterator<Item = OsString> {
    std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_str().is_some_and(tells_of_a_package))
}

fn tells_of_a_package(name: &str) -> bool {
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

/// The compiler that Cargo calls.
#[must_use]
pub fn rustc() -> OsString {
    std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}

/// Where Cargo keeps the sources of crates.
#[must_use]
pub fn cargo_home() -> Option<PathBuf> {
    let set = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    set.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))
}

/// The clone that the lab runs from.
pub(super) fn workspace() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}

/// `cargo build`, in the workspace.
fn command() -> Result<Command, Error> {
    let mut command = Command::new(cargo()?);
    command.current_dir(workspace()).arg("build");
    for name in of_own_package() {
        command.env_remove(name);
    }
    Ok(command)
}

/// Runs the build of a program, and answers where it is.
fn build(ours: &str, command: &mut Command) -> Result<PathBuf, Error> {
    command.args(["--quiet", "--bin", ours, "--message-format=json-render-diagnostics"]);
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
    let said = tools::run(Command::new(rustc()).arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Error::Failed { command: "rustc -vV".into(), detail: said.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test itself is run by Cargo, which tells of this package.
    #[test]
    fn the_cargo_that_builds_is_told_of_no_package() {
        let told: Vec<OsString> = of_own_package().collect();
        assert!(told.contains(&"CARGO_MANIFEST_DIR".into()) && told.contains(&"CARGO_PKG_NAME".into()), "{told:?}");
        assert!(!told.contains(&"CARGO_HOME".into()) && !told.contains(&"CARGO".into()), "{told:?}");
        let command = command().unwrap();
        let removed = |name: &OsString| command.get_envs().any(|(known, value)| known == name && value.is_none());
        assert!(told.iter().all(removed), "{command:?}");
    }

    #[test]
    fn nothing_of_the_environment_changes_a_release() {
        let gone = [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_BUILD_RUSTFLAGS",
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_PROFILE_RELEASE_BUILD_OVERRIDE_OPT_LEVEL",
            "CARGO_INCREMENTAL",
            "RUSTC_WRAPPER",
            "CARGO_BUILD_RUSTC_WRAPPER",
            "RUSTC_BOOTSTRAP",
            "CFLAGS",
            "TARGET_CFLAGS",
            "HOST_CFLAGS",
            "CFLAGS_x86_64_unknown_linux_gnu",
            "CFLAGS_x86_64-unknown-linux-gnu",
            "LIBRARY_PATH",
            "MOORING_IMAGE",
        ];
        let kept = [
            "PATH",
            "HOME",
            "CARGO_HOME",
            "CARGO_TARGET_DIR",
            "CARGO_NET_OFFLINE",
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            "CC",
            "RUSTC",
            "RUSTUP_TOOLCHAIN",
            "SOURCE_DATE_EPOCH",
        ];
        let mut command = Command::new("cargo");
        keep_out(&mut command, gone.into_iter().chain(kept).map(OsString::from));
        let mut removed: Vec<_> = command.get_envs().map(|(name, value)| (name.to_str().unwrap(), value)).collect();
        removed.sort_unstable();
        let mut gone = gone.map(|name| (name, None));
        gone.sort_unstable();
        assert_eq!(removed, gone);
    }
}
