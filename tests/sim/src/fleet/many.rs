//! Many seeds, on all cores.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::plan::Plan;
use super::run::{Outcome, run};
use crate::clock::SECOND;
use crate::many::Order;

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

/// Runs them; `progress` is told how many are done, and how many of those failed, now and then.
pub fn many(order: &Order, progress: &(dyn Fn(u64, usize) + Sync)) -> Sum {
    let next = AtomicU64::new(order.from);
    let end = order.from.saturating_add(order.seeds);
    let enough = AtomicBool::new(false);
    let sum = Mutex::new(Sum::default());
    std::thread::scope(|scope| {
        for _ in 0..order.jobs.max(1) {
            scope.spawn(|| {
                #[cfg(feature = "planted")]
                mooring_core::planted::plant(order.bug);
                while !enough.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    let outcome = run(&Plan::of(seed, order.nodes));
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    sum.runs += 1;
                    sum.faults += outcome.faults as u64;
                    sum.steps += outcome.steps;
                    sum.seconds += outcome.simulated / SECOND;
                    if outcome.violation.is_some() {
                        sum.failed.push(outcome);
                    }
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
