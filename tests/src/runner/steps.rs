//! Programs as tests: formatting, lints, unit tests.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, geteuid};
use tokio::process::Command;

use super::{Skip, Test, Work};
use crate::assets;

/// A program to run.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name or path.
    pub program: &'static str,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables that it has beside those of the lab.
    pub variables: Vec<(&'static str, String)>,
    /// Where it runs.
    pub dir: PathBuf,
    /// A program that must be installed (`cargo-fmt`). Without it the test is skipped.
    pub needs: Option<&'static str>,
    /// It has processors only when nobody else wants them, as far as `nice` can say so.
    pub gives_way: bool,
}

impl Program {
    /// Runs the program with its output in `log`. When this is dropped, the program and all its children are killed.
    ///
    /// # Errors
    /// [`Skip`] when what it needs is not installed; otherwise that it cannot be started, or how it ended.
    pub async fn run(self, log: &File) -> anyhow::Result<()> {
        if let Some(needed) = self.needs.filter(|needed| !installed(needed)) {
            return Err(Skip(format!("{needed} is not installed")).into());
        }
        let nice: &[&str] = if self.gives_way { &["nice", "-n", "19"] } else { &[] };
        let mut words = nice.iter().copied().chain([self.program]);
        let mut command = Command::new(words.next().unwrap_or(self.program));
        for name in assets::of_own_package() {
            command.env_remove(name);
        }
        let mut child = command
            .args(words)
            .args(&self.arguments)
            .envs(self.variables)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {}", self.program))?;
        let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw));
        let status = child.wait().await?;
        group.over();
        if status.success() {
            return Ok(());
        }
        anyhow::bail!("`{} {}` ended with {status}", self.program, self.arguments.join(" "))
    }
}

/// Kills the process group when dropped before its leader has ended.
struct Group(Option<Pid>);

impl Group {
    fn over(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0
            && let Err(errno) = killpg(group, Signal::SIGKILL)
            && errno != Errno::ESRCH
        {
            tracing::warn!(%errno, %group, "a process group could not be killed");
        }
    }
}

/// How many seeds the simulator runs in each round, for the control plane's VIP and for the node's many.
const SEEDS: [(&str, &str); 2] = [("3000", "600"), ("2000", "400")];

/// The programs that are shipped, with all of their libraries.
const SHIPS: [&str; 4] = ["--package", "mooring-agent", "--package", "mooring-allocator"];
/// Packages whose own features build tokio, the client of Kubernetes or its types anew: a minute each.
pub(super) const LONG_CHECKS: [&str; 6] = [
    "mooring-agent",
    "mooring-allocator",
    "mooring-allocator-openstack",
    "mooring-common",
    "mooring-neutron",
    "mooring-tests",
];

/// The packages of the workspace at `root`, in the order of its manifest.
///
/// # Errors
/// Cargo cannot read the manifests.
pub fn packages(root: &Path) -> anyhow::Result<Vec<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = std::process::Command::new(cargo).args(arguments).current_dir(root).output().context("start cargo")?;
    anyhow::ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("read what cargo metadata says")?;
    Ok(metadata.packages.into_iter().map(|package| package.name).collect())
}

/// What `cargo metadata` says, as far as it is needed. Without dependencies its packages are those of the workspace.
#[derive(Debug, serde::Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, serde::Deserialize)]
struct Package {
    name: String,
}

/// The lab's own simulator, by Cargo.
pub(super) const SIM: [&str; 9] =
    ["run", "--locked", "--quiet", "--package", "mooring-tests", "--bin", "lab", "--", "sim"];
/// With bugs switched on in the core, the checks of the simulator must find them.
pub(super) const PLANTED: [&str; 8] =
    ["test", "--locked", "--package", "mooring-sim", "--features", "planted", "--test", "planted"];
/// And so must tests of the core alone.
const GUARDS: [&str; 10] = [
    "test",
    "--locked",
    "--package",
    "mooring-agent-core",
    "--features",
    "planted",
    "--lib",
    "--",
    "_is_found",
    "guards",
];

/// Simulated fleets that take too long for each commit.
const FLEETS: [&str; 8] = ["test", "--locked", "--package", "mooring-sim", "--test", "session_vips", "--", "--ignored"];

/// All of them, with the features of the whole workspace.
const UNIT_TESTS: [&str; 3] = ["test", "--locked", "--workspace"];
/// What computes much is built with less optimisation than usual: for runs that are over before an optimised build would be.
fn built_quickly(level: u8, arguments: &[&str]) -> Vec<String> {
    let of =
        |package: &str, setting: String| ["--config".to_owned(), format!("profile.dev.package.{package}.{setting}")];
    let packages = ["mooring-agent-core", "mooring-lease", "mooring-sim"];
    let settings = packages
        .iter()
        .flat_map(|one| [of(one, format!("opt-level={level}")), of(one, "codegen-units=16".to_owned())].concat());
    settings.chain(arguments.iter().map(|&argument| argument.to_owned())).collect()
}

/// A command of Cargo as a test. Nothing runs beside it: it needs every processor.
fn cargo<S>(root: &Path, group: &str, name: &str, arguments: &[impl AsRef<str>]) -> Test<S> {
    let program = Program {
        program: "cargo",
        arguments: arguments.iter().map(|argument| argument.as_ref().to_owned()).collect(),
        variables: Vec::new(),
        dir: root.to_owned(),
        needs: None,
        gives_way: false,
    };
    Test::new(group, name, Duration::from_mins(30), Work::Program(program)).alone()
}

/// One of the sources.
pub(super) fn step<S>(root: &Path, name: &str, arguments: &[impl AsRef<str>]) -> Test<S> {
    cargo(root, "source", name, arguments)
}

/// The steps for a workspace at `root` with these packages: what has to hold before any scenario is run.
#[must_use]
pub fn of_workspace<S>(root: &Path, packages: &[String]) -> Vec<Test<S>> {
    let step = |name: &str, arguments: &[&str]| step(root, name, arguments);
    let clippy = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
    let mut all = vec![
        step("fmt", &["fmt", "--all", "--check"]).needing("cargo-fmt").quick(),
        step("clippy", &clippy).needing("cargo-clippy").computing().quick(),
    ];
    // In a workspace build, a feature that one package asks for is there for all, and hides that another package forgot to ask
    // for it. Most often the tests asked: what ships is checked without them, and each package by itself.
    all.push(step("check-what-ships", &[&["check", "--locked"], &SHIPS[..]].concat()).computing());
    let check = |one: &String| {
        let test = cargo(root, one, "check", &["check", "--locked", "--package", one]).computing();
        if LONG_CHECKS.contains(&one.as_str()) { test.nightly() } else { test }
    };
    all.extend(packages.iter().map(check));
    // They are built while stories wait, and run when nothing else does: see `unit_tests`.
    all.push(step("unit-tests-are-built", &[&UNIT_TESTS[..], &["--no-run"]].concat()).computing());
    // The unit tests of the libraries. The features are those of the whole workspace, so that nothing is built twice.
    let cores = ["--lib", "--exclude", "mooring-tests", "--exclude", "mooring-sim"];
    all.push(step("unit-tests-of-libraries", &[&UNIT_TESTS[..], &cores, in_namespace()].concat()).only_quick());
    let [whole, quick] = SEEDS;
    let simulations = |(faults, sessions): (&str, &str)| {
        [
            step("simulated-faults", &[&SIM[..], &["--seeds", faults]].concat()),
            step("simulated-sessions", &[&SIM[..], &["--sessions", "--seeds", sessions]].concat()),
        ]
    };
    all.extend(simulations(whole).map(Test::computing));
    all.extend(simulations(quick).map(Test::only_quick));
    all.push(step("large-fleets", &FLEETS).nightly());
    for (name, level, arguments) in [("planted-bugs", 1, &PLANTED[..]), ("planted-bugs-of-the-core", 0, &GUARDS)] {
        all.push(self::step(root, name, &built_quickly(level, arguments)).nightly());
    }
    all
}

/// All unit tests, and those of network namespaces. Some measure times: nothing runs beside them.
#[must_use]
pub fn unit_tests<S>(root: &Path) -> Test<S> {
    step(root, "unit-tests", &[&UNIT_TESTS[..], in_namespace()].concat())
}

/// The tests make network namespaces, which needs root, or a user namespace with root.
fn in_namespace() -> &'static [&'static str] {
    const RUNNER: [&str; 2] = ["--config", "target.'cfg(unix)'.runner=['unshare','--map-root-user','--net']"];
    if geteuid().is_root() { &[] } else { &RUNNER }
}

/// Whether a program is in `PATH`.
#[must_use]
pub fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
