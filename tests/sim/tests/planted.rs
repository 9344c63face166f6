//! The checks find bugs: each of those that can be planted in the cores, within so many seeds.

use mooring_core::planted::Bug;
use mooring_sim::many::{Order, many};

/// No bug may hide for longer.
const SEEDS: u64 = 10_000;

#[test]
fn every_planted_bug_is_found() {
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut hidden = vec![];
    for bug in Bug::ALL {
        let order = Order { bug: Some(bug), ..Order::new(0, SEEDS, jobs).until(1) };
        let sum = many(&order, &|_, _| {});
        match sum.failed.first().and_then(|f| f.violation.as_ref().map(|v| (f.seed, v))) {
            Some((seed, violation)) => {
                println!(
                    "{bug:?}: found after {} seeds, by seed {seed} ({}): {}",
                    sum.runs, violation.rule, violation.text
                );
            }
            None => hidden.push(bug),
        }
    }
    assert!(hidden.is_empty(), "not found within {SEEDS} seeds: {hidden:?}");
}

#[test]
fn every_planted_bug_of_sessions_is_found() {
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut hidden = vec![];
    // `FLEET_BUG=name,name` looks for some of them, `FLEET_SEEDS=n` within so many seeds.
    let only = std::env::var("FLEET_BUG").ok();
    let wanted = |bug: &Bug| only.as_ref().is_none_or(|names| names.split(',').any(|name| name == format!("{bug:?}")));
    let seeds = std::env::var("FLEET_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    for bug in Bug::FLEET.into_iter().filter(wanted) {
        let order = Order { bug: Some(bug), ..Order::new(0, seeds, jobs).until(1) };
        let sum = mooring_sim::fleet::many::many(&order, &|_, _| {});
        match sum.failed.first().and_then(|f| f.violation.as_ref().map(|v| (f.seed, v))) {
            Some((seed, violation)) => {
                println!(
                    "{bug:?}: found after {} seeds, by seed {seed} ({}): {}",
                    sum.runs, violation.rule, violation.text
                );
            }
            None => hidden.push(bug),
        }
    }
    assert!(hidden.is_empty(), "not found within {seeds} seeds: {hidden:?}");
}
