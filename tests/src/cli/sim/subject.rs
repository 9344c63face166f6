//! One of the two worlds of the simulator, as the command line drives it.

use std::marker::PhantomData;

use mooring_sim::many::{Order, many};
use mooring_sim::plan::Plan;
use mooring_sim::record::Record;
use mooring_sim::run::{Outcome, finish, run};
use mooring_sim::shrink::shrink;
use mooring_sim::subject::Subject;
use mooring_sim::world::World;

use super::{Chosen, Keep, One, Simulator, Total, fault, verdict};

/// The simulator of one core.
pub(super) struct Of<S>(pub(super) PhantomData<S>);

fn plan<S: Subject>(chosen: &Chosen<'_>) -> Plan<S> {
    let plan = if chosen.networks { Plan::on_networks } else { Plan::of };
    let whole = plan(chosen.seed, chosen.nodes);
    chosen.faults.map_or_else(|| whole.clone(), |kept| whole.only(kept))
}

fn violated(outcome: &Outcome) -> Option<String> {
    outcome.violation.as_ref().map(|v| verdict(&v.rule, v.at, &v.text))
}

impl<S: Subject> Simulator for Of<S> {
    fn many(&self, order: &Order, progress: &(dyn Fn(u64, usize) + Sync)) -> Total {
        let sum = many::<S>(order, progress);
        Total {
            runs: sum.runs,
            faults: sum.faults,
            steps: sum.steps,
            seconds: sum.seconds,
            failed: sum.failed.iter().filter_map(|outcome| Some((outcome.seed, violated(outcome)?))).collect(),
            outcomes: serde_json::json!(sum.failed),
        }
    }

    fn fewest(&self, chosen: &Chosen<'_>) -> Option<Vec<usize>> {
        let plan = plan::<S>(chosen);
        let violation = run(&plan).violation?;
        Some(shrink(&plan, violation.rule))
    }

    fn faults(&self, chosen: &Chosen<'_>) -> Vec<String> {
        plan::<S>(chosen).faults.iter().map(|planned| fault(planned.at, planned)).collect()
    }

    fn one(&self, chosen: &Chosen<'_>, keep: Keep) -> anyhow::Result<One> {
        let plan = plan::<S>(chosen);
        let mut world = World::new(&plan);
        world.log = Some(Record::default());
        world.verbose = keep.verbose;
        let outcome = finish(&mut world);
        Ok(One {
            faults: outcome.faults,
            verdict: violated(&outcome),
            outcome: serde_json::to_value(&outcome)?,
            settings: format!("{:#?}", plan.settings),
            timeline: world.log.as_ref().map(Record::text).unwrap_or_default(),
            drawing: keep.drawn.then(|| world.draw()),
        })
    }
}
