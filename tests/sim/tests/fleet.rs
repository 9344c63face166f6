//! Sessions and placement: one seed is one run, seeds that once found something find nothing any more.

use mooring_sim::fleet::many::many;
use mooring_sim::fleet::plan::Plan;
use mooring_sim::fleet::run::{finish, run, shrink};
use mooring_sim::fleet::world::World;
use mooring_sim::many::Order;

/// Seeds that showed a defect of the core, or of the simulator.
const KEPT: &[u64] = &[34, 131, 162, 253, 254, 294, 299, 605];

fn text(seed: u64) -> (String, u64) {
    let plan = Plan::of(seed, None);
    let mut world = World::new(&plan);
    (world.log, world.verbose) = (Some(vec![]), true);
    let outcome = finish(&mut world);
    (world.text(), outcome.digest)
}

#[test]
fn one_seed_is_one_run_whether_or_not_anybody_looks() {
    for seed in 0..8 {
        let (first, digest) = text(seed);
        assert!(first.lines().count() > 100);
        assert_eq!((first, digest), text(seed), "seed {seed}");
        assert_eq!(run(&Plan::of(seed, None)).digest, digest, "seed {seed}, not recorded");
    }
}

#[test]
fn kept_seeds_find_nothing_any_more() {
    for seed in KEPT {
        let outcome = run(&Plan::of(*seed, None));
        assert_eq!(outcome.violation, None, "FLEET_SEED={seed} cargo test -p mooring-sim --test fleet one_seed_told");
    }
}

/// `FLEET_SEED=n cargo test -p mooring-sim --test fleet one_seed_told -- --nocapture` tells one run, with the fewest faults
/// that still fail if it fails; `FLEET_VERBOSE=1` all that goes into the cores and comes out of them.
#[test]
fn one_seed_told() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let Some(seed) = number("FLEET_SEED") else { return };
    let mut plan = Plan::of(seed, None);
    if let Some(violation) = run(&plan).violation {
        let kept = shrink(&plan, violation.rule);
        plan = plan.only(&kept);
    }
    let mut world = World::new(&plan);
    (world.log, world.verbose) = (Some(vec![]), number("FLEET_VERBOSE").is_some());
    let outcome = finish(&mut world);
    println!("{:?}\n{}{:?}", plan.settings, world.text(), outcome.violation);
}

/// `FLEET_SEEDS=n` runs so many; a few without that.
#[test]
fn seeds_keep_the_rules() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (from, seeds) = (number("FLEET_FROM").unwrap_or(0), number("FLEET_SEEDS").unwrap_or(300));
    let sum = many(&Order::new(from, seeds, jobs), &|_, _| {});
    let failed: Vec<String> = sum
        .failed
        .iter()
        .filter_map(|f| f.violation.as_ref().map(|v| format!("seed {}: {}: {}", f.seed, v.rule, v.text)))
        .collect();
    println!("{} runs, {} faults, {} s, {} steps, {} failed", sum.runs, sum.faults, sum.seconds, sum.steps, failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
