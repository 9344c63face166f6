//! `cargo lab sim`.

#![allow(clippy::cast_precision_loss, reason = "rates and seconds for people")]

mod subject;

use std::fmt::Display;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use mooring_sim::elector::Elector;
use mooring_sim::many::Order;
use mooring_sim::session_vips::SessionVips;

use crate::progress;
use subject::Of;

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
    /// Sessions and placement of many VIPs, instead of the Lease of one.
    #[arg(long)]
    sessions: bool,
    /// One run in five on a network that filters ARP, answers for hosts that are gone, isolates ports or talks, or with a host whose
    /// frames do not leave.
    #[arg(long)]
    networks: bool,
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

/// The simulator of one core.
trait Simulator {
    /// Runs many seeds; `progress` is told how many are done, and how many failed.
    fn many(&self, order: &Order, progress: &(dyn Fn(u64, usize) + Sync)) -> Total;
    /// The fewest of the faults with which it still fails; None if it does not fail.
    fn fewest(&self, chosen: &Chosen<'_>) -> Option<Vec<usize>>;
    /// What goes wrong in it, each with its time.
    fn faults(&self, chosen: &Chosen<'_>) -> Vec<String>;
    /// Runs one.
    fn one(&self, chosen: &Chosen<'_>, keep: Keep) -> anyhow::Result<One>;
}

/// A seed, perhaps with another number of nodes, and with fewer faults.
#[derive(Clone, Copy)]
struct Chosen<'a> {
    seed: u64,
    nodes: Option<usize>,
    networks: bool,
    faults: Option<&'a [usize]>,
}

/// What is kept of a run.
#[derive(Clone, Copy)]
struct Keep {
    /// All that went into the cores and came out too.
    verbose: bool,
    /// A drawing.
    drawn: bool,
}

/// One run.
struct One {
    faults: usize,
    /// What was violated.
    verdict: Option<String>,
    outcome: serde_json::Value,
    settings: String,
    timeline: String,
    drawing: Option<String>,
}

/// Many runs.
struct Total {
    runs: u64,
    faults: u64,
    steps: u64,
    /// Simulated.
    seconds: u64,
    /// Seeds, and what was violated.
    failed: Vec<(u64, String)>,
    outcomes: serde_json::Value,
}

/// Runs it. Fails when anything was violated.
///
/// # Errors
/// That the drawing cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let simulator: &dyn Simulator =
        if args.sessions { &Of::<SessionVips>(PhantomData) } else { &Of::<Elector>(PhantomData) };
    let failed = match args.seed {
        Some(seed) => one(simulator, args, seed)?,
        None => all(simulator, args),
    };
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn nodes(args: &Args) -> Option<usize> {
    args.nodes.map(usize::from)
}

fn verdict(rule: &dyn Display, at: u64, text: &str) -> String {
    format!("{rule} at {:.3} s: {text}", at as f64 / 1e9)
}

fn fault(at: u64, what: &dyn Display) -> String {
    format!("{} s: {what}", at / 1_000_000 / 100 * 100 / 1_000)
}

fn one(simulator: &dyn Simulator, args: &Args, seed: u64) -> anyhow::Result<bool> {
    let mut kept = args.faults.clone();
    let of = |kept: Option<&[usize]>| replay(args, seed, kept);
    if args.shrink
        && let Some(fewest) =
            simulator.fewest(&Chosen { seed, nodes: nodes(args), networks: args.networks, faults: kept.as_deref() })
    {
        // They are numbered among those that were asked for.
        let fewest = match &kept {
            Some(known) => fewest.iter().filter_map(|n| known.get(*n).copied()).collect(),
            None => fewest,
        };
        progress::line(format_args!("fewest faults: {}", of(Some(&fewest))));
        kept = Some(fewest);
    }
    let keep = Keep { verbose: args.all, drawn: args.svg.is_some() };
    let one =
        simulator.one(&Chosen { seed, nodes: nodes(args), networks: args.networks, faults: kept.as_deref() }, keep)?;
    if args.timeline || args.all {
        progress::line(format_args!("{}", one.settings));
        progress::line(format_args!("{}", one.timeline));
    }
    if let (Some(file), Some(drawing)) = (&args.svg, &one.drawing) {
        std::fs::write(file, drawing).with_context(|| format!("write {}", file.display()))?;
    }
    if args.json {
        progress::line(format_args!("{:#}", one.outcome));
    } else {
        let verdict = one.verdict.as_deref().unwrap_or("nothing was violated");
        progress::line(format_args!("seed {seed}: {} faults, {verdict}", one.faults));
    }
    Ok(one.verdict.is_some())
}

/// Whether one failed.
fn all(simulator: &dyn Simulator, args: &Args) -> bool {
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    // A planted bug may be asked for only where the core has them: never here.
    let order =
        Order::new(args.from, args.seeds, jobs).of_nodes(nodes(args)).on_networks(args.networks).until(args.failures);
    let began = Instant::now();
    let sum = simulator.many(&order, &|runs, failed| {
        if !args.json && runs % 5_000 == 0 {
            progress::line(format_args!("{runs} of {} runs, {failed} failed", args.seeds));
        }
    });
    let rate = sum.runs as f64 / began.elapsed().as_secs_f64().max(0.001);
    if args.json {
        let all = serde_json::json!({
            "seeds": sum.runs, "faults": sum.faults, "simulated_seconds": sum.seconds, "steps": sum.steps,
            "runs_a_second": rate.round(), "failed": sum.outcomes,
        });
        progress::line(format_args!("{all:#}"));
    } else {
        tell(simulator, args, &sum, rate);
    }
    !sum.failed.is_empty()
}

fn tell(simulator: &dyn Simulator, args: &Args, sum: &Total, rate: f64) {
    let shown = if args.shrink { sum.failed.len() } else { SHOWN };
    for (seed, verdict) in sum.failed.iter().take(shown) {
        progress::line(format_args!("seed {seed}: {verdict}"));
        let whole = Chosen { seed: *seed, nodes: nodes(args), networks: args.networks, faults: None };
        let Some(kept) = simulator.fewest(&whole) else { continue };
        for fault in simulator.faults(&Chosen { faults: Some(&kept), ..whole }) {
            progress::line(format_args!("    {fault}"));
        }
        progress::line(format_args!("    {}", replay(args, *seed, Some(&kept))));
    }
    for (seed, verdict) in sum.failed.iter().skip(shown) {
        progress::line(format_args!("seed {seed}: {verdict}; {}", replay(args, *seed, None)));
    }
    progress::line(format_args!(
        "{} seeds, {} faults, {} simulated hours, {} violations, {rate:.0} runs/s",
        sum.runs,
        sum.faults,
        sum.seconds / 3_600,
        sum.failed.len()
    ));
}

/// The command that shows it again.
fn replay(args: &Args, seed: u64, kept: Option<&[usize]>) -> String {
    let sessions = if args.sessions { " --sessions" } else { "" };
    let networks = if args.networks { " --networks" } else { "" };
    let mut command = format!("cargo lab sim{sessions}{networks} --seed {seed} --timeline");
    if let Some(kept) = kept {
        let all: Vec<String> = kept.iter().map(ToString::to_string).collect();
        command = command + " --faults " + &all.join(",");
    }
    if let Some(nodes) = args.nodes {
        command = command + " --nodes " + &nodes.to_string();
    }
    command
}
