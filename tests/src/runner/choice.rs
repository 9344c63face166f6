//! Which tests are run.

use std::path::PathBuf;

use super::test::{Rounds, Test};

/// Which tests to run, and how. For clap: `#[command(flatten)]`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Choice {
    /// Run only tests whose GROUP/NAME contains one of these
    pub filter: Vec<String>,
    /// Run the quick round: the most valuable tests, in less than five minutes
    #[arg(long)]
    pub quick: bool,
    /// Name the tests and do nothing
    #[arg(long)]
    pub list: bool,
    /// How many tests may run at once; those that count lost packets only beside each other [default: 2, on one processor 1]
    #[arg(long, short, value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Where to leave the logs [default: a temporary directory, kept when a test fails]
    #[arg(long)]
    pub logs: Option<PathBuf>,
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

    /// Whether a test with that title, of these rounds, is run.
    #[must_use]
    pub fn wants(&self, title: &str, rounds: Rounds) -> bool {
        let now = match rounds {
            Rounds::Whole => !self.quick,
            Rounds::Both => true,
            Rounds::Quick => self.quick,
            Rounds::Named => !self.filter.is_empty(),
        };
        now && (self.filter.is_empty() || self.filter.iter().any(|part| title.contains(part)))
    }

    /// The tests that are run, in their order.
    #[must_use]
    pub fn of<S>(&self, tests: Vec<Test<S>>) -> Vec<Test<S>> {
        tests.into_iter().filter(|test| self.wants(&test.title(), test.rounds)).collect()
    }
}
