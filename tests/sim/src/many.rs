//! Many seeds, on all cores.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::plan::Plan;
use crate::run::{Outcome, run};
use crate::subject::Subject;

/// What came of many runs.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    /// How many.
    pub runs: u64,
    /// Faults in them.
    pub faults: u64,
    /// Steps of the cores.
    pub steps: u64,
    /// Simulated time, in seconds.
    pub seconds: u64,
    /// Those in which something did not hold, in order of their seeds.
    pub failed: Vec<Outcome>,
}

/// How to run them.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// The first seed.
    pub from: u64,
    /// How many.
    pub seeds: u64,
    /// Threads.
    pub jobs: usize,
    /// So many nodes, whatever a seed says.
    pub nodes: Option<usize>,
    /// Some of them on networks that filter ARP, or answer for others.
    pub networks: bool,
    /// After so many failures no more are begun.
    pub failures: usize,
    /// A bug that is switched on in the core.
    #[cfg(feature = "planted")]
    pub bug: Option<mooring_agent_core::planted::Bug>,
}

impl Order {
    /// So many seeds, as they are.
    #[must_use]
    pub fn new(from: u64, seeds: u64, jobs: usize) -> Self {
        Self {
            from,
            seeds,
            jobs,
            nodes: None,
            networks: false,
            failures: usize::MAX,
            #[cfg(feature = "planted")]
            bug: None,
        }
    }

    /// With so many nodes each.
    #[must_use]
    pub fn of_nodes(self, nodes: Option<usize>) -> Self {
        Self { nodes, ..self }
    }

    /// Some of them on networks that filter ARP, or answer for others.
    #[must_use]
    pub fn on_networks(self, networks: bool) -> Self {
        Self { networks, ..self }
    }

    /// Until so many have failed.
    #[must_use]
    pub fn until(self, failures: usize) -> Self {
        Self { failures, ..self }
    }
}

/// Runs them; `progress` is told how many are done, and how many of those failed, now and then.
pub fn many<S: Subject>(order: &Order, progress: &(dyn Fn(u64, usize) + Sync)) -> Sum {
    let next = AtomicU64::new(order.from);
    let end = order.from.saturating_add(order.seeds);
    let enough = AtomicBool::new(false);
    let sum = Mutex::new(Sum::default());
    std::thread::scope(|scope| {
        for _ in 0..order.jobs.max(1) {
            scope.spawn(|| {
                #[cfg(feature = "planted")]
                mooring_agent_core::planted::plant(order.bug);
                while !enough.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    let plan = if order.networks { Plan::<S>::on_networks } else { Plan::<S>::of };
                    let outcome = run(&plan(seed, order.nodes));
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    sum.add(outcome);
                    if sum.failed.len() >= order.failures {
                        enough.store(true, Ordering::Relaxed);
                    }
                    if sum.runs % 500 == 0 {
                        progress(sum.runs, sum.failed.len());
                    }
                }
            });
        }
    });
    let mut sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    sum.failed.sort_by_key(|outcome| outcome.seed);
    sum
}

impl Sum {
    fn add(&mut self, outcome: Outcome) {
        self.runs += 1;
        self.faults += outcome.faults as u64;
        self.steps += outcome.steps;
        self.seconds += outcome.simulated / crate::clock::SECOND;
        if outcome.violation.is_some() {
            self.failed.push(outcome);
        }
    }
}
