//! `cargo deny`: licenses, sources and versions of all crates; and advisories, where the list of them can be had.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::release::root;
use crate::runner::Skip;
use crate::{assets, progress};

/// How long the list of advisories may take to arrive.
const FETCH: Duration = Duration::from_mins(2);

/// Checks the crates of both workspaces. Returns why advisories were not checked, if they were not.
pub fn allowed() -> Result<Option<String>> {
    // Skipped where it can neither be found nor built, as without a network.
    let deny = assets::cargo_deny().map_err(|error| Skip(error.to_string()))?;
    let config = root().join("deny.toml").display().to_string();
    let command = |manifest: &str| {
        let mut command = Command::new(&deny);
        command.current_dir(root()).args(["--locked", "--manifest-path", manifest, "--workspace"]);
        command.args(["--color", "never", "--log-level", "error", "--config", &config]);
        command
    };
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        assets::run(command(manifest).args(["check", "bans", "licenses", "sources"]))?;
    }
    if let Some(why) = unfetched(command("Cargo.toml").args(["fetch", "db"]))? {
        progress::line(format_args!("advisories were not checked: {why}"));
        return Ok(Some(why));
    }
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let check = ["check", "--disable-fetch", "advisories"];
        assets::run(command(manifest).args(check))?;
    }
    Ok(None)
}

/// Why the command did not end well in time; None: it did.
fn unfetched(command: &mut Command) -> Result<Option<String>> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("start cargo-deny")?;
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(
                (!status.success()).then(|| "the list of advisories cannot be fetched (is there a network?)".into())
            );
        }
        if begin.elapsed() > FETCH {
            child.kill()?;
            child.wait()?;
            return Ok(Some(format!("the list of advisories did not arrive within {} s", FETCH.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
