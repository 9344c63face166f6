//! `cargo lab sim`.

#![allow(clippy::cast_precision_loss, reason = "rates and seconds for people")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use mooring_sim::many::{Order, Sum, many};
use mooring_sim::plan::Plan;
use mooring_sim::record::Record;
use mooring_sim::run::{Outcome, finish, run as run_plan};
use mooring_sim::shrink::shrink;
use mooring_sim::world::World;

use crate::say;

/// Failing seeds that are shrunk and shown in full.
const SHOWN: usize = 5;

/// What to run.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct Args {
    /// How many seeds to run.
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run this seed alone.
    #[arg(long)]
    seed: Option<u64>,
    /// With --seed: only these of its faults, by their numbers, with commas.
    #[arg(long, value_delimiter = ',', requires = "seed")]
    faults: Option<Vec<usize>>,
    /// With --seed: print what happened.
    #[arg(long, requires = "seed")]
    timeline: bool,
    /// With --seed: print all that went into the cores and came out as well.
    #[arg(long, requires = "seed")]
    all: bool,
    /// With --seed: draw it.
    #[arg(long, requires = "seed", value_name = "FILE")]
    svg: Option<PathBuf>,
    /// So many nodes, whatever a seed says.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=200))]
    nodes: Option<u16>,
    /// So many runs at once; by default one a processor.
    #[arg(long)]
    jobs: Option<usize>,
    /// Begin no more runs after so many failures.
    #[arg(long, default_value_t = 20)]
    failures: usize,
    /// Find the fewest faults with which a seed still fails: of all that fail, not only of the first few.
    #[arg(long)]
    shrink: bool,
    /// Print the outcome as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs it. Fails when anything was violated.
///
/// # Errors
/// That the drawing cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let failed = match args.seed {
        Some(seed) => one(args, seed)?,
        None => all(args)?,
    };
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn nodes(args: &Args) -> Option<usize> {
    args.nodes.map(usize::from)
}

fn one(args: &Args, seed: u64) -> anyhow::Result<bool> {
    let whole = Plan::of(seed, nodes(args));
    let mut plan = args.faults.as_ref().map_or_else(|| whole.clone(), |kept| whole.only(kept));
    if let Some(violation) = run_plan(&plan).violation.filter(|_| args.shrink) {
        let kept = shrink(&plan, violation.rule);
        plan = plan.only(&kept);
        let known: Vec<usize> = (0..whole.faults.len()).collect();
        let known = args.faults.as_ref().unwrap_or(&known);
        let kept: Vec<usize> = kept.iter().filter_map(|n| known.get(*n).copied()).collect();
        say::line(format_args!("fewest faults: {}", replay(args, seed, Some(&kept))));
    }
    let mut world = World::new(&plan);
    world.log = Some(Record::default());
    world.verbose = args.all;
    let outcome = finish(&mut world);
    if args.timeline || args.all {
        say::line(format_args!("{:#?}", plan.settings));
        say::line(format_args!("{}", world.log.as_ref().map(Record::text).unwrap_or_default()));
    }
    if let Some(file) = &args.svg {
        std::fs::write(file, world.draw()).with_context(|| format!("write {}", file.display()))?;
    }
    if args.json {
        say::line(format_args!("{}", serde_json::to_string_pretty(&outcome)?));
    } else {
        say::line(format_args!("seed {seed}: {} faults, {}", outcome.faults, verdict(&outcome)));
    }
    Ok(outcome.violation.is_some())
}

fn all(args: &Args) -> anyhow::Result<bool> {
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    // A planted bug may be asked for only where the core has them: never here.
    let order = Order::new(args.from, args.seeds, jobs).of_nodes(nodes(args)).until(args.failures);
    let began = Instant::now();
    let sum = many(&order, &|runs, failed| {
        if !args.json && runs % 5_000 == 0 {
            say::line(format_args!("{runs} of {} runs, {failed} failed", args.seeds));
        }
    });
    let rate = sum.runs as f64 / began.elapsed().as_secs_f64().max(0.001);
    if args.json {
        let failed = serde_json::to_value(&sum.failed)?;
        let all = serde_json::json!({
            "seeds": sum.runs, "faults": sum.faults, "simulated_seconds": sum.seconds, "steps": sum.steps,
            "runs_a_second": rate.round(), "failed": failed,
        });
        say::line(format_args!("{all:#}"));
    } else {
        tell(args, &sum, rate);
    }
    Ok(!sum.failed.is_empty())
}

fn tell(args: &Args, sum: &Sum, rate: f64) {
    let shown = if args.shrink { sum.failed.len() } else { SHOWN };
    for outcome in sum.failed.iter().take(shown) {
        say::line(format_args!("seed {}: {}", outcome.seed, verdict(outcome)));
        let plan = Plan::of(outcome.seed, nodes(args));
        let Some(violation) = &outcome.violation else { continue };
        let kept = shrink(&plan, violation.rule);
        for n in &kept {
            let planned = &plan.faults[*n];
            say::line(format_args!("    {} s: {planned}", planned.at / 1_000_000 / 100 * 100 / 1_000));
        }
        say::line(format_args!("    {}", replay(args, outcome.seed, Some(&kept))));
    }
    for outcome in sum.failed.iter().skip(shown) {
        say::line(format_args!("seed {}: {}; {}", outcome.seed, verdict(outcome), replay(args, outcome.seed, None)));
    }
    say::line(format_args!(
        "{} seeds, {} faults, {} simulated hours, {} violations, {rate:.0} runs/s",
        sum.runs,
        sum.faults,
        sum.seconds / 3_600,
        sum.failed.len()
    ));
}

fn verdict(outcome: &Outcome) -> String {
    outcome.violation.as_ref().map_or_else(
        || "nothing was violated".to_owned(),
        |v| format!("{} at {:.3} s: {}", v.rule, v.at as f64 / 1e9, v.text),
    )
}

/// The command that shows it again.
fn replay(args: &Args, seed: u64, kept: Option<&[usize]>) -> String {
    let mut command = format!("cargo lab sim --seed {seed} --timeline");
    if let Some(kept) = kept {
        let all: Vec<String> = kept.iter().map(ToString::to_string).collect();
        command = command + " --faults " + &all.join(",");
    }
    if let Some(nodes) = args.nodes {
        command = command + " --nodes " + &nodes.to_string();
    }
    command
}
