//! One run: a seed, and what came of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Serialize;

use crate::check::{Rule, Violation};
use crate::clock::Nanos;
use crate::plan::Plan;
use crate::record::Record;
use crate::subject::Subject;
use crate::world::World;

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
    /// Requests to the API.
    pub calls: u64,
    /// A digest of all that happened: the same seed gives the same.
    pub digest: u64,
}

/// Runs a plan.
#[must_use]
pub fn run<S: Subject>(plan: &Plan<S>) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(plan);
        finish(&mut world)
    }))
    .unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(|&s| s.to_owned()));
        let text = format!("a panic: {}", words.unwrap_or_default());
        let violation = Some(Violation { rule: Rule::Stuck, at: 0, text });
        Outcome { seed: plan.seed, violation, faults: plan.faults.len(), simulated: 0, steps: 0, calls: 0, digest: 0 }
    })
}

/// Runs a plan, and keeps what happened. `verbose`: also everything that goes into the cores and comes out of them.
#[must_use]
pub fn recorded<S: Subject>(plan: &Plan<S>, verbose: bool) -> (String, Outcome) {
    let mut world = World::new(plan);
    (world.log, world.verbose) = (Some(Record::default()), verbose);
    let outcome = finish(&mut world);
    (world.log.as_ref().map(Record::text).unwrap_or_default(), outcome)
}

/// Runs a world to its end.
pub fn finish<S: Subject>(world: &mut World<'_, S>) -> Outcome {
    let end = world.end_of_run();
    world.run(end);
    world.check_end();
    let counts = &world.counts;
    // FNV-1a over what was counted, and the next number of chance: two runs that differ anywhere differ here.
    let numbers = [
        counts.steps,
        counts.items,
        counts.probes,
        counts.announcements,
        counts.calls,
        world.now,
        world.rng.clone().draw(),
    ];
    let digest = numbers.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, n| (h ^ n).wrapping_mul(0x0100_0000_01b3));
    Outcome {
        seed: world.plan.seed,
        violation: world.violation.clone(),
        faults: world.plan.faults.len(),
        simulated: world.now,
        steps: counts.steps,
        calls: counts.calls,
        digest,
    }
}
