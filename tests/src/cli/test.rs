//! `cargo lab test`.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;

use crate::assets::{self, Profile};
use crate::rig::{allocator, shared};
use crate::runner::{Choice, Runner, steps};
use crate::scenario;
use crate::shipped;

/// Runs what was chosen: the sources first, then the scenarios.
pub async fn run(choice: &Choice) -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace has no folder")?;
    let scenarios = scenario::all();
    if !choice.list && scenarios.iter().any(|one| choice.wants(&one.title(), one.rounds)) {
        // Fetching or building something for the first time takes minutes, which is longer than a scenario may take.
        tokio::task::spawn_blocking(|| {
            assets::find()?;
            assets::agent(Profile::Dev)?;
            assets::allocator(Profile::Dev)
        })
        .await??;
    }
    let mut tests = steps::of_workspace(root, &steps::packages(root)?);
    tests.extend(shipped::all());
    tests.extend(scenarios);
    let code = Runner { tests, shared: Arc::new(()) }.run(choice).await?;
    // The labs that tests have shared.
    allocator::end();
    shared::end();
    Ok(code)
}
