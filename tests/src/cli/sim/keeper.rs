//! The simulator of one Lease and its VIPs.

use mooring_sim::many::{Order, many};
use mooring_sim::plan::Plan;
use mooring_sim::record::Record;
use mooring_sim::run::{Outcome, finish, run};
use mooring_sim::shrink::shrink;
use mooring_sim::world::World;

use super::{Chosen, Keep, One, Simulator, Total, fault, verdict};

/// See the module's text.
pub(super) struct Keeper;

fn plan(chosen: &Chosen<'_>) -> Plan {
    let whole = Plan::of(chosen.seed, chosen.nodes);
    chosen.faults.map_or_else(|| whole.clone(), |kept| whole.only(kept))
}

fn told(outcome: &Outcome) -> Option<String> {
    outcome.violation.as_ref().map(|v| verdict(&v.rule, v.at, &v.text))
}

impl Simulator for Keeper {
    fn many(&self, order: &Order, progress: &(dyn Fn(u64, usize) + Sync)) -> Total {
        let sum = many(order, progress);
        Total {
            runs: sum.runs,
            faults: sum.faults,
            steps: sum.steps,
            seconds: sum.seconds,
            failed: sum.failed.iter().filter_map(|outcome| Some((outcome.seed, told(outcome)?))).collect(),
            outcomes: serde_json::json!(sum.failed),
        }
    }

    fn fewest(&self, chosen: &Chosen<'_>) -> Option<Vec<usize>> {
        let plan = plan(chosen);
        let violation = run(&plan).violation?;
        Some(shrink(&plan, violation.rule))
    }

    fn faults(&self, chosen: &Chosen<'_>) -> Vec<String> {
        plan(chosen).faults.iter().map(|planned| fault(planned.at, planned)).collect()
    }

    fn one(&self, chosen: &Chosen<'_>, keep: Keep) -> anyhow::Result<One> {
        let plan = plan(chosen);
        let mut world = World::new(&plan);
        world.log = Some(Record::default());
        world.verbose = keep.verbose;
        let outcome = finish(&mut world);
        Ok(One {
            faults: outcome.faults,
            verdict: told(&outcome),
            outcome: serde_json::to_value(&outcome)?,
            settings: format!("{:#?}", plan.settings),
            timeline: world.log.as_ref().map(Record::text).unwrap_or_default(),
            drawing: keep.drawn.then(|| world.draw()),
        })
    }
}
