//! Commands on hosts: run to their end, with a deadline, and what they printed.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use mooring_agent::core::time::Time;

use crate::host::{Host, Spec};

/// Tells the runs of one command apart: each is a process of its own name.
static RUNS: AtomicU32 = AtomicU32::new(0);

/// A command.
#[derive(Clone, Debug)]
pub struct Run(Spec);

/// A command that ended well.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its standard output.
    pub text: String,
    /// When it began.
    pub from: Time,
    /// When it ended.
    pub to: Time,
}

impl Ran {
    /// How long it took.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.to.since(self.from)
    }
}

impl Run {
    /// A program. `name`: what its logs are called.
    #[must_use]
    pub fn new(name: &str, program: impl AsRef<Path>) -> Self {
        Self(Spec::new(name, program))
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: Into<String>>(self, args: impl IntoIterator<Item = S>) -> Self {
        Self(self.0.args(args))
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(self, key: &str, value: &str) -> Self {
        Self(self.0.env(key, value))
    }
}

/// Runs it.
///
/// # Errors
/// The host is down, the command fails, or goes on for longer than `limit`; the message has the end of what it said.
pub async fn run(host: &Host, Run(mut spec): Run, limit: Duration) -> Result<Ran> {
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let command = spec.argv.iter().map(|word| word.rsplit('/').next().unwrap_or(word)).collect::<Vec<_>>().join(" ");
    spec.name = format!("{}-{number}", spec.name);
    let errors = host.dir().join(format!("{}.err", spec.name));
    // Its standard error goes to a file of its own: what it prints may be JSON.
    let shell = ["/bin/sh", "-c", "exec \"$@\" 2> \"$0\""].map(str::to_owned);
    spec.argv = shell.into_iter().chain([errors.display().to_string()]).chain(spec.argv).collect();
    let from = crate::clock::now();
    let process = host.start(spec)?;
    let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let (how, to) = match process.ended(limit).await {
        Ok(ended) => ended,
        Err(late) => {
            // It may end at this moment.
            drop(process.kill());
            bail!("{command} on {}: {late}{}", host.name(), tail(&read(&errors)));
        }
    };
    let text = read(process.log());
    if how == "ended well" {
        // Hundreds of commands leave hundreds of files, of which nobody reads those that succeeded.
        drop(fs::remove_file(process.log()));
        drop(fs::remove_file(&errors));
        return Ok(Ran { text, from, to });
    }
    bail!("{command} on {} {how}{}{}", host.name(), tail(&text), tail(&read(&errors)))
}

fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].iter().fold(String::new(), |all, line| format!("{all}\n    {line}"))
}
