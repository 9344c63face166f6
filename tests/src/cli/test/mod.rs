//! `cargo lab test` and `cargo lab nightly`.

mod ahead;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;

use crate::rig::{allocator, shared};
use crate::runner::sweeps::Sweep;
use crate::runner::{Choice, Round, Runner, Test, steps, sweeps};
use crate::scenario;
use crate::shipped;

/// What of the round that each commit has to pass.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run the quick round: the most valuable tests, in less than five minutes
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    choice: Choice,
}

/// What of the nightly round.
#[derive(Debug, clap::Args)]
pub struct Nightly {
    #[command(flatten)]
    sweep: Sweep,
    #[command(flatten)]
    choice: Choice,
}

/// Runs what each commit has to pass: the scenarios, what only computes beside them, and the unit tests.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let round = if args.quick { Round::Quick } else { Round::Whole };
    of(&Choice { round, ..args.choice }, Sweep::default()).await
}

/// Runs what takes too long for each commit.
pub async fn nightly(args: Nightly) -> anyhow::Result<ExitCode> {
    of(&Choice { round: Round::Nightly, ..args.choice }, args.sweep).await
}

async fn of(choice: &Choice, sweep: Sweep) -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace has no folder")?;
    let mut tests = steps::of_workspace(root, &steps::packages(root)?);
    tests.extend(sweeps::all(root, sweep));
    tests.extend(shipped::all());
    let scenarios = scenario::all(sweep.from);
    let needs_cluster = scenarios.iter().any(|test| choice.wants(test));
    tests.extend(scenarios);
    // The last, when its build has had the time in which stories wait.
    tests.push(steps::unit_tests(root));
    if !choice.list {
        let titles: Vec<String> = tests.iter().filter(|test| choice.wants(test)).map(Test::title).collect();
        tokio::task::spawn_blocking(move || ahead::get(&titles, needs_cluster)).await??;
    }
    let code = Runner { tests, shared: Arc::new(()) }.run(choice).await?;
    // The labs that tests have shared.
    allocator::end();
    shared::end();
    Ok(code)
}
