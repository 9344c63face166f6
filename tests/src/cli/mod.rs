//! `cargo lab ...`

mod bench;
mod chaos;
mod door;
mod kubeadm;
mod release;
mod sim;
mod standing;
mod test;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::host::{enter, init};
use crate::lab::Shape;
use crate::{progress, userns};

/// The lab of Mooring: a cluster's control plane on one machine, and all that can happen to it.
#[derive(Debug, Parser)]
#[command(name = "lab", version, about)]
struct Args {
    /// Which lab: two with different names run beside each other.
    #[arg(long, global = true, default_value = "default")]
    name: String,
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show the main job: election, crash, hand-over, API outage, each measured.
    Demo {
        /// One act alone.
        #[arg(value_enum)]
        act: Option<Act>,
    },
    /// Bring a lab up and leave it running.
    Up {
        /// The cluster on it.
        #[arg(long, value_enum, default_value = "external")]
        shape: Kind,
        /// Start an agent on every control plane.
        #[arg(long)]
        agents: bool,
    },
    /// Take it down.
    Down,
    /// Run a command on a host (a shell, when none is given).
    Enter {
        /// The host.
        host: String,
        /// The command.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Run what each commit has to pass: sources, unit tests, and the scenarios on labs of their own.
    ///
    /// Without a filter everything is run that is not nightly. A test of the nightly round is run when its whole name is given;
    /// `--list` marks those tests.
    Test(test::Args),
    /// Run what takes too long for each commit: long sweeps of seeds, planted bugs as drawn runs find them, the slowest stories.
    ///
    /// Each seed is one run, the same on every machine, and a failure names it. Give --from another
    /// number each night, so that each night tries other seeds.
    Nightly(test::Nightly),
    /// Let something happen to it.
    #[command(subcommand)]
    Fault(Fault),
    /// Measure how fast a VIP moves, and what an agent costs.
    Bench(bench::Args),
    /// Real faults at random, for as long as is asked, judged by rules.
    Chaos(chaos::Args),
    /// A cluster that kubeadm makes through our VIP, with containerd, kubelets and pods, and what happens to it.
    Kubeadm(kubeadm::Args),
    /// Run the agent's core under simulated faults: as many runs as there are seeds, or one of them to look at.
    Sim(sim::Args),
    /// Make all that a release is, in dist/: programs, images, SBOMs, charts, manifests, sums.
    Release(release::Args),
    /// Write a version to every place that names it.
    Version {
        /// MAJOR.MINOR.PATCH
        version: String,
    },
    /// Keep a lab; what `up` leaves running.
    #[command(hide = true, name = standing::WORD)]
    Stand {
        #[arg(value_enum)]
        shape: Kind,
        #[arg(long)]
        agents: bool,
    },
}

/// Acts of the demo that can be had alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Act {
    /// A Cluster of Cluster API gets its control-plane endpoint.
    Endpoint,
}

/// The cluster of a standing lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Three API servers, one etcd.
    External,
    /// Three API servers, each with its etcd member.
    Stacked,
    /// One API server, one etcd.
    Single,
    /// No cluster.
    Segment,
}

impl Kind {
    fn shape(self) -> Shape {
        match self {
            Self::External => Shape::external(),
            Self::Stacked => Shape::stacked(),
            Self::Single => Shape::api_servers(1),
            Self::Segment => Shape::segment(),
        }
    }
}

/// The whole program.
#[must_use]
pub fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().collect();
    if let Some((_, rest)) = words.get(1..).and_then(<[_]>::split_first).filter(|(word, _)| *word == init::WORD) {
        return init::main(rest);
    }
    match run(Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            progress::line(format_args!("lab: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Verb::Demo { act } => {
            userns::become_root()?;
            let runtime = tokio::runtime::Runtime::new()?;
            match act {
                None => runtime.block_on(crate::demo::run())?,
                Some(Act::Endpoint) => runtime.block_on(crate::demo::run_endpoint())?,
            }
        }
        Verb::Up { shape, agents } => standing::up(&args.name, shape, agents)?,
        Verb::Stand { shape, agents } => {
            userns::become_root()?;
            tokio::runtime::Runtime::new()?.block_on(standing::stand(&args.name, shape, agents))?;
        }
        Verb::Down => door::down(&args.name)?,
        Verb::Enter { host, command } => {
            let (init, inside) = door::init_of(&args.name, &host)?;
            let status = enter::enter(init, &command, &inside)?;
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
        }
        Verb::Test(args) => {
            userns::become_root()?;
            return tokio::runtime::Runtime::new()?.block_on(test::run(args));
        }
        Verb::Nightly(args) => {
            userns::become_root()?;
            return tokio::runtime::Runtime::new()?.block_on(test::nightly(args));
        }
        Verb::Fault(fault) => door::fault(&args.name, fault)?,
        Verb::Sim(order) => return sim::run(&order),
        Verb::Release(order) => release::run(order)?,
        Verb::Version { version } => release::write_version(&version)?,
        Verb::Bench(order) => {
            userns::become_root()?;
            return bench::run(&order);
        }
        Verb::Kubeadm(order) => {
            userns::become_root()?;
            return kubeadm::run(&args.name, &order);
        }
        Verb::Chaos(order) => {
            userns::become_root()?;
            return chaos::run(&order);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the standing lab of that name listens: the user's own folder.
fn socket(name: &str) -> anyhow::Result<PathBuf> {
    anyhow::ensure!(
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'),
        "--name {name:?}: use letters, digits and dashes"
    );
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir());
    let folder = match runtime {
        Some(folder) => folder.join("mooring"),
        // The same inside and outside of a user namespace: the home is the user's.
        None => crate::assets::Cache::of_user()?.folder("labs"),
    };
    std::fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("{name}.sock")))
}
