//! What the nightly round computes: seeds that nobody has tried, and every bug that can be planted, as drawn runs find it.

use std::path::Path;
use std::time::Duration;

use super::Test;
use super::steps::{PLANTED, SIM, step};

/// How far the nightly round goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct Sweep {
    /// How many seeds the simulator of one Lease runs; simulators whose runs take longer, or that know fewer faults, run a share of it
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// The first seed, of every sweep and of the random orders. Another one each night tries what no night has tried
    #[arg(long, default_value_t = 0)]
    pub from: u64,
}

impl Default for Sweep {
    fn default() -> Self {
        Self { seeds: 200_000, from: 0 }
    }
}

/// Sessions: a run takes five times as long as one of a single Lease.
const OF_SESSIONS: u64 = 5;
/// The allocator's simulators.
const OF_ALLOCATOR: [(&str, &str, u64); 4] = [
    ("sweep-of-claims", "mooring-allocator-core", 4),
    ("sweep-of-services", "mooring-allocator-services", 20),
    ("sweep-of-endpoints", "mooring-allocator-endpoints", 20),
    ("sweep-of-machines", "mooring-allocator-machines", 20),
];
/// How long a sweep may take.
const LIMIT: Duration = Duration::from_hours(3);

/// The sweeps, for a workspace at `root`.
#[must_use]
pub fn all<S>(root: &Path, sweep: Sweep) -> Vec<Test<S>> {
    let share = |part: u64| (sweep.seeds / part).max(1).to_string();
    let from = sweep.from.to_string();
    let sim = |name: &str, arguments: &[&str]| step(root, name, &[&SIM[..], arguments, &["--from", &from]].concat());
    let mut all = vec![
        sim("sweep-of-faults", &["--seeds", &share(1)]),
        sim("sweep-of-sessions", &["--sessions", "--seeds", &share(OF_SESSIONS)]),
        sim("sweep-of-faults-on-odd-networks", &["--networks", "--seeds", &share(OF_SESSIONS)]),
        sim("sweep-of-sessions-on-odd-networks", &["--sessions", "--networks", "--seeds", &share(OF_SESSIONS)]),
    ];
    // Tens of thousands of lives need an optimised build; its checks of overflow and its debug assertions stay on.
    let quick = ["--config", "profile.dev.opt-level=3"];
    for (name, package, part) in OF_ALLOCATOR {
        let words =
            [&["test", "--locked", "--package", package, "--lib"], &quick[..], &["--", "whatever", "some_lives"]]
                .concat();
        all.push(step(root, name, &words).variable("SIM_SEEDS", &share(part)).variable("SIM_FIRST", &from));
    }
    // Without the seeds that are known to find them.
    all.push(
        step(root, "planted-bugs-as-drawn", &[&PLANTED[..], &["--", "--include-ignored"]].concat())
            .variable("SIM_DRAWN", "1"),
    );
    all.into_iter().map(|test| Test { limit: LIMIT, ..test.nightly() }).collect()
}
