//! The test runner behind `cargo lab test`: everything that is tested, one line each, and a verdict.
//!
//! [`Test`] is one thing that is tested: a scenario of the lab, or a command such as `cargo clippy` (see [`steps`]).
//! [`Runner`] runs those that were asked for and says how it went.

mod output;
pub mod steps;

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::task::{Id, JoinSet};

use output::Screen;

/// What a test may use: its own directory for logs, and what all tests share.
#[derive(Debug)]
pub struct Ctx<S> {
    /// The test's name.
    pub name: &'static str,
    /// Its directory; every `*.log` in it is quoted when the test fails.
    pub dir: PathBuf,
    /// What the tests share: where the binaries are, say.
    pub shared: Arc<S>,
}

impl<S> Ctx<S> {
    /// Writes a line to the test's own log.
    pub fn note(&self, text: &str) {
        let file = OpenOptions::new().create(true).append(true).open(self.dir.join("test.log"));
        // The log is for people; a test does not fail for it.
        if let Err(error) = file.and_then(|mut file| writeln!(file, "{text}")) {
            tracing::warn!(%error, test = self.name, "the test's log cannot be written");
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

/// One thing that is tested.
#[derive(Clone, Debug)]
pub struct Test<S> {
    /// Its name: unique, and what filters are compared with (as `GROUP/NAME`).
    pub name: &'static str,
    /// What it belongs to.
    pub group: &'static str,
    /// When it is given up.
    pub limit: Duration,
    /// Whether nothing else may run beside it: what measures times must be alone.
    pub alone: bool,
    /// What it does.
    pub work: Work<S>,
}

/// A test ends with this error when it cannot be done here and that is no failure.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Skip(
    /// Why.
    pub String,
);

/// Which tests to run, and how. For clap: `#[command(flatten)]`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Choice {
    /// Run only tests whose GROUP/NAME contains one of these
    pub filter: Vec<String>,
    /// Name the tests and do nothing
    #[arg(long)]
    pub list: bool,
    /// How many tests may run at once; those that measure times always run alone
    #[arg(long, short, default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: u16,
    /// Where to leave the logs [default: a temporary directory, kept when a test fails]
    #[arg(long)]
    pub logs: Option<PathBuf>,
}

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Passed,
    /// Not as it should: the reason.
    Failed(String),
    /// Not run: the reason.
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

impl<S> Test<S> {
    /// `GROUP/NAME`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }
}

/// Runs tests.
#[derive(Debug)]
pub struct Runner<S> {
    /// All there are, in the order in which they start.
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
    /// When there is no place for the logs.
    pub async fn run(self, choice: &Choice) -> std::io::Result<ExitCode> {
        let wanted = |title: &str| choice.filter.is_empty() || choice.filter.iter().any(|part| title.contains(part));
        let tests: VecDeque<Test<S>> = self.tests.into_iter().filter(|test| wanted(&test.title())).collect();
        if choice.list {
            for test in &tests {
                println!("{}", test.title());
            }
            return Ok(ExitCode::SUCCESS);
        }
        if tests.is_empty() {
            println!("no test is named like {}; `--list` names them all", choice.filter.join(" or "));
            return Ok(ExitCode::from(2));
        }
        let (dir, temporary) = match &choice.logs {
            Some(dir) => (dir.clone(), false),
            None => (tempfile::Builder::new().prefix("mooring-test-").tempdir()?.keep(), true),
        };
        fs::create_dir_all(&dir)?;

        let mut screen = Screen::new(tests.len());
        let begin = Instant::now();
        let jobs = usize::from(choice.jobs);
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

/// Runs the tests; answers whether `stop` came before they were done. What ran then is dropped when this returns.
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
    let mut titles: Vec<(Id, String, PathBuf, bool, Instant)> = Vec::new();
    loop {
        while let Some(next) = waiting.front() {
            let busy = running.len() >= jobs || titles.iter().any(|(.., alone, _)| *alone);
            if busy || (next.alone && !running.is_empty()) {
                break;
            }
            let Some(test) = waiting.pop_front() else { break };
            let (title, alone) = (test.title(), test.alone);
            let dir = dir.join(title.replace('/', "-"));
            screen.started(&title);
            let task = running.spawn(run_one(test, Arc::clone(shared), dir.clone()));
            titles.push((task.id(), title, dir, alone, Instant::now()));
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
mod tests;
