//! What is given to users beside the programs: charts and manifests say the same, images start, alerts have their pages, and
//! the crates in all of it are allowed.

#[cfg(test)]
mod alerts;
mod charts;
mod container;
mod containerfiles;
mod crates;
mod images;
mod objects;
#[cfg(test)]
mod words;
#[cfg(test)]
mod workflows;

use std::time::Duration;

use containerfiles::Compiler;
pub use objects::objects;

use crate::runner::{Test, Work};

/// The tests. Each is skipped where a program that it needs can neither be found nor be had.
#[must_use]
pub fn all() -> Vec<Test<()>> {
    let test =
        |name: &str, minutes: u64, run| Test::new("shipped", name, Duration::from_mins(minutes), Work::Function(run));
    vec![
        // Helm may be built first.
        test("charts-pass-lint", 15, |_| Box::pin(apart(charts::pass_lint))).quick(),
        test("charts-equal-manifests", 15, |_| Box::pin(apart(charts::equal_manifests))).quick(),
        // The first build of cargo-deny takes minutes.
        test("crates-are-allowed", 30, |ctx| {
            Box::pin(async {
                if let Some(why) = apart(crates::allowed).await? {
                    ctx.note(&format!("advisories were not checked: {why}"));
                }
                Ok(())
            })
        })
        .computing(),
        test("containerfiles-build", 10, |ctx| {
            let folder = ctx.dir.clone();
            Box::pin(apart(move || containerfiles::build(&folder, Compiler::StandIn)))
        }),
        // It compiles both programs, each with all of its crates.
        test("containerfiles-compile", 60, |ctx| {
            let folder = ctx.dir.clone();
            Box::pin(apart(move || containerfiles::build(&folder, Compiler::Cargo)))
        })
        .alone()
        .nightly(),
        // It builds both programs as a release does.
        test("images-start", 40, |ctx| {
            let folder = ctx.dir.clone();
            Box::pin(apart(move || images::start(&folder)))
        })
        .alone()
        .nightly(),
    ]
}

/// Runs what waits for other programs on a thread of its own.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> anyhow::Result<T> + Send + 'static) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await?
}
