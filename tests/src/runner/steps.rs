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

/// A program to run.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name or path.
    pub program: &'static str,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Where it runs.
    pub dir: PathBuf,
    /// A program that must be installed for it (`cargo-deny`); it is skipped otherwise.
    pub needs: Option<&'static str>,
}

impl Program {
    /// Runs it with its output in `log`. It is killed, with all that it started, when this is dropped.
    ///
    /// # Errors
    /// [`Skip`] when what it needs is not installed; otherwise that it cannot be started, or how it ended.
    pub async fn run(self, log: &File) -> anyhow::Result<()> {
        if let Some(needed) = self.needs.filter(|needed| !installed(needed)) {
            return Err(Skip(format!("{needed} is not installed")).into());
        }
        let mut child = Command::new(self.program)
            .args(&self.arguments)
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

/// The steps for a workspace at `root` with these packages: what has to hold before any scenario is run.
#[must_use]
pub fn of_workspace<S>(root: &Path, packages: &[&'static str]) -> Vec<Test<S>> {
    let step = |name, minutes: u64, needs, arguments: &[&str]| Test {
        name,
        group: "source",
        limit: Duration::from_secs(minutes * 60),
        alone: true,
        work: Work::Program(Program {
            program: "cargo",
            arguments: arguments.iter().map(|&a| a.to_owned()).collect(),
            dir: root.to_owned(),
            needs,
        }),
    };
    let mut all = vec![
        step("fmt", 2, Some("cargo-fmt"), &["fmt", "--all", "--check"]),
        step(
            "clippy",
            30,
            Some("cargo-clippy"),
            &["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"],
        ),
    ];
    // One at a time: in a workspace build the features that one package asks for hide that another forgot to.
    for &package in packages {
        let mut check = step("check", 30, None, &["check", "--locked", "--package", package]);
        check.group = package;
        all.push(check);
    }
    let mut test = vec!["test", "--locked", "--workspace"];
    // The tests make network namespaces: that takes root, or a user namespace in which one is root.
    if !geteuid().is_root() {
        test.extend(["--config", "target.'cfg(unix)'.runner=['unshare','--map-root-user','--net']"]);
    }
    all.push(step("unit-tests", 30, None, &test));
    let lab = ["run", "--locked", "--quiet", "--package", "mooring-tests", "--bin", "lab", "--"];
    all.push(step("simulated-faults", 30, None, &[&lab[..], &["sim", "--seeds", "20000"]].concat()));
    all.push(step("simulated-sessions", 30, None, &[&lab[..], &["sim", "--fleet", "--seeds", "4000"]].concat()));
    // With bugs switched on in the core, the same checks must find them.
    let planted = ["test", "--locked", "--package", "mooring-sim", "--features", "planted", "--test", "planted"];
    all.push(step("planted-bugs", 30, None, &planted));
    all.push(step("deny", 5, Some("cargo-deny"), &["deny", "--workspace", "check"]));
    all
}

/// Whether a program is in `PATH`.
#[must_use]
pub fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
