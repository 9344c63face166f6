//! The test runner behind `cargo lab test`: everything that is tested, one line each, and a verdict.
//!
//! [`Test`] is one thing that is tested: a scenario of the lab, or a command such as `cargo clippy` (see [`steps`]).
//! [`Choice`] says which of them are run, [`Runner`] runs them and says how it went.

mod choice;
mod output;
pub mod steps;
pub mod sweeps;
mod test;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{Id, JoinSet};

pub use choice::{Choice, Round};
use output::Screen;
pub use test::{Beside, Ctx, Rounds, Run, Skip, Test, Work};

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It passed.
    Passed,
    /// It failed, for this reason.
    Failed(String),
    /// It was not run, for this reason.
    Skipped(String),
}

/// A test that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// `GROUP/NAME`.
    pub title: String,
    /// Its directory.
    pub dir: PathBuf,
    /// How.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

/// Runs tests.
#[derive(Debug)]
pub struct Runner<S> {
    /// All tests, in the order in which they start.
    pub tests: Vec<Test<S>>,
    /// What they share.
    pub shared: Arc<S>,
}

impl<S: Send + Sync + 'static> Runner<S> {
    /// Runs what `choice` names, prints a line for each and the verdict, and answers the program's exit code: 0 when
    /// nothing failed, 1 when something did, 2 when nothing matched, 130 after Ctrl-C. What was running then is
    /// dropped, and cleans up as it does so.
    ///
    /// # Errors
    /// The folder for the logs cannot be made.
    pub async fn run(self, choice: &Choice) -> std::io::Result<ExitCode> {
        let list = choice.listed(&self.tests);
        if choice.list {
            for line in &list {
                println!("{line}");
            }
            return Ok(ExitCode::SUCCESS);
        }
        let tests = VecDeque::from(choice.of(self.tests));
        if tests.is_empty() {
            println!("no such test: {}; `--list` names them all", choice.filter.join(" "));
            if !list.is_empty() {
                println!("these are run by `cargo lab nightly`, or by their whole names:\n  {}", list.join("\n  "));
            }
            return Ok(ExitCode::from(2));
        }
        let (dir, temporary) = match &choice.logs {
            Some(dir) => (dir.clone(), false),
            None => (tempfile::Builder::new().prefix("mooring-test-").tempdir()?.keep(), true),
        };
        fs::create_dir_all(&dir)?;

        let mut screen = Screen::new(tests.len());
        let begin = Instant::now();
        let jobs = choice.jobs();
        let interrupted = run_all(tests, &self.shared, &dir, jobs, &mut screen, tokio::signal::ctrl_c()).await;
        let failed = screen.verdict(begin.elapsed(), interrupted);
        if failed == 0 && temporary && !interrupted {
            fs::remove_dir_all(&dir)?;
        } else if failed > 0 {
            println!("logs: {}", dir.display());
        }
        Ok(match (interrupted, failed) {
            (true, _) => ExitCode::from(130),
            (false, 0) => ExitCode::SUCCESS,
            (false, _) => ExitCode::FAILURE,
        })
    }
}

/// Runs the tests. Returns whether `stop` came before they had ended; tests that still ran are dropped.
async fn run_all<S: Send + Sync + 'static>(
    mut waiting: VecDeque<Test<S>>,
    shared: &Arc<S>,
    dir: &Path,
    jobs: usize,
    screen: &mut Screen,
    stop: impl Future<Output = std::io::Result<()>>,
) -> bool {
    let mut stop = pin!(stop);
    let mut running: JoinSet<(Outcome, Duration)> = JoinSet::new();
    let mut titles: Vec<(Id, String, PathBuf, Beside, Instant)> = Vec::new();
    loop {
        loop {
            let beside: Vec<Beside> = titles.iter().map(|(.., beside, _)| *beside).collect();
            let Some(test) = next_of(&waiting, &beside, jobs).and_then(|place| waiting.remove(place)) else { break };
            let (title, beside) = (test.title(), test.beside);
            let dir = dir.join(title.replace('/', "-"));
            screen.started(&title);
            let task = running.spawn(run_one(test, Arc::clone(shared), dir.clone()));
            titles.push((task.id(), title, dir, beside, Instant::now()));
        }
        let joined = tokio::select! {
            joined = running.join_next_with_id() => joined,
            Ok(()) = &mut stop => {
                println!("\nending what runs; once more to leave it as it is");
                tokio::select! {
                    () = running.shutdown() => {}
                    _ = tokio::signal::ctrl_c() => {}
                }
                return true;
            }
        };
        let Some(joined) = joined else { return false };
        let (id, (outcome, took)) = match joined {
            Ok(ended) => ended,
            Err(error) => {
                let began = titles.iter().find(|t| t.0 == error.id()).map_or_else(Instant::now, |t| t.4);
                (error.id(), (Outcome::Failed(panic_text(error)), began.elapsed()))
            }
        };
        if let Some(place) = titles.iter().position(|t| t.0 == id) {
            let (_, title, dir, ..) = titles.swap_remove(place);
            screen.ended(Ended { title, dir, outcome, took });
        }
    }
}

/// The place of the test that starts next beside what runs; None: something must end first. They start in their order, but those
/// that only compute fill in where others leave processors. What runs alone or counts waits until nothing computes.
fn next_of<S>(waiting: &VecDeque<Test<S>>, running: &[Beside], jobs: usize) -> Option<usize> {
    let first = |computes: bool| waiting.iter().position(|test| (test.beside == Beside::Computing) == computes);
    let (other, computing) = (first(false), first(true));
    let (computes, others): (Vec<&Beside>, Vec<&Beside>) =
        running.iter().partition(|beside| **beside == Beside::Computing);
    let beside = other.and_then(|place| waiting.get(place)).map(|test| test.beside);
    let goes_with = |beside: Beside| others.len() < jobs && others.iter().all(|other| **other == beside);
    let other_may = match beside {
        None | Some(Beside::Computing) => false,
        Some(Beside::Nothing) => running.is_empty(),
        Some(Beside::Anything) => goes_with(Beside::Anything),
        Some(Beside::Counting) => goes_with(Beside::Counting) && computes.is_empty() && computing.is_none(),
    };
    if other_may {
        return other;
    }
    let fills_in = others.iter().all(|other| **other == Beside::Anything) && beside != Some(Beside::Nothing);
    computing.filter(|_| fills_in && computes.is_empty())
}

async fn run_one<S: Send + Sync>(test: Test<S>, shared: Arc<S>, dir: PathBuf) -> (Outcome, Duration) {
    let begin = Instant::now();
    let work = async {
        fs::create_dir_all(&dir)?;
        match test.work {
            Work::Function(run) => run(&mut Ctx { name: test.name, dir: dir.clone(), shared }).await,
            Work::Program(program) => program.run(&File::create(dir.join("output.log"))?).await,
        }
    };
    let outcome = match tokio::time::timeout(test.limit, work).await {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(error)) => match error.downcast::<Skip>() {
            Ok(Skip(why)) => Outcome::Skipped(why),
            Err(error) => Outcome::Failed(format!("{error:#}")),
        },
        Err(_) => Outcome::Failed(format!("not done within {:?}", test.limit)),
    };
    (outcome, begin.elapsed())
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else {
        return "it was ended".into();
    };
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.or_else(|| payload.downcast_ref::<&str>().map(|&s| s.to_owned()));
    text.map_or_else(|| "it panicked".into(), |text| format!("it panicked: {text}"))
}

#[cfg(test)]
mod book;
#[cfg(test)]
mod security;
#[cfg(test)]
mod tests;
