//! Which tests are run.

use std::path::PathBuf;

use super::test::{Rounds, Test};

/// Which of the rounds is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Round {
    /// What is run for each commit.
    #[default]
    Whole,
    /// The most valuable of it, in a few minutes.
    Quick,
    /// What takes too long for each commit.
    Nightly,
}

/// Which tests to run, and how. For clap: `#[command(flatten)]`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Choice {
    /// Run only tests whose GROUP/NAME contains one of these
    pub filter: Vec<String>,
    /// Name the tests and do nothing
    #[arg(long)]
    pub list: bool,
    /// How many tests may run at once; those that count lost packets only beside each other [default: 2, on one processor 1]
    #[arg(long, short, value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Where to leave the logs [default: a temporary directory, kept when a test fails]
    #[arg(long)]
    pub logs: Option<PathBuf>,
    /// Of which round.
    #[arg(skip)]
    pub round: Round,
}

/// How many tests run at once by default. Most tests wait most of the time, but a cluster that starts needs processors.
const JOBS: usize = 2;

impl Choice {
    /// How many tests may run at once.
    #[must_use]
    pub fn jobs(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(|| processors.min(JOBS), usize::from)
    }

    /// Whether a test is run. One of the nightly round is run in other rounds too when its whole NAME or GROUP/NAME is given: a part
    /// of its name, which other tests have as well, is not enough.
    #[must_use]
    pub fn wants<S>(&self, test: &Test<S>) -> bool {
        let title = test.title();
        let now = match test.rounds {
            Rounds::Whole => self.round == Round::Whole,
            Rounds::Both => self.round != Round::Nightly,
            Rounds::Quick => self.round == Round::Quick,
            Rounds::Nightly => {
                self.round == Round::Nightly || self.filter.iter().any(|f| *f == test.name || *f == title)
            }
        };
        now && self.matches(&title)
    }

    fn matches(&self, title: &str) -> bool {
        self.filter.is_empty() || self.filter.iter().any(|part| title.contains(part))
    }

    /// The tests that are run, in their order.
    #[must_use]
    pub fn of<S>(&self, tests: Vec<Test<S>>) -> Vec<Test<S>> {
        tests.into_iter().filter(|test| self.wants(test)).collect()
    }

    /// The tests by name, a line each: those that are run and, beside the whole round, those of the nightly one, marked as such.
    #[must_use]
    pub fn listed<S>(&self, tests: &[Test<S>]) -> Vec<String> {
        let (nightly, others): (Vec<_>, Vec<_>) = tests.iter().partition(|test| test.rounds == Rounds::Nightly);
        let here = others.into_iter().filter(|test| self.wants(test)).map(Test::title);
        let mark = if self.round == Round::Nightly { "" } else { "  (nightly)" };
        let shown = nightly.into_iter().filter(|_| self.round != Round::Quick).map(Test::title);
        here.chain(shown.filter(|title| self.matches(title)).map(|title| format!("{title}{mark}"))).collect()
    }
}
