//! No node carries a VIP past its fence.

use super::{Look, Rule};
use crate::clock::{MS, Nanos, SECOND};
use crate::queue::Item;
use crate::subject::Subject;
use crate::world::World;

impl<S: Subject> World<'_, S> {
    /// How long after its fence an address may still be there: the address task reads the clock, asks the kernel, reads the
    /// clock again, and removes what came too late; each takes the kernel's time, at most twice.
    #[must_use]
    pub fn past_fence(&self, host: usize) -> Nanos {
        S::PAST_FENCE + 5 * self.hosts[host].kernel
    }

    /// The fence of a lifetime is over.
    pub(super) fn check_fence(&mut self, host: usize, vip: usize, generation: u32) {
        let Some(standing) = self.hosts[host].vips[vip].filter(|s| s.generation == generation) else { return };
        let of = &self.hosts[host];
        // Excused: the kernel's lifetimes stand still with a machine that does. When it goes on, its agent looks at the
        // clock within a second (its own timer stood still too) and drops what is over; an agent that cannot act, or whose kernel
        // does not do what it is asked, leaves it to the kernel's lifetimes, whose time goes on from where it stood.
        let recent = of.slept > 0 && of.slept + 2 * SECOND > self.now;
        let can_act = of.is_live() && of.starved == 0 && of.unanswered == 0 && of.slow_until <= self.now && !of.keeps;
        // An agent that has begun since knows the kernel's lifetime only.
        let left_to_kernel = of.slept > 0 && (!can_act || standing.life != of.life);
        if of.asleep.is_some() || recent || left_to_kernel || S::excuses(self, host, &standing) {
            if standing.ends.is_some_and(|ends| ends + SECOND > self.now) || recent {
                self.put(SECOND, Item::Look(Look::Fence { host, vip, generation }));
            }
            return;
        }
        let clock = of.moment(self.now).now;
        if clock < standing.deadline {
            // The boot clock stood still for a while.
            let due = of.clock.when(standing.deadline.as_nanos()) + self.past_fence(host);
            self.queue.put(due.max(self.now + MS), Item::Look(Look::Fence { host, vip, generation }));
            return;
        }
        // Excused: a fence may be a third of the Lease older than the last renewal. The kernel drops the VIP by it, but later if the
        // machine stood still meanwhile; the agent goes on until the Lease that it renewed ends.
        let leased = of.agent.as_ref().and_then(|agent| agent.confirmed);
        let leased = leased.map(|sent| sent + self.plan.settings.rules.lease_duration);
        if let Some(end) = leased.filter(|end| of.slept > 0 && clock < *end) {
            let due = of.clock.when(end.as_nanos()) + self.past_fence(host);
            self.queue.put(due.max(self.now + MS), Item::Look(Look::Fence { host, vip, generation }));
            return;
        }
        let text =
            format!("{} still has VIP {vip} at {clock}, past its fence at {}", self.names[host], standing.deadline);
        self.violated(Rule::Fence, text);
    }
}
