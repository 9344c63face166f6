//! The fewest faults that still fail.

use crate::check::Rule;
use crate::plan::Plan;
use crate::run::run;
use crate::subject::Subject;

/// The numbers of the faults of `plan` that are left when every one that is not needed is taken out: without any of them,
/// that rule holds. Taking one out changes what chance does to the others, so the result is small, not the smallest.
#[must_use]
pub fn shrink<S: Subject>(plan: &Plan<S>, rule: Rule) -> Vec<usize> {
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
