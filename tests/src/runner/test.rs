//! What is tested, and what runs it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::steps;

/// What a test may use: its own directory for logs, and what all tests share.
#[derive(Debug)]
pub struct Ctx<S> {
    /// The test's name.
    pub name: String,
    /// Its directory; every `*.log` in it is quoted when the test fails.
    pub dir: PathBuf,
    /// What the tests share, for example where the binaries are.
    pub shared: Arc<S>,
}

impl<S> Ctx<S> {
    /// Writes a line to the test's own log.
    pub fn note(&self, text: &str) {
        let file = OpenOptions::new().create(true).append(true).open(self.dir.join("test.log"));
        // The log is for people: a test does not fail because of it.
        if let Err(error) = file.and_then(|mut file| writeln!(file, "{text}")) {
            tracing::warn!(%error, test = %self.name, "the test's log cannot be written");
        }
    }
}

/// The function of a test.
pub type Run<S> = for<'a> fn(&'a mut Ctx<S>) -> BoxFuture<'a, anyhow::Result<()>>;

/// What a test does.
#[derive(Clone, Debug)]
pub enum Work<S> {
    /// A function.
    Function(Run<S>),
    /// A program; it passes when it ends with status 0.
    Program(steps::Program),
}

/// What may run beside a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Beside {
    /// Nothing may run beside it: it needs every processor.
    Nothing,
    /// Others of this kind.
    Anything,
    /// Whatever may run beside others: it only computes, and gives way to them. One of this kind runs at a time.
    Computing,
    /// Others of this kind. Each counts lost packets, and none starts a cluster while another one counts.
    Counting,
}

/// In which rounds a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// Only when everything is tested.
    Whole,
    /// Also in the quick round, `--quick`.
    Both,
    /// Only in the quick round, as a smaller form of a test of the whole round.
    Quick,
    /// Only in the nightly round, or when its whole name is given: it costs more than a round for each commit has time for.
    Nightly,
}

/// One thing that is tested.
#[derive(Clone, Debug)]
pub struct Test<S> {
    /// Its name. It is unique; filters are compared with `GROUP/NAME`.
    pub name: String,
    /// What it belongs to.
    pub group: String,
    /// The time after which the test fails.
    pub limit: Duration,
    /// What may run beside it.
    pub beside: Beside,
    /// In which rounds it runs.
    pub rounds: Rounds,
    /// What it does.
    pub work: Work<S>,
}

/// The error of a test that cannot run on this machine. This is not a failure.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Skip(
    /// Why.
    pub String,
);

impl<S> Test<S> {
    /// A test that runs beside others, when everything is tested.
    #[must_use]
    pub fn new(group: &str, name: &str, limit: Duration, work: Work<S>) -> Self {
        Self {
            name: name.to_owned(),
            group: group.to_owned(),
            limit,
            beside: Beside::Anything,
            rounds: Rounds::Whole,
            work,
        }
    }

    /// Nothing else may run beside it.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { beside: Beside::Nothing, ..self }
    }

    /// It counts every lost packet: no test that takes processors away may run at the same time.
    #[must_use]
    pub fn counting(self) -> Self {
        Self { beside: Beside::Counting, ..self }
    }

    /// It needs processors and nothing else, and leaves them to others: see [`Beside::Computing`].
    #[must_use]
    pub fn computing(self) -> Self {
        Self { beside: Beside::Computing, ..self.of_program(|program| program.gives_way = true) }
    }

    /// It runs a program that must be installed, and is skipped without it.
    #[must_use]
    pub fn needing(self, needed: &'static str) -> Self {
        self.of_program(|program| program.needs = Some(needed))
    }

    /// Its program has this variable.
    #[must_use]
    pub fn variable(self, name: &'static str, value: &str) -> Self {
        self.of_program(|program| program.variables.push((name, value.to_owned())))
    }

    /// Changes how its program is run; a function stays as it is.
    fn of_program(mut self, change: impl FnOnce(&mut steps::Program)) -> Self {
        if let Work::Program(program) = &mut self.work {
            change(program);
        }
        self
    }

    /// It belongs to the quick round as well.
    #[must_use]
    pub fn quick(self) -> Self {
        Self { rounds: Rounds::Both, ..self }
    }

    /// It belongs to the quick round only.
    #[must_use]
    pub fn only_quick(self) -> Self {
        Self { rounds: Rounds::Quick, ..self }
    }

    /// It belongs to the nightly round only.
    #[must_use]
    pub fn nightly(self) -> Self {
        Self { rounds: Rounds::Nightly, ..self }
    }

    /// `GROUP/NAME`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }
}
