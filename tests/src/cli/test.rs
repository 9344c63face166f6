//! `cargo lab test`.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;

use crate::runner::{Choice, Runner, steps};
use crate::scenario;

/// The packages of the workspace.
const PACKAGES: &[&str] = &["mooring-agent", "mooring-tests"];

/// Runs what was chosen: the sources first, then the scenarios.
pub async fn run(choice: &Choice) -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace has no folder")?;
    let mut tests = steps::of_workspace(root, PACKAGES);
    tests.extend(scenario::all());
    Ok(Runner { tests, shared: Arc::new(()) }.run(choice).await?)
}
