//! The simulator of sessions and placement.

use mooring_sim::fleet::many::many;
use mooring_sim::fleet::plan::Plan;
use mooring_sim::fleet::run::{Outcome, finish, run, shrink};
use mooring_sim::fleet::world::World;
use mooring_sim::many::Order;

use super::{Chosen, Keep, One, Simulator, Total, fault, verdict};

/// See the module's text.
pub(super) struct Sessions;

fn plan(chosen: &Chosen<'_>) -> Plan {
    let whole = Plan::of(chosen.seed, chosen.nodes);
    chosen.faults.map_or_else(|| whole.clone(), |kept| whole.only(kept))
}

fn told(outcome: &Outcome) -> Option<String> {
    outcome.violation.as_ref().map(|v| verdict(&v.rule, v.at, &v.text))
}

impl Simulator for Sessions {
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
        world.log = Some(vec![]);
        world.verbose = keep.verbose;
        let outcome = finish(&mut world);
        Ok(One {
            faults: outcome.faults,
            verdict: told(&outcome),
            outcome: serde_json::to_value(&outcome)?,
            settings: format!("{:#?}", plan.settings),
            timeline: world.text(),
            drawing: None,
        })
    }
}
