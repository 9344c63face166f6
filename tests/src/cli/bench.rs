//! `cargo lab bench`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::assets::{self, Profile};
use crate::bench::stats::{json, table};
use crate::bench::{ALL, Bench, Order, Subject};
use crate::{guard, progress};

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Which bench, or the first word of some (`services`: all that begin with `services-`); all, when none is named
    name: Option<String>,
    /// How often to measure each figure [default: 1 to 10, the slow ones less often]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    json: bool,
    /// With a name: also measure a move by hand and keepalived, for comparison. keepalived must be installed
    #[arg(long)]
    with_peers: bool,
    /// Measure this agent instead of a release build of the clone
    #[arg(long)]
    agent: Option<PathBuf>,
    /// Measure this allocator instead of a release build of the clone
    #[arg(long)]
    allocator: Option<PathBuf>,
    /// How many claims, or Services at once, the benches of these make [default: 10000, 50000 in use; 1000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// The numbers of nodes, for example `20,50,100`, for the benches `scale` [default: 10,20,40] and `services-crash` [default: 3]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u8).range(2..=200))]
    nodes: Vec<u8>,
}

/// Runs the benches that were asked for. If one fails, a line says so, and the others run all the same.
pub fn run(args: &Args) -> Result<ExitCode> {
    let chosen = choose(args)?;
    let agent = match &args.agent {
        Some(path) => path.canonicalize()?,
        None if chosen.iter().all(|bench| !matches!(bench.of, Subject::Agent | Subject::Both)) => PathBuf::new(),
        None => assets::agent(Profile::Release)?,
    };
    let allocator = match &args.allocator {
        Some(path) => path.canonicalize()?,
        None if chosen.iter().all(|bench| !matches!(bench.of, Subject::Allocator | Subject::Both)) => PathBuf::new(),
        None => assets::allocator(Profile::Release)?,
    };
    let count = args.count.map(usize::try_from).transpose()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let (mut figures, mut failed) = (Vec::new(), false);
    for bench in chosen {
        let runs = args.runs.map_or(bench.runs, usize::from);
        progress::line(format_args!("{}: {runs} {}", bench.name, if runs == 1 { "run" } else { "runs" }));
        let order =
            Order { runs, agent: agent.clone(), allocator: allocator.clone(), count, nodes: args.nodes.clone() };
        match runtime.block_on(guard::guarded((bench.measure)(&order)))? {
            Ok(measured) if args.json => print(&json(&measured)?),
            Ok(measured) => figures.extend(measured),
            Err(error) => {
                failed = true;
                progress::line(format_args!("{}: FAILED: {error:#}", bench.name));
            }
        }
    }
    if !args.json && !figures.is_empty() {
        print(&table(&figures));
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn choose(args: &Args) -> Result<Vec<Bench>> {
    let Some(name) = &args.name else {
        return Ok(ALL.to_vec());
    };
    // The whole name of one bench, or the first word of several.
    let exactly = ALL.iter().any(|bench| bench.name == name);
    let is_it = |bench: &Bench| {
        let group = bench.name.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('-'));
        bench.name == name || (!exactly && group)
    };
    let mut chosen: Vec<Bench> = ALL.into_iter().filter(is_it).collect();
    if chosen.is_empty() {
        let all: Vec<_> = ALL.iter().map(|bench| bench.name).collect();
        bail!("there is no bench {name:?}; there are: {}", all.join(" "));
    }
    if args.with_peers {
        let peers = ALL.into_iter().filter(|bench| bench.of == Subject::Peer && !is_it(bench));
        chosen.extend(peers);
    }
    Ok(chosen)
}

fn print(text: &str) {
    // The output is closed: no reason to leave a lab behind.
    drop(std::io::stdout().write_all(text.as_bytes()));
}
