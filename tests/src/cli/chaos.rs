//! `cargo lab chaos`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::assets::{self, Profile};
use crate::chaos::{self, Wish, bounds};
use crate::progress;

/// The options of a run.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// For how long
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_440))]
    minutes: u64,
    /// The same seed gives the same sequence of faults [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// Begin with this round of the sequence
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// An etcd member on each control plane, as kubeadm does it, instead of one etcd apart
    #[arg(long)]
    stacked: bool,
    /// The agents carry VIPs of Services as well, and each of these is judged by the same rules
    #[arg(long)]
    services: bool,
    /// Write the report to this file as JSON
    #[arg(long)]
    report: Option<PathBuf>,
    /// Try this agent instead of a release build of the clone
    #[arg(long)]
    agent: Option<PathBuf>,
    /// Print what is allowed for each class of faults, and do nothing
    #[arg(long)]
    bounds: bool,
}

/// Runs it; fails when a rule was broken. Ctrl-C ends it with a report of what was done.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.bounds {
        print(&bounds::for_people());
        return Ok(ExitCode::SUCCESS);
    }
    let agent = match &args.agent {
        Some(path) => path.canonicalize().with_context(|| format!("the agent {}", path.display()))?,
        None => assets::agent(Profile::Release)?,
    };
    let clock = || crate::clock::now().as_nanos() % 1_000_000;
    let seed = args.seed.unwrap_or_else(clock);
    progress::line(format_args!("chaos for {} minutes, seed {seed}", args.minutes));
    let wish =
        Wish { minutes: args.minutes, seed, first: args.first, stacked: args.stacked, services: args.services, agent };
    let report = tokio::runtime::Runtime::new()?.block_on(chaos::run(&wish))?;
    print(&report.text());
    if let Some(path) = &args.report {
        let json = serde_json::to_vec_pretty(&report)?;
        std::fs::write(path, json).with_context(|| format!("write the report to {}", path.display()))?;
    }
    Ok(if report.good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(text: &str) {
    // The output is closed: no reason to fail.
    drop(std::io::stdout().write_all(text.as_bytes()));
}
