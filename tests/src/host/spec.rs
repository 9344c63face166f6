//! What to run on a host, and whether it runs.

use std::path::Path;

use mooring_agent::core::time::Time;

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The name of the process on its host, and of its log.
    pub name: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Additional environment variables; PATH and HOME are always set, and no others.
    pub env: Vec<(String, String)>,
}

impl Spec {
    /// A program without arguments.
    pub fn new(name: impl Into<String>, program: impl AsRef<Path>) -> Self {
        Self { name: name.into(), argv: vec![program.as_ref().to_string_lossy().into_owned()], env: Vec::new() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.argv.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.argv.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((key.into(), value.into()));
        self
    }
}

/// Whether a process runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// It was never started.
    #[default]
    New,
    /// It runs (or is stopped by SIGSTOP).
    Running {
        /// Its PID on the host.
        pid: i32,
    },
    /// It ended.
    Ended {
        /// How, in words.
        how: String,
        /// When its end was noticed.
        at: Time,
    },
}
