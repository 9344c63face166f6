//! One run: a seed, and what came of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Serialize;

use super::check::{Rule, Violation};
use super::plan::Plan;
use super::world::World;
use crate::clock::Nanos;

/// What came of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// What did not hold, if anything.
    pub violation: Option<Violation>,
    /// How many faults there were.
    pub faults: usize,
    /// Simulated time, in nanoseconds.
    pub simulated: Nanos,
    /// Steps of the cores.
    pub steps: u64,
    /// A digest of all that happened: the same seed gives the same.
    pub digest: u64,
}

/// Runs a plan.
#[must_use]
pub fn run(plan: &Plan) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| finish(&mut World::new(plan)))).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(|&s| s.to_owned()));
        let text = format!("a panic: {}", words.unwrap_or_default());
        let violation = Some(Violation { rule: Rule::Stuck, at: 0, text });
        Outcome { seed: plan.seed, violation, faults: plan.faults.len(), simulated: 0, steps: 0, digest: 0 }
    })
}

/// Runs a world to its end.
pub fn finish(world: &mut World<'_>) -> Outcome {
    let end = world.end_of_run();
    world.run(end);
    world.check_calls();
    let counts = &world.counts;
    let numbers = [counts.steps, counts.items, counts.probes, counts.calls, world.now, world.rng.clone().draw()];
    let digest = numbers.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, n| (h ^ n).wrapping_mul(0x0100_0000_01b3));
    Outcome {
        seed: world.plan.seed,
        violation: world.checks.violation.clone(),
        faults: world.plan.faults.len(),
        simulated: world.now,
        steps: counts.steps,
        digest,
    }
}

/// The numbers of the faults that are left when every one that is not needed is taken out.
#[must_use]
pub fn shrink(plan: &Plan, rule: Rule) -> Vec<usize> {
    let fails = |kept: &[usize]| run(&plan.only(kept)).violation.is_some_and(|violation| violation.rule == rule);
    let mut kept: Vec<usize> = (0..plan.faults.len()).collect();
    loop {
        let before = kept.len();
        for n in (0..kept.len()).rev() {
            let mut fewer = kept.clone();
            fewer.remove(n);
            if fails(&fewer) {
                kept = fewer;
            }
        }
        if kept.len() == before {
            return kept;
        }
    }
}
