//! Nobody carries a VIP past its fence.

use mooring_core::action::{Cause, Report};

use super::{Look, Rule};
use crate::clock::{MS, Nanos, SECOND};
use crate::queue::Item;
use crate::world::World;

impl World<'_> {
    /// How long after its fence an address may still be there: the datapath reads the clock, asks the kernel, reads the
    /// clock again, and removes what came too late; each takes the kernel's time, at most twice.
    #[must_use]
    pub fn past_fence(&self, host: usize) -> Nanos {
        2 * MS + 5 * self.hosts[host].kernel
    }

    /// The fence of a lifetime is over.
    pub fn check_fence(&mut self, host: usize, vip: usize, generation: u32) {
        let Some(standing) = self.hosts[host].vips[vip].filter(|s| s.generation == generation) else { return };
        let slept = self.checks.slept[host];
        // Excused: the kernel's lifetimes stand still with a machine that does. When it goes on, its agent looks at the
        // clock within a second (its own timer stood still too) and drops what is over; an agent that cannot act leaves it
        // to the kernel, whose time goes on from where it stood; so does one that has begun since, and finds the address.
        let recent = slept + 2 * SECOND > self.now;
        let of = &self.hosts[host];
        let left_over = slept > 0 && (!of.is_live() || of.life != standing.life);
        if of.asleep.is_some() || recent || left_over {
            if standing.ends.is_some_and(|ends| ends + SECOND > self.now) || recent {
                self.put(SECOND, Item::Look(Look::Fence { host, vip, generation }));
            }
            return;
        }
        let clock = self.hosts[host].moment(self.now).now;
        if clock < standing.until {
            // The boot clock stood still for a while.
            let due = self.hosts[host].clock.when(standing.until.as_nanos()) + self.past_fence(host);
            self.queue.put(due.max(self.now + MS), Item::Look(Look::Fence { host, vip, generation }));
            return;
        }
        let text = format!("cp{} still has {} at {clock}, past its fence at {}", host + 1, vip + 1, standing.until);
        self.violated(Rule::Fence, text);
    }

    /// A Lease was taken because it had ended: nobody may carry the VIP any more by that Lease.
    pub fn check_taken_by_end(&mut self, host: usize, report: &Report) {
        if *report != Report::Took(Cause::Expiry) {
            return;
        }
        for other in (0..self.hosts.len()).filter(|o| *o != host) {
            let lease = Self::nanos(self.plan.settings.rules.lease_duration);
            // Excused: a machine that stood still within the Lease carries it longer, in its own time, and knows no better.
            let slept = self.hosts[other].asleep.is_some()
                || self.checks.slept[other] + lease > self.now && self.checks.slept[other] > 0;
            let standing = self.hosts[other].vips.iter().flatten().find(|s| s.leased);
            if let Some(standing) = standing.filter(|_| self.hosts[other].is_awake() && !slept) {
                let text = format!(
                    "cp{} took the Lease by its end, and cp{} still carries the VIP by it, until {} by a clock at {}",
                    host + 1,
                    other + 1,
                    standing.until,
                    self.hosts[other].moment(self.now).now
                );
                self.violated(Rule::Fence, text);
            }
        }
    }
}
