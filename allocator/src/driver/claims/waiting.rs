//! How many claims wait for an address, and what their conditions say: for a metric.

use std::collections::BTreeMap;
use std::time::Duration;

use mooring_allocator_core::protocol::{Claim, Hold};

use super::super::controller::Outbox;
use super::super::index::Index;
use crate::clock;

/// Shortest interval between two counts: a count goes through all claims that wait.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// When claims were counted.
#[derive(Debug, Default)]
pub struct Waiting {
    changed: bool,
    counted: Duration,
}

impl Waiting {
    /// A claim came, changed or went.
    pub fn changed(&mut self) {
        self.changed = true;
    }

    /// Updates the metric if something has changed.
    pub fn show(&mut self, index: &Index, out: &Outbox) {
        let now = clock::now();
        if !self.changed || self.counted + COUNT_EVERY > now {
            return;
        }
        (self.changed, self.counted) = (false, now);
        out.ops.metrics.claims_waiting(&count(index));
    }

    /// When [`Waiting::show`] will have something for sure.
    pub fn next_show(&self) -> Option<Duration> {
        self.changed.then(|| self.counted + COUNT_EVERY)
    }
}

fn count(index: &Index) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    let waiting = index.waiting_since.keys().filter_map(|uid| index.claim(uid));
    for claim in waiting.filter(|claim| claim.bound.is_none() && !claim.deleting) {
        *counts.entry(reason(claim)).or_default() += 1;
    }
    counts
}

/// What keeps the claim from its address, as far as the claim itself says it.
fn reason(claim: &Claim) -> &'static str {
    match (&claim.hold, &claim.condition) {
        (Hold::Paused, _) => "Paused",
        (_, Some(condition)) if !condition.ready => condition.reason.name(),
        _ => "Pending",
    }
}
