//! `cargo lab test`.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;

use crate::assets::{self, Profile};
use crate::ipam::stage;
use crate::runner::{Choice, Runner, steps};
use crate::scenario;

/// The packages of the workspace.
const PACKAGES: &[&str] = &[
    "mooring-core",
    "mooring-edge",
    "mooring-agent",
    "mooring-api",
    "mooring-allocator-core",
    "mooring-allocator",
    "mooring-tests",
    "mooring-sim",
];

/// Runs what was chosen: the sources first, then the scenarios.
pub async fn run(choice: &Choice) -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace has no folder")?;
    let scenarios = scenario::all();
    let wanted = |title: &str| choice.filter.is_empty() || choice.filter.iter().any(|part| title.contains(part));
    if !choice.list && scenarios.iter().any(|one| wanted(&one.title())) {
        // What is fetched or built for the first time takes minutes, which no scenario's limit allows for.
        tokio::task::spawn_blocking(|| {
            assets::find()?;
            assets::agent(Profile::Dev)?;
            assets::allocator(Profile::Dev)
        })
        .await??;
    }
    let mut tests = steps::of_workspace(root, PACKAGES);
    tests.extend(scenarios);
    let code = Runner { tests, shared: Arc::new(()) }.run(choice).await?;
    // Those that tests have shared.
    stage::end();
    Ok(code)
}
