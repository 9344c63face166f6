//! How long two may both carry a VIP, by what the two can know.

use crate::clock::{MS, Nanos, SECOND};
use crate::elector::Elector;
use crate::fault::{Fault, How};
use crate::world::{World, nanos};

impl World<'_, Elector> {
    /// How long that may last.
    pub(in crate::elector) fn own_owners_bound(&self, a: usize, b: usize) -> Nanos {
        let (bounds, now) = (&self.bounds, self.now);
        let one = |is: &dyn Fn(usize, usize) -> bool| is(a, b) || is(b, a);
        let mut bound = bounds.owners;
        // A machine that stood still does not know it before its own next step.
        let step = nanos(self.plan.settings.rules.retry_period).max(SECOND);
        if one(&|h, _| self.hosts[h].slept > 0 && now < self.hosts[h].slept + step) {
            bound = bound.max(bounds.owners_after_sleep);
        }
        // kube-vip looks at nothing but the Lease, when its turn comes.
        if one(&|h, _| self.hosts[h].own.rival.is_some()) {
            bound += 2 * SECOND;
        }
        // Somebody whose declaration this node has not seen is a stranger to it, against whom it defends as long as it may
        // think that it holds the Lease.
        if one(&|h, other| !self.knows(h, other)) {
            bound = bound.max(bounds.owners_unknown);
        }
        // Who carries it wrongly reads the Lease: there and back, each slower by that.
        let slower = self.active.iter().filter_map(|fault| match self.plan.faults[*fault].fault {
            Fault::Api(_, How::Slow(by)) => Some(u64::from(by) * MS),
            _ => None,
        });
        bound + 2 * slower.max().unwrap_or_default()
    }
}
